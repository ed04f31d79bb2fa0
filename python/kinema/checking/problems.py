"""`Problem`: something that is wrong with a file, as `kinema.check` reports it."""

from __future__ import annotations

from dataclasses import dataclass

from kinema.printable import printable

__all__ = ["Problem"]


@dataclass(frozen=True)
class Problem:
    """Something that is wrong with a file.

    Attributes
    ----------
    kind : {"truncated", "corrupt", "atoms", "gap", "order", "duplicate", "nan", "jump", "checksum"}
    path : str
    frame : int or None
        Number in the file, from 0.
    message : str
    """

    kind: str
    path: str
    frame: int | None
    message: str

    def __str__(self) -> str:
        place = f"{self.path}: " if self.frame is None else f"{self.path}: frame {self.frame}: "
        # an error of the reader names the file itself
        return printable(self.message if self.message.startswith(printable(self.path)) else f"{place}{self.message}")

"""`Problem`: a defect of a file, as `kinema.check` reports it."""

from __future__ import annotations

from dataclasses import dataclass

from kinema.base.errors import TruncatedFileError, UnsupportedFormatError
from kinema.base.printable import printable


@dataclass(frozen=True)
class Problem:
    """A defect of a file.

    Attributes
    ----------
    kind : {"truncated", "corrupt", "atoms", "gap", "order", "duplicate", "nan", "jump", "checksum"}
    path : str
    frame : int or None
        Frame number in the file, from 0.
    message : str
    """

    kind: str
    path: str
    frame: int | None
    message: str

    def __str__(self) -> str:
        place = f"{self.path}: " if self.frame is None else f"{self.path}: frame {self.frame}: "
        # an error of the reader already names the file
        return printable(self.message if self.message.startswith(printable(self.path)) else f"{place}{self.message}")


def kind_of(error: Exception) -> str:
    """The kind of problem that matches an error of reading."""
    if isinstance(error, UnsupportedFormatError):
        return "atoms"
    return "truncated" if isinstance(error, TruncatedFileError) else "corrupt"

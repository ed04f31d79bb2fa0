"""The head of HISTORY files that are made from whole frames of other files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.formats.splice import FileHead


@dataclass(frozen=True)
class HistoryHead(FileHead):
    """The head of a DL_POLY HISTORY file, as the core parses it: `facts`."""

    facts: _core.HistoryHeader

    @classmethod
    def read(cls, path: str) -> HistoryHead:
        """The head of a file; errors as of `_core.history_header`."""
        return cls(path, _core.history_header(path))

    def encode(self, first_step: Callable[[], int], n_frames: int) -> bytes:
        """As `FileHead`; raises ArgumentError for more records than its columns hold."""
        result = bytearray(self.facts["data"])
        n_records = 2 + n_frames * self.facts["frame_records"]
        for (start, stop), count in ((self.facts["frames_at"], n_frames), (self.facts["records_at"], n_records)):
            text = b"%*d" % (stop - start, count)
            if len(text) > stop - start:
                raise ArgumentError(f"{count} is beyond what its second record holds", at=self.path)
            at = self.facts["record_bytes"]
            result[at + start : at + stop] = text
        return bytes(result)

    def layout(self) -> tuple[object, ...]:
        """Properties that must agree for frames to share a file: the second record without its counts."""
        width = self.facts["record_bytes"]
        return width, self.facts["data"][width : width + self.facts["frames_at"][0]]

    def check_next(self, first: Self, n_frames: int) -> None:
        if self.layout() != first.layout():
            raise ArgumentError(
                f"its head differs from that of {first.path} (keytrj, imcon, atoms, ends of lines), "
                "so that their frames cannot be copied into one file; convert writes one of both",
                at=self.path,
                format="DL_POLY HISTORY",
            )

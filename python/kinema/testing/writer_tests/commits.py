"""`RecordedCommits`: each write into a growing HDF5 file, so that tests see it as a kill at any moment leaves it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kinema.storage.hdf5.journal import CommittedFile


class RecordedCommits:
    """Records each write into a growing HDF5 file, with the number of frames flushed by then, from `flushed`."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.start = path.read_bytes()
        self.changes: list[tuple[int, int, bytes | None]] = []
        self.flushed = 0
        write_at, ftruncate = CommittedFile._write_at, os.ftruncate

        def recorded(file: CommittedFile, offset: int, view: memoryview) -> None:
            self.changes.append((self.flushed, offset, bytes(view)))
            write_at(file, offset, view)

        def recorded_length(handle: int, length: int) -> None:
            self.changes.append((self.flushed, length, None))
            ftruncate(handle, length)

        monkeypatch.setattr(CommittedFile, "_write_at", recorded)
        monkeypatch.setattr(os, "ftruncate", recorded_length)

    def moments(self) -> Iterator[tuple[int, bytes]]:
        """The file after each single change, with the number of frames flushed by then."""
        content = bytearray(self.start)
        for flushed, offset, data in self.changes:
            if data is None:
                content = content[:offset] + bytes(max(0, offset - len(content)))
            else:
                content += bytes(max(0, offset + len(data) - len(content)))
                content[offset : offset + len(data)] = data
            yield flushed, bytes(content)

"""`RecordsFile`: a file of records that ranks write together; a strategy brings the frames into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kinema.base.errors import ArgumentError
from kinema.parallel.agreement import Agreement
from kinema.parallel.rank_file import FileRequest, RankFile
from kinema.parallel.rank_frames import RankFrame
from kinema.parallel.record_files.shared_records import SharedRecords


class RecordStrategy(Protocol):
    """Brings frames, of which each rank has some atoms, into a `SharedRecords`; method names follow `FrameSink`."""

    def rows(self, frame: RankFrame) -> None:
        """Takes a frame; if it raises ArgumentError, nothing of the frame is taken. Collective."""

    def commit(self) -> None:
        """Writes all taken frames completely. Collective."""


class RecordsFile(RankFile):
    """See the module.

    `request`, `agreement`: as `RankFile`.
    `strategy`: makes the strategy for the file.
    """

    def __init__(
        self, request: FileRequest, agreement: Agreement, strategy: Callable[[SharedRecords], RecordStrategy]
    ) -> None:
        super().__init__(request, agreement)
        self._file = SharedRecords(request, agreement)
        self.state, self._strategy = self._file.state, strategy(self._file)

    def take(self, frame: RankFrame) -> None:
        self._strategy.rows(frame)

    def flush(self) -> None:
        self._strategy.commit()
        self._file.commit()

    def close(self) -> None:
        if self.state.is_broken:
            path = self.request.path
            raise ArgumentError("an earlier error broke the writer; what was not flushed is lost", at=path)
        self.flush()
        self._file.finish()

    def abort(self) -> None:
        self._file.abort()

"""`RecordsFile`: a file of records that ranks write together: what its strategies share, from places to names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.formats.all_formats import format_named
from kinema.formats.given_frames import LastStamps
from kinema.parallel.agreement import Agreement, wait_for
from kinema.parallel.exchange import gathering_ranks
from kinema.parallel.placers import FilePlacer, Placer, opened_placer
from kinema.parallel.rank_file import FileRequest, RankFile
from kinema.parallel.rank_frames import RankFrame
from kinema.parallel.record_files.output import RecordOutput
from kinema.parallel.verification import Verification

__all__ = ["UNFINISHED", "RecordsFile", "Stamp"]

UNFINISHED = b"KINE"
"""What stands where a record begins that ranks are writing; its first bytes replace it when all of it is there. Of a
run that was killed meanwhile readers leave this record out, and what lies behind it."""
# formats whose readers count by the size of the file, or go from record to record; others have a count that comes last

_NO_CELL = np.zeros((3, 3))


@dataclass(frozen=True)
class Stamp:
    """Number, step, time (ps) and cell (3, 3) of a frame; zeros: no cell, NaN: no time."""

    number: int
    step: int
    time: float
    cell: NDArray[np.float64]


class RecordsFile(RankFile):
    """What the strategies for files of records share.

    Attributes
    ----------
    end : int
        The byte behind the last record that was taken; the same on all ranks.
    placer : Placer
        This rank's way into the file.
    """

    def __init__(self, request: FileRequest, agreement: Agreement) -> None:
        super().__init__(request, agreement)
        self._output: RecordOutput | None = None
        self.opened = opened = agreement.on_root(self._opened)
        self.state, self.end, self._committed_end = opened.state, opened.end, opened.end
        self._n_committed = self.state.n_frames
        self.codes = self._shared_codes()
        self.stamps = LastStamps(*opened.last)
        self._first = list(zip(*opened.first, strict=True))
        self._first_noted = len(self._first) > 0
        self._first_cell = _NO_CELL
        try:
            self.placer: Placer = agreement.together(self._placer)
            # by which rank 0 writes what makes records whole, and the count
            self._root = agreement.together(lambda: self._file_placer() if agreement.is_root else None)
        except BaseException:
            self._abort_output()
            raise
        self._verification = Verification(agreement, request) if request.verify else None

    @property
    def gathering(self) -> list[int]:
        """The ranks that gather whole frames, in turn."""
        return gathering_ranks(self.agreement.size, self.request.hints.writers)

    @property
    def is_new(self) -> bool:
        """Whether the head is not in the file yet."""
        return self._n_committed == 0

    def _opened(self) -> Any:
        self._output = RecordOutput(self.request)
        try:
            return self._output.opened()
        except BaseException:
            self._output.abort()
            raise

    def _placer(self) -> Placer:
        request, path = self.request, self.opened.written_path
        return opened_placer(self.agreement.comm, path, request.path, request.strategy, request.hints)

    def _file_placer(self) -> FilePlacer:
        return FilePlacer(self.opened.written_path, self.request.path)

    def _shared_codes(self) -> NDArray[np.uint32] | None:
        """The kind of each atom, which rank 0 knows, on all ranks."""
        if self.opened.kinds is None:
            return None
        codes = self._output.codes if self._output is not None else None
        shared = np.empty(self.state.n_atoms, np.uint32) if codes is None else codes
        wait_for(self.agreement.comm.Ibcast([shared, MPI.UINT32_T], 0))
        return shared

    # frames

    def next_stamp(self, frame: RankFrame) -> Stamp:
        """Number, step, time and cell of the next frame."""
        step = None if frame.step is None else np.array([frame.step], np.int64)
        time = None if frame.time is None else np.array([frame.time], np.float64)
        return Stamp(
            self.state.n_frames,
            int(self.stamps.steps_of(step, 1)[0]),
            float(self.stamps.times_of(time, 1)[0]),
            _NO_CELL if frame.cell is None else frame.cell,
        )

    def first_stamps(self, stamp: Stamp) -> tuple[list[int], list[float]]:
        """Steps and times of the first two frames, of which this may be one."""
        first = [*self._first[: stamp.number], (stamp.step, stamp.time)][:2]
        return [step for step, _ in first], [time for _, time in first]

    def announce(self, offset: int) -> BaseException | None:
        """On rank 0: says in the file that a record is being written there, behind the last one. What went wrong."""
        if self._root is not None and format_named(self.request.format).markers:
            try:
                self._root.write_at(offset, UNFINISHED)
            except Exception as error:
                return error
        return None

    def took(self, stamp: Stamp, end: int, fields: tuple[str, ...]) -> None:
        """The frame is the file's now, though its bytes may be written later."""
        if stamp.number < 2:
            self._first = [*self._first[: stamp.number], (stamp.step, stamp.time)]
        if stamp.number == 0:
            self._first_cell = stamp.cell
        self.stamps.took(np.array([stamp.step]), np.array([stamp.time]))
        self.end = end
        self.state.n_frames += 1
        self.state.fields = fields

    def note_stamp(self, losses: Callable[[Stamp], Iterable[str]], stamp: Stamp) -> None:
        """Notes what of a frame's step, time and cell is lost, of the first frame when there is a second."""
        if stamp.number == 0:
            return
        if not self._first_noted:
            self._first_noted = True
            self.note_first(losses)
        self._lose_at(losses(stamp), stamp.number)

    def note_first(self, losses: Callable[[Stamp], Iterable[str]]) -> None:
        """Notes the same of the first frame."""
        (step, time), *_ = self._first
        self._lose_at(losses(Stamp(0, step, time, self._first_cell)), 0)

    def _lose_at(self, losses: Iterable[str], frame: int) -> None:
        for what in losses:
            if not any(f": {what}; frame " in loss for loss in self.state.losses):
                self.lose([f"{what}; frame {frame} is the first"])

    def lose(self, losses: Iterable[str]) -> None:
        """Adds losses that are not named yet, and notes them."""
        named = [f"{self.request.path}: {loss}" for loss in losses]
        new = [loss for loss in named if loss not in self.state.losses]
        self.state.losses += tuple(new)
        self.note(new)

    def note(self, notes: Iterable[str]) -> None:
        """Adds notes, which begin with the path; the same on all ranks."""
        added = list(notes)
        self.state.notes += added
        emit(added)

    # bytes

    def put(self, offset: int, data: Any, frame: int) -> None:
        """Writes bytes of a frame."""
        with self.agreement.timings.of("write"):
            self.placer.write_at(offset, data)
        self.wrote(frame, offset, data)

    def wrote(self, frame: int, offset: int, data: Any) -> None:
        """Bytes of a frame were written, which are to be verified."""
        if self._verification is not None and len(data):
            self._verification.add(frame, offset, data)

    def checked(self, call: Callable[[], None]) -> None:
        """Calls what writes; where it fails on one rank the file takes no more, on any."""
        error: BaseException | None = None
        try:
            call()
        except BaseException as raised:
            error = raised
        self.check(error)

    def check(self, error: BaseException | None) -> None:
        """Raises the error of any rank on all of them; the file takes no more then."""
        try:
            rank = self.agreement.failed(error)
        except BaseException:
            # an interrupt of this rank alone: nothing is known of the others
            self.is_broken = True
            raise
        if rank is not None:
            self.break_off()
            self.agreement.fail(rank, error)

    def break_off(self) -> None:
        """The file takes no more; what comes after its whole records is cut off. Collective."""
        self.is_broken = True
        self.cut(self._committed_end)

    def cut(self, end: int) -> None:
        """Cuts the file at a byte, on rank 0."""
        if self._output is not None:
            self._output.cut(end)

    def commit_on_root(self, write: Callable[[FilePlacer], None], n_frames: int, end: int) -> None:
        """Has rank 0 write what makes `n_frames` frames, of which `end` is the last byte, whole."""

        def commit() -> None:
            if self._root is not None:
                with self.agreement.timings.of("write"):
                    write(self._root)

        self.checked(commit)
        self.committed(n_frames, end)

    def committed(self, n_frames: int, end: int) -> None:
        """So many frames are whole in the file."""
        self._n_committed, self._committed_end = n_frames, end
        if self.request.mode == "a" and self.state.n_flushed == 0:
            self.commit_count()

    # what is flushed

    def flush_records(self) -> None:
        """Writes and commits all frames that were taken; collective."""
        raise NotImplementedError

    def marker(self, n_frames: int) -> tuple[int, bytes] | None:
        """Offset and bytes of what says that so many frames are in the file."""
        raise NotImplementedError

    def finish_losses(self) -> None:
        """Notes what the only frame of the file has lost."""
        raise NotImplementedError

    def flush(self) -> None:
        """As `RankFile.flush`."""
        self.flush_records()
        self.commit_count()

    def commit_count(self) -> None:
        """Records are synced on all ranks and, if that is wanted, read back; then the count is written, and synced."""
        if self.state.n_flushed == self._n_committed:
            return
        with self.agreement.timings.of("sync"):
            self.checked(self.placer.sync)
        if self._verification is not None:
            with self.agreement.timings.of("verify"):
                error = self._verification.found(self._written_path)
            self.check(error)
            self.note([f"{self.request.path}: {self._verification.words}"] if not self.state.n_flushed else [])
        n_frames, marker = self._n_committed, self.marker(self._n_committed)

        names = self._written_path, self.state.temporary

        def count() -> None:
            nonlocal names
            if self._output is None or self._root is None:
                return
            self._root.sync()
            if marker is not None:
                self._root.write_at(*marker)
                self._root.sync()
            names = self._output.name_committed(), self._output.temporary

        with self.agreement.timings.of("sync"):
            self.checked(count)
            self.opened.written_path, self.state.temporary = self.agreement.on_root(lambda: names)
        self.state.n_flushed = n_frames

    def close(self) -> None:
        """As `RankFile.close`."""
        if self.is_broken:
            path = self.request.path
            raise ArgumentError(f"{path}: an earlier error broke the writer; what was not flushed is lost", path=path)
        self.flush()
        if self.state.n_frames and not self._first_noted:
            self._first_noted = True
            self.finish_losses()
        self.agreement.together(self._close_placers)
        self.note(self.agreement.on_root(self._publish))
        self.state.temporary = None

    def _close_placers(self) -> None:
        self.placer.close()
        if self._root is not None:
            self._root.close()

    def _publish(self) -> list[str]:
        assert self._output is not None
        return self._output.publish(self.state.n_frames)

    def abort(self) -> None:
        """As `RankFile.abort`."""
        for placer in (self.placer, self._root):
            if placer is not None:
                placer.abandon()
        self._abort_output()

    def _abort_output(self) -> None:
        if self._output is not None:
            self._output.abort()

    @property
    def _written_path(self) -> str:
        path: str = self.opened.written_path
        return path

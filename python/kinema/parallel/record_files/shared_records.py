"""`SharedRecords`: a file of records that all ranks have open: its placers, its commits, its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema.formats.all_formats import format_named
from kinema.parallel.agreement import Agreement, wait_for
from kinema.parallel.exchange import gathering_ranks
from kinema.parallel.placers import Placer, opened_placer
from kinema.parallel.rank_file import FileRequest
from kinema.parallel.record_files.output import OpenedRecords, RecordOutput
from kinema.parallel.record_files.stamps import FrameStamps, NotedLosses, Stamp
from kinema.parallel.verification import Verification
from kinema.parallel.write_behind import WriteBehind

UNFINISHED = b"KINE"
"""Mark at the beginning of a record that ranks are writing; the record's first bytes replace it when the record is
complete. If a run was killed before that, readers leave out this record and everything after it."""

AHEAD = 2
"""Batches of a frame that a thread writes while the next one is made."""


class SharedRecords:
    """One rank's view of the file. Rank 0 holds its name, and writes the bytes that complete records, and the count.

    All methods are collective except `announce`, `put`, `put_on_root`, `cut` and `abort`.

    `state`: the same on all ranks.
    `end`: the byte after the last taken record; the same on all ranks.
    `placer`: this rank's placer for the file.
    `behind`: the thread that writes for this rank.
    `gathering`: the ranks that take turns gathering whole frames.
    `codes`: (n_atoms,) or None; the kind of each atom.
    `marker`: offset and bytes of the marker that the file holds n frames; None if the format has no marker.
    """

    def __init__(self, request: FileRequest, agreement: Agreement) -> None:
        self.request, self.agreement, self.format = request, agreement, format_named(request.format)
        self._output: RecordOutput | None = None
        self.marker: Callable[[int], tuple[int, bytes] | None] = lambda n_frames: None
        self.gathering = gathering_ranks(agreement.size, request.hints.writers)
        self.behind = WriteBehind(request.buffer_frames or AHEAD) if request.strategy == "direct" else None
        try:
            self.opened: OpenedRecords = agreement.call_on_root(self._opened)
            self.state, self.end, self._committed_end = self.opened.state, self.opened.end, self.opened.end
            self._n_committed = self.state.n_frames
            self.stamps = FrameStamps(self.opened.first, self.opened.last)
            self.losses = NotedLosses(request.path, self.state)
            self.codes = self._shared_codes()
            self.placer: Placer = agreement.together(self._placer)
        except BaseException:
            self._abort_output()
            raise
        self._verification = Verification(agreement, request) if request.verify else None

    # bytes

    def announce(self, offset: int) -> BaseException | None:
        """On rank 0: marks in the file that a record is being written after the last one; returns the error, if any."""
        if self._output is not None and self.format.markers:
            try:
                self._output.placer.write_at(offset, UNFINISHED)
            except Exception as error:
                return error
        return None

    def put(self, frame: int, offset: int, data: Any) -> None:
        """Writes bytes of a frame."""
        with self.agreement.timings.measure("write"):
            self.placer.write_at(offset, data)
        if self._verification is not None and len(data):
            self._verification.add(frame, offset, data)

    def put_on_root(self, frame: int | None, offset: int, data: bytes) -> None:
        """On rank 0: writes bytes that complete a frame, or that belong to no frame."""
        assert self._output is not None
        self._output.placer.write_at(offset, data)
        if self._verification is not None and frame is not None:
            self._verification.add(frame, offset, data)

    # taking and committing

    def took(self, stamp: Stamp, end: int, fields: tuple[str, ...]) -> None:
        """Counts a taken frame, though its bytes may be written later."""
        self.stamps.took(stamp)
        self.end = end
        self.state.n_frames += 1
        self.state.fields = fields

    def committed(self, n_frames: int, end: int) -> None:
        """The file holds `n_frames` whole frames, which end at byte `end`."""
        self._n_committed, self._committed_end = n_frames, end
        if self.request.mode == "a" and self.state.n_flushed == 0:
            self.commit()

    def commit(self) -> None:
        """Syncs records on all ranks and, if asked for, reads them back; then writes and syncs the count."""
        if self.state.n_flushed == self._n_committed:
            return
        timings = self.agreement.timings
        with timings.measure("sync"):
            self.checked(self.placer.sync)
        if self._verification is not None:
            with timings.measure("verify"):
                error = self._verification.found(self.opened.written_path)
            self.check(error)
            self.losses.note([] if self.state.n_flushed else [f"{self.request.path}: {self._verification.words}"])
        with timings.measure("sync"):
            self.checked(self._count)
            names = self.opened.written_path, self.state.temporary
            self.opened.written_path, self.state.temporary = self.agreement.call_on_root(lambda: names)
        self.state.n_flushed = self._n_committed

    def finish(self) -> None:
        """Notes the losses of the only frame, closes the file, and gives a new one its name."""
        self.losses.of_first_stamp()
        self.agreement.together(self._close)
        self.losses.note(self.agreement.call_on_root(self._publish))
        self.state.temporary = None

    # failures

    def checked(self, call: Callable[[], None]) -> None:
        """Makes a call that writes; if it fails on one rank, the file takes no more frames on any rank."""
        error: BaseException | None = None
        try:
            call()
        except BaseException as raised:
            error = raised
        self.check(error)

    def check(self, error: BaseException | None, *values: int) -> NDArray[np.int64]:
        """Returns the values of all ranks, (ranks, n).

        If any rank has an error, raises it on all of them, and the file takes no more frames.
        """
        try:
            rows = self.agreement.gathered(np.array([error is not None, *values], np.int64))
        except BaseException:
            # an interrupt of this rank only: the state of the others is unknown
            self.state.is_broken = True
            raise
        if rows[:, 0].any():
            self.break_off()
            self.agreement.fail(int(np.argmax(rows[:, 0])), error)
        return rows[:, 1:]

    def break_off(self) -> None:
        """Takes no more frames, and cuts off everything after the whole records."""
        self.state.is_broken = True
        if self.behind is not None:
            # a thread that still writes would write after the cut
            self.behind.close()
            self.agreement.gathered(np.zeros(1, np.int64))
        self.cut(self._committed_end)

    def cut(self, end: int) -> None:
        """Cuts the file at a byte, on rank 0."""
        if self._output is not None:
            self._output.cut(end)

    def abort(self) -> None:
        """As `RankFile.abort`."""
        if self.behind is not None:
            self.behind.close()
        self.placer.abandon()
        self._abort_output()

    # how

    def _opened(self) -> OpenedRecords:
        self._output = RecordOutput(self.request)
        return self._output.opened()

    def _placer(self) -> Placer:
        request, path = self.request, self.opened.written_path
        return opened_placer(self.agreement.comm, path, request.path, request.strategy, request.hints)

    def _shared_codes(self) -> NDArray[np.uint32] | None:
        """The kind of each atom, which rank 0 knows, on all ranks."""
        if self.opened.kinds is None:
            return None
        codes = self._output.codes if self._output is not None else None
        shared = np.empty(self.state.n_atoms, np.uint32) if codes is None else codes
        wait_for(self.agreement.comm.Ibcast([shared, MPI.UINT32_T], 0))
        return shared

    def _count(self) -> None:
        if self._output is not None:
            self.opened.written_path, self.state.temporary = self._output.count(self.marker(self._n_committed))

    def _close(self) -> None:
        if self.behind is not None:
            self.behind.close()
        self.placer.close()
        if self._output is not None:
            self._output.placer.close()

    def _publish(self) -> list[str]:
        assert self._output is not None
        return self._output.publish(self.state.n_frames)

    def _abort_output(self) -> None:
        if self._output is not None:
            self._output.abort()

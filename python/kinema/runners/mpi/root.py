"""Rank 0 in a pass: it runs its own pieces, receives reports of other ranks, shows progress and ends the pass.

It polls for messages between pieces and ten times a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import partial

from mpi4py import MPI

from kinema import _core
from kinema.base.errors import InternalError
from kinema.base.notes import emit
from kinema.base.progress import Report, report_slowest
from kinema.runners.base import Job
from kinema.runners.mpi.communicator import Ranks, answer_until, note_rank
from kinema.runners.mpi.passes import (
    PASS_END,
    PAUSE,
    TO_ROOT,
    FramesDone,
    NewNodes,
    PassRank,
    PassSetup,
    RankDone,
    Stopped,
)
from kinema.runners.mpi.reading import RankReader
from kinema.runners.mpi.row_windows import RowsOfPass
from kinema.runners.mpi.session import RunSnapshot
from kinema.runners.reduction import Leaves, Reduction, describe_piece, insert_nodes
from kinema.runners.stalls import Stall
from kinema.runners.worker_timer import WorkerTimer

# most seconds between two polls that count: this rank itself may have been stopped or working
_LONGEST_POLL = 1.0
# seconds between two polls of the reduction, and between two reports to the user
_TICK = 0.1


class RootRank(PassRank):
    """Rank 0 in a pass.

    `reduction`: its tree takes the nodes of this rank, and nodes that other ranks send during the pass.
    `began`: the `time.monotonic` value at the beginning of the pass.
    """

    def __init__(
        self,
        ranks: Ranks,
        setup: PassSetup,
        rows: RowsOfPass,
        reader: RankReader,
        plan: _core.Plan,
        reduction: Reduction,
        kernels: Sequence[_core.Kernel],
        progress: Report | None,
        worker_timer: WorkerTimer,
        began: float,
    ) -> None:
        super().__init__(ranks, setup, rows, reader, worker_timer, began)
        self._reduction = reduction
        self._kernels = kernels
        self._progress = progress
        self._at_work = set(range(1, ranks.size))
        self._frames_of = [0] * ranks.size
        self._stalls = _RankStalls(ranks, partial(describe_piece, plan, setup.work_plan.frames))
        self._polled = 0.0
        # raised by other ranks, or while showing and saving: not by this rank's pieces
        self._between: Exception | None = None

    def run(self, files: RunSnapshot, jobs: Sequence[Job]) -> None:
        """Runs this rank's pieces and waits for the other ranks; if anything fails, all ranks end the pass."""
        serving = self.ranks.counter.serving() if self.setup.work_plan.schedule == "dynamic" else nullcontext()
        try:
            with serving:
                self._run_own(files, jobs)
                self.reader.finish()
                while self._at_work:
                    self._receive_all()
                    self._poll_at_intervals(0)
                    with self.worker_timer.counting("waited"):
                        time.sleep(PAUSE)
                with self.worker_timer.counting("waited"):
                    self.reader.wait()
                if self.reader.ended_by_another:
                    raise InternalError("a rank has ended the reading and has sent no error")
                self._poll(0)
        except BaseException as error:
            self.reader.stop()
            self._end_all(error)
            raise
        self._send_end(True)
        self.close_reads()
        self.worker_timer.cpu = self.cpu_seconds()

    def _run_own(self, files: RunSnapshot, jobs: Sequence[Job]) -> None:
        """Runs this rank's pieces; their errors are noted with the rank, like errors of other ranks."""
        try:
            trajectory = self.open(files)
            with self.worker_timer.counting("plan"):
                plan = self.setup.work_plan.plan(trajectory, jobs)
            with suppress(Stopped):  # the rank that has ended the reading reports the reason
                self.run_pieces(trajectory, plan, jobs)
        except Exception as error:
            if error is not self._between and self.ranks.size > 1:
                note_rank(error, 0)
            raise

    def _take(self, nodes: list[_core.Node]) -> int:
        self._reduction.tree.insert_all(nodes)
        self._tick(0, 0)
        return 0

    def _begin_piece(self, piece: Leaves) -> None:
        """Sends no message: the piece is rank 0's own."""

    def _tick(self, done: int, total: int) -> None:
        try:
            self._receive_all()
            self._poll_at_intervals(done)
        except Exception as error:
            self._between = error
            raise

    def _poll_at_intervals(self, running: int) -> None:
        if time.monotonic() - self._polled >= _TICK:
            self._poll(running)

    def _poll(self, running: int) -> None:
        self._polled = time.monotonic()
        self._stalls.poll(self._at_work)
        self._reduction.poll()
        if self._progress is not None:
            self._frames_of[0] = self._frames + running
            self._progress(self._reduction.restored + sum(self._frames_of), self._reduction.n_frames)
            frames = {f"rank {rank}": self._frames_of[rank] for rank in range(self.setup.work_plan.workers)}
            report_slowest(self._progress, frames, self.seconds())

    def _receive_all(self) -> None:
        """Receives all messages that have arrived; raises the error of another rank."""
        while (
            message := self.ranks.comm.improbe(source=MPI.ANY_SOURCE, tag=TO_ROOT, status=(status := MPI.Status()))
        ) is not None:
            self._handle(status.Get_source(), message.recv())

    def _handle(self, rank: int, message: object) -> None:
        match message:
            case FramesDone(frames) as report:
                self._stalls.take(rank, report)
                self._frames_of[rank] = frames
            case NewNodes(nodes, frames):
                self._stalls.progressed(rank)
                insert_nodes(self._reduction.tree, self._kernels, nodes)
                self._frames_of[rank] = frames
            case RankDone(frames, failed):
                self._at_work.discard(rank)
                self._frames_of[rank] = frames
                if failed is not None:
                    raise failed.unwrap()
            case _:
                raise InternalError(f"rank {rank} has sent an unexpected message, a {type(message).__name__}")

    def _end_all(self, error: BaseException) -> None:
        """Ends the pass on all ranks, and receives the nodes that they have sent until then, which may be saved."""
        self._send_end(False)
        try:
            self._await_all(error)
        except BaseException as stop:
            # a signal, while ranks were waited for after an error
            self._await_all(stop)
            raise

    def _await_all(self, error: BaseException) -> None:
        """Waits until all ranks have ended their part, or do not answer after a signal."""
        until = answer_until(error)
        while self._at_work:
            if time.monotonic() > until:
                self.ranks.silent = set(self._at_work)
                return
            try:
                self._receive_all()
            except Exception as another:
                # the first error is raised; the others are noted
                if str(another) != str(error):
                    error.add_note(f"and then: {another}")
            self._stalls.poll(self._at_work)
            time.sleep(PAUSE)

    def _send_end(self, well: bool) -> None:
        requests = [self.ranks.comm.isend(well, rank, tag=PASS_END) for rank in range(1, self.ranks.size)]
        MPI.Request.Waitall(requests)


class _RankStalls:
    """The last report of each rank in a pass, and its time.

    `describe`: returns words for leaves.
    """

    def __init__(self, ranks: Ranks, describe: Callable[[Leaves], str]) -> None:
        self._node = ranks.name
        self._describe = describe
        self._stalls = [Stall() for _ in range(ranks.size)]
        self._last: dict[int, FramesDone] = {}
        self._polled = time.monotonic()

    def take(self, rank: int, report: FramesDone) -> None:
        """Takes a report; the same frames of the same piece do not count as progress."""
        if report != self._last.get(rank):
            self._last[rank] = report
            self.progressed(rank)

    def progressed(self, rank: int) -> None:
        """Called when the rank has sent another message."""
        self._stalls[rank].progressed()

    def poll(self, at_work: Iterable[int]) -> None:
        """Emits a note on each working rank without progress for long; a further note only after new progress."""
        now = time.monotonic()
        seconds, self._polled = min(now - self._polled, _LONGEST_POLL), now
        for rank in sorted(at_work):
            stall, report = self._stalls[rank], self._last.get(rank)
            # processes of other machines cannot be inspected
            pid = report.pid if report is not None and report.node == self._node else None
            if not stall.is_due(seconds, pid):
                continue
            who, doing = f"rank {rank}", "before it had work"
            if report is not None:
                who += f" (process {report.pid} on {report.node})"
                doing = f"while it had {self._describe(report.piece)}"
            emit([f"{who} has made no progress for {stall.seconds:.0f} s {doing}; {stall.reason(pid)}"])
            stall.noted()

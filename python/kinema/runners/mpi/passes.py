"""One pass on a rank, which takes pieces of work, runs them, and reports to rank 0 point to point.

The additional work of rank 0 is in `root`, the collective end of a pass in `reduction`.
"""

from __future__ import annotations

import os
import pickle
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mpi4py import MPI

from kinema import _core
from kinema.base.errors import Error
from kinema.base.timings import block_column
from kinema.base.tracing.recording import lap
from kinema.model.snapshot import TrajectorySnapshot
from kinema.runners import stalls
from kinema.runners.base import Job, Rows
from kinema.runners.mpi.communicator import Ranks, RemoteError
from kinema.runners.mpi.reading import RankReader
from kinema.runners.mpi.row_windows import RowsOfPass
from kinema.runners.mpi.session import RunSnapshot
from kinema.runners.reduction import Leaves, PieceLimit, SerializedNode, frames_in, serialize_nodes
from kinema.runners.scheduler import RateEstimate, Scheduler, WorkPlan
from kinema.runners.worker_timer import WorkerTimer

# tags of messages to rank 0, and of its message that the pass has ended, with or without success
TO_ROOT, PASS_END = 1, 2
# seconds between two polls if there is nothing to do
PAUSE = 0.0005
# seconds between two reports of frames to rank 0
_REPORT = 0.25
# the same if no progress is shown, as a share of the seconds after which missing progress is noted
_REPORTS = 0.2


@dataclass(frozen=True, eq=False)
class PassSetup:
    """Message of rank 0 that begins a pass on all ranks. It holds no handle.

    `files`: if None, the snapshot of an earlier pass of the run is used.
    `jobs`: pickled separately: if a rank cannot unpickle them, the pass fails with an error.
    `streamed`: nodes are sent as they are made, because rank 0 saves them; otherwise all are sent at the end.
    `reported`: ranks report the frames that are done.
    `tree_from`: least bytes of all ranks together for which partials that do not grow are merged on a tree of ranks.
    `rows`: jobs whose rows are put in their place as they are made; empty for none.
    `retain_rows`: rows stay distributed after the pass.
    `before`: seconds of the pass before this message was sent, in which rank 0 has planned it.
    """

    files: TrajectorySnapshot | None
    jobs: bytes
    work_plan: WorkPlan
    access: str
    limit: PieceLimit | None
    streamed: bool
    reported: bool
    tree_from: int
    rows: list[Rows | None]
    retain_rows: bool
    before: float

    def timer(self, ranks: Ranks) -> WorkerTimer:
        """The timer of this rank, which has sent or received this message just now."""
        timer = WorkerTimer(ranks.rank, self.work_plan.threads, ranks.name)
        timer.start, timer.plan, timer.waited = 0.0, self.before, 0.0
        timer.turn_to("communicate")
        return timer


@dataclass(frozen=True)
class FramesDone:
    """Message to rank 0: frames that a rank has done in this pass, its current leaves, its process and node."""

    frames: int
    piece: Leaves
    pid: int
    node: str


@dataclass(frozen=True)
class NewNodes:
    """Message to rank 0: nodes of the merge tree, and frames that the rank has done in this pass."""

    nodes: list[SerializedNode]
    frames: int


@dataclass(frozen=True)
class RankDone:
    """Last message of a rank in a pass: it has no more pieces, has failed, or was stopped."""

    frames: int
    failed: RemoteError | None = None


class Stopped(Exception):
    """The pass has failed on another rank, which reports the error to rank 0."""


class PassRank(ABC):
    """A rank in a pass, which takes pieces and runs them; subclasses handle the nodes."""

    def __init__(
        self,
        ranks: Ranks,
        setup: PassSetup,
        rows: RowsOfPass,
        reader: RankReader,
        worker_timer: WorkerTimer,
        began: float,
    ) -> None:
        self.ranks = ranks
        self.setup = setup
        self.reader = reader
        self._rows = rows
        self.worker_timer = worker_timer
        self._rate = RateEstimate(setup.limit)
        self._began = began
        self._cpu = time.process_time()
        self._frames = 0  # frames of the pieces that are done

    def seconds(self) -> float:
        """Seconds since the beginning of the pass."""
        return time.monotonic() - self._began

    def cpu_seconds(self) -> float:
        """CPU time of this process since the beginning of the pass."""
        return time.process_time() - self._cpu

    def open(self, files: RunSnapshot) -> _core.Trajectory:
        """The trajectory, opened by this rank's reader."""
        with self.worker_timer.counting("opening"):
            began = time.perf_counter_ns()
            trajectory = self.reader.open(files.snapshot, files.data.array)
            lap("open", "reader", began)
        return trajectory

    def close_reads(self) -> None:
        """Called when no rank reads any more."""
        with self.worker_timer.counting("close"):
            self.reader.close()

    def run_pieces(self, trajectory: _core.Trajectory, plan: _core.Plan, jobs: Sequence[Job]) -> None:
        """Runs pieces until none is left for this rank; raises Stopped if another rank has ended the reading."""
        kernels = [kernel for kernel, _ in jobs]
        with self.worker_timer.counting("plan"):
            piece_scheduler = self.setup.work_plan.piece_scheduler(plan.partition(trajectory))
        for first, stop in self._pieces(piece_scheduler):
            self._begin_piece((first, stop))
            while first < stop:
                until = stop
                if not self.setup.work_plan.loads:
                    # in parts, if not all of the piece may be held in memory
                    longest = self._rate.longest()
                    _, until = piece_scheduler.cut((first, stop), longest or stop - first, longest)
                begun = self.seconds()
                try:
                    with self.worker_timer.counting("calls"):
                        nodes, timings = _core.run_leaves(
                            trajectory, plan, jobs, first, until, progress=self._progressed
                        )
                except Error:
                    if self.reader.ended_by_another:
                        raise Stopped from None
                    raise
                block_column(timings["blocks"], "start")[:] += begun
                self.worker_timer.add(timings)
                self._frames += frames_in(plan, (first, until))
                with self.worker_timer.counting("put"):
                    nodes = self._rows.put(plan, kernels, nodes)
                size = self._take(nodes)
                self._rate.record(until - first, timings["wall"], size)
                first = until

    def _pieces(self, piece_scheduler: Scheduler) -> Iterator[Leaves]:
        """Yields the pieces of this rank, each after the previous one is done."""
        if self.setup.work_plan.schedule == "static":
            while (piece := piece_scheduler.take(self.ranks.rank)) is not None:
                yield piece
            return
        # the list is the same on every rank: a number identifies a piece
        with self.worker_timer.counting("plan"):
            pieces = piece_scheduler.all_pieces()
        while True:
            number = self.ranks.counter.next()
            if number >= len(pieces):
                return
            yield pieces[number]

    def _progressed(self, done: int, total: int) -> None:
        # the last call comes after the core's work, the others beside it
        with self.worker_timer.counting("communicate" if done >= total else "calls"):
            self._tick(done, total)

    @abstractmethod
    def _begin_piece(self, piece: Leaves) -> None:
        """Called before a piece runs."""

    @abstractmethod
    def _take(self, nodes: list[_core.Node]) -> int:
        """Handles the nodes of a piece; returns their size in bytes if known, else 0."""

    @abstractmethod
    def _tick(self, done: int, total: int) -> None:
        """Called about ten times a second while leaves run, with the frames done of these leaves."""


class WorkerRank(PassRank):
    """A rank other than 0.

    `tree`: the nodes of this rank, if they are not sent during the pass.
    """

    def __init__(
        self,
        ranks: Ranks,
        setup: PassSetup,
        rows: RowsOfPass,
        reader: RankReader,
        worker_timer: WorkerTimer,
        received: float,
    ) -> None:
        # clocks of machines differ; the travel time of the message does not matter
        super().__init__(ranks, setup, rows, reader, worker_timer, received - setup.before)
        self.tree: _core.MergeTree | None = None
        self.kernels: list[_core.Kernel] = []
        self._sending: list[MPI.Request] = []
        self._end: bool | None = None
        self._piece: Leaves = (0, 0)
        self._reported = 0.0

    @property
    def takes_part(self) -> bool:
        """Whether this rank gets leaves."""
        return self.ranks.rank < self.setup.work_plan.workers

    def run(self, files: RunSnapshot) -> bool:
        """Runs the whole pass on this rank, until rank 0 has sent its end; returns whether it succeeded."""
        failed = None
        try:
            if self.takes_part:
                trajectory = self.open(files)
                jobs = pickle.loads(self.setup.jobs)
                self._run_pieces(trajectory, jobs)
                self.reader.finish()
                with self.worker_timer.counting("waited"):
                    self.reader.wait()
                with self.worker_timer.counting("close"):
                    del trajectory
        except Stopped:
            pass  # the failed rank reports the error to rank 0
        except BaseException as error:
            failed = RemoteError.wrap(error, self.ranks.rank)
        self.reader.stop()
        self._send(RankDone(self._frames, failed))
        with self.worker_timer.counting("waited"):
            while self._end is None:
                self._poll()
                time.sleep(PAUSE)
        for request in self._sending:
            request.Wait()
        self.close_reads()
        self.worker_timer.cpu = self.cpu_seconds()
        return self._end

    def _run_pieces(self, trajectory: _core.Trajectory, jobs: Sequence[Job]) -> None:
        with self.worker_timer.counting("plan"):
            plan = self.setup.work_plan.plan(trajectory, jobs)
        self.kernels = [kernel for kernel, _ in jobs]
        if not self.setup.streamed:
            self.tree = _core.MergeTree(plan.n_leaves, self.kernels)
        self.run_pieces(trajectory, plan, jobs)

    def _begin_piece(self, piece: Leaves) -> None:
        self._piece = piece
        self._report(0)

    def _take(self, nodes: list[_core.Node]) -> int:
        size = 0
        if self.tree is None:
            packed = serialize_nodes(nodes)
            size = sum(len(data) for _, _, one in packed for data in one)
            self._send(NewNodes(packed, self._frames))
        else:
            self.tree.insert_all(nodes)
        self._check_stopped()
        return size

    def _tick(self, done: int, total: int) -> None:
        # even if no progress is shown: rank 0 notes missing progress
        interval = _REPORT if self.setup.reported else _REPORTS * stalls.NO_PROGRESS
        if time.monotonic() - self._reported >= interval:
            self._report(done)
        self._check_stopped()

    def _report(self, done: int) -> None:
        self._reported = time.monotonic()
        self._send(FramesDone(self._frames + done, self._piece, os.getpid(), self.ranks.name))

    def _check_stopped(self) -> None:
        self._poll()
        if self._end is not None:
            raise Stopped

    def _poll(self) -> None:
        self._sending = [request for request in self._sending if not request.Test()]
        message = self.ranks.comm.improbe(source=0, tag=PASS_END) if self._end is None else None
        if message is not None:
            self._end = message.recv()

    def _send(self, message: FramesDone | NewNodes | RankDone) -> None:
        self._sending.append(self.ranks.comm.isend(message, 0, tag=TO_ROOT))

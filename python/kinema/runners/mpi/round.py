"""One round on the ranks of an MPI program: every rank takes pieces and runs them, and rank 0 hears of it.

What rank 0 does besides is in `leading`, how nodes come together at the end in `gathering`.
"""

from __future__ import annotations

import pickle
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mpi4py import MPI

from kinema import _core
from kinema.access import Access
from kinema.errors import Error
from kinema.runners.base import Job, Rows
from kinema.runners.gathering import Leaves, PackedNode, PieceLimit, frames_in, pack_nodes
from kinema.runners.hand_out import Division, HandOut, Pace
from kinema.runners.known_files import KnownFiles
from kinema.runners.mpi.ranks import Ranks, Travelling
from kinema.runners.mpi.reading import RankReads
from kinema.runners.mpi.rows import RowsOfRound
from kinema.runners.mpi.sharing import FilesOfRun
from kinema.runners.tally import Tally
from kinema.runners.timings import block_column

__all__ = ["NEWS", "PAUSE", "VERDICT", "Frames", "Last", "Nodes", "RankAtWork", "Setup", "Stopped", "WorkingRank"]

# tags of messages to rank 0, and of rank 0's word that a round is over or has failed
NEWS, VERDICT = 1, 2
# seconds between two looks where there is nothing to do
PAUSE = 0.0005
# seconds between two reports of frames to rank 0
_REPORT = 0.25


@dataclass(frozen=True, eq=False)
class Setup:
    """What all ranks need to know of a round. No handle is in it.

    `jobs` are packed by themselves: what cannot be unpacked elsewhere is an error of the round. `access` is how files
    are read; `before` the seconds that rank 0 has spent before it told the others.
    `files` None: what came with an earlier round of the run. `streamed`: nodes are sent as they come, since rank 0
    saves them; otherwise all of them at the end, on a tree of ranks from `tree_from` bytes on. `rows`: which jobs have
    rows that are put in their place as they come; empty for none. `keep_rows`: they stay there after the round.
    """

    files: KnownFiles | None
    jobs: bytes
    division: Division
    access: Access
    limit: PieceLimit | None
    streamed: bool
    reported: bool
    tree_from: int
    rows: list[Rows | None]
    keep_rows: bool
    before: float


@dataclass(frozen=True)
class Frames:
    """Frames that a rank has done in this round."""

    frames: int


@dataclass(frozen=True)
class Nodes:
    """Nodes that a rank has gathered, and the frames that it has done in this round."""

    nodes: list[PackedNode]
    frames: int


@dataclass(frozen=True)
class Last:
    """A rank's last message of a round: it has no more pieces, or has failed, or was told to stop."""

    frames: int
    failed: Travelling | None = None


class Stopped(Exception):
    """The round has failed elsewhere: rank 0 says so, or another rank, which tells rank 0 why."""


class RankAtWork(ABC):
    """A rank that takes pieces and runs them; subclasses say what becomes of the nodes.

    Attributes
    ----------
    tally : Tally
        Where its time went.
    """

    def __init__(self, ranks: Ranks, setup: Setup, rows: RowsOfRound, reads: RankReads, began: float) -> None:
        self.ranks = ranks
        self.setup = setup
        self.reads = reads
        self._rows = rows
        self.tally = Tally(ranks.rank, setup.division.threads, ranks.name)
        self.tally.waited = 0.0
        self._pace = Pace(setup.limit)
        self._began = began
        self._cpu = time.process_time()
        self._frames = 0  # of the pieces that are done

    def seconds(self) -> float:
        """Since the beginning of the round."""
        return time.monotonic() - self._began

    def cpu_seconds(self) -> float:
        """CPU time of this process since the beginning of the round."""
        return time.process_time() - self._cpu

    def close_reads(self) -> None:
        """When no rank reads any more."""
        with self.tally.counting("close"):
            self.reads.close()

    def run_pieces(self, trajectory: _core.Trajectory, plan: _core.Plan, jobs: Sequence[Job]) -> None:
        """Runs pieces until none is left for this rank; raises Stopped where another rank has ended the reading."""
        kernels = [kernel for kernel, _ in jobs]
        self.tally.start = self.seconds()
        hand_out = self.setup.division.hand_out(plan.cuts(trajectory))
        for first, stop in self._pieces(hand_out):
            while first < stop:
                until = stop
                if not self.setup.division.loads:
                    # in parts where not all of it may be held
                    longest = self._pace.longest()
                    _, until = hand_out.cut((first, stop), longest or stop - first, longest)
                begun = self.seconds()
                try:
                    nodes, timings = _core.run_leaves(trajectory, plan, jobs, first, until, progress=self._tick)
                except Error:
                    if self.reads.ended_by_another:
                        raise Stopped from None
                    raise
                block_column(timings["blocks"], "start")[:] += begun
                self.tally.add(timings)
                self._frames += frames_in(plan, (first, until))
                with self.tally.counting("communicate"):
                    size = self._take(self._rows.put(plan, kernels, nodes))
                self._pace.account(until - first, timings["wall"], size)
                first = until

    def _pieces(self, hand_out: HandOut) -> Iterator[Leaves]:
        """The pieces of this rank, each when the last is done."""
        if self.setup.division.schedule == "static":
            while (piece := hand_out.take(self.ranks.rank)) is not None:
                yield piece
            return
        # the same on every rank: to be told a number is to be told a piece
        pieces = hand_out.all_pieces()
        while True:
            with self.tally.counting("communicate"):
                number = self.ranks.counter.next()
            if number >= len(pieces):
                return
            yield pieces[number]

    @abstractmethod
    def _take(self, nodes: list[_core.Node]) -> int:
        """Takes what a piece gave; gives its size in bytes where that is known."""

    @abstractmethod
    def _tick(self, done: int, total: int) -> None:
        """Called about ten times a second while leaves are run, with the frames done of these."""


class WorkingRank(RankAtWork):
    """A rank other than 0.

    Attributes
    ----------
    tree : MergeTree or None
        What this rank has gathered, where it is not sent while the round lasts.
    kernels : list of Kernel
    """

    def __init__(self, ranks: Ranks, setup: Setup, rows: RowsOfRound, reads: RankReads) -> None:
        # clocks of other machines may tell another time; the message itself takes none that matters
        super().__init__(ranks, setup, rows, reads, time.monotonic() - setup.before)
        self.tree: _core.MergeTree | None = None
        self.kernels: list[_core.Kernel] = []
        self._sending: list[MPI.Request] = []
        self._verdict: bool | None = None
        self._reported = 0.0

    @property
    def takes_part(self) -> bool:
        """Whether this rank is given leaves."""
        return self.ranks.rank < self.setup.division.workers

    def run(self, files: FilesOfRun) -> bool:
        """All that this rank does until rank 0 says how the round ended: well or not."""
        failed = None
        try:
            if self.takes_part:
                trajectory = self.reads.open(files.known, files.data.array)
                jobs = pickle.loads(self.setup.jobs)
                self._run_pieces(trajectory, jobs)
                self.reads.finish()
                with self.tally.counting("waited"):
                    self.reads.wait()
                with self.tally.counting("close"):
                    del trajectory
        except Stopped:
            pass  # rank 0 knows why, or will
        except BaseException as error:
            failed = Travelling.of(error, self.ranks.rank)
        self.reads.stop()
        self._post(Last(self._frames, failed))
        with self.tally.counting("waited"):
            while self._verdict is None:
                self._listen()
                time.sleep(PAUSE)
        with self.tally.counting("communicate"):
            for request in self._sending:
                request.Wait()
        self.close_reads()
        self.tally.cpu = self.cpu_seconds()
        return self._verdict

    def _run_pieces(self, trajectory: _core.Trajectory, jobs: Sequence[Job]) -> None:
        plan = self.setup.division.plan(trajectory, jobs)
        self.kernels = [kernel for kernel, _ in jobs]
        if not self.setup.streamed:
            self.tree = _core.MergeTree(plan.n_leaves, self.kernels)
        self.run_pieces(trajectory, plan, jobs)

    def _take(self, nodes: list[_core.Node]) -> int:
        size = 0
        if self.tree is None:
            packed = pack_nodes(nodes)
            size = sum(len(data) for _, _, one in packed for data in one)
            self._post(Nodes(packed, self._frames))
        else:
            for level, index, partials in nodes:
                self.tree.insert(level, index, partials)
        self._heed()
        return size

    def _tick(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self.setup.reported and now - self._reported >= _REPORT:
            self._reported = now
            self._post(Frames(self._frames + done))
        self._heed()

    def _heed(self) -> None:
        self._listen()
        if self._verdict is not None:
            raise Stopped

    def _listen(self) -> None:
        self._sending = [request for request in self._sending if not request.Test()]
        message = self.ranks.comm.improbe(source=0, tag=VERDICT) if self._verdict is None else None
        if message is not None:
            self._verdict = message.recv()

    def _post(self, news: Frames | Nodes | Last) -> None:
        self._sending.append(self.ranks.comm.isend(news, 0, tag=NEWS))

"""What rank 0 does in a round besides its own pieces: hears of those of the others, shows progress, ends the round.

It takes part in the work like every rank (`round`); messages are looked at between pieces and ten times a second.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress

from mpi4py import MPI

from kinema import _core
from kinema.errors import InternalError
from kinema.progress import Report, tell_slowest
from kinema.runners.base import Job
from kinema.runners.gathering import Gathering, insert_nodes
from kinema.runners.mpi.ranks import Ranks, note_rank
from kinema.runners.mpi.reading import RankReads
from kinema.runners.mpi.round import NEWS, PAUSE, VERDICT, Frames, Last, Nodes, RankAtWork, Setup, Stopped
from kinema.runners.mpi.rows import RowsOfRound
from kinema.runners.mpi.sharing import FilesOfRun

__all__ = ["LeadingRank"]

# seconds between two looks at the gathering, and two reports to the user
_TICK = 0.1


class LeadingRank(RankAtWork):
    """Rank 0 in a round.

    Parameters
    ----------
    ranks : Ranks
    setup : Setup
    rows : RowsOfRound
    reads : RankReads
    gathering : Gathering
        Its tree takes in what this rank gathers, and what others send while the round lasts.
    kernels : list of Kernel
    progress : function, optional
    began : float
        When the round began, by `time.monotonic`.
    """

    def __init__(
        self,
        ranks: Ranks,
        setup: Setup,
        rows: RowsOfRound,
        reads: RankReads,
        gathering: Gathering,
        kernels: Sequence[_core.Kernel],
        progress: Report | None,
        began: float,
    ) -> None:
        super().__init__(ranks, setup, rows, reads, began)
        self._gathering = gathering
        self._kernels = kernels
        self._progress = progress
        self._at_work = set(range(1, ranks.size))
        self._frames_of = [0] * ranks.size
        self._looked = 0.0
        # what was raised by others, or in showing and saving: not by this rank's pieces
        self._between: Exception | None = None

    def run(self, files: FilesOfRun, jobs: Sequence[Job]) -> None:
        """Runs this rank's pieces and waits for the others; where anything fails all of them end their round."""
        serving = self.ranks.counter.serving() if self.setup.division.schedule == "dynamic" else nullcontext()
        try:
            with serving:
                self._run_own(files, jobs)
                self.reads.finish()
                while self._at_work:
                    with self.tally.counting("communicate"):
                        self._hear()
                    self._look_now_and_then(0)
                    with self.tally.counting("waited"):
                        time.sleep(PAUSE)
                with self.tally.counting("waited"):
                    self.reads.wait()
                if self.reads.ended_by_another:
                    raise InternalError("a rank has ended the reading and has not said why")
                self._look(0)
        except BaseException as error:
            self.reads.stop()
            self._end_all(error)
            raise
        self._tell(True)
        self.close_reads()
        self.tally.cpu = self.cpu_seconds()

    def _run_own(self, files: FilesOfRun, jobs: Sequence[Job]) -> None:
        """This rank's pieces; what goes wrong in them is noted with the rank, as that of others is."""
        try:
            trajectory = self.reads.open(files.known, files.data.array)
            with suppress(Stopped):  # the rank that has ended the reading says why
                self.run_pieces(trajectory, self.setup.division.plan(trajectory, jobs), jobs)
        except Exception as error:
            if error is not self._between and self.ranks.size > 1:
                note_rank(error, 0)
            raise

    def _take(self, nodes: list[_core.Node]) -> int:
        for level, index, partials in nodes:
            self._gathering.tree.insert(level, index, partials)
        self._tick(0, 0)
        return 0

    def _tick(self, done: int, total: int) -> None:
        try:
            self._hear()
            self._look_now_and_then(done)
        except Exception as error:
            self._between = error
            raise

    def _look_now_and_then(self, running: int) -> None:
        if time.monotonic() - self._looked >= _TICK:
            self._look(running)

    def _look(self, running: int) -> None:
        self._looked = time.monotonic()
        self._gathering.look()
        if self._progress is not None:
            self._frames_of[0] = self._frames + running
            self._progress(self._gathering.restored + sum(self._frames_of), self._gathering.n_frames)
            frames = {f"rank {rank}": self._frames_of[rank] for rank in range(self.setup.division.workers)}
            tell_slowest(self._progress, frames, self.seconds())

    def _hear(self) -> None:
        """Takes in all messages that are there; raises what another rank has raised."""
        while (
            message := self.ranks.comm.improbe(source=MPI.ANY_SOURCE, tag=NEWS, status=(found := MPI.Status()))
        ) is not None:
            self._take_in(found.Get_source(), message.recv())

    def _take_in(self, rank: int, news: object) -> None:
        match news:
            case Frames(frames):
                self._frames_of[rank] = frames
            case Nodes(nodes, frames):
                insert_nodes(self._gathering.tree, self._kernels, nodes)
                self._frames_of[rank] = frames
            case Last(frames, failed):
                self._at_work.discard(rank)
                self._frames_of[rank] = frames
                if failed is not None:
                    raise failed.arrived()
            case _:
                raise InternalError(f"rank {rank} has sent what no rank sends, a {type(news).__name__}")

    def _end_all(self, error: BaseException) -> None:
        """Tells all ranks to end their round, and takes in what they have sent until then, which may be saved."""
        self._tell(False)
        while self._at_work:
            try:
                self._hear()
            except Exception as another:
                # of several errors the first is raised; the others are told
                if str(another) != str(error):
                    error.add_note(f"and then: {another}")
            time.sleep(PAUSE)

    def _tell(self, well: bool) -> None:
        requests = [self.ranks.comm.isend(well, rank, tag=VERDICT) for rank in range(1, self.ranks.size)]
        MPI.Request.Waitall(requests)

"""The runner with MPI: the ranks of a program that `mpiexec` has started run the leaves; rank 0 alone opens and writes.

It starts no process. What the ranks say to each other is in `round`, `leading` and `gathering`.
"""

from __future__ import annotations

import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, get_args

from numpy.typing import NDArray

from kinema import _core
from kinema.access import MPIO
from kinema.errors import ArgumentError, InternalError
from kinema.opening import open
from kinema.resources import worker_count
from kinema.runners.base import Outcome, RoundRequest
from kinema.runners.hand_out import Dealing
from kinema.runners.interpreter import SIGNALS_OF_A_JOB
from kinema.runners.pickling import pack
from kinema.runners.tally import round_timings
from kinema.trajectory import Trajectory

try:
    from mpi4py import MPI as _MPI
except ImportError as missing:
    raise ArgumentError(
        f"the MPI runner needs mpi4py and an MPI library ({missing}); pip install 'kinema[mpi]' for the site's MPI, "
        "'kinema[mpi-local]' to bring one along"
    ) from None

from kinema.runners.known_files import KnownFiles
from kinema.runners.mpi.arrays import GlobalArray, pack_arrays, unpack_arrays
from kinema.runners.mpi.calls import Compute, compute, lead
from kinema.runners.mpi.gathering import finish_round
from kinema.runners.mpi.indexing import SMALLEST, FindFrames, find_frames, search
from kinema.runners.mpi.leading import LeadingRank
from kinema.runners.mpi.opening import Opened, take_opened, tell_opened
from kinema.runners.mpi.ranks import Ended, FreeRows, Quit, Ranks, Travelling, check_size
from kinema.runners.mpi.reading import check_mpio, described_for, reading
from kinema.runners.mpi.round import Setup, WorkingRank
from kinema.runners.mpi.rows import RowsOfRound
from kinema.runners.mpi.sharing import files_of_round

__all__ = ["MPIRunner"]

T = TypeVar("T")
Gather = Literal["collective", "one-sided"]
Where = Literal["root", "all", "spread"]

# bytes for all ranks of a machine together where the caller states no limit, as with threads
_DEFAULT_MEMORY = 64 << 20
# bytes of all ranks from which on they merge on a tree of ranks
_TREE_FROM = 8 << 20


class MPIRunner:
    """Runs on the ranks of an MPI program; results are the same to the bit as those of threads.

    Three ways to use it, in a script that `mpiexec -n 96 python script.py` starts:

    - Rank 0 runs the script's body, the others work for it, and open nothing but what they read of the files:

          with kn.runners.MPI() as mpi:
              if mpi.leads:
                  traj = kn.open("md.xtc", "top.psf")
                  kn.analysis.RMSD(traj, select="name CA").run(runner=mpi).save("rmsd.csv")

    - A function that rank 0 runs, and whose value all ranks get:

          results = kn.runners.MPI(results="all").together(lambda: analyse().results)

    - All ranks run the same script: `open` of the runner and `analysis.run(runner=...)` are called by every rank. Rank
      0 alone opens and reads the topology, and has the results; others have them, too, with `results="all"`:

          mpi = kn.runners.MPI(results="all")
          traj = mpi.open("md.xtc", "top.psf")
          values = kn.analysis.RMSD(traj, select="name CA").run(runner=mpi).results.rmsd

    Parameters
    ----------
    comm : mpi4py intracommunicator, optional
        COMM_WORLD by default.
    schedule : {"dynamic", "static"}
        Whether ranks take the next piece of work when they are free (default), or each has a contiguous share.
    oversubscribe : int, optional
        Pieces of work that a rank gets at the least, where there are leaves enough; 4 by default.
    gather : {"collective", "one-sided"}
        How results come together: with Gatherv (large partials that do not grow: merged on a tree of ranks); or results
        per frame are put into an array that is spread over the ranks, by each rank as soon as it has some, and got from
        there. With a checkpoint or a file of rows they are sent to rank 0 while the round lasts.
    results : {"root", "all", "spread"}
        Which ranks have results, where all ranks call `run` or `together`. "spread": all, and results per frame stay
        where they are, as `GlobalArray` (`arrays`), until they are freed; only with gather="one-sided".
    threads_per_worker : int
        Threads of a rank. Their times add up.

    Raises
    ------
    ArgumentError
        Without mpi4py; where the launcher has started another number of ranks than MPI knows; for other values.
    """

    name = "mpi"

    def __init__(
        self,
        comm: Any = None,
        *,
        schedule: str | None = None,
        oversubscribe: int | None = None,
        gather: str = "collective",
        results: str = "root",
        threads_per_worker: int = 1,
    ) -> None:
        if gather not in get_args(Gather):
            raise ArgumentError(f"gather must be 'collective' or 'one-sided', found {gather!r}")
        if results not in get_args(Where):
            raise ArgumentError(f"results must be 'root', 'all' or 'spread', found {results!r}")
        if results == "spread" and gather != "one-sided":
            raise ArgumentError("results='spread' leaves rows where ranks have put them; it needs gather='one-sided'")
        if comm is not None and (not isinstance(comm, _MPI.Intracomm) or comm == _MPI.COMM_NULL):
            found = "MPI.COMM_NULL" if isinstance(comm, _MPI.Comm) and comm == _MPI.COMM_NULL else repr(comm)
            raise ArgumentError(f"comm must be an intracommunicator of mpi4py that has this rank, found {found}")
        self._dealing = Dealing(schedule, oversubscribe)
        self.gather = gather
        self._results = results
        self._threads = worker_count(threads_per_worker, "threads_per_worker")
        self._comm = _MPI.COMM_WORLD if comm is None else comm
        self._ranks: Ranks | None = None
        self._keeps_rows = results == "spread"
        self._opened: Trajectory | None = None
        self._tree_from = _TREE_FROM
        self._index_from = SMALLEST
        check_size()

    def configured(self, **options: Any) -> MPIRunner:
        """A runner with other options, on the ranks of this one: within its block or call of `together`."""
        made = MPIRunner(self._comm, **options)
        made._ranks = self._ranks
        return made

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which opens, writes and has results."""
        return int(self._comm.Get_rank()) == 0

    @property
    def size(self) -> int:
        """Number of ranks."""
        return int(self._comm.Get_size())

    # -- who does what ------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """On rank 0 at once; on the others when rank 0 has left the block. All that they do is work for it."""
        if self._ranks is not None:
            raise ArgumentError("this MPI runner is at work already; leave its block first")
        self._ranks = self._met()
        if not self._ranks.leads:
            with _heedless():
                self._serve(self._ranks)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ranks, self._ranks = self._ranks, None
        if ranks is None:
            raise InternalError("an MPI runner is left that was not entered")
        if ranks.leads:
            ranks.broadcast(Quit())
        ranks.free()

    def together(self, work: Callable[[], T]) -> T | None:
        """Calls `work` on rank 0, while the others work for what it runs; called by all ranks together.

        Gives what `work` gave; on other ranks None, with `results="all"` a copy of it, with "spread" a copy in which
        spread arrays are still spread. What it raises is raised on all ranks. Within a block or a call of this runner
        it is just called.
        """
        return self._together(work, keeps_rows=self._results == "spread")

    def run_together(self, work: Callable[[], T]) -> T | None:
        """See `SpreadsRows`: with `results="all"` every rank gets rows from where they are, not from rank 0."""
        return self._together(work, keeps_rows=self._results != "root")

    def _together(self, work: Callable[[], T], *, keeps_rows: bool) -> T | None:
        if self._ranks is not None:
            return work()
        ranks = self._met()
        self._ranks, self._keeps_rows = ranks, keeps_rows
        kept: frozenset[int] = frozenset()
        try:
            if ranks.leads:
                value, kept = self._lead(ranks, work)
                return value
            with _heedless():
                ended = self._serve(ranks)
            if ended.error is not None:
                raise ended.error.arrived()
            kept = ended.kept
            arrived: T | None = self._arrived(ranks, ended.value)
            return arrived
        finally:
            self._ranks, self._keeps_rows = None, self._results == "spread"
            ranks.free(kept)

    def _met(self) -> Ranks:
        """All ranks, each at this place."""
        try:
            return Ranks(self._comm)
        except BaseException as error:
            # the others wait for this one, which will not come
            self._abort(error)
            raise

    def _abort(self, error: BaseException) -> None:
        """Ends all ranks at once, where this one cannot go on and no other is told."""
        if self.size > 1:
            if isinstance(error, Exception):
                traceback.print_exception(error)
            self._comm.Abort(1)

    def _lead(self, ranks: Ranks, work: Callable[[], T]) -> tuple[T, frozenset[int]]:
        """What `work` gives, and the numbers of rows that stay on the ranks; the others are told."""
        try:
            found = work()
            told, spread = pack_arrays(None if self._results == "root" else found)
        except BaseException as error:
            ranks.broadcast(Ended(error=Travelling.of(error, 0)))
            raise
        kept = spread if self._results == "spread" else frozenset()
        ranks.broadcast(Ended(told, kept=kept))
        return (self._arrived(ranks, told) if spread - kept else found), kept

    def _arrived(self, ranks: Ranks, told: bytes) -> Any:
        """What rank 0 has told, with spread arrays in this rank's memory, unless they are to stay spread."""
        if self._results == "spread":
            return unpack_arrays(told, ranks, lambda array: array)
        columns: dict[int, NDArray[Any]] = {}

        def in_memory(array: GlobalArray) -> NDArray[Any]:
            number = array.rows.number
            if number not in columns:
                columns[number] = array.rows.get(0, len(array))
            return array.of(0, columns[number])

        return unpack_arrays(told, ranks, in_memory)

    def _serve(self, ranks: Ranks) -> Ended:
        """Takes part in rounds until rank 0 says that there are no more."""
        try:
            while True:
                match ranks.broadcast():
                    case Setup() as setup:
                        self._work(ranks, setup)
                    case FindFrames() as command:
                        search(ranks, command)
                    case Compute() as command:
                        compute(ranks, command)
                    case Opened() as command:
                        self._opened = take_opened(ranks, command)
                    case FreeRows() as command:
                        ranks.arrays[command.number].free_here()
                    case Ended() as ended:
                        return ended
                    case Quit():
                        return Ended()
        except BaseException as error:
            # what goes wrong in a round is told to rank 0; this is what cannot be told
            self._abort(error)
            raise

    def open(self, paths: Any, topology: Any = None, **options: Any) -> Trajectory:
        """As `kinema.open`, on rank 0 alone; called by all ranks together, each of which gets the trajectory.

        Frames are found and the topology is read now. On other ranks neither a file of the trajectory nor that of the
        topology is touched: frames are read from the parts that hold them, and selections and masses come from the
        atoms that rank 0 has read. Within a block or a call of `together`, which only rank 0 runs, it is `kinema.open`.

        Raises
        ------
        As `kinema.open` and `Trajectory.scan`, on all ranks.
        """
        if self._ranks is not None:
            return open(paths, topology, **options)

        def opening() -> None:
            trajectory = open(paths, topology, **options)
            if self._ranks is not None:
                trajectory.scan(search=self.find_frames)
                tell_opened(self._ranks, trajectory)
            self._opened = trajectory

        self.together(opening)
        found, self._opened = self._opened, None
        if found is None:
            raise InternalError("a rank was told of no trajectory")
        return found

    def find_frames(self, trajectory: _core.Trajectory) -> None:
        """Has all ranks search large files that have no index; called on rank 0 alone, where `map_reduce` is."""
        if self._ranks is not None and self._ranks.leads:
            find_frames(self._ranks, trajectory, self._index_from)

    # -- a round ------------------------------------------------------------------------------------------------

    def map_reduce(self, request: RoundRequest) -> Outcome:
        """See `Runner.map_reduce`; called on rank 0 alone, within a block or a call of `together`.

        `workers` is a number of ranks, by default all; `memory` is divided among them.
        """
        ranks = self._ranks
        if ranks is None or not ranks.leads:
            raise ArgumentError("the MPI runner runs rounds on rank 0, within `with` or `together`")
        began = time.monotonic()
        wanted = self.concurrency(request.workers)
        if request.access in MPIO:
            check_mpio(request.trajectory, request.access)
        division, plan, gathering = self._dealing.divide(
            request,
            workers=wanted,
            threads=self._threads,
            memory=request.memory or _DEFAULT_MEMORY,
            # how files are read through MPI-IO is a matter of the reader, not of the plan
            access="direct" if request.access in MPIO else None,
        )
        kernels = request.kernels
        known = data = None
        if ranks.files is None or ranks.files.run is not request.run:
            known, data = KnownFiles.of(request.trajectory, described_for(request.access))
        ranks.counter.reset(used=division.schedule == "dynamic")
        setup = Setup(
            files=known,
            jobs=pickle.dumps(request.jobs),
            division=division,
            access=request.access,
            limit=gathering.limit,
            streamed=request.gathering is not None,
            reported=request.progress is not None,
            tree_from=self._tree_from,
            rows=list(request.rows) if self.gather == "one-sided" and request.gathering is None else [],
            keep_rows=self._keeps_rows,
            before=time.monotonic() - began,
        )
        ranks.broadcast(setup)
        with RowsOfRound(ranks, request.frames, setup.rows) as put:
            files = files_of_round(ranks, known, request.run, data)
            with reading(ranks, request.access, division.workers, request.trajectory) as reads:
                leading = LeadingRank(ranks, setup, put, reads, gathering, kernels, request.progress, began)
                leading.run(files, request.jobs)
            tallies, found = finish_round(ranks, setup, put, kernels, None, gathering.tree, leading)
        timings = round_timings(tallies, leading.seconds(), plan.n_frames, gathering.restored)
        hand_out = division.hand_out(plan.cuts(request.trajectory))
        hand_out.all_pieces()
        # through libhdf5 shares are not cut where chunks end
        twice = None if request.access in MPIO else hand_out.decoded_twice
        words = f"{plan.explain(twice)}\nnote: {self._in_words(ranks, setup)}"
        return Outcome(gathering.partials(), timings, words, found)

    # -- functions of others ------------------------------------------------------------------------------------

    def concurrency(self, workers: int | None) -> int:
        """See `TaskRunner.concurrency`: the number of ranks; ArgumentError where more are asked for."""
        wanted = self.size if workers is None else worker_count(workers)
        if wanted > self.size:
            raise ArgumentError(f"there are {self.size} ranks, asked for {wanted} workers; start mpiexec with more")
        return wanted

    def map(
        self,
        function: Callable[[Any], Any],
        computations: Sequence[Any],
        *,
        workers: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Any]:
        """See `TaskRunner.map`; called on rank 0 alone, where `map_reduce` is."""
        ranks = self._ranks
        if ranks is None or not ranks.leads:
            raise ArgumentError("the MPI runner computes for rank 0, within `with` or `together`")
        command = Compute(pack(function), [pack(one) for one in computations], self.concurrency(workers), self._threads)
        return lead(ranks, command, progress)

    def _in_words(self, ranks: Ranks, setup: Setup) -> str:
        threads = f"{self._threads} thread{'s' if self._threads > 1 else ''}"
        words = (
            f"each worker is an MPI rank with {threads}, {setup.division.workers} of {ranks.size} ranks, "
            f"{setup.division.schedule} schedule, {self.gather} gathering"
        )
        if setup.access in MPIO:
            words += f'; whole frames through libhdf5 and MPI-IO (access "{setup.access}")'
        return words

    def _work(self, ranks: Ranks, setup: Setup) -> None:
        """A round on a rank other than 0."""
        with RowsOfRound(ranks, setup.division.frames, setup.rows) as put:
            files = files_of_round(ranks, setup.files)
            with reading(ranks, setup.access, setup.division.workers) as reads:
                working = WorkingRank(ranks, setup, put, reads)
                well = working.run(files)
            if well:
                finish_round(ranks, setup, put, working.kernels, working.tree, None, working)


@contextmanager
def _heedless() -> Iterator[None]:
    """Within the block signals that reach all ranks are left to rank 0, which saves and ends the round everywhere."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS_OF_A_JOB}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

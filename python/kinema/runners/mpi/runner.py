"""The MPI runner: ranks of a program that `mpiexec` has started run the leaves; only rank 0 opens and writes.

Ranks other than 0 wait for commands that rank 0 broadcasts. A pass is in `passes`, `root` and `reduction`.
"""

from __future__ import annotations

import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Self, TypeVar, get_args

from numpy.typing import NDArray

from kinema import _core
from kinema.base.choices import GATHER, check_choice
from kinema.base.errors import ArgumentError, InternalError, MissingPackageError
from kinema.base.resources import default_memory, worker_count
from kinema.base.serialisation import serialize
from kinema.runners.access import access_method
from kinema.runners.base import PassRequest, PassResult, Runner
from kinema.runners.calls import CalledFunction, CallValues, OrderedWork, Received
from kinema.runners.local.interpreter import JOB_SIGNALS
from kinema.runners.scheduler import SchedulePolicy
from kinema.runners.worker_timer import pass_timings
from kinema.trajectory import Trajectory
from kinema.trajectory.opening import open

try:
    from mpi4py import MPI as _MPI
except ImportError as missing:
    raise MissingPackageError(
        f"the runner 'mpi' needs mpi4py and an MPI library ({missing}); install them with: pip install 'kinema[mpi]' "
        "for the MPI of the site, 'kinema[mpi-local]' for one of its own"
    ) from None

from kinema.model.snapshot import TrajectorySnapshot
from kinema.runners.mpi.communicator import RemoteError, check_communicator, check_size, signal_code
from kinema.runners.mpi.global_array import FreeRows, GlobalArray, pack_arrays, unpack_arrays
from kinema.runners.mpi.indexing import SMALLEST, FindFrames, find_frames, search
from kinema.runners.mpi.opening import OpenedTrajectory, broadcast_opened, receive_opened
from kinema.runners.mpi.passes import PassSetup, WorkerRank
from kinema.runners.mpi.reading import rank_reader, reading
from kinema.runners.mpi.reduction import finish_pass
from kinema.runners.mpi.remote_call import (
    OrderedWriting,
    RemoteCall,
    call_on_ranks,
    serve_call,
    serve_writing,
    write_on_ranks,
)
from kinema.runners.mpi.root import RootRank
from kinema.runners.mpi.row_windows import RowsOfPass
from kinema.runners.mpi.session import MPISession, RunEnded, Shutdown

T = TypeVar("T")
Where = Literal["root", "all", "spread"]

# least bytes of all ranks together for which they merge on a tree of ranks
_TREE_FROM = 8 << 20


class MPIRunner(Runner):
    """Runs on the ranks of an MPI program; results are the same to the bit as those of threads.

    There are three ways to use it, in a script that `mpiexec -n 96 python script.py` starts:

    - Rank 0 runs the script's body. The others work for it, and open only the files that they read from:

          with kn.runners.MPI() as mpi:
              if mpi.is_root:
                  traj = kn.open("md.xtc", "top.psf")
                  kn.analysis.RMSD(traj, select="name CA").run(runner=mpi).save("rmsd.csv")

    - Rank 0 runs a function, whose value all ranks get:

          results = kn.runners.MPI(results="all").on_root(lambda: analyse().results)

    - All ranks run the same script: every rank calls `open` of the runner and `analysis.run(runner=...)`. Only rank 0
      opens and reads the topology, and has the results; with `results="all"` the others have them, too:

          mpi = kn.runners.MPI(results="all")
          traj = mpi.open("md.xtc", "top.psf")
          values = kn.analysis.RMSD(traj, select="name CA").run(runner=mpi).results.rmsd

    Parameters
    ----------
    comm : mpi4py intracommunicator, optional
        Default: COMM_WORLD.
    schedule : {"dynamic", "static"}
        Whether a free rank takes the next piece of work (default), or each rank has a contiguous share.
    oversubscribe : int, optional
        Least number of pieces of work for each rank, if there are enough leaves; 4 by default.
    gather : {"collective", "one-sided"}
        "collective": results are gathered with Gatherv; large partials that do not grow are merged on a tree of ranks.
        "one-sided": each rank puts its results per frame, as soon as it has some, into an array that is distributed
        over the ranks, from which they are read. With a checkpoint or a file of rows, results are sent to rank 0 during
        the pass.
    results : {"root", "all", "spread"}
        Which ranks have results, if all ranks call `run` or `on_root`. "spread": all ranks; results per frame stay
        distributed, as `GlobalArray` (`arrays`), until they are freed; only with gather="one-sided".
    threads_per_worker : int
        Threads of a rank. Their times add up.

    Raises
    ------
    ArgumentError
        If mpi4py is missing, if the launcher has started a number of ranks that differs from MPI's, or if an argument
        has another value.
    """

    name = "mpi"
    launched = True

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
        check_choice("gather", gather, GATHER)
        if results not in get_args(Where):
            raise ArgumentError(f"results must be 'root', 'all' or 'spread', found {results!r}")
        if results == "spread" and gather != "one-sided":
            raise ArgumentError("results='spread' leaves rows where ranks have put them; it needs gather='one-sided'")
        if comm is not None:
            check_communicator(comm)
        self._policy = SchedulePolicy(schedule, oversubscribe)
        self.gather = gather
        self._results = results
        self._threads = worker_count(threads_per_worker, "threads_per_worker")
        self._comm = _MPI.COMM_WORLD if comm is None else comm
        self._ranks: MPISession | None = None
        self._retains_rows = results == "spread"
        self._opened: Trajectory | None = None
        self._tree_from = _TREE_FROM
        self._index_from = SMALLEST
        self.stop_code: int | None = None
        """On rank 0: exit code of a program that a signal has ended within the block. If other ranks do not answer when
        the block ends, all ranks are ended with this code."""
        check_size()

    def configured(self, **options: Any) -> MPIRunner:
        """A runner with other options on the same ranks; valid within this runner's block or call of `on_root`."""
        made = MPIRunner(self._comm, **options)
        made._ranks = self._ranks
        return made

    @property
    def is_root(self) -> bool:
        """Whether this is rank 0, which opens files, writes and has results."""
        return int(self._comm.Get_rank()) == 0

    @property
    def size(self) -> int:
        """Number of ranks."""
        return int(self._comm.Get_size())

    # -- who does what ------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Returns at once on rank 0. Other ranks serve rank 0, and return when it has left the block."""
        if self._ranks is not None:
            raise ArgumentError("this MPI runner is at work already; leave its block first")
        self._ranks = self._new_session()
        if not self._ranks.is_root:
            with _signals_ignored():
                self._serve(self._ranks)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        ranks, self._ranks = self._ranks, None
        if ranks is None:
            raise InternalError("an MPI runner is left that was not entered")
        if ranks.is_root:
            self._limit_end(ranks, error)
            ranks.broadcast(Shutdown())
        ranks.free()

    def _limit_end(self, ranks: MPISession, error: BaseException | None) -> None:
        """Called on rank 0 before the session ends: after a signal, other ranks have some seconds to end it."""
        code = self.stop_code
        if error is not None and not isinstance(error, Exception):
            code = signal_code(error)
        if code is not None or ranks.silent is not None:
            ranks.end_by(1 if code is None else code)

    def on_root(self, work: Callable[[], T]) -> T | None:
        """Calls `work` on rank 0, while the other ranks serve the passes that it runs; collective.

        Within a block or a call of this runner, `work` is simply called.

        Returns
        -------
        The value of `work` on rank 0. Other ranks get None; with `results="all"` a copy of the value; with "spread" a
        copy in which distributed arrays stay distributed.

        Raises
        ------
        The exception that `work` raises, on all ranks.
        """
        return self._call_on_root(work, retains_rows=self._results == "spread")

    def run_on_root(self, work: Callable[[], T]) -> T | None:
        """See `Runner.run_on_root`. With `results="all"` each rank gets rows from the ranks that have them, not from
        rank 0."""
        return self._call_on_root(work, retains_rows=self._results != "root")

    def _call_on_root(self, work: Callable[[], T], *, retains_rows: bool) -> T | None:
        if self._ranks is not None:
            return work()
        ranks = self._new_session()
        self._ranks, self._retains_rows = ranks, retains_rows
        retained: frozenset[int] = frozenset()
        try:
            if ranks.is_root:
                value, retained = self._run_root(ranks, work)
                return value
            with _signals_ignored():
                ended = self._serve(ranks)
            if ended.error is not None:
                raise ended.error.unwrap()
            retained = ended.retained
            received: T | None = self._received(ranks, ended.value)
            return received
        finally:
            self._ranks, self._retains_rows = None, self._results == "spread"
            ranks.free(retained)

    def _new_session(self) -> MPISession:
        """The session of all ranks; collective."""
        try:
            return MPISession(self._comm)
        except BaseException as error:
            # the other ranks wait for this one, which will not come
            self._abort(error)
            raise

    def _abort(self, error: BaseException) -> None:
        """Ends all ranks at once: this one can neither continue nor inform the others."""
        if self.size > 1:
            if isinstance(error, Exception):
                traceback.print_exception(error)
            self._comm.Abort(1)

    def _run_root(self, ranks: MPISession, work: Callable[[], T]) -> tuple[T, frozenset[int]]:
        """Calls `work` and broadcasts its end; returns its value, and the numbers of rows that stay distributed."""
        try:
            value = work()
            packed, used = pack_arrays(None if self._results == "root" else value)
        except BaseException as error:
            self._limit_end(ranks, error)
            ranks.broadcast(RunEnded(error=RemoteError.wrap(error, 0)))
            raise
        retained = used if self._results == "spread" else frozenset()
        ranks.broadcast(RunEnded(packed, retained=retained))
        return (self._received(ranks, packed) if used - retained else value), retained

    def _received(self, ranks: MPISession, packed: bytes) -> Any:
        """The value that rank 0 has broadcast; copies distributed arrays to this rank unless they are retained."""
        if self._results == "spread":
            return unpack_arrays(packed, ranks.arrays, lambda array: array)
        columns: dict[int, NDArray[Any]] = {}

        def load(array: GlobalArray) -> NDArray[Any]:
            number = array.rows.number
            if number not in columns:
                columns[number] = array.rows.get(0, len(array))
            return array.extract(0, columns[number])

        return unpack_arrays(packed, ranks.arrays, load)

    def _serve(self, ranks: MPISession) -> RunEnded:
        """Carries out commands of rank 0 until it ends the run or leaves the block."""
        try:
            while True:
                match ranks.broadcast():
                    case PassSetup() as setup:
                        self._run_pass(ranks, setup)
                    case FindFrames() as command:
                        search(ranks, command)
                    case RemoteCall() as command:
                        serve_call(ranks, command)
                    case OrderedWriting() as command:
                        serve_writing(ranks, command)
                    case OpenedTrajectory() as command:
                        self._opened = receive_opened(ranks, command)
                    case FreeRows() as command:
                        ranks.arrays[command.number].free_here()
                    case RunEnded() as ended:
                        return ended
                    case Shutdown():
                        return RunEnded()
        except BaseException as error:
            # errors of a pass are sent to rank 0; this one is not part of a pass
            self._abort(error)
            raise

    def open(self, paths: Any, topology: Any = None, **options: Any) -> Trajectory:
        """As `kinema.open`, but only rank 0 opens files; collective: each rank gets the trajectory.

        Rank 0 finds the frames and reads the topology now. Other ranks touch neither the trajectory nor the topology
        file in this call: later they read frames from the parts that hold them, and take selections and masses from the
        atoms that rank 0 has read. Within a block or a call of `on_root`, which only rank 0 runs, this is
        `kinema.open`.

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
                broadcast_opened(self._ranks, trajectory)
            self._opened = trajectory

        self.on_root(opening)
        opened, self._opened = self._opened, None
        if opened is None:
            raise InternalError("a rank has received no trajectory")
        return opened

    def find_frames(self, trajectory: _core.Trajectory) -> None:
        """Lets all ranks search large files without an index; called only on rank 0, like `map_reduce`."""
        if self._ranks is not None and self._ranks.is_root:
            find_frames(self._ranks, trajectory, self._index_from)

    # -- a pass -------------------------------------------------------------------------------------------------

    def map_reduce(self, request: PassRequest) -> PassResult:
        """See `Runner.map_reduce`; called only on rank 0, within a block or a call of `on_root`.

        `workers` is a number of ranks, by default all; `memory` is divided among them, by default the memory of all
        nodes.
        """
        ranks = self._ranks
        if ranks is None or not ranks.is_root:
            raise ArgumentError("the MPI runner runs passes on rank 0, within `with` or `on_root`")
        began = time.monotonic()
        wanted = self.concurrency(request.workers)
        method = access_method(request.access)
        reader_class = rank_reader(method)
        reader_class.check(method, request.trajectory)
        work_plan, plan, reduction = self._policy.divide(
            request,
            workers=wanted,
            threads=self._threads,
            memory=request.memory or default_memory() * ranks.leaders.Get_size(),
        )
        kernels = request.kernels
        files = data = None
        if not ranks.has_snapshot_of(request.run):
            files, data = TrajectorySnapshot.take(request.trajectory, reader_class.describe)
        ranks.counter.reset(used=work_plan.schedule == "dynamic")
        setup = PassSetup(
            files=files,
            jobs=pickle.dumps(request.jobs),
            work_plan=work_plan,
            access=request.access,
            limit=reduction.limit,
            streamed=request.reduction is not None,
            reported=request.progress is not None,
            tree_from=self._tree_from,
            rows=list(request.rows) if self.gather == "one-sided" and request.reduction is None else [],
            retain_rows=self._retains_rows,
            before=time.monotonic() - began,
        )
        worker_timer = setup.timer(ranks)
        ranks.broadcast(setup)
        with RowsOfPass(ranks, request.frames, setup.rows) as put:
            snapshot = ranks.snapshot_of_pass(files, request.run, data)
            with reading(ranks, method, work_plan.workers, request.trajectory) as reader:
                root = RootRank(
                    ranks, setup, put, reader, plan, reduction, kernels, request.progress, worker_timer, began
                )
                root.run(snapshot, request.jobs)
            timers, rows = finish_pass(ranks, setup, put, kernels, None, reduction.tree, root)
        timings = pass_timings(timers, root.seconds(), plan.n_frames, reduction.restored)
        piece_scheduler = work_plan.piece_scheduler(plan.partition(request.trajectory))
        piece_scheduler.all_pieces()
        # the plan does not describe the decoding of an access method's own reader
        twice = piece_scheduler.decoded_twice if method.rank_reader is None else None
        words = f"{plan.explain(twice)}\nnote: {self._describe(ranks, setup)}"
        return PassResult(reduction.partials(), timings, words, rows)

    # -- functions of others ------------------------------------------------------------------------------------

    def local_threads(self, workers: int | None) -> int:
        """As many threads as this process may run: `workers` counts ranks."""
        return worker_count(None)

    def concurrency(self, workers: int | None) -> int:
        """See `Runner.concurrency`: the number of ranks; raises ArgumentError if more are requested."""
        wanted = self.size if workers is None else worker_count(workers)
        if wanted > self.size:
            raise ArgumentError(f"there are {self.size} ranks, asked for {wanted} workers; start mpiexec with more")
        return wanted

    def call_each(
        self, function: Callable[[Any], Any], computations: Sequence[Any], values: CallValues, *, workers: int | None
    ) -> None:
        """See `Runner.call_each`; called only on rank 0, like `map_reduce`."""
        ranks = self._leading()
        packed = [serialize(one) for one in computations]
        called = CalledFunction.from_function(function, self._threads)
        call_on_ranks(ranks, RemoteCall(called, packed, self.concurrency(workers)), values)

    def write_in_order(
        self,
        function: OrderedWork,
        computations: Sequence[Any],
        *,
        offset: int,
        ahead: int,
        received: Received,
        gathered: bool = False,
        workers: int | None = None,
    ) -> None:
        """See `Runner.write_in_order`: each rank makes a piece of a window, an exclusive scan of the sizes gives the
        file offsets, and each rank writes its own piece. Called only on rank 0, like `map_reduce`.
        """
        ranks = self._leading()
        packed = [serialize(one) for one in computations]
        used = min(self.concurrency(workers), max(1, ahead))
        called = CalledFunction.from_function(function, self._threads)
        write_on_ranks(ranks, OrderedWriting(called, packed, used, offset, gathered), received)

    def _leading(self) -> MPISession:
        """The session of ranks that work for this one; raises ArgumentError if there is none."""
        if self._ranks is None or not self._ranks.is_root:
            raise ArgumentError("the MPI runner computes for rank 0, within `with` or `on_root`")
        return self._ranks

    def broadcast_from_root(self, work: Callable[[], T]) -> T:
        before, self._results = self._results, "all"
        try:
            value = self._call_on_root(work, retains_rows=False)
        finally:
            self._results = before
        return value  # type: ignore[return-value]  # all ranks have it

    def _describe(self, ranks: MPISession, setup: PassSetup) -> str:
        threads = f"{self._threads} thread{'s' if self._threads > 1 else ''}"
        words = (
            f"each worker is an MPI rank with {threads}, {setup.work_plan.workers} of {ranks.size} ranks, "
            f"{setup.work_plan.schedule} schedule, {self.gather} gathering"
        )
        method = access_method(setup.access)
        if method.rank_reader is not None:
            words += f'; {method.description} (access "{method.name}")'
        return words

    def _run_pass(self, ranks: MPISession, setup: PassSetup) -> None:
        """A pass on a rank other than 0."""
        received = time.monotonic()
        worker_timer = setup.timer(ranks)
        with RowsOfPass(ranks, setup.work_plan.frames, setup.rows) as put:
            files = ranks.snapshot_of_pass(setup.files)
            with reading(ranks, access_method(setup.access), setup.work_plan.workers) as reader:
                worker = WorkerRank(ranks, setup, put, reader, worker_timer, received)
                well = worker.run(files)
            if well:
                finish_pass(ranks, setup, put, worker.kernels, worker.tree, None, worker)


@contextmanager
def _signals_ignored() -> Iterator[None]:
    """Context that ignores signals that reach all ranks: rank 0 saves and ends the pass on all of them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in JOB_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

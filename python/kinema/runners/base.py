"""`Runner`, the base class of all runners; `PassRequest` and `PassResult`, the input and output of a pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from typing import Any, TypeVar

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.progress import Report
from kinema.base.resources import worker_count
from kinema.base.timings import PassTimings
from kinema.model.selection.frames import FrameSelection
from kinema.runners.access import access_method
from kinema.runners.calls import CalledFunction, CallValues, OrderedWork, PlacedInOrder, Receive, Received
from kinema.runners.reduction import Reduction

T = TypeVar("T")

# a kernel with the transforms that are applied to each of its frames
Job = tuple[_core.Kernel, Sequence[_core.Transform]]


@dataclass(frozen=True)
class Rows:
    """Results of a job with one row a frame: "time" (frames,) and "values" (frames, ...).

    Values have the given number of columns of type `dtype`; None: shape and type are known only with the first values.
    With `lists`, frames may have any number of rows: "time", "first_row" (frames + 1,), and arrays of these names, in
    which frame i has the rows `first_row[i]:first_row[i + 1]`. No runner returns these in `PassResult.rows`.
    """

    columns: int | None = None
    dtype: str = "float64"
    lists: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class PassRequest:
    """Request for one pass.

    Attributes
    ----------
    trajectory : _core.Trajectory
        Must be scanned: its number of frames is known.
    frames : the frames of the pass
        Numbers of the whole trajectory.
    jobs : list of Job
    workers : int, optional
        None: as many workers as this process may use.
    memory : int
        Bytes; 0: the runner's default.
    progress : function, optional
    reduction : Reduction, optional
        None: the runner runs all leaves into a tree of its own. Otherwise it runs only the leaves in
        `reduction.missing`, into the reduction's tree, and calls `reduction.poll` about ten times a second from the
        calling thread.
    access : str
        The name of the access method (`kinema.runners.access`).
    rows : list of Rows or None
        One for each job, if they are known: a runner may return these in `PassResult.rows`.
    run : object
        The same object for all passes of a run: the snapshot of the files need not be sent again.
    """

    trajectory: _core.Trajectory
    frames: FrameSelection
    jobs: Sequence[Job]
    workers: int | None = None
    memory: int = 0
    progress: Report | None = None
    reduction: Reduction | None = None
    access: str = "direct"
    rows: Sequence[Rows | None] = ()
    run: object = field(default_factory=object)

    @property
    def kernels(self) -> list[_core.Kernel]:
        """The kernel of each job."""
        return [kernel for kernel, _ in self.jobs]

    def plan(self, *, memory: int, workers: int, access: str | None = None, pieces: int = 0) -> _core.Plan:
        """The plan for `workers` threads; `access` replaces the access method of the request."""
        used = access_method(self.access).plan_access if access is None else access
        return _core.Plan(
            self.trajectory, self.frames, self.jobs, memory=memory, workers=workers, access=used, pieces=pieces
        )


@dataclass(frozen=True)
class PassResult:
    """Outcome of one pass: a merged partial for each job, timings, and the plan in words.

    `rows`: results of jobs whose partials no longer hold them, by job number.
    """

    partials: list[_core.Partial]
    timings: PassTimings
    plan: str
    rows: Mapping[int, _core.KernelResults] = field(default_factory=dict)

    def results(self) -> list[_core.KernelResults]:
        """The results of each job; the partials are used up."""
        return [
            self.rows[number] if number in self.rows else partial.finish()
            for number, partial in enumerate(self.partials)
        ]


class Runner(ABC):
    """Runs passes over the frames of a trajectory, and calls functions on workers.

    Subclasses define `name` and `map_reduce`; everything else has a default for a single process that leads and
    computes. Results of `map_reduce` are the same to the bit on every runner and for any number of workers;
    `kinema.testing.RunnerTests` checks that.

    Attributes
    ----------
    name : str
        The name in `run(runner=...)`, in reports and in errors.
    launched : bool
        Whether a launcher has started several processes, all of which call the runner with the same arguments. Progress
        is then printed in lines, because launchers pass stderr on.
    gather : str
        How results of ranks are gathered (`kinema.runners.RunnerOptions`); "" if there are no ranks.
    """

    name: str
    launched: bool = False
    gather: str = ""
    _threads = 1

    @abstractmethod
    def map_reduce(self, request: PassRequest) -> PassResult:
        """Runs one pass over the frames for all jobs at once. If an error ends it, `request.reduction` keeps its
        nodes."""

    def session(self) -> AbstractContextManager[object]:
        """Context for all passes of a run: workers and connections that one pass starts stay for the others."""
        return nullcontext()

    def preload(self, modules: Iterable[str]) -> None:
        """Names modules that calls will need: a runner may let its workers import them early. The default does
        nothing."""
        return

    def on_root(self, work: Callable[[], T]) -> T | None:
        """Calls `work` in one process only and returns its value; other processes get a copy of it, or None.

        Errors of `work` are raised in all processes.
        """
        return work()

    def run_on_root(self, work: Callable[[], T]) -> T | None:
        """As `on_root`, but for a whole run: arrays in the value may stay distributed over the processes."""
        return self.on_root(work)

    def find_frames(self, trajectory: _core.Trajectory) -> None:  # noqa: B027, does nothing by default
        """Lets the workers scan large files without an index, before this process scans `trajectory`.

        Called on the leading process. By default only this process scans.
        """

    def local_threads(self, workers: int | None) -> int:
        """Threads of this process for reads before the passes, if `workers` workers are requested."""
        return worker_count(workers)

    def concurrency(self, workers: int | None) -> int:
        """Number of calls of `map` that run at a time.

        Parameters
        ----------
        workers : int, optional
            The requested number of workers; None: as many as the runner has.

        Returns
        -------
        int

        Raises
        ------
        ArgumentError
            If the runner cannot call functions of other libraries, or has fewer workers.
        """
        if workers is not None and worker_count(workers) != 1:
            raise ArgumentError(f"the {self.name} runner has one worker, asked for {workers}; use runner='processes'")
        return 1

    def map(
        self,
        function: Callable[[Any], Any],
        computations: Sequence[Any],
        *,
        workers: int | None = None,
        progress: Callable[[int], None] | None = None,
        receive: Receive | None = None,
    ) -> list[Any]:
        """Calls `function` on each computation. By default the calls are made one after the other in this process.

        Parameters
        ----------
        function : callable
            Called with a computation. Each call gets a copy of the function as it is now: no call sees changes that
            another makes to the function. A function with `unpickled_once = True` is copied once for each worker, whose
            threads may call it at the same time. A function may have a method `describe`, which names the frames of a
            computation ("frames 0 to 63") for notes and errors about its worker.
        computations : sequence
            Pickled, like the function, if workers are other processes.
        workers : int, optional
            None: as many as the runner has.
        progress : callable, optional
            Called with the number of a computation when it is done, from the calling thread.
        receive : callable, optional
            Called with the number and value of each computation as it arrives, in any order, from the calling thread.
            Values are then not collected. A worker with a value that has not been received computes one more, and then
            waits. If `receive` raises, the call ends with that exception.

        Returns
        -------
        list
            The values in the order of the computations; empty with `receive`.

        Raises
        ------
        ArgumentError
            As `concurrency`.
        Exception
            If the function raises, the call ends and the exception propagates, with a note that names the computation.
        """
        values = CallValues(len(computations), progress, receive)
        self.call_each(function, computations, values, workers=workers)
        return values.ordered_values()

    def call_each(
        self, function: Callable[[Any], Any], computations: Sequence[Any], values: CallValues, *, workers: int | None
    ) -> None:
        """Passes the function's values to `values` as they arrive; starts no computation that `values` does not allow.

        Runners override this part of `map`.
        """
        self.concurrency(workers)
        called = CalledFunction.from_function(function) if len(computations) > 1 else None
        for number, one in enumerate(computations):
            try:
                value = (function if called is None else called.get())(one)
            except Exception as error:
                error.add_note(f"part {number + 1} of {len(computations)}")
                raise
            values.take(number, value)

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
        """Writes bytes of unknown size, made by workers, one after the other into a file.

        `function` returns the bytes of each computation, with a note. `function.place` writes them into the file: on
        the worker that has them if the runner can do that without a copy (MPI, Dask), else in this leading process.

        Parameters
        ----------
        function : OrderedWork
            Sent to each worker once.
        computations : sequence
        offset : int
            File offset for the bytes of the first computation.
        ahead : int
            Most computations that are begun and not yet placed; this bounds the memory.
        received : function of (number, size, note)
            Called in the order of the computations, from the calling thread, when their bytes are in the file. If it
            raises, the call ends with that exception.
        gathered : bool
            All bytes come to this process, which places them.
        workers : int, optional

        Raises
        ------
        As `map`.
        """
        placed = PlacedInOrder(function, offset, received)
        values = CallValues(len(computations), None, placed.receive, ahead)
        self.call_each(function, computations, values, workers=workers)

    @property
    def threads_per_worker(self) -> int:
        """Threads that a function called by `map` may use."""
        return self._threads

    def broadcast_from_root(self, work: Callable[[], T]) -> T:
        """As `on_root`, but every process gets a copy of the value."""
        return work()

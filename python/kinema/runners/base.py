"""`Runner`, the base class of all runners, and what a pass gives to it and gets back: `PassRequest`, `PassResult`."""

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

__all__ = ["Job", "PassRequest", "PassResult", "Rows", "Runner"]

T = TypeVar("T")

# a kernel with the transforms that each of its frames goes through
Job = tuple[_core.Kernel, Sequence[_core.Transform]]


@dataclass(frozen=True)
class Rows:
    """Results of a job that are one row a frame: "time" (frames,) and "values" (frames, ...).

    Values are so many columns of `dtype`; None: of a shape and type that are known with the first values only.
    Or, with `lists`, any number of rows a frame: "time", "first_row" (frames + 1,), and arrays of these names, in which
    rows `first_row[i]:first_row[i + 1]` are those of frame i. No runner gives these in `PassResult.rows`.
    """

    columns: int | None = None
    dtype: str = "float64"
    lists: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class PassRequest:
    """One pass, as a runner is asked for it.

    Attributes
    ----------
    trajectory : _core.Trajectory
        Scanned: its number of frames is known.
    frames : the frames of the pass
        Numbers of the whole trajectory.
    jobs : list of Job
    workers : int, optional
        None: as many as this process may use.
    memory : int
        Bytes; 0: the runner's default.
    progress : function, optional
    reduction : Reduction, optional
        None: all leaves are to be run into a tree of the runner's own. Otherwise only those of `reduction.missing`,
        into its tree; `reduction.poll` is to be called about ten times a second, from the calling thread.
    access : str
        The name of the access method (`kinema.runners.access`).
    rows : list of Rows or None
        One for each job, where they are known: a runner may give these in `PassResult.rows`.
    run : object
        The same for all passes of a run: a snapshot of the files need not be sent again.
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
        """One of each job."""
        return [kernel for kernel, _ in self.jobs]

    def plan(self, *, memory: int, workers: int, access: str | None = None, pieces: int = 0) -> _core.Plan:
        """The plan for so many threads; `access` where the plan is for another method than asked for."""
        used = access_method(self.access).plan_access if access is None else access
        return _core.Plan(
            self.trajectory, self.frames, self.jobs, memory=memory, workers=workers, access=used, pieces=pieces
        )


@dataclass(frozen=True)
class PassResult:
    """The outcome of one pass: a merged partial for each job, where the time went, and the plan in words.

    `rows`: results of jobs whose partials do not hold them any more, by the job's number.
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
    """Carries out passes over the frames of a trajectory, and calls functions on its workers.

    Subclasses give `name` and `map_reduce`; everything else has a default, which is that of one process that leads and
    computes. Results of `map_reduce` are the same to the bit on every runner and for any number of workers;
    `kinema.testing.RunnerTests` checks that.

    Attributes
    ----------
    name : str
        As in `run(runner=...)`, in reports and in errors.
    launched : bool
        Whether a launcher has started several processes, all of which call the runner with the same arguments. Progress
        is then printed in lines, as launchers pass stderr on.
    gather : str
        How results of ranks are gathered (`kinema.runners.RunnerOptions`); "" where there are no ranks.
    """

    name: str
    launched: bool = False
    gather: str = ""

    @abstractmethod
    def map_reduce(self, request: PassRequest) -> PassResult:
        """One pass over the frames for all jobs at once. `request.reduction` keeps its nodes when an error ends it."""

    def session(self) -> AbstractContextManager[object]:
        """The context in which all passes of a run take place: what they start (workers, connections) lasts for all."""
        return nullcontext()

    def preload(self, modules: Iterable[str]) -> None:
        """Modules that calls will need: a runner may have workers import them meanwhile. Here nothing happens."""
        return

    def on_root(self, work: Callable[[], T]) -> T | None:
        """The value of `work`, which one process alone calls; on other processes a copy of it, or None.

        Errors of `work` are raised in all processes.
        """
        return work()

    def run_on_root(self, work: Callable[[], T]) -> T | None:
        """As `on_root`, for a whole run: arrays in the value may stay distributed over the processes."""
        return self.on_root(work)

    def find_frames(self, trajectory: _core.Trajectory) -> None:  # noqa: B027, does nothing by default
        """Has the workers scan large files that have no index, before `trajectory` is scanned by this process.

        Called on the process that leads. By default this process alone scans.
        """

    def local_threads(self, workers: int | None) -> int:
        """Threads of this process for what it reads before the passes, where so many workers are asked for."""
        return worker_count(workers)

    def concurrency(self, workers: int | None) -> int:
        """How many calls of `map` run at a time where so many workers are asked for; None: as many as there are.

        ArgumentError where the runner cannot call functions of other libraries, or has fewer workers.
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
        """`function` of each computation, in their order; both are pickled where workers are other processes.

        Each call has a copy of the function as it is now: a call does not see what another has changed in it. A
        function that says `unpickled_once = True` is copied once for each worker, whose threads may call it at a time.
        By default the calls are made one after the other in this process.

        A function may have a method `describe`, which gives the frames of a computation in words ("frames 0 to 63"),
        for notes and errors about the worker that has it.

        `progress` is called with the number of a computation when it is done, from the calling thread. An exception of
        the function ends the call and is raised, with a note that names the computation.

        `receive` is called with number and value of each computation as it comes, in any order, from the calling
        thread; values are then not collected, and the list is empty. A worker that has a value which was not received
        yet computes one more, and then waits. What `receive` raises ends the call.
        """
        values = CallValues(len(computations), progress, receive)
        self.call_each(function, computations, values, workers=workers)
        return values.ordered_values()

    def call_each(
        self, function: Callable[[Any], Any], computations: Sequence[Any], values: CallValues, *, workers: int | None
    ) -> None:
        """Gives `values` those of the function, as they come, and begins none that it does not allow yet.

        What a runner has of its own of `map`.
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
        """Writes bytes of unknown size, which workers make, one behind the other in a file.

        `function` gives the bytes of each computation, with a note; `function.place` puts them into the file, on the
        worker that has them where the runner can do that without a copy (MPI, Dask), else in this process, which leads.

        Parameters
        ----------
        function : OrderedWork
            Sent to each worker once.
        computations : sequence
        offset : int
            Where the bytes of the first are placed.
        ahead : int
            So many computations at the most are begun and not placed: what bounds the memory.
        received : function of (number, size, note)
            Called in the order of the computations, from the calling thread, when their bytes are in the file. What it
            raises ends the call.
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
        """Threads that a function which `map` calls may have."""
        return 1

    def broadcast_from_root(self, work: Callable[[], T]) -> T:
        """As `on_root`, and every process gets a copy of the value."""
        return work()

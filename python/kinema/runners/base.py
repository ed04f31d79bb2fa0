"""What a runner is: `map_reduce` over the frames of a trajectory, and what it gives back.

It starts no worker; each runner is a module of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypedDict, TypeVar, Unpack, runtime_checkable

from kinema import _core
from kinema.access import Access
from kinema.errors import ArgumentError
from kinema.frames import ResolvedFrames
from kinema.progress import Report
from kinema.runners.gathering import Gathering
from kinema.runners.timings import RoundTimings

__all__ = [
    "CalledByAll",
    "Job",
    "Outcome",
    "RoundRequest",
    "Rows",
    "Runner",
    "RunnerOptions",
    "SpreadsRows",
    "TaskRunner",
    "choose_runner",
    "options_of",
    "session",
]

T = TypeVar("T")

# a kernel with the transforms that each of its frames goes through
Job = tuple[_core.Kernel, Sequence[_core.Transform]]


@dataclass(frozen=True)
class Rows:
    """What a job finds that is one row a frame: "time" (frames,) and "values" (frames, ...).

    Values are so many columns of float64; None: of a kind that only they themselves tell.
    """

    columns: int | None = None


@dataclass(frozen=True, eq=False)
class RoundRequest:
    """What a runner is asked for: one round.

    Attributes
    ----------
    trajectory : _core.Trajectory
        With all frames found.
    frames : the frames of the round
        Numbers of the whole trajectory.
    jobs : list of Job
    workers : int, optional
        None: as many as this process may use.
    memory : int
        Bytes; 0: the runner's default.
    progress : function, optional
    gathering : Gathering, optional
        None: all leaves are to be run into a tree of the runner's own. Otherwise only those of `gathering.missing`,
        into its tree; `gathering.look` is to be called about ten times a second, from the calling thread.
    access : str
        Goes into the plan (`kinema.access`).
    rows : list of Rows or None
        One for each job, where they are known: a runner may give these in `Outcome.rows`.
    run : object
        The same for all rounds of a run: what is known of the files need not be sent again.
    """

    trajectory: _core.Trajectory
    frames: ResolvedFrames
    jobs: Sequence[Job]
    workers: int | None = None
    memory: int = 0
    progress: Report | None = None
    gathering: Gathering | None = None
    access: Access = "direct"
    rows: Sequence[Rows | None] = ()
    run: object = field(default_factory=object)

    @property
    def kernels(self) -> list[_core.Kernel]:
        """One of each job."""
        return [kernel for kernel, _ in self.jobs]

    def plan(self, *, memory: int, workers: int, access: Access | None = None, pieces: int = 0) -> _core.Plan:
        """The plan for so many threads; `access` where frames come in another way than asked for."""
        way = self.access if access is None else access
        return _core.Plan(
            self.trajectory, self.frames, self.jobs, memory=memory, workers=workers, access=way, pieces=pieces
        )


@dataclass(frozen=True)
class Outcome:
    """What one round gave: a merged partial for each job, where the time went, and the plan in words.

    `rows` is what jobs have found of which the partials know nothing any more, by the job's number.
    """

    partials: list[_core.Partial]
    timings: RoundTimings
    plan: str
    rows: Mapping[int, _core.Found] = field(default_factory=dict)

    def found(self) -> list[_core.Found]:
        """What each job has found; the partials are used up."""
        return [
            self.rows[number] if number in self.rows else partial.finish()
            for number, partial in enumerate(self.partials)
        ]


@runtime_checkable
class Runner(Protocol):
    """Anything that can run a round. The results are the same to the bit on every runner and number of workers."""

    name: str

    def map_reduce(self, request: RoundRequest) -> Outcome:
        """One pass over the frames for all jobs together. What is gathered stays when an error ends it."""
        ...


@runtime_checkable
class TaskRunner(Protocol):
    """A runner that can also call any function on its workers, as other libraries' engines want it."""

    name: str

    def concurrency(self, workers: int | None) -> int:
        """How many computations run at a time where so many workers are asked for; None: as many as there are."""
        ...

    def map(
        self,
        function: Callable[[Any], Any],
        computations: Sequence[Any],
        *,
        workers: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Any]:
        """`function` of each computation, in their order; both are pickled where workers are other processes.

        Each call has a copy of the function as it is now: what one call leaves in it, no other finds.

        `progress` is called with the number of a computation when it is done, from the calling thread. An exception of
        the function ends the call and is raised, with a note that says which computation it was.
        """
        ...


def session(runner: Runner) -> AbstractContextManager[object]:
    """The context in which all rounds of a run take place: what the runner's `session()` starts lasts for all of them.

    Nothing for runners without that method.
    """
    begun: Callable[[], AbstractContextManager[object]] | None = getattr(runner, "session", None)
    return nullcontext() if begun is None else begun()


@runtime_checkable
class CalledByAll(Protocol):
    """A runner that several processes call with the same arguments, of which one does what is done once."""

    def together(self, work: Callable[[], T]) -> T | None:
        """What `work` gives, in the process that leads; elsewhere a copy, or None. Errors are raised in all."""
        ...

    def find_frames(self, trajectory: _core.Trajectory) -> None:
        """Has all processes take part in finding the frames of files without an index; for the one that leads."""
        ...


@runtime_checkable
class SpreadsRows(Protocol):
    """A runner called by all whose processes may put results per frame where each of them reads any.

    Attributes
    ----------
    gather : str
        How results come together, as in `RunnerOptions`.
    """

    gather: str

    def run_together(self, work: Callable[[], T]) -> T | None:
        """As `together`, for a whole run: arrays in what `work` gives may still be spread over the processes."""
        ...


class RunnerOptions(TypedDict, total=False):
    """What runners can be told besides the number of workers; None is the same as leaving it out.

    Attributes
    ----------
    threads_per_worker : int
        Threads of a process, a Dask task or an MPI rank; 1 by default.
    schedule : {"dynamic", "static"}
        Whether work goes to whoever is free, or each worker has a contiguous share.
    oversubscribe : int
        Pieces of work that a worker gets at the least, where there are leaves enough.
    gather : {"collective", "one-sided"}
        How results of MPI ranks come together.
    results : {"root", "all", "spread"}
        Which MPI ranks have results.
    """

    threads_per_worker: int | None
    schedule: str | None
    oversubscribe: int | None
    gather: str | None
    results: str | None


class _Known(NamedTuple):
    """Where a runner is, and which options it takes."""

    module: str
    class_name: str
    options: tuple[str, ...] = ()


_HAND_OUT = ("threads_per_worker", "schedule", "oversubscribe")
# only the one that is asked for is imported, as some bring much along
_RUNNERS = {
    "serial": _Known("kinema.runners.serial", "SerialRunner"),
    "threads": _Known("kinema.runners.threads", "ThreadsRunner"),
    "processes": _Known("kinema.runners.processes", "ProcessesRunner", _HAND_OUT),
    "dask": _Known("kinema.runners.dask.runner", "Dask", _HAND_OUT),
    "mpi": _Known("kinema.runners.mpi.runner", "MPIRunner", (*_HAND_OUT, "gather", "results")),
}


def choose_runner(runner: str | Runner | None, **options: Unpack[RunnerOptions]) -> Runner:
    """The runner of a name ("serial", "threads", "processes", "dask", "mpi"), that runner itself; threads for None.

    Raises
    ------
    ArgumentError
        For another name; for options that the runner does not take, and for any with a runner that is made already.
    """
    name = "threads" if runner is None else runner
    if isinstance(name, str):
        given = options_of(name, options)
        known = _RUNNERS[name]
        made: Runner = getattr(importlib.import_module(known.module), known.class_name)(**given)
        return made
    if not isinstance(name, Runner):
        raise ArgumentError(f"runner is a name or an object with map_reduce, found {type(name).__name__}")
    for option, value in options.items():
        if value is not None:
            raise ArgumentError(
                f"{option} goes to the runner when it is made: {type(name).__name__}({option}={value!r})"
            )
    return name


def options_of(name: str, options: RunnerOptions, spell: Callable[[str], str] = str) -> dict[str, Any]:
    """The options that are not None, of the runner of that name. In errors they are spelled as `spell` does.

    ArgumentError for a runner that is none, and for an option that it does not take.
    """
    if name not in _RUNNERS:
        raise ArgumentError(f"runner must be one of {', '.join(map(repr, _RUNNERS))}, found {name!r}")
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in _RUNNERS[name].options:
            fitting = " and ".join(one for one, known in _RUNNERS.items() if option in known.options)
            if not fitting:
                raise ArgumentError(f"no runner takes the option {spell(option)}")
            raise ArgumentError(
                f"{spell(option)} is for the runner {fitting}, and this is {name}; leave it out or name another runner"
            )
    return given

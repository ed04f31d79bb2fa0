"""What a runner is: `map_reduce` over the frames of a trajectory, and what it gives back.

It starts no worker; each runner is a module of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

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
    "Runner",
    "TaskRunner",
    "choose_runner",
    "code_by_value",
    "sends_code_by_value",
    "session",
]

T = TypeVar("T")

# a kernel with the transforms that each of its frames goes through
Job = tuple[_core.Kernel, Sequence[_core.Transform]]


@dataclass(frozen=True)
class Outcome:
    """What one round gave: a merged partial for each job, where the time went, and the plan in words."""

    partials: list[_core.Partial]
    timings: RoundTimings
    plan: str


@runtime_checkable
class Runner(Protocol):
    """Anything that can run a round. The results are the same to the bit on every runner and number of workers."""

    name: str

    def map_reduce(
        self,
        trajectory: _core.Trajectory,
        frames: ResolvedFrames,
        jobs: Sequence[Job],
        *,
        workers: int | None,
        memory: int,
        progress: Report | None,
        gathering: Gathering | None = None,
        access: Access = "direct",
    ) -> Outcome:
        """One pass over `frames` (numbers of the whole trajectory) for all jobs together.

        `workers` None: as many as this process may use; `memory` in bytes, 0: the core's default. `gathering` None: all
        leaves are to be run into a tree of the runner's own. Otherwise only those of `gathering.missing`, into its
        tree; `gathering.look` is to be called about ten times a second, from the calling thread, and what is in the
        tree is to be left there when an error ends the round. `access` goes into the plan (`kinema.access`).
        """
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

        `progress` is called with the number of a computation when it is done, from the calling thread. An exception of
        the function ends the call and is raised, with a note that says which computation it was.
        """
        ...


# whether what is being pickled goes by a pickler that sends the code of functions and classes along
_BY_VALUE: ContextVar[bool] = ContextVar("kinema_code_by_value", default=False)


@contextmanager
def code_by_value() -> Iterator[None]:
    """While it lasts, functions of the script or session itself may be pickled: the pickler sends their code."""
    token = _BY_VALUE.set(True)
    try:
        yield
    finally:
        _BY_VALUE.reset(token)


def sends_code_by_value() -> bool:
    """Whether `code_by_value` is in force."""
    return _BY_VALUE.get()


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


# where each runner is: only the one that is asked for is imported, as some bring much along
_RUNNERS = {
    "serial": ("kinema.runners.serial", "SerialRunner"),
    "threads": ("kinema.runners.threads", "ThreadsRunner"),
    "processes": ("kinema.runners.processes", "ProcessesRunner"),
    "dask": ("kinema.runners.dask", "Dask"),
    "mpi": ("kinema.runners.mpi", "MPIRunner"),
}


def choose_runner(runner: str | Runner | None) -> Runner:
    """The runner of a name ("serial", "threads", "processes", "dask", "mpi"), that runner itself; threads for None."""
    name = "threads" if runner is None else runner
    if isinstance(name, str):
        if name not in _RUNNERS:
            raise ArgumentError(f"runner must be one of {', '.join(map(repr, _RUNNERS))}, found {name!r}")
        module, class_name = _RUNNERS[name]
        made: Runner = getattr(importlib.import_module(module), class_name)()
        return made
    if isinstance(name, Runner):
        return name
    raise ArgumentError(f"runner is a name or an object with map_reduce, found {type(name).__name__}")

"""What a runner is: `map_reduce` over the frames of a trajectory, and what it gives back.

It starts no worker; each runner is a module of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from kinema import _core
from kinema.errors import ArgumentError
from kinema.frames import ResolvedFrames
from kinema.progress import Report
from kinema.runners.timings import RoundTimings

__all__ = ["Job", "Outcome", "Runner", "choose_runner"]

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
    ) -> Outcome:
        """One pass over `frames` (numbers of the whole trajectory) for all jobs together.

        `workers` None: as many as this process may use; `memory` in bytes, 0: the core's default.
        """
        ...


def choose_runner(runner: str | Runner | None) -> Runner:
    """The runner of a name ("serial", "threads", "processes"), the runner itself, or for None the one with threads."""
    from kinema.runners.processes import ProcessesRunner
    from kinema.runners.serial import SerialRunner
    from kinema.runners.threads import ThreadsRunner

    known: dict[str, Callable[[], Runner]] = {
        "serial": SerialRunner,
        "threads": ThreadsRunner,
        "processes": ProcessesRunner,
    }
    if runner is None:
        return ThreadsRunner()
    if isinstance(runner, str):
        if runner not in known:
            raise ArgumentError(f"runner must be one of {', '.join(map(repr, known))}, found {runner!r}")
        return known[runner]()
    if isinstance(runner, Runner):
        return runner
    raise ArgumentError(f"runner is a name or an object with map_reduce, found {type(runner).__name__}")

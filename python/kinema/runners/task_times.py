"""What a scheduler saw of a round beside what the workers measured: where time is lost between the two.

It records nothing itself; `dask.transitions` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["TaskTimes", "Transition", "WorkerTaskTimes"]


@dataclass(frozen=True)
class Transition:
    """A task went from one state to another; `time` in seconds from the beginning of the round."""

    task: str
    start: str
    finish: str
    worker: str
    time: float
    # what the worker said it did for it: action, start and stop from the beginning of the round
    actions: tuple[tuple[str, float, float], ...] = ()
    nbytes: int = 0


@dataclass(frozen=True)
class WorkerTaskTimes:
    """One worker, seconds: what its own clock says of reading and computing, and what the scheduler was told.

    `function`: in Kinema's code, by its own timers. `task`: computing, by Dask's. `transfer`: fetching what tasks need.
    """

    worker: str
    tasks: int
    function: float
    task: float
    transfer: float


@dataclass(frozen=True, eq=False)
class TaskTimes:
    """Function time, the scheduler's task time and job time of a round, side by side.

    The publication that looked at Dask's scheduler found 43.6 s by own timers, 104.3 s by the scheduler's account, and
    105.1 s for the job (Khoshlessan et al., Proc. 16th Python in Science Conf., 2017): the loss hid between the two.

    Attributes
    ----------
    job : float, seconds
        Wall time of the round for the client.
    workers : tuple of WorkerTaskTimes
        `task` and `transfer` are 0 where nothing was recorded.
    transitions : tuple of Transition
        Every change of state of every task, in their order; empty where the scheduler allows no plugin.
    lost_workers : tuple of str
        Addresses of workers that left while the round lasted; their leaves were run again.
    redone : int
        Tasks that were handed out more than once.
    note : str
        Why nothing was recorded, or "".
    """

    job: float
    workers: tuple[WorkerTaskTimes, ...]
    transitions: tuple[Transition, ...] = ()
    lost_workers: tuple[str, ...] = ()
    redone: int = 0
    note: str = ""

    @property
    def function(self) -> float:
        """Seconds of the slowest worker by its own timers."""
        return max((worker.function for worker in self.workers), default=0.0)

    @property
    def task(self) -> float:
        """Seconds of the slowest worker by the scheduler's account."""
        return max((worker.task for worker in self.workers), default=0.0)

    def __str__(self) -> str:
        lines = [f"slowest worker: function {self.function:.3f} s"]
        if self.note:
            lines[0] += f", job {self.job:.3f} s (+{self.job - self.function:.3f} s)"
            lines.append(f"the scheduler's task times were not recorded: {self.note}")
        else:
            lines[0] += (
                f", task {self.task:.3f} s (+{self.task - self.function:.3f} s), "
                f"job {self.job:.3f} s (+{self.job - self.task:.3f} s)"
            )
        if self.lost_workers:
            lines.append(f"lost: {', '.join(self.lost_workers)}; {self.redone} tasks were handed out again")
        return "\n".join(lines)


def by_worker(functions: Sequence[tuple[str, float]], transitions: Sequence[Transition]) -> tuple[WorkerTaskTimes, ...]:
    """Sums for each worker of (worker, seconds of a task by its own timers) and of what transitions tell."""
    function: Counter[str] = Counter()
    tasks: Counter[str] = Counter()
    sums: dict[str, Counter[str]] = {"compute": Counter(), "transfer": Counter()}
    for worker, seconds in functions:
        function[worker] += seconds  # type: ignore[assignment]
        tasks[worker] += 1
    for one in transitions:
        for action, start, stop in one.actions:
            if action in sums:
                sums[action][one.worker] += stop - start  # type: ignore[assignment]
    names = sorted({*function, *sums["compute"], *sums["transfer"]})
    return tuple(
        WorkerTaskTimes(
            name, tasks[name], float(function[name]), float(sums["compute"][name]), float(sums["transfer"][name])
        )
        for name in names
    )

"""`TaskTimes`: times of tasks by Dask's scheduler beside those that workers measured; the difference is overhead.

They are recorded by `dask.scheduler_plugin`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["TaskTimes", "Transition", "WorkerTaskTimes", "by_worker", "processed_again"]

# a worker, and when it began and ended something, seconds
Span = tuple[str, float, float]


@dataclass(frozen=True)
class Transition:
    """A task went from one state to another; `time` in seconds from the beginning of the pass."""

    task: str
    start: str
    finish: str
    worker: str
    time: float
    # what the worker did for it: action, start and stop from the beginning of the pass
    actions: tuple[tuple[str, float, float], ...] = ()
    nbytes: int = 0


@dataclass(frozen=True)
class WorkerTaskTimes:
    """One worker, seconds: its own clock of reading and computing, and the times that the scheduler recorded.

    `function`: in Kinema's code, by its own timers. `task`: computing, by Dask's. `transfer`: fetching what tasks need.
    Each while any task of the worker was at it: with several threads they do not add up to more than the pass took.
    """

    worker: str
    tasks: int
    function: float
    task: float
    transfer: float


@dataclass(frozen=True, eq=False)
class TaskTimes:
    """Function time, the scheduler's task time and job time of a pass, side by side.

    The publication on Dask's scheduler measured 43.6 s by own timers, 104.3 s by the scheduler's account, and
    105.1 s for the job (Khoshlessan et al., Proc. 16th Python in Science Conf., 2017): the loss hid between the two.

    Attributes
    ----------
    job : float, seconds
        Wall time of the pass for the client.
    workers : tuple of WorkerTaskTimes
        `task` and `transfer` are 0 where nothing was recorded.
    transitions : tuple of Transition
        Every change of state of every task, in their order; empty where the scheduler allows no plugin.
    lost_workers : tuple of str
        Addresses of workers that left while the pass lasted; their leaves were run again.
    redone : int
        Times that a task was assigned once more.
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
            lines[0] += f", job {self.job:.3f} s ({self.job - self.function:+.3f} s)"
            lines.append(f"the scheduler's task times were not recorded: {self.note}")
        else:
            lines[0] += (
                f", task {self.task:.3f} s ({self.task - self.function:+.3f} s), "
                f"job {self.job:.3f} s ({self.job - self.task:+.3f} s)"
            )
        if self.lost_workers:
            again = "task was" if self.redone == 1 else "tasks were"
            lines.append(f"lost: {', '.join(self.lost_workers)}; {self.redone} {again} assigned again")
        return "\n".join(lines)


def by_worker(functions: Sequence[Span], transitions: Sequence[Transition]) -> tuple[WorkerTaskTimes, ...]:
    """For each worker, of (worker, start, stop) of its tasks by its own timers and of the recorded transitions."""
    tasks = Counter(worker for worker, _, _ in functions)
    spans: dict[str, list[Span]] = {"compute": [], "transfer": []}
    for one in transitions:
        for action, start, stop in one.actions:
            if action in spans:
                spans[action].append((one.worker, start, stop))
    function, task, transfer = _covered(functions), _covered(spans["compute"]), _covered(spans["transfer"])
    return tuple(
        WorkerTaskTimes(name, tasks[name], function.get(name, 0.0), task.get(name, 0.0), transfer.get(name, 0.0))
        for name in sorted({*function, *task, *transfer})
    )


def processed_again(transitions: Sequence[Transition]) -> int:
    """How many times the scheduler has given a task to a worker that another had been given before."""
    given = Counter(one.task for one in transitions if one.finish == "processing")
    return sum(times - 1 for times in given.values())


def _covered(spans: Sequence[Span]) -> dict[str, float]:
    """Seconds that lie in any span of a worker, by worker; those that lie in several count once."""
    covered: dict[str, float] = {}
    until: dict[str, float] = {}
    for worker, start, stop in sorted(spans):
        reached = max(start, until.get(worker, start))
        covered[worker] = covered.get(worker, 0.0) + max(0.0, stop - reached)
        until[worker] = max(reached, stop)
    return covered

"""`Timings`: time spent by a run or by reading, per worker, per block, in total and as fractions.

The core measures it. `TaskTimes`: times of tasks by Dask's scheduler, which `runners.dask.scheduler_plugin` records,
beside the times that workers measured; the difference is overhead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.frozen_dataclass import dataclass
from kinema.base.printable import align_columns, counted, three_digits

# phases of a block, one after the other
BLOCK_PHASES = ("io", "decode", "compute")
BLOCK_COLUMNS = ("worker", "position", "frames", "start", *BLOCK_PHASES)
# phases of a worker, in the order of a run; time that no clock measured comes after them
PHASES = ("start", "plan", "open", "io", "decode", "compute", "wait", "communicate", "close")
UNACCOUNTED = "unaccounted"
_SHOWN = (*PHASES, UNACCOUNTED, "total", "cpu")
# fields that add up over calls
_ADDED = (*PHASES, "total", "cpu", "frames", "blocks", "bytes_read", "reads", "put", "get", "gather")
# seconds below which milliseconds are too coarse a unit
_SHORT = 0.1


def block_column(blocks: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """(blocks,) view of one of BLOCK_COLUMNS."""
    return blocks[:, BLOCK_COLUMNS.index(name)]


def format_seconds(seconds: float) -> str:
    """A time as text, as in "1.234 s", "0.567 ms"; short times would otherwise be 0.000 s."""
    return f"{seconds:.3f} s" if seconds >= _SHORT or seconds <= 0 else f"{1e3 * seconds:.3f} ms"


@dataclass(frozen=True)
class WorkerTimings:
    """Timings of one worker in one pass; seconds, frames, blocks, bytes.

    `total` is the worker's wall time, from the beginning of the pass to its end, and `cpu` the CPU time of its thread
    or process. `start` is the time until the worker existed, beyond the planning of the leading process: interpreter
    and imports of a process, the cluster of Dask; 0 for a thread and for a rank. `plan` is the time in which the
    leading process, and then the worker itself, planned the pass. `communicate` is the time in messages, without
    waiting for them; of it `put` and `get` are one-sided, and `gather` is collecting results. `close` is the time for
    closing files, `node` the name of the machine if there are several. A worker with several `threads` counts thread
    seconds: each of its times is up to `threads` times the wall time.
    """

    worker: int
    open: float
    io: float
    decode: float
    compute: float
    wait: float
    total: float
    cpu: float
    frames: int
    blocks: int
    bytes_read: int
    reads: int
    start: float = 0.0
    communicate: float = 0.0
    close: float = 0.0
    node: str = ""
    plan: float = 0.0
    put: float = 0.0
    get: float = 0.0
    gather: float = 0.0
    threads: int = 1

    @property
    def unaccounted(self) -> float:
        """Seconds of `total` that no phase's clock measured; below zero if clocks of threads overlap."""
        return self.total - sum(float(getattr(self, phase)) for phase in PHASES)

    def and_then(self, other: WorkerTimings) -> WorkerTimings:
        """Sum of the worker's timings in this and a later call."""
        added = {name: getattr(self, name) + getattr(other, name) for name in _ADDED}
        return replace(self, **added)

    @property
    def busy(self) -> float:
        """Seconds in which the worker worked: neither waiting nor unaccounted for."""
        return sum(float(getattr(self, phase)) for phase in PHASES if phase != "wait")


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
    # actions of the worker for the task: action, start and stop from the beginning of the pass
    actions: tuple[tuple[str, float, float], ...] = ()
    nbytes: int = 0


@dataclass(frozen=True)
class WorkerTaskTimes:
    """Times of one worker, in seconds: by its own clock for reading and computing, and by the scheduler's record.

    `function`: in Kinema's code, by its own timers. `task`: computing, by Dask's timers. `transfer`: fetching the
    inputs of tasks. Each counts the time in which any task of the worker was doing that: with several threads it is not
    more than the time of the pass.
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

    `job`: seconds; wall time of the pass for the client.
    `workers`: `task` and `transfer` are 0 if nothing was recorded.
    `transitions`: every change of state of every task, in order; empty if the scheduler does not allow plugins.
    `lost_workers`: addresses of workers that left during the pass; their leaves were run again.
    `redone`: number of times that a task was assigned again.
    `note`: why nothing was recorded, or "".
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


def worker_task_times(functions: Sequence[Span], transitions: Sequence[Transition]) -> tuple[WorkerTaskTimes, ...]:
    """Times of each worker, from (worker, start, stop) of tasks by workers' timers and the recorded transitions."""
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
    """Number of times that the scheduler gave a task to a worker after another worker already had it."""
    given = Counter(one.task for one in transitions if one.finish == "processing")
    return sum(times - 1 for times in given.values())


def _covered(spans: Sequence[Span]) -> dict[str, float]:
    """Seconds covered by any span of a worker, by worker; seconds in several spans count once."""
    covered: dict[str, float] = {}
    until: dict[str, float] = {}
    for worker, start, stop in sorted(spans):
        reached = max(start, until.get(worker, start))
        covered[worker] = covered.get(worker, 0.0) + max(0.0, stop - reached)
        until[worker] = max(reached, stop)
    return covered


@dataclass(frozen=True, eq=False)
class PassTimings:
    """One pass over the frames.

    Attributes
    ----------
    wall : float, seconds
    frames : int
        Frames of the pass; `restored` of them came from a checkpoint and were not read.
    workers : tuple of WorkerTimings
    blocks : (blocks, 7) float64; columns as BLOCK_COLUMNS, times in seconds from the beginning of the pass
    tasks : TaskTimes or None
        Times by a task scheduler's record, if there was one.
    faults : tuple
        Oddities of frames that other processes have read, as in `_core.Trajectory.frame_faults`.
    """

    wall: float
    frames: int
    workers: tuple[WorkerTimings, ...]
    blocks: NDArray[np.float64]
    restored: int = 0
    tasks: TaskTimes | None = None
    faults: tuple[_core.FrameFault, ...] = ()

    @classmethod
    def from_core(
        cls, timings: _core.RunTimings, frames: int, restored: int = 0, *, plan: float = 0.0, wall: float | None = None
    ) -> PassTimings:
        """Makes the timings from a result of the core's `run_into`; `plan`: seconds of planning before it; `wall`: of
        the pass with both."""
        wall = plan + timings["wall"] if wall is None else wall
        workers = tuple(replace(WorkerTimings(**worker), plan=plan, total=wall) for worker in timings["workers"])
        block_column(timings["blocks"], "start")[:] += plan
        return cls(wall, frames, workers, timings["blocks"], restored)


@dataclass(frozen=True, eq=False)
class Timings:
    """All passes of a run. `print(timings)` gives a table.

    Attributes
    ----------
    passes : tuple of PassTimings
    whole : float, seconds
        Time from the call of `run` to its results, without finding frames, which is in `opening`; 0 if it is not known.
        It includes times that no pass contains: making the runner (Dask's imports take seconds), planning, finishing,
        files of results and checkpoints.
    opening : mapping of str to float, seconds
        Work done once, before the run: "topology", "trajectory" (headers), "frames" (finding them).
    start : float, seconds
        Time for making the runner and its session: imports of Dask or MPI, communicators of ranks.
    plan : float, seconds
        Time of the leading process for choosing frames, for what analyses prepare, and between passes; planning within
        a pass is in the workers' `plan`.
    runner : str
        Name of the runner; "" if there was none.
    access : str
        Access method by which frames were read (`kinema.runners.access`).
    gather : str
        How results of MPI ranks were gathered (`kinema.runners.RunnerOptions`); "" for other runners.
    """

    passes: tuple[PassTimings, ...]
    whole: float = 0.0
    opening: Mapping[str, float] = field(default_factory=dict)
    runner: str = ""
    access: str = "direct"
    gather: str = ""
    start: float = 0.0
    plan: float = 0.0

    @classmethod
    def from_reads(cls, reads: Sequence[_core.RunTimings], opening: Mapping[str, float]) -> Timings:
        """Makes one pass of the core's successive reads of arrays: sums each worker's timings over all of them."""
        workers: dict[int, WorkerTimings] = {}
        for one in (WorkerTimings(**worker) for read in reads for worker in read["workers"]):
            before = workers.get(one.worker)
            workers[one.worker] = one if before is None else before.and_then(one)
        blocks = np.empty((0, len(BLOCK_COLUMNS)))
        frames = sum(worker.frames for worker in workers.values())
        whole = PassTimings(sum(read["wall"] for read in reads), frames, tuple(workers.values()), blocks)
        return cls((whole,), opening=opening)

    @cached_property
    def workers(self) -> tuple[WorkerTimings, ...]:
        """Every worker of every pass."""
        return tuple(worker for one in self.passes for worker in one.workers)

    @property
    def blocks(self) -> NDArray[np.float64]:
        """(blocks, 7) of all passes; columns as BLOCK_COLUMNS."""
        found = [one.blocks for one in self.passes]
        return np.concatenate(found) if found else np.empty((0, len(BLOCK_COLUMNS)))

    @property
    def wall(self) -> float:
        """Wall time of all passes in seconds."""
        return sum(one.wall for one in self.passes)

    @property
    def cpu(self) -> float:
        """CPU time of all workers in seconds."""
        return sum(worker.cpu for worker in self.workers)

    @property
    def frames(self) -> int:
        """Frames of one pass; a second pass reads the same frames again."""
        return self.passes[0].frames if self.passes else 0

    @property
    def frames_read(self) -> int:
        """Frames of all passes, without those that came from a checkpoint."""
        return sum(one.frames for one in self.passes) - self.frames_restored

    @property
    def frames_restored(self) -> int:
        """Frames of all passes whose results came from a checkpoint."""
        return sum(one.restored for one in self.passes)

    @property
    def n_workers(self) -> int:
        """Number of workers of a pass."""
        return max((len(one.workers) for one in self.passes), default=0)

    @property
    def bytes_read(self) -> int:
        """Bytes read from files."""
        return sum(worker.bytes_read for worker in self.workers)

    @property
    def reads(self) -> int:
        """Number of calls that read from files."""
        return sum(worker.reads for worker in self.workers)

    @property
    def frames_per_second(self) -> float:
        """Frames read per second of wall time."""
        return self.frames_read / self.wall if self.wall > 0 else 0.0

    @property
    def totals(self) -> dict[str, float]:
        """Seconds of all workers by phase, in the order of PHASES, and "unaccounted"."""
        return {
            phase: float(sum(getattr(worker, phase) for worker in self.workers)) for phase in (*PHASES, UNACCOUNTED)
        }

    @property
    def fractions(self) -> dict[str, float]:
        """The same as shares of their sum."""
        found = self.totals
        whole = sum(found.values())
        return {phase: seconds / whole if whole > 0 else 0.0 for phase, seconds in found.items()}

    def __str__(self) -> str:
        passes = f" in {len(self.passes)} rounds" if len(self.passes) > 1 else ""
        lines = [
            f"{self.frames:,} frames{passes}, {format_seconds(self.wall)}, {self.frames_per_second:,.0f} frames/s, "
            f"{counted(self.n_workers, 'worker')}, {self.bytes_read:,} bytes in {self.reads:,} reads"
            + (f", {self.frames_restored:,} frames from a checkpoint" if self.frames_restored else ""),
        ]
        rows = [["worker", "frames", "blocks", *_SHOWN]]
        for worker in self.workers:
            seconds = [three_digits(getattr(worker, name)) for name in _SHOWN]
            rows.append([str(worker.worker), f"{worker.frames:,}", f"{worker.blocks:,}", *seconds])
        lines += align_columns(rows, left=0, indent="")
        lines += [str(one.tasks) for one in self.passes if one.tasks is not None]
        lines.append("share: " + ", ".join(f"{name} {share:.0%}" for name, share in self.fractions.items()))
        return "\n".join(lines)

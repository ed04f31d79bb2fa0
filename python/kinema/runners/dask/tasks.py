"""The tasks that run on Dask workers, and the objects that they share.

`run_piece` opens the trajectory and plans once per process, then runs its leaves; `call_function` serves `Dask.map`.
Errors are returned as `TaskFailure`; the client decides what to do about them.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from kinema import _core
from kinema.base.errors import (
    ArgumentError,
    CancelledError,
    Error,
    FileAccessError,
    FileNotFound,
    InternalError,
    note_worker,
)
from kinema.base.serialisation import serialize_error
from kinema.base.tracing.recording import lap
from kinema.cache.counts import SentCounts, take_counts
from kinema.runners.base import Job
from kinema.runners.calls import CalledFunction
from kinema.runners.dask.progress import reporting_frames
from kinema.runners.local.worker import WorkerSetup
from kinema.runners.reduction import Leaves, SerializedNode, serialize_nodes


@dataclass(frozen=True, eq=False)
class PieceResult:
    """Result of a piece: its nodes as bytes, its timings, worker and time.

    `slot` numbers the tasks that a worker runs at a time; `begun` is in seconds of `time.time()`; `opening`,
    `planning`, `packing` and `seconds` (which includes all of them) are durations. `counts`: counts of the process's
    node caches since it last sent some.
    """

    nodes: list[SerializedNode]
    timings: _core.RunTimings
    worker: str
    slot: int
    begun: float
    opening: float
    planning: float
    packing: float
    seconds: float
    counts: SentCounts | None


@dataclass(frozen=True, eq=False)
class TaskFailure:
    """A failed task: the error pickled, its traceback as text, address and host of the worker."""

    error: bytes
    text: str
    worker: str


@dataclass(frozen=True, eq=False)
class _PlannedPass:
    """The client's plan, made again on this worker from its own opened trajectory."""

    trajectory: _core.Trajectory
    plan: _core.Plan
    jobs: Sequence[Job]


class SharedFiles:
    """The trajectory that the client has opened; shared by all tasks of all passes of a run.

    The object is in the worker's data. The first task opens the trajectory from the snapshot, without access to a file.
    When the run ends or the client is lost, the scheduler releases the object, and with it the opened trajectory.
    Workers that are threads of one process share one object.

    `snapshot`: serialized `TrajectorySnapshot` and its data.
    """

    def __init__(self, snapshot: bytes) -> None:
        self._snapshot = snapshot
        self._lock = threading.Lock()
        self._trajectory: _core.Trajectory | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedFiles, (self._snapshot,)

    def __sizeof__(self) -> int:
        return len(self._snapshot)

    def opened(self) -> _core.Trajectory:
        """The trajectory, opened by the first call."""
        with self._lock:
            if self._trajectory is None:
                snapshot, data = pickle.loads(self._snapshot)
                self._trajectory = snapshot.open(data)
            return self._trajectory


class SharedSetup:
    """The setup of a pass; shared by its tasks, and kept in the worker's data during the pass.

    `payload`: a pickled `WorkerSetup`. Tasks unpickle it, because they can report an error.
    `limits`: tasks that a worker runs at a time, by its address; others run as many as they have threads for.
    `heard`: whether running tasks report the frames that they have done.
    """

    def __init__(
        self,
        payload: bytes,
        threads: int,
        limits: dict[str, int],
        report_frames: bool = False,
        version: str = _core.__version__,
    ) -> None:
        self.report_frames = report_frames
        self.version = version
        self._content = (payload, threads, limits, report_frames, version)
        self._lock = threading.Lock()
        self._planned: _PlannedPass | None = None
        self._slots: dict[str, SimpleQueue[int]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedSetup, self._content

    def __sizeof__(self) -> int:
        return len(self._content[0])

    def slots(self, worker: str, threads: int) -> SimpleQueue[int]:
        """Slot numbers of a worker: each running task takes one, so that all tasks together have `threads` threads."""
        with self._lock:
            if worker not in self._slots:
                self._slots[worker] = SimpleQueue()
                _, of_a_task, limits, *_ = self._content
                for number in range(limits.get(worker, slots_of(threads, of_a_task))):
                    self._slots[worker].put(number)
            return self._slots[worker]

    def planned(self, files: SharedFiles) -> tuple[_PlannedPass, float, float]:
        """The plan, and the seconds that opening, with unpickling, and planning took if this call did them."""
        with self._lock:
            if self._planned is not None:
                return self._planned, 0.0, 0.0
            called = time.monotonic()
            setup = pickle.loads(self._content[0])
            if not isinstance(setup, WorkerSetup):
                raise InternalError(f"the setup of a worker is none, found {type(setup).__name__}")
            setup.trace.join("dask")
            begun = time.perf_counter_ns()
            trajectory = files.opened()
            lap("open", "reader", begun)
            opened = time.monotonic()
            self._planned = _PlannedPass(trajectory, setup.work_plan.plan(trajectory, setup.jobs), setup.jobs)
            return self._planned, opened - called, time.monotonic() - opened


def slots_of(threads: int, threads_a_task: int) -> int:
    """Number of tasks that a worker of `threads` threads runs at a time."""
    return max(1, threads // threads_a_task)


def run_piece(files: SharedFiles, shared: SharedSetup, piece: Leaves) -> PieceResult | TaskFailure:
    """Runs leaves on a worker. Errors are returned: if a task raises, Dask wraps the exception or ends the worker."""
    from distributed import get_worker

    worker = get_worker()
    slots = shared.slots(worker.address, worker.state.nthreads)
    slot = slots.get()
    begun, clock = time.time(), time.monotonic()
    try:
        if shared.version != _core.__version__:
            # for workers that joined later: `find_workers` has checked the others
            raise ArgumentError(
                other_version(f"worker {worker.address}", socket.gethostname(), shared.version, _core.__version__)
            )
        planned, opening, planning = shared.planned(files)
        with reporting_frames(worker) if shared.report_frames else contextlib.nullcontext() as report:
            nodes, timings = _core.run_leaves(
                planned.trajectory, planned.plan, planned.jobs, *piece, progress=_check_cancelled(worker, report)
            )
        run = time.monotonic()
        packed = serialize_nodes(nodes)
        done = time.monotonic()
        return PieceResult(
            packed, timings, worker.address, slot, begun, opening, planning, done - run, done - clock, take_counts()
        )
    except (FileNotFound, FileAccessError) as error:
        return _task_failure(_not_visible(error, worker.address), worker.address)
    except BaseException as error:
        # SystemExit and KeyboardInterrupt too: raised here they would end the worker, then the next attempt's worker
        return _task_failure(error, worker.address)
    finally:
        slots.put(slot)


def other_version(whose: str, host: str, expected: str, found: str) -> str:
    """Message that a worker or scheduler has another version of Kinema than the client."""
    return f"the Dask {whose} on {host} has another version of Kinema, expected {expected}, found {found}"


def call_function(function: CalledFunction, numbered: tuple[int, bytes]) -> bytes | TaskFailure:
    """Task of `Dask.map`: `numbered` is a number and a pickled argument."""
    try:
        return function(numbered[1])
    except BaseException as error:
        return task_failure(error)


def _not_visible(error: Error, address: str) -> Error:
    """The error for a file that the client can read and this worker cannot."""
    return type(error)(
        f"{error}; the Dask worker {address} on {socket.gethostname()} must see the files under the paths that the "
        "client uses",
        path=error.path,
        format=error.format,
    )


def _check_cancelled(worker: Any, report: Callable[[int], None] | None) -> Callable[[int, int], None]:
    """A progress function, called about ten times a second, that ends the task if the client has cancelled it.

    Dask itself does not end tasks that run.
    """
    key = worker.get_current_task()

    def check(done: int, _total: int) -> None:
        if report is not None:
            report(done)
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            raise CancelledError("the client has cancelled this task")

    return check


def task_failure(error: BaseException) -> TaskFailure:
    """The error of a task of this worker, as a value to be returned: see `run_piece`."""
    from distributed import get_worker

    return _task_failure(error, get_worker().address)


def _task_failure(error: BaseException, address: str) -> TaskFailure:
    packed = serialize_error(error, f"in a task of worker {address}")
    return TaskFailure(packed, traceback.format_exc(), f"{address} ({socket.gethostname()}, process {os.getpid()})")


def task_error(failed: TaskFailure, description: str) -> BaseException:
    """The exception of a task, with a note of worker and piece, and with the traceback unless it is Kinema's own."""
    error: BaseException = pickle.loads(failed.error)
    note_worker(error, f"on worker {failed.worker}, {description}", failed.text)
    return error

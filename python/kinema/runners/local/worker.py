"""The main function of a worker process of the `processes` runner: opens, plans, runs the leaves that it receives.

The parent chooses the leaves, and decides what follows from an error or the end of a worker.
"""

from __future__ import annotations

import os
import pickle
import shutil
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue

from kinema import _core
from kinema.base.errors import InternalError, from_os
from kinema.base.serialisation import serialize_error
from kinema.base.timings import block_column
from kinema.base.tracing.recording import TraceOfRun, lap
from kinema.cache.counts import SentCounts, take_counts
from kinema.model.snapshot import TrajectorySnapshot
from kinema.runners.base import Job
from kinema.runners.calls import CalledFunction
from kinema.runners.local.interpreter import ignore_job_signals
from kinema.runners.reduction import Leaves, SerializedNode, serialize_nodes
from kinema.runners.scheduler import WorkPlan

__all__ = [
    "Begin",
    "Calls",
    "Done",
    "Message",
    "PieceTimes",
    "Progress",
    "Ready",
    "Returned",
    "WorkerFailure",
    "WorkerSetup",
    "main",
    "store_files",
]

# seconds that a process waits for its parent to end after the parent has closed the connection
_PATIENCE = 1.0
_SETUP_NAME = "setup.pickle"
_FILES_NAME = "files.pickle"


@dataclass(frozen=True, eq=False)
class WorkerSetup:
    """Setup of all workers of a pass, without the files, stored in the pass's folder. It holds no handle and no index.

    `began` is the start of the pass by `time.monotonic`, a clock that all processes of a machine share.
    """

    jobs: Sequence[Job]
    work_plan: WorkPlan
    began: float
    trace: TraceOfRun = field(default_factory=TraceOfRun.current)

    def store(self, folder: str) -> None:
        """Writes the setup into the folder of a pass; raises FileIOError if the disk is full."""
        _store(self, folder)

    def begin(self, connection: Connection, folder: str, begun: float, cpu: float) -> _Worker:
        """Opens, plans, reports that the worker is ready, and returns the runner of leaves; `begun`: when loading of
        this setup began, by `time.monotonic`; `cpu` as in `_Worker`."""
        return _Worker(connection, folder, self, begun, cpu)


@dataclass(frozen=True, eq=False)
class Calls:
    """Setup of workers that call a function, as in `Runner.map`: the function and its pickled arguments."""

    function: CalledFunction
    arguments: Sequence[bytes]

    def store(self, folder: str) -> None:
        """Writes the setup into the folder of a pass; raises FileIOError if the disk is full."""
        _store(self, folder)

    def values(self, start: int, stop: int) -> list[bytes]:
        """Results of the function for the arguments `start` to `stop`, each pickled."""
        return [self.function(packed) for packed in self.arguments[start:stop]]

    def begin(self, connection: Connection, folder: str, _begun: float, _cpu: float) -> _Caller:
        """Reports that the worker is ready, and returns the caller of the function."""
        return _Caller(connection, folder, self)


def _store(content: WorkerSetup | Calls, folder: str) -> None:
    path = Path(folder) / _SETUP_NAME
    try:
        path.write_bytes(pickle.dumps(content))
    except OSError as error:
        raise from_os("cannot store what worker processes need", error, str(path)) from None


def store_files(trajectory: _core.Trajectory, folder: str) -> None:
    """Writes the snapshot of the files into the folder of a pass; raises FileIOError if the disk is full."""
    path = Path(folder) / _FILES_NAME
    try:
        with path.open("wb") as file:
            pickle.dump(TrajectorySnapshot.take(trajectory), file, protocol=5)
    except OSError as error:
        raise from_os("cannot store what worker processes need", error, str(path)) from None


def _load(folder: str) -> WorkerSetup | Calls:
    found = pickle.loads((Path(folder) / _SETUP_NAME).read_bytes())
    if not isinstance(found, WorkerSetup | Calls):
        raise InternalError(f"the setup of a worker is of another type, found {type(found).__name__}")
    return found


@dataclass(frozen=True)
class Begin:
    """Message: a pass begins; the folder with its setup."""

    folder: str


@dataclass(frozen=True)
class Ready:
    """Message: the worker has loaded the setup in a folder.

    `begun`: seconds from the beginning of that pass until it began to; `loading`, `opening` and `planning`: seconds.
    """

    folder: str
    begun: float = 0.0
    loading: float = 0.0
    opening: float = 0.0
    planning: float = 0.0


@dataclass(frozen=True)
class Progress:
    """Message: frames done of the current piece of work."""

    frames: int


@dataclass(frozen=True)
class PieceTimes:
    """Message before Done, in seconds: time from the last piece to this one (sending, waiting) and for a core, time to
    pack the results of this one, and time from the beginning of the pass until they were packed.
    """

    between: float
    packing: float
    done_at: float


@dataclass(frozen=True, eq=False)
class Done:
    """Message: a piece of work is done, with its nodes as bytes, its timings, `cpu` seconds of the process since the
    pass began, and the counts of node caches since the last piece."""

    nodes: list[SerializedNode]
    timings: _core.RunTimings
    cpu: float
    counts: SentCounts | None


@dataclass(frozen=True, eq=False)
class WorkerFailure:
    """Message: the worker has failed, with the pickled error and its traceback."""

    error: bytes
    text: str


@dataclass(frozen=True, eq=False)
class Returned:
    """Message: results of calls of a function, each pickled."""

    values: list[bytes]


Message = Ready | Progress | PieceTimes | Done | Returned | WorkerFailure


def main(descriptor: int, folder: str, parent: int) -> None:
    """Works for the process `parent` at the other end of the socket `descriptor`, and ends when that end is closed.

    `folder` is the pool's folder, which holds the folders of its passes.
    """
    ignore_job_signals()
    connection = Connection(descriptor)
    orders: SimpleQueue[Begin | Leaves] = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, orders, folder, parent), daemon=True).start()
    worker: _Worker | _Caller | None = None
    cpu = 0.0  # the start of the process counts in its first pass
    try:
        while True:
            order = orders.get()
            if isinstance(order, Begin):
                begun = time.monotonic()
                worker = None  # closes the files of the previous pass
                worker = _load(order.folder).begin(connection, order.folder, begun, cpu)
            elif worker is None:
                raise InternalError(f"a worker was sent {order} before a pass began")
            else:
                worker.run(*order)
                cpu = time.process_time()
    except BaseException as error:
        _give_up(connection, error)


def _listen(connection: Connection, orders: SimpleQueue[Begin | Leaves], folder: str, parent: int) -> None:
    """Queues orders; ends the process, whatever it is doing, when the parent has closed its end or died."""
    try:
        while True:
            orders.put(connection.recv())
    except (EOFError, OSError):
        # a living parent kills this process now; a dying parent closes its files a moment before it is gone
        until = time.monotonic() + _PATIENCE
        while os.getppid() == parent and time.monotonic() < until:
            time.sleep(0.005)
        if os.getppid() != parent:
            # the parent can no longer remove the folder; other workers may be removing it, too
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


def _give_up(connection: Connection, error: BaseException) -> None:
    failed = WorkerFailure(serialize_error(error, "in a worker process"), traceback.format_exc())
    try:
        connection.send(failed)
    except OSError:
        # the parent is gone or has ended the run
        os._exit(1)


class _Worker:
    """The trajectory, opened again, and the parent's plan; `cpu`: CPU time of the process before this pass."""

    def __init__(self, connection: Connection, folder: str, setup: WorkerSetup, begun: float, cpu: float = 0.0) -> None:
        self._connection = connection
        self._cpu = cpu
        self._jobs = setup.jobs
        self._began = setup.began
        self._trajectory, opening = _open(setup, folder)
        opened = time.monotonic()
        self._plan = setup.work_plan.plan(self._trajectory, setup.jobs)
        self._free = time.monotonic()
        loading = opened - begun - opening
        connection.send(Ready(folder, begun - self._began, loading, opening, self._free - opened))

    def run(self, start: int, stop: int) -> None:
        """Runs the leaves `start` to `stop` and sends their results."""
        begun = time.monotonic()
        between = begun - self._free
        nodes, timings = _core.run_leaves(
            self._trajectory, self._plan, self._jobs, start, stop, progress=self._report_frames
        )
        run = time.monotonic()
        block_column(timings["blocks"], "start")[:] += begun - self._began
        # packing takes time as well
        cpu = time.process_time() - self._cpu
        message = pickle.dumps(Done(serialize_nodes(nodes), timings, cpu, take_counts()))
        self._free = time.monotonic()
        # a call of the core waits for a core beyond the core's own time
        for_a_core = run - begun - timings["wall"]
        self._connection.send(PieceTimes(between + for_a_core, self._free - run, self._free - self._began))
        self._connection.send_bytes(message)

    def _report_frames(self, done: int, _total: int) -> None:
        self._connection.send(Progress(done))


class _Caller:
    """Calls a function with arguments given by number."""

    def __init__(self, connection: Connection, folder: str, calls: Calls) -> None:
        self._connection = connection
        self._calls = calls
        connection.send(Ready(folder))

    def run(self, start: int, stop: int) -> None:
        """Calls the function with the arguments `start` to `stop` and sends the results."""
        self._connection.send(Returned(self._calls.values(start, stop)))


def _open(setup: WorkerSetup, folder: str) -> tuple[_core.Trajectory, float]:
    """The trajectory of the snapshot in `folder`, and the seconds for opening it.

    Each file is verified at its first read: raises CorruptFileError if it has changed since the parent opened it.
    Frames added since then are ignored.
    """
    setup.trace.join("processes")
    known, data = pickle.loads((Path(folder) / _FILES_NAME).read_bytes())
    began = time.perf_counter_ns()
    trajectory: _core.Trajectory = known.open(data)
    return trajectory, lap("open", "reader", began) * 1e-9

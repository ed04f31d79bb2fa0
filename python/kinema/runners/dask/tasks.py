"""What a task does on a Dask worker: open and plan once for each process, run the leaves that it is told, answer.

It decides nothing: which leaves there are, and what an error or a loss means, is the client's business.
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
from kinema.errors import (
    ArgumentError,
    CancelledError,
    Error,
    FileAccessError,
    FileNotFound,
    InternalError,
    says_enough,
)
from kinema.runners.base import Job
from kinema.runners.dask.progress import telling
from kinema.runners.gathering import Leaves, PackedNode, pack_nodes
from kinema.runners.pickling import pack_error
from kinema.runners.worker import Setup, call

__all__ = ["Failed", "Files", "Run", "Shared", "call_one", "other_version", "run_piece", "slots_of", "told"]


@dataclass(frozen=True, eq=False)
class Run:
    """A piece of work is done: its nodes as bytes, its timings, and who did it when.

    `slot` numbers the tasks that a worker runs at a time; `begun` in seconds of `time.time()`, `opening` and `seconds`
    (with `opening`) as they passed.
    """

    nodes: list[PackedNode]
    timings: _core.RunTimings
    worker: str
    slot: int
    begun: float
    opening: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Failed:
    """The task has given up: the error pickled, its traceback, the address and host where it ran."""

    error: bytes
    text: str
    worker: str


@dataclass(frozen=True, eq=False)
class _Planned:
    """The same plan as the client's, of the trajectory that was opened anew."""

    trajectory: _core.Trajectory
    plan: _core.Plan
    jobs: Sequence[Job]


class Files:
    """What the client knows of the files, which all tasks of all rounds of a run need, scattered once.

    It lies among the worker's data. The first task opens the trajectory, without touching a file, and the others find
    it opened; when the run ends, or the client dies, the scheduler releases it, and what was opened goes with it.
    Workers that are threads of one process have the same one.

    Parameters
    ----------
    known : bytes
        Pickled `KnownFiles`, with the bytes for it.
    """

    def __init__(self, known: bytes) -> None:
        self._known = known
        self._lock = threading.Lock()
        self._trajectory: _core.Trajectory | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Files, (self._known,)

    def __sizeof__(self) -> int:
        return len(self._known)

    def opened(self) -> _core.Trajectory:
        """The trajectory, opened by the first call."""
        with self._lock:
            if self._trajectory is None:
                known, data = pickle.loads(self._known)
                self._trajectory = known.open(data)
            return self._trajectory


class Shared:
    """What all tasks of a round need, scattered once; it lies among the worker's data as `Files` do, for a round.

    Parameters
    ----------
    payload : bytes
        A pickled `Setup`. It is unpickled by tasks, where an error can be reported.
    threads : int
        Threads of a task.
    limits : dict of str to int
        Tasks that a worker runs at a time, by its address; others run as many as they have threads for.
    heard : bool
        Whether tasks are to tell how many frames they have done while they run.
    version : str
        Of the client's Kinema.
    """

    def __init__(
        self,
        payload: bytes,
        threads: int,
        limits: dict[str, int],
        heard: bool = False,
        version: str = _core.__version__,
    ) -> None:
        self.heard = heard
        self.version = version
        self._content = (payload, threads, limits, heard, version)
        self._lock = threading.Lock()
        self._planned: _Planned | None = None
        self._slots: dict[str, SimpleQueue[int]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Shared, self._content

    def __sizeof__(self) -> int:
        return len(self._content[0])

    def slots(self, worker: str, threads: int) -> SimpleQueue[int]:
        """Numbers of which a task takes one while it runs, so that those of a worker have `threads` together."""
        with self._lock:
            if worker not in self._slots:
                self._slots[worker] = SimpleQueue()
                _, of_a_task, limits, *_ = self._content
                for number in range(limits.get(worker, slots_of(threads, of_a_task))):
                    self._slots[worker].put(number)
            return self._slots[worker]

    def planned(self, files: Files) -> tuple[_Planned, float]:
        """The plan, and the seconds that opening and planning took if it was done by this call."""
        with self._lock:
            if self._planned is not None:
                return self._planned, 0.0
            begun = time.monotonic()
            setup = pickle.loads(self._content[0])
            if not isinstance(setup, Setup):
                raise InternalError(f"the setup of a worker is none, found {type(setup).__name__}")
            trajectory = files.opened()
            self._planned = _Planned(trajectory, setup.division.plan(trajectory, setup.jobs), setup.jobs)
            return self._planned, time.monotonic() - begun


def slots_of(threads: int, threads_a_task: int) -> int:
    """Tasks that a worker of so many threads runs at a time."""
    return max(1, threads // threads_a_task)


def run_piece(files: Files, shared: Shared, piece: Leaves) -> Run | Failed:
    """Runs leaves on a worker; errors are returned, with their class, rather than raised into Dask's hands."""
    from distributed import get_worker

    worker = get_worker()
    slots = shared.slots(worker.address, worker.state.nthreads)
    slot = slots.get()
    begun, clock = time.time(), time.monotonic()
    try:
        if shared.version != _core.__version__:
            # one that has joined; those that were there were asked
            raise ArgumentError(
                other_version(f"worker {worker.address}", socket.gethostname(), shared.version, _core.__version__)
            )
        planned, opening = shared.planned(files)
        with telling(worker) if shared.heard else contextlib.nullcontext() as tell:
            nodes, timings = _core.run_leaves(
                planned.trajectory, planned.plan, planned.jobs, *piece, progress=_until_cancelled(worker, tell)
            )
        return Run(pack_nodes(nodes), timings, worker.address, slot, begun, opening, time.monotonic() - clock)
    except (FileNotFound, FileAccessError) as error:
        return _failed(_unseen(error, worker.address), worker.address)
    except BaseException as error:
        # also what a user's function raises to end its program: here it would end the worker, and then the next
        return _failed(error, worker.address)
    finally:
        slots.put(slot)


def other_version(whose: str, host: str, expected: str, found: str) -> str:
    """In words: somebody of a cluster has another version of Kinema than the client."""
    return f"the Dask {whose} on {host} has another version of Kinema, expected {expected}, found {found}"


def call_one(function: tuple[bytes, int], numbered: tuple[int, bytes]) -> bytes | Failed:
    """What a pickled function of so many threads gives of a pickled argument, whose number only the client needs."""
    from distributed import get_worker

    try:
        return call(function[0], numbered[1], function[1])
    except BaseException as error:
        # see `run_piece`
        return _failed(error, get_worker().address)


def _unseen(error: Error, address: str) -> Error:
    """The error of a file that the client has read, and this worker cannot: what is missing is the file system."""
    return type(error)(
        f"{error}; the Dask worker {address} on {socket.gethostname()} must see the files under the paths that the "
        "client uses",
        path=error.path,
        format=error.format,
    )


def _until_cancelled(worker: Any, tell: Callable[[int], None] | None) -> Callable[[int, int], None]:
    """Called about ten times a second: ends a task that the client has cancelled, which Dask itself cannot."""
    key = worker.get_current_task()

    def check(done: int, _total: int) -> None:
        if tell is not None:
            tell(done)
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            raise CancelledError("the client has cancelled this task")

    return check


def _failed(error: BaseException, address: str) -> Failed:
    packed = pack_error(error, f"in a task of worker {address}")
    return Failed(packed, traceback.format_exc(), f"{address} ({socket.gethostname()}, process {os.getpid()})")


def told(failed: Failed, doing: str) -> BaseException:
    """The exception of a task with a note that says where it ran and at what; foreign ones with their traceback."""
    error: BaseException = pickle.loads(failed.error)
    note = f"on worker {failed.worker}, {doing}"
    error.add_note(note if says_enough(error) else f"{note}:\n{failed.text}")
    return error

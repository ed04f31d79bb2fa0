"""What a worker process of the `processes` runner does: open, plan, run the leaves that it is told, answer.

It decides nothing: which leaves it gets, and what an error or a death means, is the parent's business.
"""

from __future__ import annotations

import os
import pickle
import shutil
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from kinema import _core
from kinema.errors import CorruptFileError, InternalError, from_os
from kinema.resources import share_of_machine
from kinema.runners.base import Job
from kinema.runners.gathering import Leaves, PackedNode, pack_nodes
from kinema.runners.hand_out import Division
from kinema.runners.interpreter import leave_signals_to_the_parent
from kinema.runners.pickling import pack, pack_error
from kinema.runners.timings import block_column

__all__ = [
    "Account",
    "Begin",
    "Calls",
    "Done",
    "Failed",
    "Message",
    "Progress",
    "Ready",
    "Returned",
    "Setup",
    "call",
    "main",
]

# seconds that a process waits for the end of a parent that has closed its connection
_PATIENCE = 1.0
_SETUP_NAME = "setup.pickle"


@dataclass(frozen=True, eq=False)
class Setup:
    """What all workers of a round need to know, in a file of their folder. No handle and no index is in it.

    `began` is the round's beginning on the clock `time.monotonic`, which all processes of a machine share.
    """

    recipe: dict[str, Any]
    jobs: Sequence[Job]
    fingerprints: list[str]
    division: Division
    began: float

    def store(self, folder: str) -> None:
        """Writes it for the workers of `folder`; FileIOError where the disk is full."""
        _store(self, folder)

    def begin(self, connection: Connection, folder: str, cpu: float) -> _Worker:
        """Opens and plans, says so, and gives what runs leaves; `cpu` as in `_Worker`."""
        return _Worker(connection, folder, self, cpu)


@dataclass(frozen=True, eq=False)
class Calls:
    """The same for workers that call a function, as in `TaskRunner.map`: pickled, with its arguments."""

    function: bytes
    arguments: Sequence[bytes]
    threads: int = 1

    def store(self, folder: str) -> None:
        """Writes it for the workers of `folder`; FileIOError where the disk is full."""
        _store(self, folder)

    def begin(self, connection: Connection, folder: str, _cpu: float) -> _Caller:
        """Says that it is ready, and gives what calls the function."""
        return _Caller(connection, folder, self)


def _store(content: Setup | Calls, folder: str) -> None:
    path = Path(folder) / _SETUP_NAME
    try:
        path.write_bytes(pickle.dumps(content))
    except OSError as error:
        raise from_os("cannot store what worker processes need", error, str(path)) from None


def _load(folder: str) -> Setup | Calls:
    found = pickle.loads((Path(folder) / _SETUP_NAME).read_bytes())
    if not isinstance(found, Setup | Calls):
        raise InternalError(f"the setup of a worker is none, found {type(found).__name__}")
    return found


@dataclass(frozen=True)
class Begin:
    """What the parent says when a round begins: the folder with what its workers need to know."""

    folder: str


@dataclass(frozen=True)
class Ready:
    """The worker has what the round of a folder needs; `start` in seconds from the beginning of that round."""

    start: float
    folder: str


@dataclass(frozen=True)
class Progress:
    """Frames done of the piece of work at hand."""

    frames: int


@dataclass(frozen=True)
class Account:
    """Comes before Done, in seconds: from the last piece to this one (sending, waiting), packing what this one gave,
    and from the beginning of the round until that was packed.
    """

    between: float
    packing: float
    done_at: float


@dataclass(frozen=True, eq=False)
class Done:
    """A piece of work is done: its nodes as bytes, its timings, `cpu` seconds of the process since the round began."""

    nodes: list[PackedNode]
    timings: _core.RunTimings
    cpu: float


@dataclass(frozen=True, eq=False)
class Failed:
    """The worker has given up: the error pickled, its traceback."""

    error: bytes
    text: str


@dataclass(frozen=True, eq=False)
class Returned:
    """What calls of a function have returned, each pickled."""

    values: list[bytes]


Message = Ready | Progress | Account | Done | Returned | Failed


def main(descriptor: int, folder: str, parent: int) -> None:
    """Works for the process `parent` at the other end of the socket `descriptor`, and ends when that end is closed.

    `folder` is the parent's, in which the folders of its rounds are.
    """
    leave_signals_to_the_parent()
    connection = Connection(descriptor)
    orders: SimpleQueue[Begin | Leaves] = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, orders, folder, parent), daemon=True).start()
    worker: _Worker | _Caller | None = None
    cpu = 0.0  # the start of the process counts among its first round
    try:
        while True:
            order = orders.get()
            if isinstance(order, Begin):
                worker = None  # what the round before has opened goes first
                worker = _load(order.folder).begin(connection, order.folder, cpu)
            elif worker is None:
                raise InternalError(f"a worker was given {order} before a round began")
            else:
                worker.run(*order)
                cpu = time.process_time()
    except BaseException as error:
        _give_up(connection, error)


def _listen(connection: Connection, orders: SimpleQueue[Begin | Leaves], folder: str, parent: int) -> None:
    """Passes orders on; ends the process, whatever it does, when the parent has closed its end or died."""
    try:
        while True:
            orders.put(connection.recv())
    except (EOFError, OSError):
        # a parent that lives kills this process now; one that is dying closes its files a moment before it is gone
        until = time.monotonic() + _PATIENCE
        while os.getppid() == parent and time.monotonic() < until:
            time.sleep(0.005)
        if os.getppid() != parent:
            # nobody else is left who knows of the folder; others may be removing it, too
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


def _give_up(connection: Connection, error: BaseException) -> None:
    failed = Failed(pack_error(error, "in a worker process"), traceback.format_exc())
    try:
        connection.send(failed)
    except OSError:
        # the parent is gone or has ended the run: nobody is left to be told
        os._exit(1)


class _Worker:
    """The trajectory, opened anew, and the same plan as the parent's; `cpu`: of the process before this round."""

    def __init__(self, connection: Connection, folder: str, setup: Setup, cpu: float = 0.0) -> None:
        self._connection = connection
        self._cpu = cpu
        self._jobs = setup.jobs
        self._began = setup.began
        self._trajectory, self._plan = _open_and_plan(setup, folder)
        self._free = time.monotonic()
        connection.send(Ready(self._free - self._began, folder))

    def run(self, start: int, stop: int) -> None:
        """Runs the leaves `start` to `stop` and sends what they gave."""
        begun = time.monotonic()
        between = begun - self._free
        nodes, timings = _core.run_leaves(
            self._trajectory, self._plan, self._jobs, start, stop, progress=self._report_frames
        )
        run = time.monotonic()
        block_column(timings["blocks"], "start")[:] += begun - self._began
        # bytes by now: that takes time as well
        message = pickle.dumps(Done(pack_nodes(nodes), timings, time.process_time() - self._cpu))
        self._free = time.monotonic()
        self._connection.send(Account(between, self._free - run, self._free - self._began))
        self._connection.send_bytes(message)

    def _report_frames(self, done: int, _total: int) -> None:
        self._connection.send(Progress(done))


class _Caller:
    """Calls a function with what it is told by number."""

    def __init__(self, connection: Connection, folder: str, calls: Calls) -> None:
        self._connection = connection
        self._calls = calls
        connection.send(Ready(0.0, folder))

    def run(self, start: int, stop: int) -> None:
        """Calls it with the arguments `start` to `stop` and sends what it returned."""
        calls = self._calls
        values = [call(calls.function, packed, calls.threads) for packed in calls.arguments[start:stop]]
        self._connection.send(Returned(values))


def call(function: bytes, argument: bytes, threads: int) -> bytes:
    """What a pickled function gives of a pickled argument, as bytes, in a process that is one of many.

    The function is unpickled for each call: it may hold state, such as an analysis that has gathered results or a
    reader that stands at a frame, and which calls a worker gets is left to chance. What it starts by itself has
    `threads` threads.
    """
    with share_of_machine(threads):
        return pack(pickle.loads(function)(pickle.loads(argument)))


def _open_and_plan(setup: Setup, folder: str) -> tuple[_core.Trajectory, _core.Plan]:
    """The trajectory, opened anew, and the same plan as the parent's.

    `folder` holds the indices. CorruptFileError for a file that is not the one that the parent has opened.
    """
    # the parent has put the indices there, so that none is built again and none is stored elsewhere
    trajectory = _core.Trajectory(**setup.recipe, index_folder=folder)
    trajectory.scan(workers=1)
    _refuse_changed_files(trajectory, setup.fingerprints)
    return trajectory, setup.division.plan(trajectory, setup.jobs)


def _refuse_changed_files(trajectory: _core.Trajectory, expected: Sequence[str]) -> None:
    for part, fingerprint in zip(trajectory.parts(), expected, strict=True):
        if part["fingerprint"] != fingerprint:
            raise CorruptFileError(
                f"{part['path']}: the file has changed since it was opened, expected fingerprint {fingerprint}, "
                f"found {part['fingerprint']}",
                path=part["path"],
                format=part["format"],
            )

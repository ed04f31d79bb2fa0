"""`WorkerServer`: a process that has imported what workers need, and forks them, as its parent uses it.

`server_process` is what it executes. Its imports begin when it is made, while the caller does something else; a worker
then takes some milliseconds instead of half a second. The socket between them is inherited and has no name.
"""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from kinema.base.errors import Error
from kinema.runners.local.interpreter import start_interpreter
from kinema.runners.local.server_process import MOST_BYTES, Fork, Forked, Preload, WorkerEnded
from kinema.runners.stalls import activity

__all__ = ["ForkedWorker", "WorkerProcess", "WorkerServer", "start_server"]

# seconds until a server that does not answer is given up
_PATIENCE = 10.0


class WorkerProcess(Protocol):
    """What a pool needs of a worker process: a part of `subprocess.Popen`."""

    @property
    def pid(self) -> int:
        """Number of the process."""

    def poll(self) -> int | None:
        """Exit code, below 0 the signal that has ended it; None while it runs."""

    def wait(self, timeout: float) -> int:
        """The same when it has ended; subprocess.TimeoutExpired after so many seconds."""

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless it has ended."""

    def kill(self) -> None:
        """Ends it, whatever it does; does not wait."""


def start_server() -> WorkerServer | None:
    """A server; None on systems where processes have no descriptors, and where it cannot start."""
    if not (hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal") and os.path.isdir("/proc/self/task")):
        return None
    try:
        return WorkerServer()
    except (Error, OSError):
        return None  # whoever starts a worker says what is wrong


class WorkerServer:
    """A server of this process; it ends with the object, with this process, and when `close` is called.

    Raises what `start_interpreter` raises.
    """

    def __init__(self) -> None:
        self._state = _state()
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._ordered: dict[int, ForkedWorker] = {}  # by their number
        self._number = 0
        self._workers: dict[int, ForkedWorker] = {}  # by their process
        self._preloaded: set[str] = set()
        self._connection, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other_end:
            descriptor = other_end.fileno()
            call = f"from kinema.runners.local.server_process import main; main({descriptor}, {os.getpid()})"
            self._process = start_interpreter(call, descriptor, "a worker process", quiet=True)
        self.close = weakref.finalize(self, _end, self._connection, self._process, os.getpid())

    def fits(self) -> bool:
        """Whether it runs, and a process that started now would have the same environment, paths and limits."""
        return (
            self.close.alive and self._owner == os.getpid() and self._process.poll() is None and self._state == _state()
        )

    def preload(self, modules: Iterable[str]) -> None:
        """Has it import modules that workers will need."""
        new = tuple(name for name in modules if name not in self._preloaded)
        for first in range(0, len(new), 1000):
            self._send(Preload(new[first : first + 1000]))
        self._preloaded.update(new)

    def start(self, descriptor: int, folder: str) -> ForkedWorker:
        """A worker that has the file of that descriptor; OSError where the server has ended."""
        worker = ForkedWorker(self)
        with self._lock:
            self._number += 1
            self._ordered[self._number] = worker
            # stdout and stderr are those of now
            self._send(Fork(self._number, folder), descriptor, 1, 2)
        return worker

    def wait(self) -> int:
        """How it has ended, as `subprocess.Popen.returncode`; subprocess.TimeoutExpired where it has not."""
        return self._process.wait(_PATIENCE)

    def is_stopped(self) -> bool:
        """Whether its process is stopped, as by SIGSTOP."""
        found = activity(self._process.pid)
        return found is not None and found.stopped

    def _send(self, message: Preload | Fork, *descriptors: int) -> None:
        socket.send_fds(self._connection, [pickle.dumps(message)], descriptors)

    def take(self, seconds: float) -> bool:
        """Takes in what it has sent, and waits so long for the first of it; False where it has ended."""
        with self._lock:
            while _is_readable(self._connection.fileno(), seconds):
                try:
                    data, descriptors, _, _ = socket.recv_fds(self._connection, MOST_BYTES, 1)
                except OSError:
                    return False
                if not data:
                    return False
                match pickle.loads(data):
                    case Forked(number, pid):
                        self._workers[pid] = worker = self._ordered.pop(number)
                        worker.started(pid, descriptors[0])
                    case WorkerEnded(pid, code) if pid in self._workers:
                        self._workers.pop(pid).ended(code)
                seconds = 0.0
        return True


class ForkedWorker:
    """A process that the server has forked, or will: see `WorkerProcess`."""

    def __init__(self, server: WorkerServer) -> None:
        # until it has ended: who holds a worker does not hold the server
        self._server: WorkerServer | None = server
        self._pid: int | None = None
        self._handle: int | None = None
        self._close: Any = None
        self._killed = False
        self.returncode: int | None = None

    def started(self, pid: int, handle: int) -> None:
        """The server has forked it; `handle` is its pidfd."""
        self._pid, self._handle = pid, handle
        self._close = weakref.finalize(self, os.close, handle)
        # at the end of the process others still end their workers, by this handle
        self._close.atexit = False
        if self._killed:
            self._signal(signal.SIGKILL)

    def ended(self, code: int) -> None:
        """The server says that it has ended."""
        self.returncode = code
        self._server = None

    @property
    def pid(self) -> int:
        """Number of the process; waits until the server has forked it. OSError where it has not."""
        self._wait_for(lambda: self._pid is not None, _PATIENCE)
        if self._pid is None:
            raise ProcessLookupError("the process that starts workers has ended or does not answer")
        return self._pid

    @property
    def known_pid(self) -> int | None:
        """The same without waiting; None where it is not known yet."""
        if self._pid is None and self._server is not None:
            self._server.take(0.0)
        return self._pid

    def poll(self) -> int | None:
        """See `WorkerProcess`."""
        # its handle may be among the messages that nobody has taken yet
        if not self._wait_for(lambda: self.returncode is not None, 0.0) and self._handle is not None:
            # the server says a moment after the end how it has ended
            self._wait_for(lambda: self.returncode is not None, _PATIENCE if _is_readable(self._handle) else 0.0)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """See `WorkerProcess`."""
        if not self._wait_for(lambda: self.returncode is not None or self._has_been_killed(), timeout):
            raise subprocess.TimeoutExpired("a worker process", timeout)
        if self.returncode is not None:
            return self.returncode
        if self._handle is not None:
            # it has ended; what the server says of it later changes nothing, and nobody may be there to hear it
            self.ended(-signal.SIGKILL)
        return -signal.SIGKILL

    def send_signal(self, number: int) -> None:
        """See `WorkerProcess`."""
        _ = self.pid
        self._signal(number)

    def kill(self) -> None:
        """See `WorkerProcess`; a worker that is not forked yet is killed when it is."""
        self._killed = True
        if self._pid is not None:
            self._signal(signal.SIGKILL)

    def _has_been_killed(self) -> bool:
        """Whether `kill` has ended it, or will before it begins; the server may be stopped and does not say so."""
        if not self._killed:
            return False
        if self._handle is not None:
            return _is_readable(self._handle)
        return self._server is not None and self._server.is_stopped()

    def _signal(self, number: int) -> None:
        if self._handle is not None and self.returncode is None:
            # it may have ended
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def _wait_for(self, reached: Any, timeout: float) -> bool:
        """Takes in messages of the server until that is reached; False after so many seconds.

        Where the server has ended, nobody knows how its workers have: as the server.
        """
        until = time.monotonic() + timeout
        while True:
            server = self._server
            if server is not None and not server.take(max(0.0, min(0.05, until - time.monotonic()))):
                self._server_ended(server)
            if reached():
                return True
            if server is None or time.monotonic() >= until:
                return False

    def _server_ended(self, server: WorkerServer) -> None:
        if self._handle is None or _is_readable(self._handle):
            self.ended(server.wait())


def _is_readable(descriptor: int, seconds: float = 0.0) -> bool:
    """Whether something can be read within so many seconds; of a process: whether it has ended."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(1000 * seconds))


def _state() -> tuple[Any, ...]:
    """What a process inherits or reads when it starts."""
    limits = tuple(
        resource.getrlimit(number) for name, number in sorted(vars(resource).items()) if name.startswith("RLIMIT_")
    )
    try:
        folder: str | None = os.getcwd()
    except OSError:
        folder = None
    status = Path("/proc/self/status").read_text(errors="replace").splitlines()
    return (
        dict(os.environ),
        [str(path) for path in sys.path],
        sys.executable,
        folder,
        os.sched_getaffinity(0),
        os.getpriority(os.PRIO_PROCESS, 0),
        [line for line in status if line.startswith("Umask")],
        limits,
    )


def _end(connection: socket.socket, process: subprocess.Popen[bytes], owner: int) -> None:
    """Ends a server; its workers have ended, or do so now: their connections are closed."""
    connection.close()
    if os.getpid() == owner:
        process.kill()
        process.wait()

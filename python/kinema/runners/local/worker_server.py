"""`WorkerServer`: the parent's side of a process that has imported the modules that workers need, and forks workers.

The process executes `server_process`. Its imports begin when it is made, while the caller does something else; a worker
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

# seconds to wait for a server that does not answer
_PATIENCE = 10.0


class WorkerProcess(Protocol):
    """Interface of a worker process for a pool: a part of `subprocess.Popen`."""

    @property
    def pid(self) -> int:
        """Number of the process."""

    def poll(self) -> int | None:
        """Exit code, or the negative number of the signal that ended the process; None while it runs."""

    def wait(self, timeout: float) -> int:
        """Waits for the end and returns the same; raises subprocess.TimeoutExpired after `timeout` seconds."""

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless the process has ended."""

    def kill(self) -> None:
        """Ends the process, whatever it is doing; does not wait."""


def start_server() -> WorkerServer | None:
    """Starts a server; None if the system has no descriptors of processes, or if the server cannot start."""
    if not (hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal") and os.path.isdir("/proc/self/task")):
        return None
    try:
        return WorkerServer()
    except (Error, OSError):
        return None  # the code that starts a worker reports the reason


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
        """Whether the server runs, and a process started now would have the same environment, paths and limits."""
        return (
            self.close.alive and self._owner == os.getpid() and self._process.poll() is None and self._state == _state()
        )

    def preload(self, modules: Iterable[str]) -> None:
        """Makes the server import modules that workers will need."""
        new = tuple(name for name in modules if name not in self._preloaded)
        for first in range(0, len(new), 1000):
            self._send(Preload(new[first : first + 1000]))
        self._preloaded.update(new)

    def start(self, descriptor: int, folder: str) -> ForkedWorker:
        """Starts a worker that has the descriptor's file; raises OSError if the server has ended."""
        worker = ForkedWorker(self)
        with self._lock:
            self._number += 1
            self._ordered[self._number] = worker
            # the current stdout and stderr
            self._send(Fork(self._number, folder), descriptor, 1, 2)
        return worker

    def wait(self) -> int:
        """The server's exit code, as `subprocess.Popen.returncode`; raises subprocess.TimeoutExpired while it runs."""
        return self._process.wait(_PATIENCE)

    def is_stopped(self) -> bool:
        """Whether the server's process is stopped, as by SIGSTOP."""
        found = activity(self._process.pid)
        return found is not None and found.stopped

    def _send(self, message: Preload | Fork, *descriptors: int) -> None:
        socket.send_fds(self._connection, [pickle.dumps(message)], descriptors)

    def take(self, seconds: float) -> bool:
        """Handles messages of the server, waiting `seconds` for the first one; False if the server has ended."""
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
        # only until the worker has ended: holding a worker does not keep the server
        self._server: WorkerServer | None = server
        self._pid: int | None = None
        self._handle: int | None = None
        self._close: Any = None
        self._killed = False
        self.returncode: int | None = None

    def started(self, pid: int, handle: int) -> None:
        """Called when the server has forked the process; `handle` is its pidfd."""
        self._pid, self._handle = pid, handle
        self._close = weakref.finalize(self, os.close, handle)
        # while this process ends, others still use this handle to end their workers
        self._close.atexit = False
        if self._killed:
            self._signal(signal.SIGKILL)

    def ended(self, code: int) -> None:
        """Called when the server reports that the process has ended."""
        self.returncode = code
        self._server = None

    @property
    def pid(self) -> int:
        """Number of the process; waits until the server has forked it. Raises OSError if it has not."""
        self._wait_for(lambda: self._pid is not None, _PATIENCE)
        if self._pid is None:
            raise ProcessLookupError("the process that starts workers has ended or does not answer")
        return self._pid

    @property
    def known_pid(self) -> int | None:
        """The same without waiting; None if the number is not known yet."""
        if self._pid is None and self._server is not None:
            self._server.take(0.0)
        return self._pid

    def poll(self) -> int | None:
        """See `WorkerProcess`."""
        # the handle may be in a message that nobody has taken yet
        if not self._wait_for(lambda: self.returncode is not None, 0.0) and self._handle is not None:
            # the server reports the exit code a moment after the end
            self._wait_for(lambda: self.returncode is not None, _PATIENCE if _is_readable(self._handle) else 0.0)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """See `WorkerProcess`."""
        if not self._wait_for(lambda: self.returncode is not None or self._has_been_killed(), timeout):
            raise subprocess.TimeoutExpired("a worker process", timeout)
        if self.returncode is not None:
            return self.returncode
        if self._handle is not None:
            # the process has ended; a later report of the server changes nothing, and perhaps nobody receives it
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
        """Whether `kill` has ended the process, or will before it begins; a stopped server does not report that."""
        if not self._killed:
            return False
        if self._handle is not None:
            return _is_readable(self._handle)
        return self._server is not None and self._server.is_stopped()

    def _signal(self, number: int) -> None:
        if self._handle is not None and self.returncode is None:
            # the process may have ended
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def _wait_for(self, reached: Any, timeout: float) -> bool:
        """Handles messages of the server until `reached()`; False after `timeout` seconds.

        If the server has ended, nobody knows how its workers ended: they get the server's exit code.
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
    """Whether a descriptor becomes readable within `seconds`; for a pidfd: whether the process has ended."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(1000 * seconds))


def _state() -> tuple[Any, ...]:
    """State that a process inherits or reads when it starts."""
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
    """Ends a server; its workers have ended, or end now because their connections are closed."""
    connection.close()
    if os.getpid() == owner:
        process.kill()
        process.wait()

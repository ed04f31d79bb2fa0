"""The main function of the process from which workers of the `processes` runner are forked: it imports, waits, forks.

It has one thread, opens no file and computes nothing, so a fork of it is as good as a fresh interpreter that has
imported the same modules. If an imported module has started threads, workers are fresh interpreters instead. The parent
uses `worker_server`.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import pickle
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

MOST_BYTES = 1 << 17
"""Most bytes of a message."""
_WORKER = "kinema.runners.local.worker"
# seconds that workers have to end by themselves after their parent; stopped workers cannot
_PATIENCE = 1.0


@dataclass(frozen=True)
class Preload:
    """Message: modules to import before the next fork; modules that cannot be imported are left to the workers."""

    modules: tuple[str, ...]


@dataclass(frozen=True)
class Fork:
    """Message: start a worker with that folder, for the descriptor sent along; stdout and stderr come as well."""

    number: int
    folder: str


@dataclass(frozen=True)
class Forked:
    """Answer to the `Fork` of that number; a descriptor of the worker process (pidfd) comes with it."""

    number: int
    pid: int


@dataclass(frozen=True)
class WorkerEnded:
    """Message: a worker has ended, with its exit code, or the negative signal number, as in `subprocess`."""

    pid: int
    code: int


def main(descriptor: int, parent: int) -> None:
    """Serves the process `parent` at the other end of the socket `descriptor`, until it ends or closes the socket."""
    # these signals were blocked at the start: only the parent acts on them
    from kinema.runners.local.interpreter import ignore_job_signals

    ignore_job_signals()
    try:
        watched = os.pidfd_open(parent)
    except ProcessLookupError:
        # the parent has already ended
        return
    if os.getppid() != parent:
        return
    # modules make millions of lasting objects: searching them for garbage takes a quarter of an import
    gc.disable()
    importlib.import_module(_WORKER)
    _Server(socket.socket(fileno=descriptor), watched).serve()


class _Server:
    def __init__(self, connection: socket.socket, parent: int) -> None:
        self._connection = connection
        self._selector = selectors.DefaultSelector()
        self._selector.register(connection, selectors.EVENT_READ)
        # others may hold a copy of the parent's end of the socket
        self._selector.register(parent, selectors.EVENT_READ)
        self._parent = parent
        self._workers: dict[int, int] = {}  # process numbers, by their pidfd
        self._folders: dict[int, str] = {}  # of these processes, by their pidfd

    def serve(self) -> None:
        """Serves until the parent ends or closes its end; in a worker, until the worker ends."""
        while True:
            for key, _ in self._selector.select():
                if key.fd in self._workers:
                    self._reap(key.fd)
                # an ending parent closes its files a moment before it is gone
                elif key.fd == self._parent or not self._take():
                    self._end_workers()
                    return

    def _take(self) -> bool:
        """Handles one message; False if there will be no more."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._connection, MOST_BYTES, 3)
        except ConnectionError:
            return False
        if not data:
            return False
        match pickle.loads(data):
            case Preload(modules):
                for name in modules:
                    # the worker that needs the module reports the error
                    with suppress(Exception):
                        importlib.import_module(name)
            case Fork(number, folder):
                self._fork(number, folder, descriptors)
        return True

    def _fork(self, number: int, folder: str, descriptors: list[int]) -> None:
        pid = self._forked(folder, descriptors) if _threads() == 1 else _started(folder, descriptors)
        # before waiting for the process, so that its number is still its own
        handle = os.pidfd_open(pid)
        self._workers[handle], self._folders[handle] = pid, folder
        self._selector.register(handle, selectors.EVENT_READ)
        for one in descriptors:
            os.close(one)
        with suppress(ConnectionError):
            socket.send_fds(self._connection, [pickle.dumps(Forked(number, pid))], [handle])

    def _forked(self, folder: str, descriptors: list[int]) -> int:
        gc.freeze()
        server = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            self._leave()
            _work(folder, descriptors, server)
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            with suppress(Exception):
                sys.stderr.flush()
                sys.stdout.flush()
            os._exit(code)

    def _leave(self) -> None:
        """Closes the server's descriptors, in a worker."""
        self._selector.close()
        self._connection.close()
        os.close(self._parent)
        for handle in self._workers:
            os.close(handle)

    def _end_workers(self) -> None:
        """Ends the workers of a parent that has ended, and removes their folder if none of them did."""
        self._selector.unregister(self._parent)
        self._selector.unregister(self._connection)
        folders = set(self._folders.values())
        until = time.monotonic() + _PATIENCE
        while self._workers:
            for key, _ in self._selector.select(max(0.0, until - time.monotonic())):
                self._reap(key.fd)
            if time.monotonic() >= until:
                # this ends a stopped process, too
                for handle in self._workers:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                until += _PATIENCE
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)

    def _reap(self, handle: int) -> None:
        pid = self._workers.pop(handle)
        del self._folders[handle]
        self._selector.unregister(handle)
        os.close(handle)
        _, status = os.waitpid(pid, 0)
        with suppress(ConnectionError):
            self._connection.send(pickle.dumps(WorkerEnded(pid, os.waitstatus_to_exitcode(status))))


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _work(folder: str, descriptors: list[int], server: int) -> None:
    """Main function of a forked worker."""
    gc.enable()
    connection, *streams = descriptors
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
        os.close(stream)
    for text in (sys.stdout, sys.stderr):
        # lines are flushed at once: the parent kills a worker that it no longer needs
        if isinstance(text, io.TextIOWrapper):
            text.reconfigure(line_buffering=True)
    if "numpy.random" in sys.modules:
        # each worker has its own state, as if it had imported the module
        sys.modules["numpy.random"].seed()
    from kinema.runners.local.worker import main as work

    work(connection, folder, server)


def _started(folder: str, descriptors: list[int]) -> int:
    """Starts a worker that is a fresh interpreter."""
    connection, *streams = descriptors
    call = f"main({connection}, {folder!r}, {os.getpid()})"
    code = f"import sys; sys.path[:] = {sys.path!r}; from {_WORKER} import main; {call}"
    out, err = streams
    started = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=out, stderr=err, pass_fds=(connection,)
    )
    # the server itself waits for the process
    started.returncode = 0
    return started.pid

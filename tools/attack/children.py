"""Calls in forks of this process, which may be killed, limited, crash or hang: `called`, and what became of it."""

from __future__ import annotations

import importlib
import os
import pickle
import pkgutil
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from attack.trials import Broken, NotTried
from kinema.base.errors import Error, InternalError

# calls that change files: by these strace finds the moment of a fault
CHANGING = "write,pwrite64,writev,pwritev,fsync,fdatasync,ftruncate,rename,renameat,renameat2,link,linkat"

_FOLDERS = ("analysis", "cli", "execution", "files", "formats", "model", "storage")


@dataclass(frozen=True)
class Outcome:
    """Outcome of a call: its value, an error (class, text, whether it is one of a user's), or a signal."""

    value: Any = None
    error: str = ""
    is_ours: bool = False
    signal: int = 0

    def checked(self) -> Any:
        """The value; Broken for everything else."""
        if self.signal:
            raise Broken(f"ended by {signal.Signals(self.signal).name}")
        if self.error:
            raise Broken(self.error)
        return self.value

    def refused(self) -> bool:
        """Whether it ended in an error that a user can act upon; Broken for other errors and signals."""
        if self.signal or (self.error and not self.is_ours):
            self.checked()
        return bool(self.error)


def preload() -> None:
    """Imports what calls will need, so that each fork has it."""
    import h5py  # noqa: F401

    with suppress(ImportError):
        import MDAnalysis  # noqa: F401
    for folder in _FOLDERS:
        package = importlib.import_module(f"kinema.{folder}")
        for module in pkgutil.walk_packages(package.__path__, f"kinema.{folder}."):
            # those for packages that are not installed
            with suppress(Error):
                importlib.import_module(module.name)


def called(
    function: Callable[..., Any],
    *arguments: Any,
    seconds: float = 60.0,
    kill_after: float | None = None,
    file_bytes: int | None = None,
    begin: Callable[[int], None] | None = None,
) -> Outcome:
    """Calls a function in a fork.

    Parameters
    ----------
    seconds : float
        Broken if it takes longer.
    kill_after : float, optional
        When it is killed.
    file_bytes : int, optional
        The largest file that it can write, as on a full disk.
    begin : function, optional
        Called with the number of the stopped process, before that process continues.
    """
    # not a pipe: the call that sends is none of those that are made to fail
    reading, writing = socket.socketpair()
    child = os.fork()
    if not child:
        _run_in_child(function, arguments, writing, file_bytes, begin is not None)
    writing.close()
    try:
        if begin is not None:
            os.waitpid(child, os.WUNTRACED)
            begin(child)
            os.kill(child, signal.SIGCONT)
        return _outcome(child, reading, seconds, kill_after)
    finally:
        reading.close()
        # what it has started as well
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)


def _run_in_child(
    function: Callable[..., Any], arguments: Any, writing: socket.socket, file_bytes: int | None, stop: bool
) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        if file_bytes is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, resource.RLIM_INFINITY))
        if stop:
            os.kill(os.getpid(), signal.SIGSTOP)
        try:
            found = Outcome(function(*arguments))
        except BaseException as error:
            ours = isinstance(error, Error) and not isinstance(error, InternalError)
            where = "" if ours else f" ({traceback.format_exc().splitlines()[-3].strip()})"
            found = Outcome(error=f"{type(error).__name__}: {error}{where}", is_ours=ours)
        writing.sendall(pickle.dumps(found))
        code = 0
    finally:
        os._exit(code)


def _outcome(child: int, reading: socket.socket, seconds: float, kill_after: float | None) -> Outcome:
    until = time.monotonic() + (seconds if kill_after is None else kill_after)
    packed = bytearray()
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            if kill_after is None:
                raise Broken(f"not ended after {seconds:.0f} s")
            return Outcome(signal=signal.SIGKILL)
        piece = reading.recv(1 << 20)
        if not piece:
            break
        packed += piece
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return Outcome(signal=os.WTERMSIG(status))
    found: Outcome = pickle.loads(packed)
    return found


def traced(function: Callable[..., Any], *arguments: Any, fault: str, at: int, seconds: float = 60.0) -> Outcome:
    """The same, with a fault at one call of the system: "signal=KILL", "error=ENOSPC"; `at` counts changing calls.

    NotTried without strace, and where it may not trace.
    """
    tracers: list[subprocess.Popen[bytes]] = []

    def begin(child: int) -> None:
        words = ["strace", "-f", "-p", str(child), "-o", os.devnull, "-e", f"trace={CHANGING}"]
        words += ["-e", f"inject={CHANGING}:{fault}:when={at}"]
        try:
            tracer = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        except FileNotFoundError:
            raise NotTried("strace is not installed") from None
        tracers.append(tracer)
        assert tracer.stderr is not None
        said = tracer.stderr.readline()
        if b"attached" not in said:
            raise NotTried(f"strace cannot trace: {said.decode(errors='replace').strip()}")

    try:
        return called(function, *arguments, seconds=seconds, begin=begin)
    finally:
        for tracer in tracers:
            tracer.kill()
            tracer.wait()
            if tracer.stderr is not None:
                tracer.stderr.close()
            sys.stderr.flush()

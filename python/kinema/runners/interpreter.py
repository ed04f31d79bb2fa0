"""Starts the Python interpreters in which workers of this machine run, without the caller's script.

What they do there, and who ends them, is their runners' business.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from kinema.errors import ArgumentError, from_os

__all__ = ["SIGNALS_OF_A_JOB", "leave_signals_to_the_parent", "start_interpreter"]

# Ctrl-C and what a batch system sends reach every process of a job; what follows from them the one that leads decides
SIGNALS_OF_A_JOB = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGUSR1})


def start_interpreter(code: str, descriptor: int, name: str) -> subprocess.Popen[bytes]:
    """A process that runs `code` and inherits the file of that descriptor; `name` is what errors call it.

    `SIGNALS_OF_A_JOB` are blocked there until the code calls `leave_signals_to_the_parent`.

    Raises ArgumentError where this program has no interpreter to start, and what `from_os` makes of the reason where it
    does not start.
    """
    if not sys.executable:
        raise ArgumentError(f"{name} needs a Python interpreter to start, and this program has none to name")
    # the paths first: the package is to be found where this process found it
    code = f"import sys; sys.path[:] = {[str(path) for path in sys.path]!r}; {code}"
    # one thread each, also for the libraries that numpy calls
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # they must not end the interpreter before the worker has said that it ignores them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS_OF_A_JOB)
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            pass_fds=(descriptor,),
            env={**os.environ, **threads},
        )
    except OSError as error:
        raise from_os(f"cannot start {name}", error, sys.executable) from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_signals_to_the_parent() -> None:
    """In a process that was started so: from now on it ignores what the parent is to heed."""
    for number in SIGNALS_OF_A_JOB:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS_OF_A_JOB)

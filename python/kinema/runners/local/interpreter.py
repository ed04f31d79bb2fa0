"""Starting Python interpreters for workers of this machine, without the caller's script."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from kinema.base.errors import ArgumentError, from_os

# signals of Ctrl-C and of batch systems, which every process of a job receives; only the parent acts on them
JOB_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGUSR1})


def module_command(module: str, *arguments: object) -> list[str]:
    """The command that runs a module of this package.

    No module is imported from the working folder (-P): its files may be anybody's.
    """
    return [sys.executable, "-P", "-m", module, *map(str, arguments)]


def start_interpreter(code: str, descriptor: int, name: str, *, quiet: bool = False) -> subprocess.Popen[bytes]:
    """Starts a process that runs `code` and inherits the descriptor's file; errors call the process `name`.

    With `quiet` the process has no stdout. `JOB_SIGNALS` are blocked there until the code calls `ignore_job_signals`.

    Raises ArgumentError if this program has no interpreter to start, and an error from `from_os` if it does not start.
    """
    if not sys.executable:
        raise ArgumentError(f"{name} needs a Python interpreter to start, and this program has none to name")
    # the paths first: the package is imported from the same place as in this process
    code = f"import sys; sys.path[:] = {[str(path) for path in sys.path]!r}; {code}"
    # one thread each, including the libraries that numpy calls
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # signals must not end the interpreter before the worker ignores them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, JOB_SIGNALS)
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if quiet else None,
            pass_fds=(descriptor,),
            env={**os.environ, **threads},
        )
    except OSError as error:
        raise from_os(f"cannot start {name}", error, sys.executable) from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def describe_end(who: str, doing: str, code: int) -> str:
    """Describes how a process has ended, by its exit code as in `subprocess`, and the probable cause."""
    if code >= 0:
        return f"{who} ended {doing}, exit code {code}; what it wrote to stderr says why"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = "; systems kill when memory runs out: use fewer workers" if name == "SIGKILL" else ""
    return f"{who} was ended by {name} {doing}{hint}"


def ignore_job_signals() -> None:
    """Ignores the signals of a job from now on, in a process that `start_interpreter` has started."""
    for number in JOB_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, JOB_SIGNALS)

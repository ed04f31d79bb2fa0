"""Child processes of tests: bounded in seconds, CPU time and file size, and killed when the test ends."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

# far above what any test needs: children of tests that were killed end by this limit alone
_CPU_SECONDS = 600
_FILE_BYTES = 8 << 30

_started: list[tuple[subprocess.Popen[Any], threading.Timer]] = []


def restore_sigint() -> None:
    """Restores Python's action for SIGINT if it is ignored, as in jobs that a shell starts in the background.

    An ignored signal stays ignored in child processes; tests that send SIGINT to one would wait for its end in vain.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def start_child(
    words: Sequence[str | os.PathLike[str]],
    *,
    seconds: float = 200,
    text: bool = True,
    stdin: int | IO[Any] | None = subprocess.DEVNULL,
    stdout: int | IO[Any] | None = subprocess.PIPE,
    stderr: int | IO[Any] | None = subprocess.PIPE,
    **options: Any,
) -> subprocess.Popen[Any]:
    """Starts a process in its own session; it and its process group are killed after `seconds` or by `end_children`.

    `options` are those of `subprocess.Popen`.
    """
    process: subprocess.Popen[Any] = subprocess.Popen(
        words, text=text, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True, **options
    )
    timer = threading.Timer(seconds, _kill, [process])
    timer.daemon = True
    timer.start()
    _started.append((process, timer))
    if sys.platform == "linux":
        for kind, limit in ((resource.RLIMIT_CPU, _CPU_SECONDS), (resource.RLIMIT_FSIZE, _FILE_BYTES)):
            _, hard = resource.prlimit(process.pid, kind)
            soft = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.prlimit(process.pid, kind, (soft, hard))
    return process


def end_children() -> None:
    """Kills the processes that `start_child` has started and that still run, and closes their pipes."""
    while _started:
        process, timer = _started.pop()
        timer.cancel()
        _kill(process)
        process.wait(30)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def kill_at_random(run: Callable[[], object], seed: int, n_kills: int, longest: float) -> None:
    """Calls `run` in child processes, and kills `n_kills` of them at random moments within `longest` seconds.

    For a program that a test starts: it forks after its imports, so that a call costs a few ms, and has no threads
    then. After each call that is not killed, it prints "finished" and waits for a line, while the test looks at the
    result; after the last kill one more call finishes undisturbed. Then it prints how many were killed.
    """
    moments = random.Random(seed)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    kills = finished = 0
    while kills < n_kills or not finished:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.dup2(nowhere, 1)
                run()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        try:
            if kills < n_kills:
                time.sleep(moments.uniform(0.0, longest))
        finally:
            if kills < n_kills:
                os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            kills += 1
            continue
        assert os.WEXITSTATUS(status) == 0
        finished += 1
        print("finished", flush=True)
        sys.stdin.readline()
    print("kills", kills)


def all_ended(processes: Sequence[Any], seconds: float = 120) -> bool:
    """Whether each `psutil.Process` ends within `seconds`; orphans for which nobody waits stay as zombies."""
    import psutil

    _, alive = psutil.wait_procs(list(processes), timeout=seconds)
    for one in alive:
        try:
            if one.status() != psutil.STATUS_ZOMBIE:
                return False
        except psutil.NoSuchProcess:
            continue
    return True


def end_structure_walks() -> None:
    """Ends the process that checks HDF5 files for this one; otherwise it waits for further files for some seconds."""
    from kinema.storage.hdf5.trust.verdicts import end_walks

    end_walks()


def _kill(process: subprocess.Popen[Any]) -> None:
    # until it is waited for, no other process gets its number, and its forks may live on without it
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def worker_processes() -> list[int]:
    """Live workers of runner `processes` of this process: its children, or forked by a server that is its child."""
    own = os.getpid()
    found: dict[int, tuple[int, bytes]] = {}
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            state = (folder / "stat").read_text().rpartition(")")[2].split()
            if state[0] != "Z":
                found[int(folder.name)] = int(state[1]), (folder / "cmdline").read_bytes()
    servers = {
        process for process, (parent, line) in found.items() if parent == own and b"local.server_process" in line
    }
    return [
        process
        for process, (parent, line) in found.items()
        if parent in servers or (parent == own and b"kinema.runners.local.worker" in line)
    ]

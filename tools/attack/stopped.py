"""Workers that are stopped (SIGSTOP): Ctrl-C and SIGTERM end the command and all of its processes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from attack.trials import Broken, NotTried, attack
from kinema.testing import random_walk, write_dcd

# seconds that a command has to end after a signal, on a busy machine
_PATIENCE = 20.0


@attack("stopped workers", 30)
def stopped_workers(moments: random.Random, folder: Path) -> None:
    """At a random moment some processes of the command are stopped, then a signal comes."""
    psutil = _psutil()
    path = folder / "in.dcd"
    write_dcd(path, random_walk(400, 12))
    words = [sys.executable, "-m", "kinema", "rmsd", "-f", *[str(path)] * 3000, "--overlap", "all"]
    words += ["--runner", "processes", "-j", "2", "-o", str(folder / "out.csv"), "--quiet"]
    command = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    started: list[psutil.Process] = []
    try:
        time.sleep(moments.uniform(0.5, 4.0))
        with suppress(psutil.NoSuchProcess):
            started = psutil.Process(command.pid).children(recursive=True)
        for process in moments.sample(started, moments.randrange(len(started) + 1)):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP)
        number = moments.choice((signal.SIGINT, signal.SIGTERM))
        if command.poll() is None:
            command.send_signal(number)
        try:
            command.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            raise Broken(f"the command has not ended {_PATIENCE:.0f} s after {number.name}") from None
        _, alive = psutil.wait_procs(started, timeout=_PATIENCE)
        alive = [one for one in alive if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
        if alive:
            raise Broken(f"{len(alive)} of {len(started)} processes live after {number.name}")
        left = sorted(one.name for one in folder.glob("*.part-*"))
        if left:
            raise Broken(f"left behind: {', '.join(left)}")
    finally:
        for one in (*started, psutil.Process(command.pid) if command.poll() is None else None):
            with suppress(psutil.NoSuchProcess, AttributeError):
                one.kill()
        with suppress(ProcessLookupError):
            os.killpg(command.pid, signal.SIGKILL)
        command.wait()


def _psutil():  # type: ignore[no-untyped-def]
    try:
        import psutil
    except ImportError:
        raise NotTried("psutil is not installed") from None
    return psutil

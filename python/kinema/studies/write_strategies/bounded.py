"""A program that is given so many seconds, and is killed with all that it has started when they are over."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

__all__ = ["Ended", "run_bounded"]

# for a launcher to end its ranks, before it is killed itself
_GRACE = 5.0


@dataclass(frozen=True)
class Ended:
    """How a program has ended; `code` is None where its time was over."""

    code: int | None
    seconds: float
    printed: str


def run_bounded(words: Sequence[str], environment: Mapping[str, str], seconds: float) -> Ended:
    """Runs it in a session of its own; nothing of it is left when this returns or raises."""
    began = time.perf_counter()
    process = subprocess.Popen(
        words, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    code: int | None = None
    printed = ""
    try:
        with suppress(subprocess.TimeoutExpired):
            printed, _ = process.communicate(timeout=seconds)
            code = process.returncode
        took = time.perf_counter() - began
    finally:
        _end(process)
    return Ended(code, took, printed)


def _end(process: subprocess.Popen[str]) -> None:
    """Asks the program to end, so that a launcher ends its ranks, then kills its group."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.stdout is not None:
        process.stdout.close()

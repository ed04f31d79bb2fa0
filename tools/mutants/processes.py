"""Commands in a copy of the tree, ended with all that they have started."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# in the environment of a command, and so of whatever it starts
MARK = "KINEMA_MUTANTS_RUN"


@dataclass(frozen=True)
class Ended:
    """How a command ended; without a code where it took too long."""

    code: int | None
    output: str
    seconds: float

    @property
    def last_line(self) -> str:
        """Last line of its output."""
        return (self.output.strip().splitlines() or [""])[-1][:200]


def run(words: Sequence[str], folder: Path, environment: Mapping[str, str], limit: float | None = None) -> Ended:
    """Runs a command; what it leaves running would take time from the next one, and is ended."""
    mark = uuid.uuid4().hex
    began = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        started = subprocess.Popen(
            words,
            cwd=folder,
            env={**environment, MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        code: int | None = None
        try:
            with suppress(subprocess.TimeoutExpired):
                code = started.wait(limit)
        finally:
            _end(mark, started)
        output.seek(0)
        return Ended(code, output.read(), time.monotonic() - began)


def _end(mark: str, started: subprocess.Popen[bytes]) -> None:
    while left := list(_marked(mark)):
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        started.poll()
        time.sleep(0.05)


def _marked(mark: str) -> Iterator[int]:
    """Processes of one run that are alive; the environment of one that has ended is empty."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                yield int(folder.name)

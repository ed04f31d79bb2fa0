"""Start and end of an experiment's programs: launcher command, environment, time limit, last line of output."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kinema.base.errors import ArgumentError, FileNotFound
from kinema.base.printable import printable

__all__ = [
    "Ended",
    "child_environment",
    "in_one_line",
    "mpi_launcher",
    "placed",
    "reason_of",
    "run_bounded",
    "said_last",
]

# time for a launcher to end its ranks, before it is killed itself
_GRACE = 5.0
_LONGEST_REASON = 300


def mpi_launcher(ranks_per_node: int | None, words: Sequence[str] = ()) -> Callable[[int], list[str]]:
    """The launcher command before the program. `words`: a launcher with its options; by default mpiexec.

    Raises FileNotFound without the launcher.
    """
    name, *given = words or ("mpiexec",)
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if not words and beside.exists() else shutil.which(name)
    if found is None:
        instead = "name one that is there" if words else "install kinema[mpi-local], or load the machine's MPI"
        raise FileNotFound(f"{name}: not found; {instead}")
    options = placed(found, ranks_per_node)
    return lambda workers: [found, *given, "-n", str(workers), *options]


def placed(launcher: str, ranks_per_node: int | None) -> tuple[str, ...]:
    """Launcher options for `ranks_per_node` ranks on each node; raises ArgumentError for an unknown launcher."""
    if ranks_per_node is None:
        return ()
    version = subprocess.run([launcher, "--version"], capture_output=True, text=True, check=False).stdout
    if "Open MPI" in version or "OpenRTE" in version:
        return ("--map-by", f"ppr:{ranks_per_node}:node")
    if "HYDRA" in version or "Intel" in version:
        return ("-ppn", str(ranks_per_node))
    if version.startswith("slurm"):
        return (f"--ntasks-per-node={ranks_per_node}",)
    raise ArgumentError(
        f"{launcher}: how it places ranks on nodes is not known; leave ranks per node to the batch system"
    )


def child_environment() -> Mapping[str, str]:
    """Environment in which the programs find the same kinema."""
    package = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))}


def said_last(printed: str) -> str:
    """The last line that a program has printed, ignoring lines that launchers draw."""
    lines = [line for line in printed.splitlines() if any(map(str.isalnum, line))]
    return lines[-1].strip() if lines else "it printed nothing"


def reason_of(ended: Ended, time_limit: float | None) -> str:
    """Why a program has ended without a result: its time was over, a signal ended it, or its last line."""
    if ended.code is None:
        return f"out of time: not done after {time_limit:g} s"
    if ended.code < 0:
        return f"killed by {_signal_name(-ended.code)}"
    return f"{said_last(ended.printed)} (exit {ended.code})"


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def in_one_line(reason: str) -> str:
    """A reason as one line of a table, cut if it is long."""
    line = printable(" ".join(reason.split()))
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}..."


@dataclass(frozen=True)
class Ended:
    """The end of a program; `code` is None if its time was over."""

    code: int | None
    seconds: float
    printed: str


def run_bounded(words: Sequence[str], environment: Mapping[str, str], seconds: float | None) -> Ended:
    """Runs the program in its own session for at most `seconds` seconds, None for any time.

    None of its processes is left when this returns or raises.
    """
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

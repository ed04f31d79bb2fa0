"""How programs of an experiment are started: the words of the MPI launcher, their environment, what they said last."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kinema.errors import ArgumentError, FileNotFound

__all__ = ["child_environment", "mpi_launcher", "said_last"]


def mpi_launcher(ranks_per_node: int | None) -> Callable[[int], list[str]]:
    """The words before the program; FileNotFound without mpiexec."""
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise FileNotFound("mpiexec: not found; install kinema[mpi-local], or load the machine's MPI")
    placed: Sequence[str] = ()
    if ranks_per_node is not None:
        version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
        if "Open MPI" in version or "OpenRTE" in version:
            placed = ("--map-by", f"ppr:{ranks_per_node}:node")
        elif "HYDRA" in version or "Intel" in version:
            placed = ("-ppn", str(ranks_per_node))
        else:
            raise ArgumentError(
                f"{found}: how it places ranks on nodes is not known; leave ranks per node to the batch system"
            )
    return lambda workers: [found, "-n", str(workers), *placed]


def child_environment() -> Mapping[str, str]:
    """In which the programs find the same kinema."""
    package = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))}


def said_last(printed: str) -> str:
    """The last line of what a program has printed, but for lines that launchers draw."""
    lines = [line for line in printed.splitlines() if any(map(str.isalnum, line))]
    return lines[-1].strip() if lines else "it printed nothing"

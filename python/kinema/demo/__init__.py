"""The demo: Kinema, MDAnalysis and a plain read of the same bytes, measured on this machine.

It makes its files (`case`), starts one process per measurement (`measure`) and returns the rows of a table, which
`kinema demo` prints.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinema.base.errors import InternalError
from kinema.base.resources import default_workers
from kinema.demo.case import SELECTION, Case, LongTrajectory, make_case
from kinema.runners.local.interpreter import module_command
from kinema.runners.mpi.launcher import own_environment

__all__ = ["SELECTION", "Case", "Row", "kinema_command", "make_case", "measurements", "run_json"]

# frames for MDAnalysis: enough for a steady rate, few enough to wait for
_MDANALYSIS_FRAMES = 4900
# frames of text for MDAnalysis, which takes some 20 ms per frame
_MDANALYSIS_FRAMES_OF_TEXT = 98
# used if a run does not report the size of its reads
_BUFFER_BYTES = 1 << 20
# the best of several counts, because other programs share the cores
_TRIES = 3


@dataclass(frozen=True)
class Row:
    """One line of the table.

    `difference`: largest difference of an RMSD value from MDAnalysis', angstrom.
    """

    program: str
    format: str
    cores: int
    frames: int
    frames_per_second: float
    peak_memory: int
    difference: float | None = None


def kinema_command(case: Case, path: Path, workers: int, output: Path) -> list[str]:
    """`kinema rmsd` of the C-alpha atoms by their index file, as a command."""
    words = ["rmsd", "-f", path, "-n", case.index_file, "--group", case.group, "-j", workers]
    words += ["-o", output, "--json", "--force"]
    return module_command("kinema", *words)


def run_json(command: list[str]) -> dict[str, Any]:
    """Runs a command and returns the JSON that it prints. Raises InternalError with its stderr if it fails."""
    # under `mpiexec -n 4 kinema demo` the command must not wait for the other ranks
    done = subprocess.run(command, env=own_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InternalError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measurements(case: Case, folder: Path, report: Callable[[str], None]) -> Iterator[Row]:
    """All rows of the table, as they are measured; `report` is called with each step."""
    all_cores = default_workers()
    for one in case.trajectories:
        name, path = one.format, one.path
        report(f"{name}: MDAnalysis, {_mdanalysis_frames(one):,} frames")
        reference_file = folder / f"mdanalysis_{name.lower().replace(' ', '_')}.npy"
        yield _mdanalysis(case, one, reference_file)
        reference = np.load(reference_file)
        # once to build the index, and to bring the file into the page cache if it fits
        report(f"{name}: index")
        first = run_json(kinema_command(case, path, all_cores, folder / "rmsd.npy"))
        buffer = first["bytes_read"] // first["reads"] if first["reads"] else _BUFFER_BYTES
        for cores in sorted({1, all_cores}):
            report(f"{name}: plain read and kinema on {cores} {'cores' if cores > 1 else 'core'}")
            yield _plain_read(one, buffer, cores)
            yield _kinema(case, one, cores, folder / "rmsd.npy", reference)


def _measure(*arguments: object) -> dict[str, Any]:
    return run_json(module_command("kinema.demo.measure", *arguments))


def _mdanalysis_frames(one: LongTrajectory) -> int:
    most = _MDANALYSIS_FRAMES_OF_TEXT if one.path.suffix == ".history" else _MDANALYSIS_FRAMES
    return min(most, one.n_frames)


def _mdanalysis(case: Case, one: LongTrajectory, output: Path) -> Row:
    frames = _mdanalysis_frames(one)
    found = _measure("mdanalysis", case.topology, one.path, frames, output)
    return Row("MDAnalysis", one.format, 1, frames, frames / found["seconds"], found["peak_memory"])


def _plain_read(one: LongTrajectory, buffer: int, cores: int) -> Row:
    tries = [_measure("plain-read", one.path, buffer, cores) for _ in range(_TRIES)]
    best = min(tries, key=lambda found: found["seconds"])
    return Row("plain read", one.format, cores, one.n_frames, one.n_frames / best["seconds"], best["peak_memory"])


def _kinema(case: Case, one: LongTrajectory, cores: int, output: Path, reference: Any) -> Row:
    tries = [run_json(kinema_command(case, one.path, cores, output)) for _ in range(_TRIES)]
    best = max(tries, key=lambda found: found["frames_per_second"])
    values = np.load(output)[: len(reference), 2]
    difference = float(np.abs(values - reference).max())
    memory = max(found["peak_memory"] for found in tries)
    return Row("Kinema", one.format, cores, one.n_frames, best["frames_per_second"], memory, difference)

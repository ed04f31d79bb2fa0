"""Experiments on a batch system: a job script for each number of nodes, and the reports of all jobs together.

A job is the experiment itself on its nodes: `python -m kinema.studies.batch FOLDER`. Its folder holds the design, and
gets the reports. This module submits only if it is asked to.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kinema.base.errors import ArgumentError, CorruptFileError, Error, FileNotFound, WorkerError, says_enough
from kinema.base.input_files import read_regular
from kinema.base.printable import counted, printable
from kinema.report import Report
from kinema.runners.local.interpreter import module_command
from kinema.storage.output_checks import check_target
from kinema.storage.output_file import write_whole
from kinema.studies.design import Design
from kinema.studies.experiment import run_design
from kinema.studies.launching import child_environment, said_last
from kinema.studies.results_log import read_results

_DESIGN, _SCRIPT, _OUTPUT = "design.json", "job.sh", "output.txt"
_MOST_BYTES = 1 << 20
# batch systems answer within seconds, or are down
_SECONDS = 60.0


@dataclass(frozen=True)
class _BatchSystem:
    """How a batch system is spoken to: its program, and the lines of a script that ask for nodes."""

    program: str
    directives: Callable[[str, int, int], list[str]]
    options: str


def _of_slurm(name: str, nodes: int, per_node: int) -> list[str]:
    return [
        f"#SBATCH --job-name={name}",
        f"#SBATCH --nodes={nodes}",
        f"#SBATCH --ntasks-per-node={per_node}",
        f"#SBATCH --output={_OUTPUT}",
    ]


def _of_pbs(name: str, nodes: int, per_node: int) -> list[str]:
    return [
        f"#PBS -N {name}",
        f"#PBS -l select={nodes}:ncpus={per_node}:mpiprocs={per_node}",
        "#PBS -j oe",
        f"#PBS -o {_OUTPUT}",
    ]


_SYSTEMS = {
    "slurm": _BatchSystem("sbatch", _of_slurm, "#SBATCH"),
    "pbs": _BatchSystem("qsub", _of_pbs, "#PBS"),
}
BATCH_SYSTEMS = tuple(_SYSTEMS)


@dataclass(frozen=True)
class BatchJob:
    """The job of one number of nodes; `number` is what the batch system calls it, "" before it is submitted."""

    nodes: int
    folder: Path
    number: str = ""

    @property
    def script(self) -> Path:
        """The job script."""
        return self.folder / _SCRIPT


@dataclass(frozen=True, eq=False)
class BatchResults:
    """The reports of all jobs.

    `gaps_by_workers`: largest number of workers of each job that has fewer reports than runs; which job, and why.
    """

    reports: tuple[Report, ...]
    gaps_by_workers: tuple[tuple[int, str], ...]

    @property
    def gaps(self) -> tuple[str, ...]:
        """The jobs that have fewer reports than runs, and why."""
        return tuple(words for _, words in self.gaps_by_workers)


def write_jobs(
    design: Design,
    folder: str | os.PathLike[str],
    system: str,
    nodes: Sequence[int],
    options: Sequence[str] = (),
    *,
    overwrite: bool = False,
) -> list[BatchJob]:
    """Writes a job script for each number of nodes to `folder`, which gets a sub-folder for each.

    With the runner mpi, a job has as many ranks as its nodes have together; other runners use one node, and the
    design's numbers of workers. `options` are words for the batch system: a queue, an account, a time.

    Raises ArgumentError for nodes or options that make no job, and for sub-folders that are there, unless `overwrite`.
    """
    if system not in _SYSTEMS:
        raise ArgumentError(f"batch must be one of {', '.join(BATCH_SYSTEMS)}, found {system!r}")
    if not nodes or min(nodes) < 1:
        raise ArgumentError(f"nodes must be whole numbers from 1 on, found {', '.join(map(str, nodes)) or 'none'}")
    if any(not word.isprintable() for word in options):
        raise ArgumentError("options of the batch system are words in one line")
    per_node = design.ranks_per_node[0]
    if "mpi" not in design.runners:
        if tuple(nodes) != (1,):
            runners = ", ".join(design.runners)
            raise ArgumentError(f"the runner {runners} uses one node, found nodes {', '.join(map(str, nodes))}")
    elif design.runners != ("mpi",) or per_node is None or len(design.ranks_per_node) > 1:
        raise ArgumentError("jobs on several nodes have the runner mpi alone, and one number of ranks per node")
    jobs = [BatchJob(number, Path(folder).resolve() / f"nodes-{number}") for number in dict.fromkeys(nodes)]
    for job in jobs:
        if job.folder.exists() and not overwrite:
            raise ArgumentError(
                f"{job.folder}: exists already; name another folder, or overwrite=True replaces its job"
            )
    for job in jobs:
        job.folder.mkdir(parents=True, exist_ok=True)
        on_nodes = replace(design, workers=(job.nodes * per_node,)) if per_node is not None else design
        for name, text in (
            (_DESIGN, json.dumps({"system": system, "nodes": job.nodes, "design": asdict(on_nodes)}, indent=1) + "\n"),
            (_SCRIPT, _script(system, job, per_node or max(design.workers), options)),
        ):
            check_target(job.folder / name)
            write_whole(job.folder / name, lambda file, text=text: file.write(text.encode()))  # type: ignore[misc]
    return jobs


def _script(system: str, job: BatchJob, per_node: int, options: Sequence[str]) -> str:
    known = _SYSTEMS[system]
    lines = ["#!/bin/sh", *known.directives(f"kinema-{job.nodes}", job.nodes, per_node)]
    if options:
        lines.append(f"{known.options} {shlex.join(options)}")
    # relative names of files are those of the folder in which the experiment was planned
    lines += ["", f"cd {shlex.quote(os.getcwd())} || exit 1"]
    lines.append(f"export PYTHONPATH={shlex.quote(child_environment()['PYTHONPATH'])}")
    lines.append(f"exec {shlex.join(module_command(__name__, job.folder))}")
    return "\n".join(lines) + "\n"


def submit_jobs(jobs: Sequence[BatchJob], system: str) -> Iterator[BatchJob]:
    """Submits the jobs, one after the other, and yields each with its number.

    Raises FileNotFound without the batch system's program, and WorkerError with what it says if it refuses a job.
    """
    program = shutil.which(_SYSTEMS[system].program)
    if program is None:
        raise FileNotFound(f"{_SYSTEMS[system].program}: not found; submit the scripts where the batch system is")
    for job in jobs:
        try:
            done = subprocess.run(
                [program, job.script.name], cwd=job.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                errors="replace", timeout=_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise WorkerError(f"{job.script}: {program} does not answer within {_SECONDS:g} s") from None
        if done.returncode != 0:
            said = printable(said_last(done.stdout + "\n" + done.stderr))
            raise WorkerError(f"{job.script}: {program} refuses it (exit {done.returncode}): {said}")
        # "Submitted batch job 4711", "4711.server"
        found = re.search(r"\d[\w.\[\]-]*", said_last(done.stdout))
        yield replace(job, number=found[0] if found else printable(said_last(done.stdout)))


def collect_jobs(folder: str | os.PathLike[str]) -> BatchResults:
    """The reports of the jobs that `write_jobs` has written to a folder.

    Raises ArgumentError for a folder without jobs, and if there is no report at all.
    """
    place = Path(folder)
    jobs = sorted(place.glob(f"nodes-*/{_DESIGN}"), key=lambda path: (len(path.parent.name), path.parent.name))
    if not jobs:
        raise ArgumentError(f"{place}: holds no jobs of kinema scaling --batch")
    reports: list[Report] = []
    gaps: list[tuple[int, str]] = []
    for path in jobs:
        nodes, design = _load(path)
        found = [Report.load(one) for one in sorted((path.parent / "reports").glob("*.json"))]
        reports += found
        if len(found) < design.n_runs:
            number = f"{len(found)} of {design.n_runs} runs have a report"
            words = f"{counted(nodes, 'node')}: {number}: {printable(_reason(path.parent))}"
            gaps.append((max(design.workers), words))
    if not reports:
        raise ArgumentError(f"{place}: no job has a report yet; {'; '.join(words for _, words in gaps)}")
    return BatchResults(tuple(reports), tuple(gaps))


def _reason(folder: Path) -> str:
    """Why a job has fewer reports than runs: the reason of its first gap, or the last line of its output."""
    reasons = [str(line["reason"]) for line in read_results(folder) if line.get("reason")]
    if reasons:
        return reasons[0]
    output = folder / _OUTPUT
    return said_last(output.read_text(errors="replace")) if output.exists() else "the job has not begun"


def _load(path: Path) -> tuple[int, Design]:
    """Number of nodes and design of a job."""
    try:
        found = json.loads(read_regular(str(path), "design of a job", most=_MOST_BYTES))
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in found["design"].items()
        }
        return int(found["nodes"]), Design(**fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, Error):
            raise
        raise CorruptFileError(f"{path}: is not the design of a job: {error}", path=str(path)) from None


def main(folder: str) -> None:
    """Carries out the experiment of a job; one that is started again makes only the runs that are missing."""
    _, design = _load(Path(folder) / _DESIGN)
    for _ in run_design(design, folder, lambda text: print(text, flush=True), resume=True):
        pass


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Error as error:
        if not says_enough(error):
            raise
        # one line, which is the reason of a gap
        sys.exit("; ".join([str(error), *getattr(error, "__notes__", ())]))

"""`kinema scaling` on a Dask cluster that is there, with ranks of another launcher, and as jobs of a batch system.

The batch systems are stand-ins: programs on PATH that take the options that the real ones take.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kinema.base.errors import ArgumentError, CorruptFileError, FileNotFound, WorkerError
from kinema.cli.in_process import call_kinema
from kinema.studies import Design, run_design
from kinema.studies.batch import collect_jobs, submit_jobs, write_jobs
from kinema.studies.launching import mpi_launcher
from kinema.testing import random_walk, write_xtc

SBATCH = """#!/bin/sh
[ -f "$1" ] || exit 1
sh "$1" > output.txt 2>&1
echo "sbatch: note: a stand-in" >&2
echo "Submitted batch job 4711"
"""
# as srun, but for the ranks themselves
SRUN = """#!/bin/sh
[ "$1" = "--version" ] && echo "slurm 23.02.6" && exit
[ "$1 $2 $3 $4" = "--mpi=pmi2 -n 2 --ntasks-per-node=2" ] || exit 9
shift 4
exec "$MPIEXEC" -n 2 "$@"
"""


@pytest.fixture
def walk(tmp_path: Path) -> Path:
    path = tmp_path / "a walk.xtc"
    write_xtc(path, random_walk(60, 30), dt=1.0)
    return path


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of stand-ins, the first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MPIEXEC", mpi_launcher(None)(2)[0])
    return folder


def put(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def design_of(*files: object, **options: Any) -> Design:
    usual: dict[str, Any] = {"runners": ("mpi",), "ranks_per_node": (2,), "repeats": 1}
    return Design(files=tuple(map(str, files)), **(usual | options))


# -- clusters and launchers -------------------------------------------------------------------------------------------


@pytest.mark.processes
def test_a_dask_cluster_that_is_there(walk: Path, tmp_path: Path) -> None:
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0) as cluster:
        design = Design((str(walk),), workers=(2,), runners=("dask",), repeats=1, scheduler=cluster.scheduler_address)
        (outcome,) = run_design(design, tmp_path / "out", lambda _: None)
        assert outcome.report is not None and outcome.report.n_workers == 2
        # it serves on
        assert len(cluster.scheduler_info["workers"]) == 2


def test_options_of_another_runner_are_refused() -> None:
    with pytest.raises(ArgumentError, match="a scheduler is for the runner dask, and this is threads"):
        Design(("a.xtc",), scheduler="tcp://host:1")
    with pytest.raises(ArgumentError, match="a launcher is for the runner mpi, and this is dask"):
        Design(("a.xtc",), runners=("dask",), launcher=("srun",))
    with pytest.raises(FileNotFound, match="no-launcher: not found; name one that is there"):
        mpi_launcher(None, ["no-launcher"])
    for words, told in (
        ('--launcher "srun \'x"', "no closing quotation"),
        ("--batch-nodes 2", "--batch-nodes is for the scripts of --batch"),
        ("--batch-options x", "--batch-options is for the scripts of --batch"),
        ("--submit", "--submit is for the scripts of --batch"),
        ("--batch lsf", "batch must be one of slurm, pbs"),
        ("--batch slurm --batch-nodes 2", "the runner threads uses one node, found nodes 2"),
        ("--batch slurm --runner mpi", "one number of ranks per node"),
    ):
        done = call_kinema("scaling", "-f", "a.xtc", *shlex.split(words))
        assert done.returncode == 2 and told in done.stderr, done.stderr


# -- batch systems ----------------------------------------------------------------------------------------------------


def test_a_script_for_each_number_of_nodes(tmp_path: Path) -> None:
    for system, lines in (
        ("slurm", ["#SBATCH --nodes=4", "#SBATCH --ntasks-per-node=12", "#SBATCH '--partition=a b' --time=1:00:00"]),
        ("pbs", ["#PBS -l select=4:ncpus=12:mpiprocs=12", "#PBS '--partition=a b' --time=1:00:00", "#PBS -j oe"]),
    ):  # fmt: skip
        place = tmp_path / f"of {system}"
        options = ("--partition=a b", "--time=1:00:00")
        jobs = write_jobs(design_of("a.xtc", ranks_per_node=(12,)), place, system, (1, 4), options)
        assert [job.script.relative_to(place) for job in jobs] == [Path("nodes-1/job.sh"), Path("nodes-4/job.sh")]
        text = jobs[1].script.read_text().splitlines()
        assert text[0] == "#!/bin/sh" and set(lines) < set(text), text
        assert text[-1].endswith(f"-m kinema.studies.batch '{place}/nodes-4'")
        subprocess.run(["sh", "-n", jobs[1].script], check=True, timeout=60)
        written = json.loads((place / "nodes-4/design.json").read_text())
        assert written["nodes"] == 4 and written["design"]["workers"] == [48]
        with pytest.raises(ArgumentError, match="nodes-1: exists already"):
            write_jobs(design_of("a.xtc"), place, system, (1,))
        write_jobs(design_of("a.xtc"), place, system, (1,), overwrite=True)
    for options, nodes in ((("--a\n#SBATCH --uid=0",), (1,)), ((), (0,)), ((), ())):
        with pytest.raises(ArgumentError):
            write_jobs(design_of("a.xtc"), tmp_path / "none", "slurm", nodes, options)
    assert not (tmp_path / "none").exists()


def test_a_batch_system_that_refuses_or_is_missing(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = write_jobs(design_of("a.xtc"), tmp_path / "out", "pbs", (1, 2))
    put(programs, "qsub", "#!/bin/sh\necho 17.server\n")
    assert [job.number for job in submit_jobs(jobs, "pbs")] == ["17.server", "17.server"]
    put(programs, "qsub", "#!/bin/sh\necho 'qsub: no such queue' >&2\nexit 3\n")
    with pytest.raises(WorkerError, match=r"nodes-1/job\.sh: .*qsub refuses it \(exit 3\): qsub: no such queue"):
        list(submit_jobs(jobs, "pbs"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFound, match="qsub: not found"):
        list(submit_jobs(jobs, "pbs"))


def test_jobs_from_the_command_to_their_reports(walk: Path, programs: Path, tmp_path: Path) -> None:
    put(programs, "sbatch", SBATCH)
    put(programs, "srun", SRUN)
    out = tmp_path / "out"
    words = ("scaling", "-f", walk, "--runner", "mpi", "--ranks-per-node", 2, "--repeats", 1, "-o", out)
    words = (*words, "--launcher", "srun --mpi=pmi2", "--batch", "slurm")
    # nothing is submitted unless it is asked for
    done = call_kinema(*words, "--batch-nodes", "1,2")
    assert done.returncode == 0 and "submitted" not in done.stdout, done.stderr
    assert not list(out.rglob("output.txt"))
    assert "no job has a report yet; 1 node: 0 of 1 runs have a report: the job has not begun" in (
        call_kinema("scaling", "--collect", out).stderr
    )
    # a job of two nodes has four ranks, which this srun does not start
    done = call_kinema(*words, "--batch-nodes", "1,2", "--submit", "--force")
    assert done.returncode == 0, done.stderr
    assert "submitted: job 4711 on 2 nodes" in done.stdout
    done = call_kinema("scaling", "--collect", out)
    assert done.returncode == 1, done.stderr
    assert "mpi, XTC, ranks per node 2" in done.stdout
    assert "gap: 2 nodes: 0 of 1 runs have a report: it printed nothing (exit 9)" in done.stdout
    assert (out / "scaling.png").exists()
    (report,) = collect_jobs(out).reports
    assert report.n_workers == 2 and report.extra["workers"] == 2


def test_what_is_no_folder_of_jobs(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="holds no jobs"):
        collect_jobs(tmp_path)
    (tmp_path / "nodes-1").mkdir()
    for text in ("[]", "{", '{"nodes": 1, "design": {"nonsense": 1}}'):
        (tmp_path / "nodes-1/design.json").write_text(text)
        with pytest.raises(CorruptFileError, match=r"nodes-1/design\.json: is not the design of a job"):
            collect_jobs(tmp_path)
    (tmp_path / "nodes-1/design.json").write_text('{"nodes": 1, "design": {"files": []}}')
    with pytest.raises(ArgumentError, match="an experiment needs a trajectory"):
        collect_jobs(tmp_path)

"""`kinema scaling` does what its options say: each reaches the program that runs, and changes what it is to change."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema import studies as experiments
from kinema.base.errors import ArgumentError, FileIOError
from kinema.cli import main
from kinema.report import Report, scaling_of
from kinema.runners import PassTimings, Timings, WorkerTimings
from kinema.storage.output_file import temporary_folder
from kinema.studies import Design, ExperimentRun, files, run_design
from kinema.studies.launching import mpi_launcher
from kinema.studies.results_log import ResultsLog
from kinema.testing import random_walk, write_xtc
from kinema.testing.programs.imports import lazy

datafiles = lazy("MDAnalysisTests.datafiles")


@pytest.fixture
def walk(tmp_path: Path) -> Path:
    path = tmp_path / "walk.xtc"
    write_xtc(path, random_walk(60, 30), dt=1.0)
    return path


def heedless(_text: str) -> None:
    """Hears nothing of what is done."""


# -- the command --------------------------------------------------------------------------------------------------


def an_outcome(design: Design) -> ExperimentRun:
    """As if a run of it had been done."""
    one = WorkerTimings(0, 0.0, 0.0, 1.0, 1.0, 0.0, 2.0, 2.0, 10, 1, 1, 1)
    timings = Timings((PassTimings(2.0, 10, (one,), np.empty((0, 7))),), runner=design.runners[0])
    run = {"analyses": ["RMSD"], "runner": design.runners[0]}
    report = Report({}, {"format": "XTC"}, run, timings, (), (), (), {"page_cache": design.page_cache})
    return ExperimentRun(next(iter(design.settings())), 1, 0, 3.0, report)


def test_every_option_reaches_the_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Design, Path, dict[str, Any]]] = []

    def noted(design: Design, folder: Path, _tell: Any, **options: Any) -> Iterator[ExperimentRun]:
        seen.append((design, folder, options))
        folder.mkdir()
        yield an_outcome(design)

    monkeypatch.setattr(experiments, "run_design", noted)
    words = (
        "-f a.xtc b.xtc -s top.psf --select name_CA --start 1 --stop 9 --step 2 --workers 1,3 --runner mpi,dask "
        "--repeats 7 --reader kinema,mdanalysis --analysis rmsd,mine.words:count --task rmsd,convert --times 1,100 "
        "--time-limit 60 "
        "--storage disk=/scratch --storage fast=/fast --stripes 1,48 --frames 10 --atoms 5 --max-runs 100000 "
        "--workload 1,40 --source file,synthetic,none --formats xtc,h5md --gather collective,one-sided "
        "--access direct,frame --memory 2GiB --schedule static --oversubscribe 1,3 --page-cache copy "
        "--ranks-per-node 12,24 --particles all --input-units length=nm,time=ps --timestep 2 --t0 5 --no-stored "
        "--node-cache nc --external any --format XTC"
    ).split()
    words += ["--launcher", "srun '--mpi=a b'", "--scheduler", "tcp://a:1"]
    with pytest.raises(SystemExit, match="0"):
        main(["scaling", *words, "-o", str(tmp_path / "out"), "--quiet", "--force"])
    expected = Design(
        files=("a.xtc", "b.xtc"), topology="top.psf", select="name_CA", start=1, stop=9, step=2, workers=(1, 3),
        runners=("mpi", "dask"), repeats=7, readers=("kinema", "mdanalysis"), analyses=("rmsd", "mine.words:count"),
        tasks=("rmsd", "convert"), workloads=(1, 40), times=(1, 100), sources=("file", "synthetic", "none"), frames=10,
        atoms=5, formats=("xtc", "h5md"), storages={"disk": "/scratch", "fast": "/fast"}, stripes=(1, 48),
        time_limit=60.0, max_runs=100000,
        gathers=("collective", "one-sided"), oversubscribes=(1, 3), accesses=("direct", "frame"), memory="2GiB",
        schedule="static", page_cache="copy", ranks_per_node=(12, 24), particles="all",
        units={"length": "nm", "time": "ps"}, dt=2.0, t0=5.0, stored=False, node_cache="nc", external="any",
        format="XTC", launcher=("srun", "--mpi=a b"), scheduler="tcp://a:1",
    )  # fmt: skip
    options = {"overwrite": True, "resume": False, "beside": [tmp_path / "out/scaling.png"]}
    assert seen == [(expected, tmp_path / "out", options)]
    stated = {"particles": "all", "units": {"length": "nm", "time": "ps"}, "dt": 2.0, "t0": 5.0}
    assert expected.stated == stated | {"stored": False, "node_cache": "nc", "external": "any", "format": "XTC"}
    # none of them is what it would be anyhow
    usual = asdict(Design(files=("md.xtc",)))
    assert [name for name, value in asdict(expected).items() if value == usual[name]] == []


def test_results_are_whole_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = an_outcome(Design(files=("md.xtc",)))
    with ResultsLog(tmp_path / "out", "reports") as log:
        log.add(outcome.as_dict())
        log.add(outcome.as_dict())
        before = (tmp_path / "out/results.jsonl").read_bytes()

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(FileIOError, match="no space left"):
            log.add(outcome.as_dict())
        monkeypatch.undo()
        assert (tmp_path / "out/results.jsonl").read_bytes() == before
        log.add(outcome.as_dict())
    assert (tmp_path / "out/results.jsonl").read_bytes() == before[: len(before) // 2] * 3
    assert sorted(os.listdir(tmp_path / "out")) == ["reports", "results.jsonl"]


def test_results_of_another_experiment_are_replaced_on_request_alone(tmp_path: Path) -> None:
    picture = tmp_path / "out/scaling.png"
    with ResultsLog(tmp_path / "out", remade=[picture]) as log:
        log.add({"run": 1})
    with pytest.raises(ArgumentError, match="holds the results of another experiment"):
        ResultsLog(tmp_path / "out")
    (tmp_path / "out/results.jsonl").unlink()
    picture.write_text("not Kinema's")
    with pytest.raises(ArgumentError, match=r"scaling\.png: exists already, and is not a table, picture or report"):
        ResultsLog(tmp_path / "out", remade=[picture])
    with ResultsLog(tmp_path / "out", remade=[picture], overwrite=True) as log:
        log.add({"run": 2})
    assert json.loads((tmp_path / "out/results.jsonl").read_text()) == {"run": 2}


def test_what_a_killed_experiment_leaves_is_removed_by_the_next(
    walk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(files, "MEMORY_FOLDER", memory)
    code = (
        "import os, sys\n"
        "from contextlib import ExitStack\n"
        "from kinema.storage.output_file import temporary_folder\n"
        "stack = ExitStack()\n"
        "for path in sys.argv[1:]:\n"
        "    folder = stack.enter_context(temporary_folder(path, alone=False))\n"
        "    open(os.path.join(folder, 'large'), 'w').close()\n"
        "    assert os.stat(folder).st_mode & 0o777 == 0o700\n"
        "os._exit(9)\n"
    )
    out = tmp_path / "out"
    out.mkdir()
    folders = [str(out / "files"), str(memory / "kinema-scaling")]
    environment = os.environ | {"PYTHONPATH": str(Path(experiments.__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code, *folders], env=environment, timeout=120, check=False)
    assert len(os.listdir(out)) == len(os.listdir(memory)) == 1
    design = Design(files=(str(walk),), workers=(1,), repeats=1, sources=("synthetic",))
    assert len(list(run_design(design, out, heedless))) == 1
    assert os.listdir(memory) == []
    assert sorted(os.listdir(out)) == ["reports", "results.jsonl"]


def test_two_experiments_do_not_share_a_folder(walk: Path, tmp_path: Path) -> None:
    design = Design(files=(str(walk),), workers=(1,), repeats=1)
    # as if another process wrote it
    with temporary_folder(tmp_path / "files"), pytest.raises(ArgumentError, match="is being written by this process"):
        list(run_design(design, tmp_path, heedless))


# -- the program that runs ----------------------------------------------------------------------------------------


def test_frames_and_atoms_are_those_that_were_chosen(tmp_path: Path) -> None:
    """Runs on the files as they are, and once on files that are written from their frames."""
    design = Design(
        files=(datafiles.DCD,), topology=datafiles.PSF, t0=0.0, select="name CA",
        start=10, stop=-48, step=2, workers=(2,), repeats=1,
        sources=("file", "synthetic"), formats=("as is", "xtc"),
    )  # fmt: skip
    outcomes = list(run_design(design, tmp_path / "out", heedless))
    assert [(one.setting.source, one.setting.format) for one in outcomes] == [
        ("file", "as is"), ("file", "xtc"), ("synthetic", "as is")
    ]  # fmt: skip
    for one in outcomes:
        report = one.report
        assert (report.timings.frames, report.run["atoms"], report.input["n_atoms"]) == (20, 214, 3341)
        assert report.n_workers == 2
        # once, by the one who reads it
        assert report.timings.opening["topology"] > 0
    # the frames themselves, by what the plan says of them
    assert [one.report.input["n_frames"] for one in outcomes] == [98, 20, 20]
    # what is advised can be done: commands on files that are gone cannot
    for one in outcomes[1:]:
        assert not any("`kinema " in sentence for sentence in one.report.advice)
    (path,) = {file["path"] for file in outcomes[2].report.input["files"]}
    assert files.MEMORY_FOLDER in Path(path).parents
    assert not Path(path).exists()


def test_schedule_gather_and_ranks_reach_the_ranks(walk: Path, tmp_path: Path) -> None:
    design = Design(
        files=(str(walk),), workers=(1, 3), repeats=1, runners=("mpi",), gathers=("collective", "one-sided"),
        schedule="static",
    )  # fmt: skip
    for one in run_design(design, tmp_path / "out", heedless):
        told = f"{one.workers} of {one.workers} ranks, static schedule, {one.setting.gather} gathering"
        assert told in one.report.run["plan"]
        extra = {name: one.report.extra[name] for name in ("workers", "gather", "schedule")}
        assert extra == {"workers": one.workers, "gather": one.setting.gather, "schedule": "static"}


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ("HYDRA build details", ["-ppn", "12"]),
        ("Intel(R) MPI Library", ["-ppn", "12"]),
        ("mpirun (Open MPI) 5.0", ["--map-by", "ppr:12:node"]),
        ("slurm 23.02.6", ["--ntasks-per-node=12"]),
    ],
)
def test_ranks_per_node_in_the_words_of_each_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, words: list[str]
) -> None:
    launcher = tmp_path / "mpiexec"
    launcher.write_text(f"#!/bin/sh\necho '{says}'\n")
    launcher.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    design = Design(files=("md.xtc",), runners=("mpi",), ranks_per_node=(12,))
    assert mpi_launcher(design.ranks_per_node[0])(24) == [str(launcher), "-n", "24", *words]
    assert mpi_launcher(None)(24) == [str(launcher), "-n", "24"]
    launcher.write_text("#!/bin/sh\necho 'another launcher'\n")
    with pytest.raises(ArgumentError, match="how it places ranks on nodes is not known"):
        mpi_launcher(design.ranks_per_node[0])


# -- the cache ----------------------------------------------------------------------------------------------------


def test_the_system_is_asked_to_forget_what_is_written(walk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    advise, sync = os.posix_fadvise, os.fsync

    def noted(handle: int, offset: int, length: int, advice: int) -> None:
        assert (offset, length, advice) == (0, 0, os.POSIX_FADV_DONTNEED)
        asked.append(("forget", os.readlink(f"/proc/self/fd/{handle}")))
        advise(handle, offset, length, advice)

    def synced(handle: int) -> None:
        asked.append(("sync", os.readlink(f"/proc/self/fd/{handle}")))
        sync(handle)

    monkeypatch.setattr(files.os, "posix_fadvise", noted)
    monkeypatch.setattr(files.os, "fsync", synced)
    files.forget([str(walk)])
    assert asked == [("sync", str(walk)), ("forget", str(walk))]
    (copy,) = files.copied([str(walk)], walk.parent)
    assert asked[2:] == [("sync", copy), ("forget", copy)]
    assert Path(copy).read_bytes() == walk.read_bytes()


@pytest.mark.parametrize("cache", ["warm", "drop", "copy"])
def test_the_cache_before_each_run(walk: Path, tmp_path: Path, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read, forgotten or copied before every single run, and nothing else is done."""
    done: list[tuple[str, tuple[str, ...]]] = []

    def noting(name: str) -> Any:
        call = getattr(files, name)

        def noted(paths: list[str], *more: Any) -> Any:
            done.append((name, tuple(paths)))
            return call(paths, *more)

        return noted

    for name in ("read_all", "forget", "copied"):
        monkeypatch.setattr(files, name, noting(name))
    # each run is a process
    workers, repeats = {"warm": ((1, 2), 1), "drop": ((1,), 2), "copy": ((1, 2), 2)}[cache]
    design = Design(files=(str(walk),), workers=workers, repeats=repeats, page_cache=cache)
    read = [one.report.input["files"][0]["path"] for one in run_design(design, tmp_path / "out", heedless)]
    assert len(read) == len(workers) * repeats
    own = (str(walk),)
    if cache == "copy":
        assert [what for what in done if what[0] != "forget"] == [("copied", own)] * 4
        # each run its own, which is forgotten and then gone
        assert [paths for what, paths in done if what == "forget"] == [(path,) for path in read]
        assert len(set(read)) == 4 and str(walk) not in read
        assert not any(map(os.path.exists, read))
    else:
        assert done == [({"warm": "read_all", "drop": "forget"}[cache], own)] * 2
        assert read == [str(walk)] * 2


# -- what comes of it ---------------------------------------------------------------------------------------------


def test_the_work_multiplier_multiplies_the_work(walk: Path, tmp_path: Path) -> None:
    """Frames are read once, whatever is computed."""
    design = Design(files=(str(walk),), workers=(1,), repeats=1, workloads=(1, 40))
    began = time.perf_counter()
    outcomes = list(run_design(design, tmp_path / "out", heedless))
    whole = time.perf_counter() - began
    one, forty = (outcome.report for outcome in outcomes)
    # the program's time has that of the run in it, and the experiment's has both
    assert all(outcome.job_seconds > outcome.report.timings.whole for outcome in outcomes)
    assert sum(outcome.job_seconds for outcome in outcomes) < whole
    assert one.n_workers == forty.n_workers == 1
    assert (len(one.run["analyses"]), len(forty.run["analyses"])) == (1, 40)
    assert one.timings.frames_read == forty.timings.frames_read == 60
    assert one.timings.bytes_read == forty.timings.bytes_read

    assert list(scaling_of([one, forty]).series) == ["threads, XTC", "threads, XTC, work x40"]

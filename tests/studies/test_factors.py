"""The factors of a scaling experiment: which runs they make, and that each changes what it names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.base.errors import ArgumentError
from kinema.cli.in_process import call_kinema
from kinema.report import Report
from kinema.report.storage_facts import Mount
from kinema.runners import choose_runner
from kinema.studies import Design, ExperimentRun, Setting, experiment, files, run_design, stripes, write_strategies
from kinema.studies.launching import Ended
from kinema.studies.programs.mdanalysis_loop import FramesLoop, run_mdanalysis
from kinema.studies.programs.tasks import convert_file, empty_calls, split_file
from kinema.studies.splitting import paid_off
from kinema.studies.stripes import set_stripes
from kinema.studies.write_strategies import WriteDesign
from kinema.testing import random_walk, write_dcd, write_xtc


@pytest.fixture
def walk(tmp_path: Path) -> Path:
    path = tmp_path / "walk.xtc"
    write_xtc(path, random_walk(60, 30), dt=1.0)
    return path


def heedless(_text: str) -> None:
    """Hears nothing of what is done."""


def settings_of(path: Path, folder: Path, **changed: Any) -> dict[str, Any]:
    """Arguments of a program, as the driver writes them."""
    extra = {"workload": 1, "repeat": 0, "page_cache": "warm", "workers": 2, "format": "dcd"}
    usual = {
        "files": [str(path)], "topology": None, "select": None, "start": None, "stop": None, "step": None,
        "workers": 2, "workload": 1, "runner": "serial", "memory": None, "stated": {"stored": False},
        "scratch": str(folder), "extra": extra,
    }  # fmt: skip
    return usual | changed


# -- which runs there are -----------------------------------------------------------------------------------------


def test_options_that_a_runner_does_not_take_are_left_out_for_it() -> None:
    design = Design(
        files=("md.xtc",), runners=("serial", "threads", "mpi"), workers=(1, 2, 4), gathers=("collective", "one-sided"),
        oversubscribes=(1, 3), ranks_per_node=(1, 2), repeats=1,
    )  # fmt: skip
    settings = list(design.settings())
    by_runner = {name: [one for one in settings if one.runner == name] for name in design.runners}
    assert [len(by_runner[name]) for name in design.runners] == [1, 1, 8]
    assert {(one.gather, one.oversubscribe, one.ranks_per_node) for one in by_runner["threads"]} == {("", 0, None)}
    assert [design.workers_of(one) for one in settings][:2] == [(1,), (1, 2, 4)]
    assert design.n_runs == 1 + 3 + 8 * 3


def test_the_old_name_of_runners_works_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="Design: the argument runner= is called runners= now"):
        old = Design(("a.xtc",), runner="mpi", ranks_per_node=12)
    assert old == Design(("a.xtc",), runners=("mpi",), ranks_per_node=(12,)) == replace(old)
    with pytest.raises(ArgumentError, match="runner= is the old name of runners="):
        Design(("a.xtc",), runner="mpi", runners=("mpi",))


def test_readers_and_tasks_have_the_runs_that_make_sense() -> None:
    design = Design(
        files=("md.xtc",), runners=("threads", "processes"), readers=("kinema", "mdanalysis"), times=(1, 9),
        tasks=("rmsd", "split", "convert", "empty"), formats=("as is", "bare", "dcd"), sources=("file", "none"),
        workloads=(1, 40), max_runs=480,
    )  # fmt: skip
    found = list(design.settings())
    assert len(found) == len(set(found))
    baseline = {(one.runner, one.format, one.source) for one in found if one.reader == "mdanalysis"}
    # threads would wait for each other, and MDAnalysis reads no bare data set
    assert baseline == {("processes", "as is", "file"), ("processes", "dcd", "file")}
    tasks = {name: [one for one in found if one.task == name] for name in design.tasks}
    assert {(one.runner, one.format) for one in tasks["split"]} == {
        (runner, name) for runner in design.runners for name in ("as is", "dcd")
    }
    assert {one.format for one in tasks["convert"]} == {"dcd"}
    assert {one.runner for one in tasks["empty"]} == {"processes"}
    assert {(one.workload, one.times) for name in ("split", "convert", "empty") for one in tasks[name]} == {(1, 1)}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"repeats": 101}, "the experiment has 202 runs, expected at most 200"),
        ({"workloads": tuple(range(1, 4)), "max_runs": 29}, "the experiment has 30 runs, expected at most 29"),
        ({"readers": ("mdanalysis",)}, "reader mdanalysis fits none of the other values"),
        ({"tasks": ("rmsd", "convert")}, "task convert fits none of the other values"),
        ({"tasks": ("empty",)}, "task empty fits none"),
        ({"analyses": ("rmsf",)}, "analysis must be rmsd or MODULE:FUNCTION, found 'rmsf'"),
        ({"analyses": ("a b:c",)}, "analysis must be rmsd or MODULE:FUNCTION, found 'a b:c'"),
        ({"times": (0,)}, "times must be whole numbers from 1 on, found 0"),
        ({"times": (1, 5), "stop": 9}, "start, stop and step with times choose frames of files that are written"),
        ({"stripes": (1, 0)}, "stripes must be whole numbers from 1 on"),
        ({"time_limit": 0.0}, "time_limit must be a number of seconds above 0"),
        ({"frames": 9}, "frames and atoms are for source none"),
        ({"files": ("a.xtc", "b.xtc"), "tasks": ("split",)}, "task split cuts one file, found 2"),
        ({"runners": ("serial", "threads"), "workers": (2,)}, "the serial runner has one worker"),
    ],
)
def test_designs_that_make_no_sense(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(kn.errors.ArgumentError, match=told):
        Design(**{"files": ("md.xtc",), **wrong})


def test_the_runs_and_what_they_take_are_printed(walk: Path, tmp_path: Path) -> None:
    words = [
        "scaling",
        "-f",
        walk,
        "--formats",
        "dcd,subfiles",
        "--times",
        "1,4",
        "--workers",
        "1,2",
        "-o",
        tmp_path / "out",
    ]
    done = call_kinema(*words, "--dry-run", "--json")
    found = json.loads(done.stdout)
    assert found["runs"] == 2 * 2 * 2 * 5 and [one["times"] for one in found["series"]] == [1, 4, 1, 4]
    # a DCD file, and parts for each number of workers; XTC and DCD of 30 atoms have about this size
    assert 0.9 * 12 * 30 * 60 < found["bytes"] < 4 * 12 * 30 * 60 and found["seconds"] > 40
    assert not (tmp_path / "out").exists()
    told = call_kinema(*words, "--dry-run").stdout.splitlines()
    assert told[0] == "threads, file, dcd, direct, work x1: 1, 2 workers" and told[-1].startswith("40 runs, about ")
    done = call_kinema(*words, "--dry-run", "--max-runs", 39)
    assert done.returncode == 2 and "the experiment has 40 runs, expected at most 39" in done.stderr


# -- what each factor does ----------------------------------------------------------------------------------------


def test_a_bare_data_set_has_the_frames(walk: Path, tmp_path: Path) -> None:
    traj = kn.open(walk)
    (path,) = files.write_as(traj[::2], tmp_path, "bare")
    with h5py.File(path) as file:
        assert list(file) == ["pos"] and file["pos"].shape == (30, 90) and file["pos"].dtype == "f4"
    np.testing.assert_array_equal(kn.open(path, **files.BARE).read(), traj[::2].read())


def test_times_and_formats_and_storages_reach_the_runs(walk: Path, tmp_path: Path) -> None:
    """Three programs: a chain of the file as it is on another storage, and of a bare data set."""
    (tmp_path / "disk").mkdir()
    design = Design(
        files=(str(walk),), workers=(2,), repeats=1, times=(3,), formats=("as is", "bare"),
        storages={"disk": str(tmp_path / "disk")},
    )  # fmt: skip
    given, bare = run_design(design, tmp_path / "out", heedless)
    for one in (given, bare):
        assert one.report is not None, one.reason
        assert one.report.timings.frames == 180
        read = [Path(file["path"]) for file in one.report.input["files"]]
        assert len(read) == 3 and len(set(read)) == 1 and tmp_path / "disk" in read[0].parents
        assert one.report.extra["times"] == 3 and one.report.extra["storage"] == "disk"
    assert list((tmp_path / "disk").iterdir()) == []
    missing = Design(files=(str(walk),), storages={"gone": str(tmp_path / "gone")})
    with pytest.raises(kn.errors.FileNotFound, match="is not a folder, expected that of storage gone"):
        list(run_design(missing, tmp_path / "other", heedless))


def stand_in(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of this name on PATH, which alone is there, and the file of its calls."""
    folder.mkdir(exist_ok=True)
    calls = folder / "calls"
    (folder / name).write_text(f'#!/bin/sh\necho "$@" >> {calls}\n{script}\n')
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return calls


def test_stripes_are_set_by_the_programs_of_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = stand_in(tmp_path / "bin", "lfs", "", monkeypatch)
    set_stripes(str(tmp_path), 48)
    assert calls.read_text() == f"setstripe -c 48 {tmp_path}\n"
    stand_in(tmp_path / "bin", "lfs", "echo Inappropriate ioctl; exit 25", monkeypatch)
    with pytest.raises(kn.errors.ArgumentError, match=r"48 stripes cannot be set on .*: lfs failed \(exit 25\): Inapp"):
        set_stripes(str(tmp_path), 48)
    stand_in(tmp_path / "bin", "beegfs-ctl", "", monkeypatch)
    calls.unlink()
    set_stripes(str(tmp_path), 3)
    assert calls.read_text().splitlines()[1] == f"--setpattern --numtargets=3 {tmp_path}"
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(kn.errors.ArgumentError, match="neither lfs nor beegfs-ctl is on this machine"):
        set_stripes(str(tmp_path), 3)


def test_files_are_written_where_their_stripes_are(walk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = stand_in(tmp_path / "bin", "lfs", "", monkeypatch)
    read: list[tuple[int, str]] = []

    def ended(words: list[str], _environment: Any, _seconds: float | None) -> Ended:
        settings = json.loads(Path(words[-1]).read_text())
        (path,) = settings["files"]
        assert Path(path).stat().st_size > 0
        read.append((settings["extra"].get("stripes", 0), path))
        return Ended(1, 1.0, "not run")

    monkeypatch.setattr(experiment, "run_bounded", ended)
    (tmp_path / "fast").mkdir()
    storages = {"fast": str(tmp_path / "fast")}
    design = Design(
        files=(str(walk),), workers=(1,), repeats=1, formats=("as is", "dcd"), stripes=(1, 3), storages=storages
    )  # fmt: skip
    assert [one.setting.format for one in run_design(design, tmp_path / "out", heedless)] == ["as is", "dcd"] * 2
    assert [number for number, _ in read] == [1, 1, 3, 3] and len({path for _, path in read}) == 4
    folders = [line.split()[-1] for line in calls.read_text().splitlines()]
    assert [str(Path(path).parent) for _, path in read] == [folders[0], folders[0], folders[1], folders[1]]
    assert all(Path(folder).parents[1] == tmp_path / "fast" for folder in folders)


def test_stripes_that_cannot_be_are_refused_before_the_first_run(
    walk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    done = call_kinema("scaling", "-f", walk, "--stripes", "1,3", "-o", tmp_path / "out")
    assert done.returncode == 2 and "1 stripes cannot be set on" in done.stderr
    assert not (tmp_path / "out").exists()


def test_mdanalysis_gives_the_same_rmsd(tmp_path: Path) -> None:
    path = tmp_path / "walk.dcd"
    write_dcd(path, random_walk(20, 30))
    loop = FramesLoop([str(path)], None, None, 2)
    found = loop(range(4, 20, 3))
    expected = kn.analysis.RMSD(kn.open(path)).run(4, None, 3).results.rmsd[:, 2]
    np.testing.assert_allclose(found.values, expected, atol=1e-4)
    report = run_mdanalysis(settings_of(path, tmp_path, start=2, workload=3), kn.open(path), choose_runner("processes"))
    assert report.run["analyses"] == ["RMSD by MDAnalysis"] and report.timings.frames == 18
    assert report.quantities.t_IO > 0 and report.quantities.t_compute > 0
    assert min(one.start for one in report.timings.workers) > 0
    assert report.n_workers == 2 and [one.frames for one in report.timings.workers] == [9, 9]


def test_tasks_do_their_work(walk: Path, tmp_path: Path) -> None:
    traj, serial = kn.open(walk), choose_runner("serial")
    reports: dict[str, Report] = {}
    for name, work in (("split", split_file), ("convert", convert_file), ("empty calls", empty_calls)):
        folder = tmp_path / name
        folder.mkdir()
        runner = choose_runner("threads") if name == "split" else serial
        workers = 1 if runner is serial else 2
        reports[name] = work(settings_of(walk, folder, workers=workers), traj, runner)
        assert reports[name].run["analyses"] == [name] and reports[name].timings.frames == 60
        assert reports[name].quantities.t_total > 0
    parts = sorted((tmp_path / "split/parts").iterdir())
    np.testing.assert_array_equal(kn.open(parts, overlap="all").read(), traj.read())
    assert len(parts) == 2 and kn.open(tmp_path / "convert/trajectory.dcd").n_frames == 60


def test_when_splitting_has_paid_off(walk: Path, tmp_path: Path) -> None:
    report = empty_calls(settings_of(walk, tmp_path, workers=1), kn.open(walk), choose_runner("serial"))

    def ran(seconds: float, layout: str, task: str) -> ExperimentRun:
        one = Report.__new__(Report)
        vars(one).update(vars(report) | {"quantities": replace(report.quantities, t_total=seconds)})
        return ExperimentRun(Setting(layout, "file", 1, "", "direct", task=task), 24, 0, 0.0, one)

    gap = ExperimentRun(Setting("as is", "file", 1, "", "direct", task="split"), 48, 0, 0.0, None, "killed by SIGKILL")
    (found,) = paid_off([ran(9.0, "as is", "split"), ran(4.0, "as is", "rmsd"), ran(2.0, "subfiles", "rmsd"), gap])
    assert (found.parts, found.seconds, found.analyses) == (24, 9.0, 5)
    assert "has paid off after 5 analyses" in str(found)
    (never,) = paid_off([ran(9.0, "as is", "split"), ran(2.0, "as is", "rmsd"), ran(2.0, "subfiles", "rmsd")])
    assert never.analyses is None and "never pays off" in str(never)
    assert paid_off([ran(9.0, "as is", "split"), ran(2.0, "as is", "rmsd")]) == []


def test_split_and_convert_write_reports(walk: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    for words in (
        ["split", walk, "--parts", 3, "-o", tmp_path / "parts"],
        ["convert", walk, "-o", tmp_path / "walk.dcd"],
    ):
        done = call_kinema(*words, "-j", 2, "--report", report)
        assert done.returncode == 0, done.stderr
        found = Report.load(report)
        assert (found.run["analyses"], found.timings.frames, found.n_workers) == ([words[0]], 60, 2)
        assert found.quantities.t_total > 0 and found.run["command"].startswith(f"kinema {words[0]}")
    assert found.quantities.t_IO > 0 and found.quantities.t_compute > 0
    report.write_text("not ours")
    done = call_kinema("split", walk, "--parts", 3, "-o", tmp_path / "others", "--report", report)
    assert done.returncode == 2 and "report.json: exists already" in done.stderr
    assert not (tmp_path / "others").exists()
    assert call_kinema("convert", walk, "-o", tmp_path / "b.dcd", "--report", walk, "--force").returncode == 2


@pytest.mark.parametrize(
    ("kind", "has_stripes"), [("ext4", False), ("nfs4", False), ("lustre", True), ("beegfs", True)]
)
def test_stripes_are_a_hint_of_mpi_io_where_files_have_them(
    kind: str, has_stripes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    designs: list[WriteDesign] = []

    def take(design: WriteDesign, *_: Any, **__: Any) -> None:
        designs.append(design)
        raise ArgumentError("taken")

    monkeypatch.setattr(write_strategies, "run_study", take)
    mount = Mount(kind, "/dev/disk", "rw", "8:1")
    monkeypatch.setattr(stripes, "mounts", lambda paths: dict.fromkeys(paths, mount))
    words = ["bench-write", "--stripes", 4, "--ranks", 2, "-o", tmp_path / "out"]
    done = call_kinema(*words, "--hints", "cb_nodes=1/2")
    assert done.returncode == 2 and not (tmp_path / "out").exists()
    if has_stripes:
        assert "taken" in done.stderr
        assert [one.hints for one in designs] == [{"cb_nodes": ("1", "2"), "striping_factor": ("4",)}]
        done = call_kinema(*words, "--hints", "striping_factor=2")
        assert "--stripes and --hints striping_factor are the same hint; give one" in done.stderr
    else:
        assert "hint striping_factor has no effect on" in done.stderr and not designs
        assert "expected Lustre or BeeGFS; leave out --stripes, or emulate a cluster with --lab lustre" in done.stderr

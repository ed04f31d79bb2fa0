"""Speed-up and efficiency across reports, and `kinema report` and `kinema scaling` as commands."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.errors import ArgumentError, FileIOError, UnsupportedFormatError
from kinema.cli.in_process import call_kinema
from kinema.cli.stopping import Terminated
from kinema.report import Report, scaling_of
from kinema.report.names_2020 import NAMES_2020
from kinema.report.scaling import scaling_points
from kinema.runners import PassTimings, Timings, WorkerTimings
from kinema.studies import Design, files, run_design
from kinema.testing import random_walk, write_dcd, write_xtc


def made_up(n_workers: int, seconds: float, *, frames: int = 100, runner: str = "mpi", **extra: object) -> Report:
    """A report of workers that all computed for the same number of seconds."""
    workers = tuple(
        WorkerTimings(
            number, open=0.0, io=0.0, decode=seconds / 2, compute=seconds / 2, wait=0.0, total=seconds, cpu=seconds,
            frames=frames // n_workers, blocks=1, bytes_read=1, reads=1,
        )
        for number in range(n_workers)
    )  # fmt: skip
    timings = Timings((PassTimings(seconds, frames, workers, np.empty((0, 7))),), whole=seconds, runner=runner)
    return Report({}, {"format": "XTC"}, {"analyses": ["RMSD"], "runner": runner}, timings, (), (), (), extra)


def test_speed_up_with_deviations() -> None:
    one, four = scaling_points({4: [2.0, 3.0], 1: [9.0, 11.0]})
    assert (one.n_workers, one.mean, one.speed_up, one.efficiency, one.base) == (1, 10.0, 1.0, 1.0, 1)
    assert one.deviation == pytest.approx(2**0.5)
    assert one.speed_up_deviation == pytest.approx(2**0.5 * 2**0.5 / 10)
    assert (four.mean, four.speed_up, four.efficiency) == (2.5, 4.0, 1.0)
    expected = 4.0 * np.hypot(2**0.5 / 10, 0.5**0.5 / 2.5)
    assert four.speed_up_deviation == pytest.approx(expected)
    assert four.efficiency_deviation == pytest.approx(expected / 4)


def test_without_one_worker_the_smallest_counts_and_is_named() -> None:
    scaling = scaling_of([made_up(2, 8.0), made_up(8, 4.0)])
    (points,) = scaling.series.values()
    assert (points[1].speed_up, points[1].efficiency, points[1].base) == (2.0, 0.5, 2)
    assert "against 2 workers" in str(scaling)
    assert "not measured" in str(scaling)


def test_series_are_told_apart() -> None:
    reports = [made_up(n, 8.0 / n, workload=w) for n in (1, 2) for w in (1, 40)]
    reports += [made_up(1, 3.0, runner="dask"), made_up(1, 3.0, page_cache="drop"), made_up(1, 3.0, ranks_per_node=12)]
    scaling = scaling_of(reports)
    assert set(scaling.series) == {
        "mpi, XTC", "mpi, XTC, work x40", "dask, XTC", "mpi, XTC, page cache drop", "mpi, XTC, ranks per node 12"
    }  # fmt: skip
    varied = {"task": "split", "reader": "mdanalysis", "analysis": "a:b", "times": 3, "storage": "fast", "stripes": 48}
    others = [made_up(1, 3.0, **{name: value}) for name, value in varied.items()]
    assert set(scaling_of(others).series) == {f"mpi, XTC, {name} {value}" for name, value in varied.items()}
    assert scaling.R_comp_IO["mpi, XTC"] == pytest.approx(1.0)
    assert json.loads(json.dumps(scaling.as_dict()))["mpi, XTC"]["points"][1]["speed_up"] == 2.0


def test_other_work_is_another_series() -> None:
    """Reports of the same runner and format, but of other analyses, atoms or files: their times are not compared."""
    one = made_up(1, 8.0)
    file = {"path": "md.xtc", "fingerprint": "abc"}
    given = {"format": "XTC", "n_atoms": 9, "files": [file]}
    base = replace(one, input=given, run={"analyses": ["RMSD"], "atoms": 9})
    copy = replace(base, input=given | {"files": [file | {"path": "copy.xtc"}]})
    assert set(scaling_of([base, copy]).series) == {"mpi, XTC"}
    other = replace(base, input=given | {"files": [{"path": "other.xtc", "fingerprint": "def"}]})
    assert set(scaling_of([base, other]).series) == {"mpi, XTC, md.xtc", "mpi, XTC, other.xtc"}
    radius = replace(base, run={"analyses": ["RadiusOfGyration"], "atoms": 9})
    assert set(scaling_of([base, radius]).series) == {"mpi, XTC, RMSD", "mpi, XTC, RadiusOfGyration"}
    few = replace(base, run={"analyses": ["RMSD"], "atoms": 3})
    assert set(scaling_of([base, few]).series) == {"mpi, XTC, 9 of 9 atoms", "mpi, XTC, 3 of 9 atoms"}
    # files that an experiment has made hold the same frames
    parts = [replace(report, extra={"format": "subfiles"}) for report in (base, other)]
    assert set(scaling_of(parts).series) == {"mpi, subfiles"}


def test_other_machines_file_systems_and_versions_are_other_series() -> None:
    here = {"host": "here", "processor": "a", "cores": 4, "kinema": "1.0", "numpy": "2.0", "python": "3.12"}
    base = replace(made_up(1, 8.0), machine=here, input={"format": "XTC", "file_systems": ["ext4 on /dev/a"]})
    again = replace(base, machine=here | {"allowed_cores": 2})
    assert set(scaling_of([base, again]).series) == {"mpi, XTC"}
    for other, words in (
        (replace(base, machine=here | {"host": "there"}), ("here", "there")),
        # the same host with another processor
        (replace(base, machine=here | {"processor": "b"}), ("here", "here #2")),
        (replace(base, machine={}), ("here", "another machine")),
        (replace(base, input={"format": "XTC", "file_systems": ["nfs on x:/"]}), ("ext4 on /dev/a", "nfs on x:/")),
        (replace(base, input={"format": "XTC"}), ("ext4 on /dev/a", "file system not known")),
        (
            replace(base, machine=here | {"kinema": "1.1"}),
            ("kinema 1.0, python 3.12, numpy 2.0", "kinema 1.1, python 3.12, numpy 2.0"),
        ),
    ):
        scaling = scaling_of([base, other, base])
        if other.machine:
            assert set(scaling.series) == {f"mpi, XTC, {word}" for word in words}
        assert sorted(points[0].repeats for points in scaling.series.values()) == [1, 2]
        # a name stands for all three
        assert set(scaling_of([base, other], labels=["A", "B"]).series) == {"mpi, XTC, A", "mpi, XTC, B"}
        assert set(scaling_of([base, other], labels=["A", "A"]).series) == {"mpi, XTC, A"}
    with pytest.raises(ArgumentError, match="expected 1, found 2"):
        scaling_of([base], labels=["A", "B"])


def test_a_run_without_repeats_has_no_deviation_to_tell() -> None:
    one, two = str(scaling_of([made_up(1, 8.0), made_up(2, 4.0)])).splitlines()[2:]
    # of two ranks there is one, and none over repeats
    assert "±" not in one and two.count("±") == 1 and "4.00 ± 0 " in two
    told = str(scaling_of([made_up(1, 8.0), made_up(2, 4.0), made_up(2, 5.0)])).splitlines()
    # S and E need that of both
    assert " 8.00 " in told[2] and "±" not in told[2]
    assert "4.50 ± 0.707" in told[3] and "4.50 ± 0.577" in told[3] and told[3].count("±") == 2


def test_short_times_have_digits() -> None:
    assert "0.000800" in str(scaling_of([made_up(1, 0.0008)]))
    assert "0.000800" in str(made_up(1, 0.0008).timings)


def test_workers_without_work_count() -> None:
    """A run that asks for four workers and has work for two pays for four."""
    one, four = scaling_of([made_up(1, 8.0, workers=1), made_up(2, 4.0, workers=4)]).series["mpi, XTC"]
    assert (four.n_workers, four.speed_up, four.efficiency) == (4, 2.0, 0.5)
    assert one.efficiency == 1.0


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ArgumentError, match="at least one"):
        scaling_of([])
    with pytest.raises(ArgumentError, match="found 100, 200 frames"):
        scaling_of([made_up(1, 1.0), made_up(2, 1.0, frames=200)])
    with pytest.raises(ArgumentError, match="quantity"):
        scaling_of([made_up(1, 1.0)], quantity="t_none")


def test_the_picture_has_bars_of_deviations() -> None:
    from kinema.report.figures.scaling import draw_scaling

    figure = draw_scaling(scaling_of([made_up(n, 8.0 / n + r) for n in (1, 2, 4, 16) for r in (0.0, 0.5)]))
    assert [len(axes.containers) for axes in figure.axes] == [1, 1, 1]
    assert all(axes.containers[0].has_yerr for axes in figure.axes)


def test_names_of_series_are_drawn_as_they_are() -> None:
    """A `$` is the beginning of mathematics for matplotlib, and `\\x` none that it knows."""
    from kinema.report.figures.scaling import draw_scaling

    for workers in ((1, 2), (1,)):
        figure = draw_scaling(scaling_of([made_up(n, 1.0, format=f"$\\x{x}$") for n in workers for x in "ab"]))
        figure.savefig(io.BytesIO())
    drawn = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert drawn == [r"mpi, \$\xa\$", r"mpi, \$\xb\$"]


def test_many_series_can_be_told_apart() -> None:
    from kinema.report.figures.scaling import draw_scaling

    reports = [made_up(n, 8.0 / n, format=f"f{number}") for number in range(12) for n in (1, 2, 3)]
    figure = draw_scaling(scaling_of(reports))
    lines = [container.lines[0] for container in figure.axes[1].containers]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 12
    # beside the number that they are of, not at another
    assert max(abs(line.get_xdata()[2] - 3) for line in lines) < 0.15


def test_the_picture_of_one_number_of_workers() -> None:
    from kinema.report.figures.scaling import draw_scaling

    reports = [made_up(1, seconds) for seconds in (4.0, 5.0)]
    (axes,) = draw_scaling(scaling_of(reports)).axes
    assert [bar.get_width() for bar in axes.patches] == [4.5]


# -- designs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"runners": ("fork",)},
        {"page_cache": "cold"},
        {"sources": ("disk",)},
        {"formats": ("pdb",)},
        {"gathers": ("one-sided",)},
        {"ranks_per_node": (2,)},
        {"schedule": "static"},
        {"accesses": ("in memory",)},
        {"accesses": ("direct", "hdf5-mpio-collective")},
        {"memory": "much"},
        {"runners": ("serial",)},
        {"workers": (0,)},
        {"workers": ()},
        {"formats": ()},
        {"sources": ()},
        {"accesses": ()},
        {"runners": ("mpi",), "gathers": ()},
        {"repeats": 0},
        {"workloads": ()},
        {"files": ()},
        {"oversubscribes": (3,)},
        {"oversubscribes": (0, 3), "runners": ("dask",)},
    ],
)
def test_designs_that_cannot_be(wrong: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        Design(**{"files": ("md.xtc",), **wrong})  # type: ignore[arg-type]


def test_series_of_a_design() -> None:
    design = Design(files=("md.xtc",), formats=("xtc", "nc", "h5md"), workloads=(1, 40), sources=("file", "synthetic"))
    settings = [(one.source, one.format, one.workload) for one in design.settings()]
    assert settings == [
        *(("file", name, work) for name in ("xtc", "nc", "h5md") for work in (1, 40)),
        ("synthetic", "as is", 1),
        ("synthetic", "as is", 40),
    ]


# -- files and runs ---------------------------------------------------------------------------------------------


@pytest.fixture
def walk(tmp_path: Path) -> Path:
    path = tmp_path / "walk.xtc"
    write_xtc(path, random_walk(60, 30), dt=1.0)
    return path


def test_files_hold_the_same_frames(walk: Path, tmp_path: Path) -> None:
    traj = kn.open(walk)[10:50:2]
    expected = traj.read()
    for made in (
        *(files.write_as(traj, tmp_path, name) for name in ("xtc", "trr", "nc", "dcd", "h5md", *files.H5MD_LAYOUTS)),
        files.write_subfiles(traj, tmp_path, 3),
    ):
        found = kn.open(made, overlap="all")
        assert found.n_frames == 20, made
        np.testing.assert_allclose(found.read(), expected, atol=0.011, err_msg=str(made))
    with pytest.raises(ArgumentError, match="do not fill"):
        files.write_subfiles(traj, tmp_path, 21)


def test_layouts_are_what_they_are_called(walk: Path, tmp_path: Path) -> None:
    import h5py

    traj = kn.open(walk)
    found = {}
    for name in files.H5MD_LAYOUTS:
        with h5py.File(files.write_as(traj, tmp_path, name)[0]) as file:
            values = file["particles/trajectory/position/value"]
            found[name] = (values.chunks, values.compression_opts)
    automatic, _ = found.pop("h5md-automatic")
    assert automatic is not None and automatic != (1, 30, 3)
    one = (1, 30, 3)
    assert found == {
        "h5md-frame": (one, None),
        "h5md-contiguous": (None, None),
        "h5md-gzip1": (one, 1),
        "h5md-gzip9": (one, 9),
    }


def test_synthetic_data_have_their_size_and_a_limit(tmp_path: Path) -> None:
    found = kn.open(files.write_synthetic(tmp_path, 30, 12))
    assert (found.n_atoms, found.n_frames) == (30, 12)
    with pytest.raises(ArgumentError, match="choose fewer frames"):
        files.write_synthetic(tmp_path, 10**9, 10**9)


@pytest.mark.parametrize("cache", ["warm", "drop", "copy"])
def test_runs_and_their_reports(walk: Path, tmp_path: Path, cache: str) -> None:
    # each run is a process
    workloads = (1, 3) if cache == "warm" else (3,)
    design = Design(files=(str(walk),), workers=(1, 2), repeats=1, workloads=workloads, page_cache=cache, stop=40)
    heard: list[str] = []
    outcomes = list(run_design(design, tmp_path / "out", heard.append))
    expected = [(work, n) for work in workloads for n in (1, 2)]
    assert [(one.setting.workload, one.workers) for one in outcomes] == expected
    assert all(one.report.timings.frames == 40 for one in outcomes)
    assert [len(one.report.run["analyses"]) for one in outcomes] == [work for work, _ in expected]
    assert all(one.job_seconds > one.report.timings.whole for one in outcomes)
    lines = [json.loads(line) for line in (tmp_path / "out/results.jsonl").read_text().splitlines()]
    assert [line["quantities"] for line in lines] == [one.report.quantities.as_dict() for one in outcomes]
    assert len(heard) == len(expected)
    # scratch files are gone
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["reports", "results.jsonl"]
    assert len(list((tmp_path / "out/reports").iterdir())) == len(expected)


def test_formats_side_by_side(walk: Path, tmp_path: Path) -> None:
    """As the publication of 2017 compares them: the same frames in each, the same result."""
    formats = ("xtc", "dcd", "nc", "trr", "h5md")
    design = Design(files=(str(walk),), workers=(2,), repeats=1, formats=formats)
    outcomes = list(run_design(design, tmp_path / "out", lambda _: None))
    assert [(one.setting.format, one.workers) for one in outcomes] == [(name, 2) for name in formats]
    read = ["XTC", "DCD", "NetCDF", "TRR", "H5MD"]
    assert [one.report.input["format"] for one in outcomes] == read
    assert all(one.report.timings.frames == 60 for one in outcomes)
    series = scaling_of([one.report for one in outcomes]).series
    assert len(series) == len(formats)
    assert all(any(name in label for label in series) for name in formats)


def test_results_of_another_experiment_stay(walk: Path, tmp_path: Path) -> None:
    design = Design(files=(str(walk),), workers=(1, 99), repeats=1)
    heard: list[str] = []
    list(run_design(design, tmp_path / "out", heard.append))
    # sixty frames are not enough work for 99 workers
    assert re.search(r"99 workers \(\d+ had work\)", heard[1])
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.json*")}
    assert len(before) == 3
    with pytest.raises(ArgumentError, match="another experiment"):
        list(run_design(design, tmp_path / "out", heard.append))
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.json*")} == before


@pytest.mark.parametrize("stop", [KeyboardInterrupt, Terminated, OSError])
def test_what_was_measured_is_told_of_when_it_ends_early(walk: Path, tmp_path: Path, stop: type[BaseException]) -> None:
    design = Design(files=(str(walk),), workers=(1, 2), repeats=2, formats=("dcd",))
    heard: list[str] = []

    def tell(text: str) -> None:
        heard.append(text)
        if len(heard) == 3:
            raise stop

    out = tmp_path / "out"
    with pytest.raises(stop) as caught:
        list(run_design(design, out, tell))
    assert caught.value.__notes__ == [f"2 runs are kept in {out / 'results.jsonl'}, with reports in {out / 'reports'}"]
    assert len((out / "results.jsonl").read_text().splitlines()) == 2
    # no copies of files stay
    assert sorted(path.name for path in out.iterdir()) == ["reports", "results.jsonl"]


def test_files_that_have_no_room_are_refused(walk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traj = kn.open(walk)
    little = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda folder: little)
    for name in ("dcd", "h5md", "h5md-contiguous"):
        with pytest.raises(ArgumentError, match="1,000 are free there"):
            files.write_as(traj, tmp_path, name)
    with pytest.raises(ArgumentError, match="1,000 are free there"):
        files.write_synthetic(tmp_path, 9, 99)
    monkeypatch.undo()
    in_dcd = kn.open(files.write_as(traj, tmp_path, "dcd"))
    monkeypatch.setattr(files.shutil, "disk_usage", lambda folder: little)
    with pytest.raises(ArgumentError, match="1,000 are free there"):
        files.write_subfiles(in_dcd, tmp_path, 2)


# a part of a frame, and all of the last
@pytest.mark.parametrize("lost", [10, 30 * 12 + 24])
def test_files_that_were_cut_are_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
    """MDAnalysis' DCD writer says nothing on a full disk."""
    opened = files.open_trajectory

    def cut(path: str) -> Any:
        os.truncate(path, os.path.getsize(path) - lost)
        return opened(path)

    monkeypatch.setattr(files, "open_trajectory", cut)
    with pytest.raises(FileIOError, match="was not written whole"):
        files.write_synthetic(tmp_path, 30, 12)


def test_chains_have_the_same_files_for_all(walk: Path, tmp_path: Path) -> None:
    design = Design(files=(str(walk),), workers=(1, 3), repeats=1, formats=("subfiles", "chain"))
    outcomes = list(run_design(design, tmp_path / "out", lambda text: None))
    assert [len(one.report.input["files"]) for one in outcomes] == [1, 3, 3, 3]


def test_pieces_of_work(tmp_path: Path) -> None:
    path = tmp_path / "walk.xtc"
    write_xtc(path, random_walk(600, 30), dt=1.0)
    design = Design(
        files=(str(path),), workers=(2,), repeats=1, runners=("dask",), schedule="static", oversubscribes=(1, 8)
    )
    one, eight = (outcome.report for outcome in run_design(design, tmp_path / "out", lambda text: None))
    tasks = [sum(w.tasks for w in report.timings.passes[0].tasks.workers) for report in (one, eight)]  # type: ignore[union-attr]
    assert tasks[1] >= 16 > tasks[0]
    assert len(scaling_of([one, eight]).series) == 2


def test_each_access_is_a_series(walk: Path, tmp_path: Path) -> None:
    accesses = ("direct", "frame", "subset", "in-memory")
    design = Design(
        files=(str(walk),), workers=(2,), repeats=1, runners=("processes",), accesses=accesses, memory="9 MiB"
    )
    outcomes = list(run_design(design, tmp_path / "out", lambda text: None))
    assert [one.setting.access for one in outcomes] == [one.report.timings.access for one in outcomes] == list(accesses)
    names = [f"processes, XTC{'' if one == 'direct' else f', access {one}'}" for one in accesses]
    assert list(scaling_of([one.report for one in outcomes]).series) == names
    lines = [json.loads(line) for line in (tmp_path / "out/results.jsonl").read_text().splitlines()]
    assert [line["access"] for line in lines] == list(accesses)
    tight = Design(files=(str(walk),), workers=(1,), repeats=1, accesses=("in-memory",), memory="2 MiB")
    (gap,) = run_design(tight, tmp_path / "tight", lambda text: None)
    assert gap.report is None and 'access "in-memory" holds 60 frames of 30 atoms' in gap.reason


def test_a_selection_that_cannot_be_is_refused_before_the_first_run(walk: Path, tmp_path: Path) -> None:
    design = Design(files=(str(walk),), select="name CA", workers=(1,), repeats=1)
    with pytest.raises(ArgumentError, match="selection 'name CA' needs a topology"):
        list(run_design(design, tmp_path / "out", lambda text: None))
    # nothing was measured, and so nothing is kept
    assert list(tmp_path.glob("out*")) == []


@pytest.mark.parametrize(("runner", "place"), [("processes", ""), ("mpi", "; on rank 1"), ("dask", "; on worker tls:")])
def test_a_run_that_fails_names_the_frame_and_the_worker(tmp_path: Path, runner: str, place: str) -> None:
    walk = random_walk(400, 30)
    walk[390, 7, 1] = np.nan
    path = tmp_path / "nan.dcd"
    write_dcd(path, walk)
    design = Design(files=(str(path),), workers=(2,), repeats=1, runners=(runner,), schedule="static")
    (gap,) = run_design(design, tmp_path / "out", lambda text: None)
    assert re.search(f"frame 390: position of atom 8 .counted from 1. is not finite.*{place}", gap.reason)


def test_on_mpi_ranks_and_dask(walk: Path, tmp_path: Path) -> None:
    for runner, more in (("mpi", {"gathers": ("one-sided",), "schedule": "static"}), ("dask", {})):
        design = Design(files=(str(walk),), workers=(2,), repeats=1, runners=(runner,), **more)  # type: ignore[arg-type]
        (outcome,) = run_design(design, tmp_path / runner, lambda text: None)
        assert outcome.report.n_workers == 2
        assert outcome.report.timings.runner == runner
        tasks = outcome.report.timings.passes[0].tasks
        assert (tasks is not None) == (runner == "dask")
        if tasks is not None:
            assert tasks.job >= tasks.function > 0
            assert "slowest worker: function" in str(outcome.report)


# -- commands ---------------------------------------------------------------------------------------------------


def kinema(*words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = call_kinema(*words)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_report_commands(walk: Path, tmp_path: Path) -> None:
    paths = [tmp_path / "one.json", tmp_path / "two.json"]
    for workers, path in enumerate(paths, start=1):
        done = kinema("rmsd", "-f", walk, "-j", workers, "--report", path)
        assert str(path) in done.stdout
    told = kinema("report", paths[0], "--plot", tmp_path / "bars.png", "--timeline", tmp_path / "time.png").stdout
    assert "R_comp/IO" in told and "unaccounted" in told and "advice: " in told
    assert (tmp_path / "bars.png").exists() and (tmp_path / "time.png").exists()
    assert json.loads(kinema("report", paths[0], "--json").stdout)["schema"] == "kinema-report"
    told = kinema("report", *paths, "--plot", tmp_path / "scaling.pdf").stdout
    assert "threads, XTC: R_comp/IO" in told
    assert (tmp_path / "scaling.pdf").read_bytes().startswith(b"%PDF")
    assert " t_IO (s) " in kinema("report", *paths, "--quantity", "t_IO").stdout
    assert "t_unaccounted" in kinema("report", paths[0], "--names", "2020").stdout
    table = kinema("report", *paths, "--names", "2020", "--output-format", "csv").stdout.splitlines()
    assert table[0] == "report,name,sum_of,mean_s,deviation_s,largest_s" and len(table) == 1 + 2 * len(NAMES_2020)
    for wrong in (
        ["--quantity", "t_IO"],
        ["--output-format", "csv"],
        ["--names", "2020", "--plot", tmp_path / "n.png"],
    ):
        kinema("report", paths[0], *wrong, code=2)
    assert "t_nothing" in kinema("report", *paths, "--quantity", "t_nothing", code=2).stderr
    labelled = kinema("report", *paths, "--label", "a=*one.json", "--label", "b=*two.json").stdout
    assert "threads, XTC, a: R_comp/IO" in labelled and "threads, XTC, b: R_comp/IO" in labelled
    for wrong in ("a=nothing.json", "a"):
        kinema("report", *paths, "--label", wrong, code=2)
    found = json.loads(kinema("report", *paths, "--json").stdout)
    assert [point["n_workers"] for point in found["threads, XTC"]["points"]] == [1, 2]


def test_experiments_of_the_page_can_be_typed() -> None:
    """Options of the table in docs/accounting.md are options of the command, and their values are taken."""
    from typing import Any, cast

    import typer

    from kinema.cli.app import application

    command = cast(Any, typer.main.get_command(application(["scaling"]))).commands["scaling"]
    page = (Path(__file__).resolve().parents[2] / "docs/accounting.md").read_text(encoding="utf-8")
    _, _, page = page.partition("\n## Experiments\n")
    page, _, _ = page.partition("\n## ")
    rows = re.findall(r"^\| .* \| (.*`--.*) \|$", page, re.MULTILINE)
    assert len(rows) > 10
    for words in re.findall(r"`(--.*?)`", "".join(rows)):
        with command.make_context("scaling", ["-f", "md.xtc", *words.split()]) as context:
            given = context.params
        formats = given["formats"]
        gather = given["gather"]
        pieces, on_node = given["oversubscribe"], given["ranks_per_node"]
        Design(
            files=("md.xtc",),
            runners=tuple(given["runner"].split(",")),
            formats=("as is",) if formats is None else tuple(formats.split(",")),
            gathers=("",) if gather is None else tuple(gather.split(",")),
            oversubscribes=(0,) if pieces is None else tuple(map(int, pieces.split(","))),
            schedule=given["schedule"] or "",
            accesses=tuple(given["access"].split(",")),
            memory=given["memory"],
            sources=tuple(given["source"].split(",")),
            readers=tuple(given["reader"].split(",")),
            tasks=tuple(given["task"].split(",")),
            times=tuple(map(int, given["times"].split(","))),
            stripes=(0,) if given["stripes"] is None else tuple(map(int, given["stripes"].split(","))),
            page_cache=given["page_cache"],
            ranks_per_node=(None,) if on_node is None else tuple(map(int, on_node.split(","))),
        )


def test_report_commands_that_fail(walk: Path, tmp_path: Path) -> None:
    assert "no folder" in kinema("rmsd", "-f", walk, "--report", tmp_path / "no folder/r.json", code=2).stderr
    assert "name reports" in kinema("report", code=2).stderr
    assert "not a report of kinema" in kinema("report", walk, code=2).stderr
    assert "no published tables" in kinema("report", "--published", tmp_path, code=2).stderr
    assert "leave out" in kinema("report", walk, "--published", tmp_path, code=2).stderr
    assert "leave out" in kinema("report", "--published", tmp_path, "--timeline", "t.png", code=2).stderr
    assert ".png" in kinema("report", "--published", tmp_path, "--plot", tmp_path / "p.txt", code=2).stderr


def test_scaling_command(walk: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("scaling", "-f", walk, "--workers", "1,2", "--repeats", 1, "--source", "file,synthetic", "-o", out)
    done = kinema(*words, "--formats", "dcd,nc,subfiles")
    for label in ("threads, dcd", "threads, nc", "threads, subfiles", "threads, DCD, source synthetic"):
        assert f"{label}: R_comp/IO" in done.stdout
    assert (out / "scaling.png").read_bytes().startswith(b"\x89PNG")
    assert len((out / "results.jsonl").read_text().splitlines()) == 8
    assert "found '1,x'" in kinema("scaling", "-f", walk, "--workers", "1,x", code=2).stderr
    # the design's word for what the runner does by itself is none of the command line's
    found = kinema("scaling", "-f", walk, "--runner", "dask", "--oversubscribe", "0", code=2).stderr
    assert "--oversubscribe takes whole numbers from 1 to 65536, with commas between, found '0'" in found


def test_pictures_of_other_kinds_are_refused(walk: Path, tmp_path: Path) -> None:
    report = kn.analysis.RMSD(kn.open(walk)).run().report()
    with pytest.raises(UnsupportedFormatError):
        report.plot(tmp_path / "bars.txt")

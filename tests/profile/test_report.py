"""Reports: every second of every worker is somewhere, and a report that was saved says the same when it is read."""

from __future__ import annotations

import json
import math
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.errors import ArgumentError, CorruptFileError, FileNotFound
from kinema.base.timings import PHASES, TaskTimes, WorkerTaskTimes
from kinema.cli.in_process import call_kinema
from kinema.report import Report, Straggler, report_of, scaling_of
from kinema.report.advice import Circumstances, advise
from kinema.report.places import Place
from kinema.report.quantities import quantities_of
from kinema.report.ranks import tables_of_reports
from kinema.report.stored import MOST_BLOCKS, report_as_dict
from kinema.report.stragglers import SlowFile
from kinema.runners import PassTimings, Timings, WorkerTimings, choose_runner
from kinema.studies.publications.paper_tables import make_table
from kinema.testing import random_walk, synthetic, write_dcd, write_h5md, write_xtc

run_module = import_module("kinema.execution.run")
ROOT = str(Path(kn.__file__).parent.parent)


@pytest.fixture
def walk(tmp_path: Path) -> kn.Trajectory:
    path = tmp_path / "walk.xtc"
    write_xtc(path, random_walk(600, 50), dt=1.0)
    return kn.open(path)


def one_report(traj: kn.Trajectory, runner: str = "threads", workers: int = 2) -> Report:
    return kn.analysis.RMSD(traj).run(runner=runner, workers=workers).report()


@pytest.mark.parametrize("runner", ["threads", "processes"])
def test_every_second_is_somewhere(walk: kn.Trajectory, runner: str) -> None:
    report = one_report(walk, runner)
    assert report.timings.runner == runner
    for worker in report.timings.workers:
        phases = [getattr(worker, phase) for phase in PHASES]
        assert math.isclose(sum(phases) + worker.unaccounted, worker.total, abs_tol=1e-9)
    totals = report.timings.totals
    assert math.isclose(sum(totals.values()), sum(worker.total for worker in report.timings.workers), abs_tol=1e-9)
    assert report.timings.whole >= report.timings.wall
    assert report.timings.opening["trajectory"] > 0
    assert report.timings.opening["frames"] > 0


def test_what_comes_before_the_rounds_is_counted(walk: kn.Trajectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Making a runner imports what it needs: seconds of Dask's, of which no clock of a round knows."""

    def slow(*given: Any, **options: Any) -> Any:
        time.sleep(0.2)
        return choose_runner(*given, **options)

    monkeypatch.setattr(run_module, "choose_runner", slow)
    timings = one_report(walk).timings
    assert timings.whole >= 0.2 + timings.wall
    assert quantities_of(timings).t_start >= timings.start >= 0.2
    # and not in the time of the job
    assert quantities_of(timings).t_total <= timings.whole + sum(timings.opening.values()) - 0.2
    # finding frames is told apart
    assert "frames" in timings.opening


def test_finding_frames_in_another_way_is_timed(tmp_path: Path) -> None:
    write_xtc(tmp_path / "other.xtc", random_walk(20, 30), dt=1.0)
    traj = kn.open(tmp_path / "other.xtc")
    traj.scan(search=lambda core: time.sleep(0.1))
    assert traj.n_frames == 20
    assert traj.opening["frames"] >= 0.1


def test_the_papers_quantities() -> None:
    two = tuple(
        WorkerTimings(
            number, open=0.5, io=2.0, decode=1.0, compute=6.0, wait=number, total=12.0, cpu=9.0, frames=50, blocks=5,
            bytes_read=100, reads=5, start=1.0, communicate=0.25, close=0.125,
        )
        for number in range(2)
    )  # fmt: skip
    timings = Timings(
        (PassTimings(12.0, 100, two, np.empty((0, 7))),), whole=13.0, opening={"topology": 3.0, "frames": 2.0}
    )
    report = Report({}, {}, {}, timings, (), (), ())
    found = report.quantities
    assert found.t_IO == 3.0
    assert found.t_compute == 6.0
    assert found.R_comp_IO == 2.0
    assert found.R_comp_IO_is_estimate
    assert found.t_wait == 0.5
    assert found.t_communication == 0.25
    assert found.t_communication_with_wait == 0.75
    assert found.R_comp_comm == 24.0
    assert found.R_comp_comm_with_wait == 8.0
    assert found.t_open_topology == 3.0
    assert found.t_open_trajectory == 2.0 + 0.5
    assert found.t_open == 3.0 + 2.5
    assert found.t_start == 1.0
    assert found.t_end_loop == 0.125
    assert found.t_total == 16.0
    assert found.t_unaccounted == pytest.approx(12.0 - 10.875 - 0.5)


def test_one_worker_measures_the_ratio(walk: kn.Trajectory) -> None:
    assert not one_report(walk, workers=1).quantities.R_comp_IO_is_estimate
    assert one_report(walk, workers=2).quantities.R_comp_IO_is_estimate


def test_saved_and_read_again(walk: kn.Trajectory, tmp_path: Path) -> None:
    report = one_report(walk, "processes")
    report.save(tmp_path / "report.json")
    again = Report.load(tmp_path / "report.json")
    assert str(again) == str(report)
    assert again.timings.workers == report.timings.workers
    np.testing.assert_allclose(again.timings.blocks, report.timings.blocks, atol=1e-7)
    assert report_as_dict(again)["quantities"] == report.as_dict()["quantities"]
    # no number that other programs' JSON does not know
    json.loads((tmp_path / "report.json").read_text(), parse_constant=lambda name: pytest.fail(name))


def test_many_blocks_are_cut_and_told(walk: kn.Trajectory) -> None:
    report = one_report(walk)
    one = report.timings.passes[0]
    rows = np.tile(one.blocks[:1], (MOST_BLOCKS + 5, 1))
    rows[0, 6] = 100.0
    many = Report(
        report.machine, report.input, report.run, Timings((PassTimings(1.0, 5, one.workers, rows),)), (), (), ()
    )
    (found,) = many.as_dict()["rounds"]
    assert found["blocks_left_out"] == 5
    assert len(found["blocks"]) == MOST_BLOCKS
    assert found["blocks"][0][6] == 100.0
    assert many.as_dict()["blocks"]["compute"]["count"] == MOST_BLOCKS + 5


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "other"}', "\udce9"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(CorruptFileError, match="is not a report of kinema"):
        Report.load(path)


def test_damaged_and_newer_reports_are_refused(walk: kn.Trajectory, tmp_path: Path) -> None:
    found = one_report(walk).as_dict()
    path = tmp_path / "report.json"
    for name in ("rounds", "whole", "run", "stragglers", "extra"):
        path.write_text(json.dumps({key: value for key, value in found.items() if key != name}))
        with pytest.raises(CorruptFileError, match="damaged"):
            Report.load(path)
    path.write_text(json.dumps(found | {"version": 3}))
    with pytest.raises(ArgumentError, match="expected 1 to 2, found 3"):
        Report.load(path)
    with pytest.raises(FileNotFound):
        Report.load(tmp_path / "none.json")


def test_reports_of_version_1_are_read(tmp_path: Path) -> None:
    """They were written before planning was told apart, and before workers had a number of threads."""
    old = Path(__file__).parents[1] / "data/reports/version-1.json"
    report = Report.load(old)
    found = report.quantities
    assert (found.t_plan, report.timings.start, report.timings.plan) == (0.0, 0.0, 0.0)
    stored = json.loads(old.read_text())
    former = stored["quantities"]
    assert found.t_compute == pytest.approx(former["t_comp"])
    assert found.t_open + found.t_start == pytest.approx(former["t_opening_trajectory"])
    with pytest.warns(DeprecationWarning, match="t_comm is t_communication now"):
        assert found.t_comm == pytest.approx(former["t_comm"])
    with pytest.raises(AttributeError, match="t_nothing"):
        found.t_nothing  # noqa: B018
    report.save(tmp_path / "new.json")
    again = Report.load(tmp_path / "new.json")
    assert again.quantities == found and again.as_dict()["version"] == 2
    # seconds of a worker's threads were added up then as well
    for worker in stored["rounds"][0]["workers"]:
        worker["total"] = 2 * stored["rounds"][0]["wall"]
    (tmp_path / "threads.json").write_text(json.dumps(stored))
    assert [worker.threads for worker in Report.load(tmp_path / "threads.json").timings.workers] == [2, 2]


def _places_of(found: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to every value; only the first two items of lists."""
    yield place
    items = list(found.items()) if isinstance(found, dict) else list(enumerate(found))[:2]
    for name, value in items:
        if isinstance(value, dict | list):
            yield from _places_of(value, (*place, name))
        else:
            yield (*place, name)


def test_no_damage_gets_beyond_reading(walk: kn.Trajectory, tmp_path: Path) -> None:
    """For any value in place of any other, the file is refused, or the report says all that it can."""
    slow = Straggler(0, 1, "", 2.0, "io", 2.0, 1.0, 1, 1, (Place("a.xtc", 0, 1, 0, 10, True, None),))
    report = replace(one_report(walk, "processes"), stragglers=(slow,), slow_files=(SlowFile("a.xtc", "io", 2.0, 1.0),))
    tasks = TaskTimes(1.0, (WorkerTaskTimes("a", 1, 0.5, 0.6, 0.1),))
    passes = (replace(report.timings.passes[0], tasks=tasks),)
    sound = json.dumps(replace(report, timings=replace(report.timings, passes=passes)).as_dict())
    path = tmp_path / "report.json"
    refused = 0
    values = (None, -1, 10**400, "x", [], {}, [1], {"a": 1}, True, float("nan"))
    places = list(_places_of(json.loads(sound)))[1:]
    for number, place in enumerate(places):
        # half of them in each place, the other half in the next
        for wrong in values[number % 2 :: 2]:
            found = json.loads(sound)
            inner = found
            for name in place[:-1]:
                inner = inner[name]
            inner[place[-1]] = wrong
            # some file systems flush a file that is written over
            path.unlink(missing_ok=True)
            path.write_text(json.dumps(found))
            try:
                read = Report.load(path)
            except (CorruptFileError, ArgumentError):
                refused += 1
                continue
            assert str(read) and read.as_dict()
            with suppress(ArgumentError):  # without workers there is nothing to compare
                assert str(scaling_of([read]))
                series = [table.series() for table in tables_of_reports([read])]
                for name in ("2021-1", "2021-2", "2021-3"):
                    assert make_table(name, reports=[read], series=series).markdown
    assert refused > 500
    path.write_text("[" * 100_000)
    with pytest.raises(CorruptFileError):
        Report.load(path)


def test_pictures_where_nothing_was_read(walk: kn.Trajectory) -> None:
    report = one_report(walk)
    restored = PassTimings(0.0, 600, (), np.empty((0, 7)), 600)
    nothing = replace(report, timings=replace(report.timings, passes=(restored,)))
    for kind in ("bars", "timeline"):
        with pytest.raises(ArgumentError, match="came from a checkpoint"):
            nothing.plot(kind=kind)


def test_there_is_none_before_the_run(walk: kn.Trajectory, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="call run"):
        kn.analysis.RMSD(walk).report()
    with pytest.raises(FileNotFound):
        one_report(walk).save(tmp_path / "no folder" / "report.json")


def test_several_analyses_have_one(tmp_path: Path) -> None:
    write_dcd(tmp_path / "walk.dcd", random_walk(100, 40))
    traj = kn.open(tmp_path / "walk.dcd")
    both = kn.run([kn.analysis.RMSD(traj, [0, 1, 2]), kn.analysis.RadiusOfGyration(traj, [2, 3], weights=None)])
    report = report_of(both[0].record, extra={"repeat": 3})
    assert report.run["atoms"] == 4
    assert report.extra["repeat"] == 3
    # bytes of four atoms in a hundred frames
    assert report.input["bytes_wanted"] == 100 * 4 * 12
    assert "RMSD, RadiusOfGyration" in str(report)
    # a second round reads them again
    twice = kn.analysis.RMSF(traj, [0, 1, 2], align="average").run().report()
    assert twice.input["bytes_wanted"] == 2 * 100 * 3 * 12


def advice(*, run: Circumstances | None = None, **seconds: float) -> str:
    """Advice for two workers that each spent these seconds and had a core to itself."""
    times = {"open": 0.0, "io": 0.0, "decode": 0.0, "compute": 0.0, "wait": 0.0, "communicate": 0.0} | seconds
    total = sum(times.values())
    two = tuple(
        WorkerTimings(number, total=total, cpu=total, frames=10, blocks=1, bytes_read=1, reads=1, **times)
        for number in range(2)
    )
    timings = Timings((PassTimings(1.0, 20, two, np.empty((0, 7))),), runner="mpi")
    run = run or Circumstances("XTC", ("my md.xtc",), 4, "mpi")
    return "\n".join(advise(timings, quantities_of(timings), (), (), run))


def test_advice_names_what_binds() -> None:
    assert "I/O bound: R_comp/IO 0.3 " in advice(io=10.0, compute=3.0)
    assert "shared file" in advice(io=10.0, compute=3.0)
    assert "bound by decoding XTC" in advice(io=1.0, decode=9.0, compute=3.0)
    assert "compute bound: R_comp/IO 11 " in advice(io=1.0, compute=11.0)
    assert "--oversubscribe" in advice(io=1.0, compute=2.0, wait=8.0)
    assert "one-sided" not in advice(io=1.0, compute=2.0, communicate=0.01)
    assert advice(io=1e-4, compute=1e-3).startswith("too short to judge by")


def test_branches_of_the_publication() -> None:
    """The publication of 2020: both ratios large, or one of them, or none."""
    well = advice(io=1.0, compute=9.0, communicate=0.1)
    assert "R_comp/IO 9 " in well and "R_comp/comm 90; more workers help with any layout" in well
    assert "one-sided" not in well and "kinema split" not in well
    talks = advice(io=1.0, compute=2.0, communicate=8.0)
    assert "messages limit it, not files" in talks and "--gather one-sided" in talks and "kinema split" not in talks
    reads = advice(io=10.0, compute=3.0, communicate=0.1)
    assert "H5MD" in reads and "kinema split" in reads and "one-sided" not in reads
    both = advice(io=10.0, compute=3.0, communicate=8.0)
    assert "kinema split" in both and "--gather one-sided" in both
    put = Circumstances("XTC", ("md.xtc",), 4, "mpi", one_sided=True)
    assert "--gather one-sided" not in advice(run=put, io=1.0, compute=2.0, communicate=8.0)
    assert "parallel or node-local" in advice(run=Circumstances("H5MD", ("md.h5",), 4, "mpi"), io=10.0, compute=3.0)


def test_shared_cores_are_named(walk: kn.Trajectory) -> None:
    one = one_report(walk).timings.passes[0]
    slow, usual = (replace(one.workers[0], worker=n, decode=s, compute=0.0, cpu=1.0) for n, s in ((0, 4.0), (1, 1.0)))
    timings = Timings((replace(one, workers=(replace(slow, total=4.0), replace(usual, total=4.0))),))
    straggler = Straggler(0, 0, "", 4.0, "decode", 4.0, 1.0)
    told = "\n".join(
        advise(timings, quantities_of(timings), [straggler], (), Circumstances("XTC", ("a",), 2, "threads"))
    )
    assert "CPU time is 40% of the time of decoding and computing" in told
    assert "worker 0 had 1.000 s of CPU time in the 4.000 s" in told


def run_as_printed(told: str) -> None:
    """The one command that the advice names."""
    (command,) = re.findall(r"`(kinema .*?)`", told)
    words = shlex.split(command)[1:]
    assert call_kinema(*words).returncode == 0


def io_bound_report(path: Path) -> Report:
    """A report of a run whose computing took no time, whatever else the machine was busy with."""
    analysis = kn.analysis.RMSD(kn.open(path), select=[0, 1]).run(workers=1)
    (one,) = analysis.timings.passes
    idle = tuple(replace(worker, compute=0.0) for worker in one.workers)
    timings = replace(analysis.timings, passes=(replace(one, workers=idle),))
    analysis.record = replace(analysis.record, timings=timings)
    return analysis.report()


def test_commands_run_as_they_are_printed(tmp_path: Path) -> None:
    folder = tmp_path / "my $files"
    folder.mkdir()
    write_h5md(folder / "md one.h5md", synthetic(200, 4000, cell="none"), chunks=(50, 4000, 1))
    report = io_bound_report(folder / "md one.h5md")
    run_as_printed("\n".join(report.advice))
    assert kn.open(folder / "md one-frames.h5md").n_frames == 200
    write_xtc(folder / "md.xtc", random_walk(20, 30), dt=1.0)
    run_as_printed(advice(run=Circumstances("XTC", (str(folder / "md.xtc"),), 4, "mpi"), io=10.0, compute=3.0))
    assert len(list((folder / "md.parts").iterdir())) == 2


def test_amplification_is_named(tmp_path: Path) -> None:
    # h5py's automatic chunks cut frames
    path = tmp_path / "auto.h5md"
    write_h5md(path, synthetic(200, 4000, cell="none"), chunks=(50, 4000, 1))
    report = io_bound_report(path)
    (sentence,) = [one for one in report.advice if "amplification" in one]
    assert f"`kinema repack {path} {tmp_path / 'auto-frames.h5md'} --layout frames` would" in sentence
    assert "50x less" in sentence


def test_pictures_show_all_time(walk: kn.Trajectory, tmp_path: Path) -> None:
    report = one_report(walk)
    figure = report.plot(tmp_path / "bars.png")
    (axes,) = figure.axes
    heights: dict[int, float] = {}
    for bar in axes.patches:
        heights[round(bar.get_x() + bar.get_width() / 2)] = bar.get_y() + bar.get_height()
    for worker in report.timings.workers:
        assert heights[worker.worker] == pytest.approx(worker.total, rel=0.02)
    report.plot(tmp_path / "timeline.svg", kind="timeline")
    marked = [
        replace(report, stragglers=tuple(Straggler(0, n, "", 2.0, "io", 2.0, 1.0) for n in who))
        for who in ((0,), (0, 1))
    ]
    many = replace(report.timings.passes[0].workers[0], total=1.0)
    crowd = (replace(report.timings.passes[0], workers=tuple(replace(many, worker=n) for n in range(40))),)
    for one, words in ((marked[0], 1), (marked[1], 2), (replace(marked[1], timings=Timings(crowd)), 0)):
        # words that would stand on each other are marks instead
        assert sum("straggler" in text.get_text() for text in one.plot().axes[0].texts) == words
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "timeline.svg").read_bytes()
    with pytest.raises(ArgumentError, match="kind"):
        report.plot(kind="pie")

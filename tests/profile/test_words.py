"""Words and stored values of reports, number by number: every figure in the words is that of the timings."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.base.choices import QUANTITIES
from kinema.base.printable import three_digits
from kinema.base.timings import TaskTimes, WorkerTaskTimes
from kinema.report import Report, Straggler, scaling_of
from kinema.report.advice import Circumstances, advise
from kinema.report.names_2020 import named_times
from kinema.report.quantities import quantities_of
from kinema.report.stored import block_summary, report_as_dict
from kinema.runners import PassTimings, Timings, WorkerTimings
from kinema.testing import random_walk, write_xtc


def worker(number: int, *, threads: int = 1, **more: float) -> WorkerTimings:
    """Twelve seconds, of which no clock saw 0.5."""
    seconds = {
        "start": 1.0, "open": 0.5, "io": 2.0, "decode": 1.0, "compute": 6.0, "wait": 0.625, "communicate": 0.25,
        "close": 0.125, "total": 12.0, "cpu": 9.0,
    } | more  # fmt: skip
    return WorkerTimings(number, frames=50, blocks=5, bytes_read=4800, reads=5, threads=threads, **seconds)


def timings(*workers: WorkerTimings, tasks: TaskTimes | None = None) -> Timings:
    one = PassTimings(12.0, 100, workers, np.empty((0, 7)), tasks=tasks)
    return Timings((one,), whole=13.5, opening={"topology": 3.0, "trajectory": 0.5, "frames": 2.0}, runner="mpi")


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """A report of a real run, with known timings."""
    write_xtc(tmp_path / "walk.xtc", random_walk(60, 30), dt=1.0)
    found = kn.analysis.RMSD(kn.open(tmp_path / "walk.xtc")).run().report()
    given = {**found.input, "bytes_wanted": 2400}
    return replace(found, timings=timings(worker(0), worker(1)), input=given, stragglers=(), advice=("a word",))


def test_all_figures_of_a_report(report: Report) -> None:
    lines = str(report).splitlines()
    assert "(XTC, 30 atoms, 30 of them used), runner mpi" in lines[0]
    assert lines[1] == (
        "once: topology 3.000 s, headers 0.500 s, finding frames 2.000 s; besides the rounds (runner, planning, "
        "finishing, files): 1.500 s"
    )
    assert lines[2] == "100 frames, 12.000 s, 8 frames/s, 2 workers, 9,600 bytes in 10 reads"
    assert lines[3].split() == [
        "worker", "frames", "blocks", "start", "plan", "open", "io", "decode", "compute", "wait", "communicate",
        "close", "unaccounted", "total", "cpu",
    ]  # fmt: skip
    for number, line in enumerate(lines[4:6]):
        expected = ["50", "5", "1", "0", "0.5", "2", "1", "6", "0.625", "0.25", "0.125", "0.5", "12", "9"]
        assert [float(word) for word in line.split()] == [number, *map(float, expected)]
    assert lines[7] == (
        "quantities: t_total 16.5 s, t_open 6.00 s, t_plan 0 s, t_IO 3.00 s, t_compute 6.00 s, t_wait 0.625 s, "
        "t_communication 0.250 s, t_end_loop 0.125 s, t_unaccounted 0.500 s, t_start 1.00 s, t_open_topology 3.00 s, "
        "t_open_trajectory 3.00 s, t_communication with waiting 0.875 s, R_comp/IO (estimate) 2.00, R_comp/comm 24.0, "
        "R_comp/comm with waiting 6.86"
    )
    assert lines[8].startswith("where: ")
    assert lines[9] == "bytes read: 4.00 times the bytes of the atoms used"
    assert lines[10:] == ["stragglers: none", "advice: a word"]
    alone = replace(report, timings=timings(worker(0)))
    assert "R_comp/IO 2.00, " in str(alone) and "estimate" not in str(alone)


def test_shares_are_of_all_time() -> None:
    (line,) = [line for line in str(timings(worker(0), worker(1))).splitlines() if line.startswith("share")]
    assert line == (
        "share: start 8%, plan 0%, open 4%, io 17%, decode 8%, compute 50%, wait 5%, communicate 2%, close 1%, "
        "unaccounted 4%"
    )


def test_one_worker_of_several_threads_gives_an_estimate() -> None:
    assert quantities_of(timings(worker(0, threads=2))).R_comp_IO_is_estimate
    assert not quantities_of(timings(worker(0))).R_comp_IO_is_estimate


def test_rounds_add_up_and_workers_are_averaged() -> None:
    one = timings(worker(0), worker(1)).passes[0]
    found = quantities_of(Timings((one, one)))
    assert (found.t_compute, found.t_IO, found.t_start, found.t_unaccounted) == (12.0, 6.0, 2.0, 1.0)
    # without starting
    assert found.t_total == 22.0


def test_dasks_times_side_by_side(report: Report) -> None:
    """The publication of 2017 lost 61 s between the first two times."""
    workers = (WorkerTaskTimes("a", 7, 43.6, 104.25, 2.0), WorkerTaskTimes("b", 9, 40.0, 90.0, 1.0))
    tasks = TaskTimes(105.125, workers, lost_workers=("c",), redone=3)
    assert str(tasks).splitlines() == [
        "slowest worker: function 43.600 s, task 104.250 s (+60.650 s), job 105.125 s (+0.875 s)",
        "lost: c; 3 tasks were assigned again",
    ]
    told = report_as_dict(replace(report, timings=timings(worker(0), tasks=tasks)))["rounds"][0]["tasks"]
    assert (told["function"], told["task"], told["job"], told["redone"]) == (43.6, 104.25, 105.125, 3)
    assert [one["transfer"] for one in told["workers"]] == [2.0, 1.0]


def test_blocks_are_summed_up_and_what_lies_between_them() -> None:
    starts = [0.0, 2.0, 5.0, 9.0, 10.0]
    rows = [[0, n, 10, at, 0.25, 0.5, n / 4] for n, at in enumerate(starts)] + [[1, 9, 10, 0.0, 0.25, 0.5, 4.0]]
    two = (worker(0), worker(1))
    found = block_summary(Timings((PassTimings(12.0, 60, two, np.array(rows)),)))
    assert found["compute"] == {
        "count": 6, "mean": 6.5 / 6, "median": 0.625, "p95": pytest.approx(3.25), "max": 4.0
    }  # fmt: skip
    # from the end of one to the beginning of the next: 2 - 0.75, 3 - 1, 4 - 1.25, 1 - 1.5 is overlapping
    assert "between" not in found
    rows[4][3] = 11.0
    found = block_summary(Timings((PassTimings(12.0, 60, two, np.array(rows)),)))
    assert found["between"] == {"count": 4, "mean": 1.625, "median": 1.625, "p95": pytest.approx(2.6375), "max": 2.75}


def test_workers_are_stored_with_what_no_clock_saw(report: Report) -> None:
    (found,) = report_as_dict(report)["rounds"]
    assert [one["unaccounted"] for one in found["workers"]] == [0.5, 0.5]
    assert [one["compute"] for one in found["workers"]] == [6.0, 6.0]


# -- advice -----------------------------------------------------------------------------------------------------


def advice(run: Circumstances | None = None, who: tuple[Straggler, ...] = (), **seconds: float) -> list[str]:
    """For three workers, each with its core to itself."""
    zero = dict.fromkeys(("start", "open", "io", "decode", "compute", "wait", "communicate", "close"), 0.0)
    times = {**zero, **seconds}
    total = times.pop("total", sum(times.values()))
    three = tuple(worker(n, **times, total=total, cpu=total) for n in range(3))
    found = Timings((PassTimings(total, 100, three, np.empty((0, 7))),), runner="mpi")
    return list(advise(found, quantities_of(found), who, (), run or Circumstances("XTC", ("md.xtc",), 8, "mpi")))


def test_numbers_in_the_advice() -> None:
    first, waiting = advice(io=1.0, compute=2.5, wait=1.5)
    assert first == (
        "compute bound: R_comp/IO 2.5 (an estimate: that of a run with one worker counts); more workers help with any "
        "layout of the files"
    )
    assert waiting.startswith("30% of the workers' time is waiting: dynamic hand-out")
    (bound,) = advice(io=4.0, compute=1.0)
    assert bound.startswith("I/O bound: R_comp/IO 0.25 (an estimate")
    assert bound.endswith("`kinema split md.xtc --parts 3`")
    (bound,) = advice(io=1.0, decode=3.0, compute=1.0)
    assert "decoding is 75%" in bound
    _, said = advice(io=1.0, compute=2.0, communicate=7.0)
    assert said.startswith("R_comp/comm 0.29: messages take 70% of the workers' time")
    assert "40% of the workers' time is their start" in advice(io=1.0, compute=2.0, start=2.0)[1]
    assert advice(io=1.0, compute=2.0, total=4.0)[1] == (
        "25% of the workers' time is not accounted for: no clock saw it"
    )


def test_no_command_is_told_for_files_that_are_gone() -> None:
    layouts = {"md.h5md": {"in blocks": 5.0, "frame by frame": 23.0}}
    for run in (Circumstances("XTC", ("md.xtc",), 8, "mpi"), Circumstances("H5MD", ("a",), 8, "mpi", layouts=layouts)):
        assert "`kinema " in "\n".join(advice(run, io=4.0, compute=1.0))
        assert "`kinema " not in "\n".join(advice(replace(run, temporary=True), io=4.0, compute=1.0))


def test_the_advice_names_who_is_waited_for() -> None:
    slow = tuple(Straggler(0, number, "", 3.0, "start", 3.0, 1.0) for number in (2, 1))
    assert advice(who=slow, io=1.0, compute=2.0, wait=3.0)[1] == (
        "50% of the workers' time is waiting, for worker 2 above all"
    )


@pytest.mark.parametrize(
    ("access", "blocks", "frames", "told"),
    [
        ("direct", 1.0, 23.0, "automatic chunks, 23x amplification where frames are read one by one"),
        ("direct", 5.0, 23.0, "chunks with 5x amplification"),
        ("frame", 1.0, 23.0, "chunks with 23x amplification"),
        ("in-memory", 1.0, 23.0, "automatic chunks, 23x amplification"),
        ("direct", 1.0, 1.5, ""),
    ],
)
def test_amplification_is_that_of_the_way_of_reading(access: str, blocks: float, frames: float, told: str) -> None:
    layouts = {"md.h5md": {"in blocks": blocks, "frame by frame": frames}}
    run = Circumstances("H5MD", ("md.h5md",), 8, "mpi", access=access, layouts=layouts)
    said = "\n".join(advice(run, io=4.0, compute=1.0))
    assert (told in said) if told else ("amplification" not in said)
    if told:
        assert f"{blocks if 'with 5x' in told else frames:.0f}x less" in said
        assert "`kinema repack md.h5md md-frames.h5md --layout frames`" in said
    # nobody needs another file who computes
    assert "kinema repack" not in "\n".join(advice(run, io=1.0, compute=4.0))


# -- several runs -------------------------------------------------------------------------------------------------


def run_of(n: int, seconds: float, *, threads: int = 1, opening: float = 0.0) -> Report:
    """A run of which half is decoding, half computing, after `opening` seconds of opening."""
    half = {"decode": seconds / 2, "compute": seconds / 2}
    rest = dict.fromkeys(("start", "open", "io", "wait", "communicate", "close"), 0.0)
    workers = tuple(
        worker(number, **rest, **half, total=seconds * threads, cpu=seconds, threads=threads) for number in range(n)
    )
    times = Timings((PassTimings(seconds, 100, workers, np.empty((0, 7))),), opening={"frames": opening}, runner="mpi")
    return Report({}, {"format": "XTC"}, {"analyses": ["RMSD"], "runner": "mpi"}, times, (), (), ())


def test_the_table_of_several_runs() -> None:
    told = str(scaling_of([run_of(1, 9.0), run_of(1, 11.0), run_of(4, 2.0), run_of(4, 3.0)])).splitlines()
    assert told[0] == "mpi, XTC: R_comp/IO 1 (measured, one worker)"
    assert re.split("  +", told[1].strip()) == [
        "N", "runs", "t_total (s)", "S", "E", "mean of ranks", "largest", "ms/frame", "t_start", "t_open", "t_plan",
        "t_IO", "t_compute", "t_wait", "t_communication", "t_end_loop", "t_unaccounted",
    ]  # fmt: skip
    means = ["0", "0", "0", "5.00", "5.00", "0", "0", "0", "0"]
    assert re.split("  +", told[2].strip()) == [
        "1", "2", "10.0 ± 1.41", "1.00 ± 0.200", "1.00 ± 0.200", "10.0 ± 1.41", "11.0", "100", *means
    ]  # fmt: skip
    means[3:5] = ["1.25", "1.25"]
    # sqrt(0.02 + 0.08) of S = 4, and a fourth of it; four ranks of both runs, with a hundred frames a run
    assert re.split("  +", told[3].strip()) == [
        "4", "2", "2.50 ± 0.707", "4.00 ± 1.26", "1.00 ± 0.316", "2.50 ± 0.535", "3.00", "100", *means
    ]  # fmt: skip


def test_each_quantity_has_points() -> None:
    scaling = scaling_of([run_of(1, 8.0, opening=2.0), run_of(2, 5.0, opening=2.0)], quantity="t_decode")
    found = scaling.points["mpi, XTC"]
    assert set(found) == set(QUANTITIES)
    assert [found["t_total"][1].mean, found["t_open"][1].mean, found["t_compute"][1].mean] == [7.0, 2.0, 2.5]
    assert (found["t_compute"][1].speed_up, found["t_compute"][1].rank_largest) == (1.6, 2.5)
    # nothing was sent: there is no speed-up
    assert math.isnan(found["t_gather"][1].speed_up)
    assert re.split("  +", str(scaling).splitlines()[3].strip())[2:4] == ["2.50", "1.60"]
    assert scaling.as_dict()["mpi, XTC"]["quantities"]["t_compute"][1]["mean"] == 2.5


def test_three_digits() -> None:
    values = (0.0, 0.000123456, 0.9999, 12.34, 1027.4, 5.1e7, math.nan)
    assert [three_digits(value) for value in values] == ["0", "0.000123", "1.00", "12.3", "1030", "5.10e+07", "-"]


def test_names_of_2020() -> None:
    """t_N is t_RMSD and t_comm, as in the published tables, and t_RMSD has everything but messages and waiting."""
    found = {one.name: one for one in named_times(timings(worker(0), worker(1, wait=1.125, put=0.125, total=12.5)))}
    mean = {name: one.mean for name, one in found.items()}
    assert mean["t_opening_trajectory"] == 6.0
    assert mean["t_all_frame"] == mean["t_IO"] + mean["t_comp"] + mean["t_end_loop"] + mean["t_Overhead1"] == 9.625
    assert mean["t_RMSD"] == mean["t_opening_trajectory"] + mean["t_all_frame"] + mean["t_Overhead2"] == 15.625
    assert (mean["t_comm"], mean["t_put"]) == (1.125, 0.0625)
    assert mean["t_N"] == mean["t_RMSD"] + mean["t_comm"]
    assert found["t_N"].largest == quantities_of(timings(worker(0, total=12.5))).t_total
    assert found["t_comm"].deviation == pytest.approx(0.5**0.5 / 2)


def test_the_ratio_is_that_of_one_worker_of_one_thread() -> None:
    assert scaling_of([run_of(1, 8.0), run_of(2, 4.0)]).R_comp_IO == {"mpi, XTC": 1.0}
    assert scaling_of([run_of(1, 8.0, threads=2), run_of(2, 4.0)]).R_comp_IO == {}
    # who asked for two, and had work for one, measured that of two
    assert scaling_of([replace(run_of(1, 8.0), extra={"workers": 2})]).R_comp_IO == {}


def test_speed_up_is_that_of_the_whole_unless_asked_for_otherwise() -> None:
    reports = [run_of(1, 8.0, opening=2.0), run_of(2, 5.0, opening=2.0)]
    assert [one.speed_up for one in scaling_of(reports).series["mpi, XTC"]] == [1.0, 10.0 / 7.0]
    assert scaling_of(reports, quantity="t_compute").series["mpi, XTC"][1].speed_up == 1.6
    with pytest.warns(DeprecationWarning, match="t_comp is t_compute now"):
        assert scaling_of(reports, quantity="t_comp").series["mpi, XTC"][1].speed_up == 1.6

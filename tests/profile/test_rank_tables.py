"""Tables of ranks: the seconds of reports by the common names, statistics, speed-ups, and runs that are left out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kinema.base.choices import PARTS
from kinema.base.errors import ArgumentError
from kinema.base.timings import PHASES
from kinema.report import Report
from kinema.report.ranks import (
    EMULATED,
    MEASURED,
    RankSeries,
    RankTable,
    SeriesOrigin,
    Statistic,
    leave_out,
    tables_of_reports,
    workload_ratios,
)
from kinema.runners import PassTimings, Timings, WorkerTimings


def report(times: list[dict[str, float]], *, opening: dict[str, float] | None = None, **extra: Any) -> Report:
    """A report whose workers took these seconds, each with half a second that no clock measured."""
    workers = []
    for number, phases in enumerate(times):
        found = dict.fromkeys(PHASES, 0.0) | phases
        total = sum(found.values()) + 0.5
        workers.append(
            WorkerTimings(number, total=total, cpu=1.0, frames=5, blocks=1, bytes_read=1000, reads=1, **found)
        )
    one = PassTimings(10.0, 100, tuple(workers), np.empty((0, 7)))
    machine = {"host": "node7", "processor": "a processor", "allowed_cores": 4}
    given = {"format": "XTC", "file_systems": ["lustre on scratch"]}
    timings = Timings((one,), opening=opening or {}, runner="mpi")
    return Report(machine, given, {"analyses": ["RMSD"], "runner": "mpi"}, timings, (), (), (), extra)


def test_the_parts_of_a_report_add_up_to_the_total() -> None:
    seconds = {name: float(number) for number, name in enumerate(PHASES, start=1)}
    (table,) = tables_of_reports([report([seconds, seconds], opening={"topology": 0.25, "trajectory": 2.0})])
    run = table.run(2, 1)
    assert sum(run[name] for name in PARTS if name in run) == pytest.approx(run["t_total"])
    assert run["t_IO"] == pytest.approx(seconds["io"] + seconds["decode"])
    assert run["t_open"] == pytest.approx(run["t_open_topology"] + run["t_open_trajectory"])
    assert run["t_open_topology"] == pytest.approx([0.25, 0.25])
    # starting is outside of the total
    assert run["t_total"] == pytest.approx(sum(seconds.values()) - seconds["start"] + 0.5 + 2.25)


def test_statistics_are_over_ranks_and_then_over_repeats() -> None:
    first = report([{"io": 1.0, "compute": 4.0}, {"io": 3.0, "compute": 4.0}])
    second = report([{"io": 5.0, "compute": 4.0}, {"io": 5.0, "compute": 4.0}])
    (table,) = tables_of_reports([first, second])
    one = table.series().values
    assert one["t_IO"][2] == Statistic(3.5, pytest.approx(4.5**0.5), 4.0, pytest.approx(2**0.5), 2)
    # the total is that of the slowest rank
    assert one["t_total"][2].mean == one["t_total"][2].largest == 8.5
    assert table.origin == SeriesOrigin(MEASURED, "node7, a processor, 4 cores, lustre on scratch")
    assert table.bytes_read == {(2, 1): 2000, (2, 2): 2000}


def test_an_emulated_run_is_told_apart() -> None:
    one = report([{"io": 1.0}], task="split", workload=40)
    emulated = {"name": "lustre", "nodes": 4, "description": "48 targets"}
    (table,) = tables_of_reports([replace(one, run={**one.run, "emulated": emulated})])
    assert table.origin == SeriesOrigin(EMULATED, "lustre, 48 targets", "split", 40.0)


def a_series(label: str, times: dict[int, float], deviation: float = 0.0, **origin: Any) -> RankSeries:
    values = {n: Statistic(mean, deviation, mean, deviation, 3) for n, mean in times.items()}
    return RankSeries(label, {"t_total": values}, SeriesOrigin(**origin))


def test_speed_ups_against_the_own_and_another_baseline() -> None:
    slow, fast = a_series("slow", {1: 4623.0, 112: 300.0}), a_series("fast", {28: 60.0, 112: 47.0}, 4.7)
    own, other = fast.speed_ups("t_total"), fast.speed_ups("t_total", slow)
    assert [(point.base, round(point.speed_up, 3)) for point in own] == [(28, 1.0), (28, 1.277)]
    # as in 2021: 98 times as fast as the serial run of another file
    assert (other[1].base, round(other[1].speed_up)) == (1, 98)
    assert other[1].efficiency == pytest.approx(4623 / 47 / 112)
    assert other[1].speed_up_deviation == pytest.approx(4623 / 47 * 0.1)
    assert own[1].speed_up_deviation == pytest.approx(60 / 47 * math.hypot(4.7 / 60, 0.1))
    assert fast.speed_ups("t_IO") == ()


def test_stragglers_do_not_count_waiting() -> None:
    run = {"t_IO": np.array([1.0, 1.0, 9.0]), "t_wait": np.array([8.0, 8.0, 0.0]), "t_total": np.array([9.0, 9.0, 9.0])}
    (found,) = RankTable("x", {(3, 1): run}).stragglers(3, 1)
    assert (found.rank, found.phase, found.times) == (2, "t_IO", 9.0)


def test_runs_are_left_out_by_their_names() -> None:
    run = {"t_total": np.array([1.0])}
    table = RankTable("a", {(1, 1): run, (1, 2): run, (72, 5): run}).series()
    summary = a_series("b", {1: 1.0})
    kept, other = leave_out([table, summary], ["a, 72 ranks, repeat 5"])
    assert kept.sizes == [1] and kept.repeats == 2 and other is summary
    assert [one.label for one in leave_out([table, summary], ["b"])] == ["a"]
    with pytest.raises(ArgumentError, match=r"no run matches 'c\*'.*'a, 1 ranks, repeat 1'"):
        leave_out([table], ["c*"])
    with pytest.raises(ArgumentError, match="all runs are left out"):
        leave_out([table], ["a,*"])


def test_ratios_by_workload_beside_theory() -> None:
    def one(workload: float, compute: float, theory: float | None = None, label: str = "x") -> RankSeries:
        values = {name: {1: Statistic(s, 0.0, s, 0.0, 1)} for name, s in (("t_compute", compute), ("t_IO", 10.0))}
        name = label if workload == 1 else f"{label}, work x{workload:g}"
        return RankSeries(name, values, SeriesOrigin(workload=workload), theory=theory)

    rows = workload_ratios([one(40, 100.0), one(1, 3.0), one(70, 200.0, 19.5), one(1, 5.0, label="alone")])
    assert [(row.label, ratio, theory) for row, ratio, theory in rows] == [
        ("x", 0.3, 0.3), ("x, work x40", 10.0, pytest.approx(12.0)), ("x, work x70", 20.0, 19.5),
    ]  # fmt: skip
    # without several workloads all series
    assert [row.label for row, *_ in workload_ratios([one(1, 3.0)])] == ["x"]

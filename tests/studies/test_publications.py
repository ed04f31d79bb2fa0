"""The publications' figures and tables from files: published summaries, results of bench-write, and the command."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.base.errors import ArgumentError, CorruptFileError, FileNotFound
from kinema.base.timings import PHASES, TaskTimes, WorkerTaskTimes
from kinema.cli.in_process import call_kinema
from kinema.report import Report
from kinema.report.ranks import PUBLISHED
from kinema.runners import PassTimings, Timings, WorkerTimings
from kinema.studies.publications import FIGURES, RANK_FIGURES, TABLES
from kinema.studies.publications.paper_tables import make_table
from kinema.studies.publications.series import read_published_series

_SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "published"
FOLDER = Path(os.environ.get("KINEMA_PUBLISHED_DATA", _SHARED))

needs_data = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"the published tables are not at {FOLDER}; name their folder in KINEMA_PUBLISHED_DATA"
)


def report(n: int, repeat: int, *, tasks: TaskTimes | None = None, **extra: Any) -> Report:
    """A report of `n` workers whose seconds depend on `n` and `repeat`."""
    workers = []
    for number in range(n):
        seconds = dict.fromkeys(PHASES, 0.0) | {"io": 4.0 / n + 0.1 * repeat, "compute": 2.0 / n}
        workers.append(
            WorkerTimings(
                number, total=sum(seconds.values()), cpu=1.0, frames=5, blocks=1, bytes_read=10**6, reads=1, **seconds
            )
        )
    one = PassTimings(6.0, 100, tuple(workers), np.empty((0, 7)), tasks=tasks)
    machine = {"host": "node7", "processor": "a processor", "allowed_cores": 4, "python": "3.12"}
    files = [{"path": "md.xtc", "format": "XTC", "size": 35 << 30, "fingerprint": "abc"}]
    given = {
        "format": "XTC", "files": files, "n_atoms": 111_815, "n_frames": 90_100, "file_systems": ["lustre on scratch"],
    }  # fmt: skip
    run = {"analyses": ["RMSD"], "atoms": 3, "runner": "mpi"}
    return Report(machine, given, run, Timings((one,), whole=6.0, runner="mpi"), (), (), (), extra)


@pytest.fixture
def stored(tmp_path: Path) -> list[Path]:
    """Four stored reports: one and two workers, two repeats."""
    paths = []
    for n in (1, 2):
        for repeat in (1, 2):
            paths.append(tmp_path / f"r{n}-{repeat}.json")
            report(n, repeat).save(paths[-1])
    return paths


# -- published summaries -----------------------------------------------------------------------------------------------

SUMMARY = (
    ",blocks,repeat,P_ID,t_comp,t_IO,t_IO_plus_t_comp_mean,t_end_loop,t_init,std_comp,std_IO,t_tot_max,std_tot_max,"
    "t_comm_mean,t_comm_max,std_t_comm_mean,std_t_comm_max\n"
    "0,1,3.0,0.0,225.0,799.0,1024.0,0.01,0.17,5.0,6.0,1027.0,10.0,0.01,0.01,0.002,0.002\n"
    "1,24,3.5,11.5,10.4,35.4,45.8,0.004,0.17,0.4,0.9,70.0,3.4,9.6,24.2,2.6,4.4\n"
)


def test_summaries_are_series(tmp_path: Path) -> None:
    (tmp_path / "summary.csv").write_text(SUMMARY)
    (tmp_path / "table4.csv").write_text("N_seg,Np,nodes,time,S,E\n24,24,1,89.92,1.0,1.00\n48,48,2,46.79,1.9,0.96\n")
    (tmp_path / "tableB1.csv").write_text(
        "workload,tcomp,tIO,measured,theory\n1,226,791,0.286,\n40,8655,791,10.9,11.4\n"
    )
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "gone.csv").symlink_to("nowhere")
    subfiles, splitting, one, forty = read_published_series(tmp_path)
    assert subfiles.origin.kind == PUBLISHED and subfiles.table is None
    # the archive has the mean of the repeats' numbers
    assert [subfiles.values["t_IO"][n].repeats for n in (1, 24)] == [5, 6]
    assert subfiles.values["t_communication"][24].largest == 24.2
    assert subfiles.speed_ups("t_total")[1].efficiency == pytest.approx(1027 / 70 / 24)
    assert subfiles.compute_per_io() == pytest.approx(225 / 799)
    assert splitting.origin.task == "split" and splitting.sizes == [24, 48]
    assert (one.theory, forty.theory, forty.origin.workload) == (None, 11.4, 40.0)


def test_damaged_summaries_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFound, match="no published tables"):
        read_published_series(tmp_path)
    path = tmp_path / "summary.csv"
    for damaged in (SUMMARY.replace("799.0", "many"), SUMMARY.split("\n")[0] + "\n", SUMMARY[:-30]):
        path.write_text(damaged)
        with pytest.raises(CorruptFileError, match="the published table is damaged"):
            read_published_series(tmp_path)


@needs_data
def test_all_that_is_published_once() -> None:
    series = read_published_series(FOLDER)
    # the summary of figure 2 is that of the tables of ranks, and not a series of its own
    assert len(series) == 9 and sum(one.table is not None for one in series) == 2
    by_name = {one.label.partition(" (")[0]: one for one in series}
    arrays = by_name["khoshlessan2020: subfiling, Global Arrays"].speed_ups("t_total")
    with (FOLDER / "khoshlessan2020" / "fig4_subfiling_ga_summary.csv").open(newline="") as file:
        for point, row in zip(arrays, csv.DictReader(file), strict=True):
            assert point.speed_up == pytest.approx(float(row["speed_up"]))
            assert point.speed_up_deviation == pytest.approx(float(row["std_S"]))


# -- figures -----------------------------------------------------------------------------------------------------------


def kinema(*words: object, code: int = 0) -> str:
    done = call_kinema("report", *words)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@needs_data
def test_published_tables_and_reports_in_one_figure(stored: list[Path], tmp_path: Path) -> None:
    from kinema.studies.publications.figures import draw_figure, gather_series

    series = gather_series(stored, published=FOLDER, exclude=["*r2-2.json", "*, 72 ranks, repeat 5"])
    assert [one.repeats for one in series[:1]] == [2] and len(series) == 10
    assert [len(one.names) for one in series[:3]] == [3, 12, 49]
    drawn = {
        kind: [axes for axes in draw_figure(kind, series).figure.axes if axes.get_visible()] for kind in RANK_FIGURES
    }
    # six series have totals; one of them is splitting, which has nothing else
    assert [len(axes.containers) for axes in drawn["timings"]] == [6, 5, 5, 1, 1, 4, 4, 4]
    assert [len(axes.containers) for axes in drawn["speedup"]] == [6, 5, 5, 6, 5, 5]
    assert len(drawn["phases"]) == 5 and len(drawn["rank-bars"]) == 3 and len(drawn["ratios"]) == 5
    assert len(drawn["bars"][0].get_yticks()) == 9
    picture = tmp_path / "bars.png"
    words = ("--published", FOLDER, "--figure", "bars", "--plot", picture)
    told = json.loads(kinema(*stored, *words, "--exclude", "*r2-2.json", "--json"))
    assert told["series"][0] == "mpi, XTC" and len(told["series"]) == 10
    assert picture.stat().st_size > 10_000
    # it has our provenance, and is replaced
    kinema(*words)


@pytest.fixture
def with_gaps(tmp_path: Path) -> list[Path]:
    """Reports of an experiment of which a series has gaps on two and four ranks, and another nothing else."""
    folder = tmp_path / "experiment" / "reports"
    folder.mkdir(parents=True)
    lines, paths = [], []
    for n in (1, 2):
        paths.append(folder / f"a-n{n}.json")
        report(n, 1, workers=n).save(paths[-1])
        lines.append({"name": f"a-n{n}", "workers": n, "reason": ""})
    lines += [{"name": f"a-n4-r{repeat}", "workers": 4, "reason": "out of time | late"} for repeat in (0, 1)]
    lines += [{"name": "a-n2-r1", "workers": 2, "reason": "killed by SIGKILL"}]
    lines += [{"name": "b-n2", "workers": 2, "reason": "no atoms of gold", "task": "split"}]
    usual = {"format": "xtc", "source": "file", "workload": 1, "gather": "", "access": "direct", "runner": "mpi"}
    text = "".join(json.dumps({**usual, "task": "rmsd", **line}) + "\n" for line in lines)
    (folder.parent / "results.jsonl").write_text(text)
    return paths


def test_gaps_are_in_all_figures_and_tables_with_their_reasons(with_gaps: list[Path], tmp_path: Path) -> None:
    from kinema.studies.publications.figures import draw_figure, draw_machine_figure, gather_series

    series = gather_series(with_gaps)
    assert [(one.label, [(gap.n_ranks, gap.runs) for gap in one.gaps]) for one in series] == [
        ("mpi, XTC", [(2, 1), (4, 2)]), ("split, mpi, file, xtc, direct, work x1", [(2, 1)])
    ]  # fmt: skip
    crosses = {"timings": 2, "speedup": 2, "bars": 2, "phases": 2, "ratios": 0, "rank-bars": 0}
    for kind in RANK_FIGURES:
        figure = draw_figure(kind, series)
        words = "".join(text.get_text() for text in figure.texts).replace("\n    ", " ")
        for reason in ("N = 4: out of time | late (2 runs)", "N = 2: killed by SIGKILL", "N = 2: no atoms of gold"):
            assert reason in words, (kind, reason)
        n_crosses = [sum("\u00d7" in text.get_text() for text in axes.texts) for axes in figure.axes]
        # on four ranks there is no time at all; on two there is another repeat, and a series without any
        drawn = sum(n_crosses) if kind in ("phases", "bars") else max(n_crosses)
        assert drawn == crosses[kind], (kind, n_crosses)
        figure.savefig(tmp_path / f"{kind}.png")
    # a pattern may have left the other series out
    assert [one.label for one in gather_series(with_gaps[1:])] == ["mpi, XTC"]
    assert [gap.n_ranks for gap in gather_series(with_gaps, exclude=["mpi, XTC, 4 ranks, gap"])[0].gaps] == [2]
    assert "no result" in [text.get_text() for text in draw_machine_figure(with_gaps).legends[0].get_texts()]
    table = make_table("2020-5", reports=list(map(Report.load, with_gaps)), series=series)
    assert [row[0] for row in table.rows] == ["1", "2", "4"] and table.rows[2][1:] == ("gap", "gap")
    assert "gap, no time: mpi, XTC, N = 4: out of time | late (2 runs)." in table.words
    said = kinema(*with_gaps, "--plot", tmp_path / "all.png").splitlines()
    assert "gap: mpi, XTC, N = 2: killed by SIGKILL" in said


def test_vector_pictures(stored: list[Path], tmp_path: Path) -> None:
    for suffix, beginning in ((".pdf", b"%PDF"), (".svg", b"<?xml")):
        picture = tmp_path / f"a{suffix}"
        kinema(*stored, "--figure", "speedup", "--quantity", "t_IO", "--baseline", "mpi", "--plot", picture)
        assert picture.read_bytes().startswith(beginning)


def test_speeds_of_machines(tmp_path: Path, stored: list[Path]) -> None:
    from kinema.studies.publications.figures import draw_machine_figure
    from kinema.studies.publications.write_speeds import read_speeds

    def cell(strategy: str, ranks: int, speed: float | None, **more: Any) -> dict[str, Any]:
        found = {
            "records": "ascii",
            "strategy": strategy,
            "paper_name": "",
            "ranks": ranks,
            "repeats": 2,
            "failures": [],
        }
        speeds = {} if speed is None else {
            "gib_per_second": speed, "slowest_gib_per_second": speed / 2, "fastest_gib_per_second": speed * 2
        }  # fmt: skip
        return found | {"failures": []} | speeds | more

    def results(name: str, ranks_per_node: int | None, *cells: dict[str, Any]) -> Path:
        machine = {"host": "xt4", "processor": "a processor", "allowed_cores": 2}
        path = tmp_path / name
        design = {"ranks_per_node": ranks_per_node}
        path.write_text(
            json.dumps({"kinema": "0", "design": design, "machine": machine, "file_system": "lustre", "cells": cells})
        )
        return path

    dual = results(
        "dual.json", None, cell("direct", 1, 1.0), cell("direct", 2, 1.5), cell("direct", 2, 2.0),
        cell("mpiio", 1, 0.5), cell("mpiio", 2, None, failures=["exceeded 5 hours"]), cell("disk", 1, 9.0),
    )  # fmt: skip
    single = results("single.json", 1, cell("direct", 1, 2.0))
    direct, mpiio = read_speeds(dual)
    mb = (1 << 30) / 1e6
    # of several sets of hints the fastest; the disk is not a method
    assert direct.method == "direct (PDAW)" and direct.points[2] == pytest.approx((2 * mb, mb, 4 * mb))
    assert mpiio.gaps == {2: "exceeded 5 hours"} and list(mpiio.points) == [1]
    figure = draw_machine_figure([dual, single, *stored])
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in panels] == ["writing ASCII records (CONFIG)", "reading"]
    # single-core placement is a platform of its own: another colour, the same marker
    first, gap, other = panels[0].lines
    assert first.get_color() == gap.get_color() != other.get_color()
    assert first.get_marker() == other.get_marker() != gap.get_marker()
    assert np.isnan(gap.get_ydata()[1]) and len(panels[0].texts) == 1
    (reading,) = panels[1].lines
    slowest = [np.median([len(one.timings.workers) / one.timings.workers[0].total for one in some]) for some in _by_n()]
    assert reading.get_ydata() == pytest.approx(slowest)
    words = " ".join(text.get_text().replace("\n    ", " ") for text in figure.texts)
    assert "Measured on xt4, a processor, 2 cores, lustre; xt4" in words and "Emulated" not in words
    emulated = replace(
        report(1, 1), run={**report(1, 1).run, "emulated": {"name": "beegfs", "description": "a cluster"}}
    )
    emulated.save(tmp_path / "emulated.json")
    (caption,) = draw_machine_figure([tmp_path / "emulated.json"]).texts
    assert "Emulated, with the parameters of beegfs, a cluster." in caption.get_text()
    assert "No result of mpiio (MPIW): exceeded 5 hours." in words and "1 ranks a node" in words
    dual.write_text(dual.read_text().replace('"allowed_cores": 2', '"allowed_cores": null'))
    with pytest.raises(CorruptFileError, match="are not the results of kinema bench-write"):
        read_speeds(dual)


def _by_n() -> list[list[Report]]:
    return [[report(n, repeat) for repeat in (1, 2)] for n in (1, 2)]


def test_what_the_command_refuses(stored: list[Path], tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    for words, why in (
        (["--figure", "timings"], "--figure needs --plot"),
        (["--figure", "pie", "--plot", picture], "'pie' is not one of"),
        (["--figure", "phases", "--plot", picture, "--quantity", "t_IO"], "a quantity belongs to"),
        (["--figure", "timeline", "--plot", picture], "expected traces"),
        (["--figure", "machines", "--plot", picture, "--exclude", "x"], "--exclude leaves out runs of reports"),
        (["--figure", "timings", "--plot", picture, "--exclude", "x"], "no run matches 'x'"),
        (["--figure", "timings", "--plot", picture, "--exclude", "*.json"], "all reports are left out"),
        (["--figure", "timings", "--plot", stored[0]], "is the file that is read"),
        (["--figure", "timings", "--plot", tmp_path / "a.txt"], "plots are not written as .txt"),
        (["--figure", "timings", "--plot", picture, "-o", "a.csv"], "--output is of --table"),
        (["--table", "2021-2", "--plot", picture], "--table makes a table"),
        (["--table", "2021-2", "-o", tmp_path / "a.txt"], "are written as .csv or .md"),
        (["--table", "2020-4"], "the table 2020-4 needs reports of splitting, or the published table"),
        (["--quantity", "t_IO,t_none"], "t_none"),
        (["--quantity", "t_IO,t_wait"], "quantity must be one of"),
        (["--baseline", "x"], "belong to --figure"),
        (["--exclude", "x"], "belong to --figure"),
        (["--figure", "timings", "--plot", picture, "--timeline", picture], "--timeline and --names are apart"),
    ):
        assert why in kinema(*stored, *words, code=2), words
    assert "name reports, or tables with --published" in kinema("--figure", "timings", "--plot", picture, code=2)
    assert not picture.exists()
    picture.write_bytes(b"mine")
    assert "exists already" in kinema(*stored, "--figure", "timings", "--plot", picture, code=2)
    kinema(*stored, "--figure", "timings", "--plot", picture, "--force")


# -- tables ------------------------------------------------------------------------------------------------------------


def test_tables_of_reports(stored: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    for _ in range(2):
        kinema(*stored, "--table", "2021-2", "-o", path)
    mark, *lines = path.read_text().splitlines()
    assert mark.startswith("# kinema ")
    (row,) = csv.DictReader(lines)
    assert (row["format"], row["atoms"], row["size (GiB)"], row["2021: size (GiB)"]) == ("XTC", "111,815", "35.0", "35")
    assert row["bytes an atom and frame"] == row["2021: bytes an atom and frame"] == "3.73"
    kinema(*stored, "--table", "2021-3", "-o", tmp_path / "table.md")
    text = (tmp_path / "table.md").read_text()
    assert text.startswith("<!-- kinema ") and "| t_IO " in text and "mpi, XTC, N = 2 (s)" in text
    told = json.loads(kinema(*stored, "--table", "2020-5", "--json"))
    # mean over ranks, and its deviation over the two repeats
    assert told["rows"][1] == {"ranks": "2", "mpi, XTC: t_compute (s)": "1.00", "mpi, XTC: t_IO (s)": "2.15 ± 0.0707"}
    assert "| a processor " in kinema(*stored, "--table", "2021-1")
    # t_IO and t_compute together are all that these runs did
    (row,) = [
        row for row in json.loads(kinema(*stored, "--table", "2020-3", "--json"))["rows"] if row["2020"] == "t_RMSD"
    ]
    assert row["mpi, XTC, N = 2 (s)"] == "3.15" and row["sum of"].startswith("t_open + t_IO")


def test_tables_of_splitting_workloads_and_tasks() -> None:
    from kinema.report.ranks import tables_of_reports

    def series(*reports: Report) -> list[Any]:
        return [table.series() for table in tables_of_reports(reports)]

    found = make_table("2020-4", series=series(report(1, 1, task="split"), report(2, 1, task="split")))
    assert [row[1:2] + row[3:] for row in found.rows] == [("1", "1.00", "1.00"), ("2", "1.97", "0.984")]
    heavy = replace(report(1, 1), extra={"workload": 40})
    rows = make_table("2020-B1", series=series(report(1, 1), heavy)).rows
    assert [(row[1], row[4], row[5]) for row in rows] == [("1", "0.488", "0.488"), ("40", "0.488", "19.5")]
    tasks = TaskTimes(105.1, (WorkerTaskTimes("a", 3, 43.6, 104.3, 0.1),))
    found = make_table("2017-tasks", reports=[report(1, 1, tasks=tasks), report(2, 1)])
    assert found.rows == (("mpi", "XTC", "1", "1", "43.6", "104", "105", "3"),)
    with pytest.raises(ArgumentError, match="table must be one of 2021-1"):
        make_table("2019-1")


@needs_data
def test_tables_of_the_publications() -> None:
    series = read_published_series(FOLDER)
    with (FOLDER / "khoshlessan2020" / "table4_splitting.csv").open(newline="") as file:
        printed = list(csv.DictReader(file))
    for row, theirs in zip(make_table("2020-4", series=series).rows, printed, strict=True):
        assert float(row[2]) == pytest.approx(float(theirs["time"]), rel=5e-3)
        assert float(row[3]) == pytest.approx(float(theirs["S"]), abs=0.051)
    rows = make_table("2020-B1", series=series).rows
    assert [(row[1], row[4], row[5]) for row in rows] == [
        ("1", "0.286", "0.286"), ("40", "10.9", "11.4"), ("70", "19.2", "20.0"), ("100", "27.4", "28.6"),
    ]  # fmt: skip


def test_the_command_names_all_figures_and_tables(stored: list[Path]) -> None:
    for option, names in (("--figure", FIGURES), ("--table", TABLES)):
        assert ", ".join(map(repr, names)) in kinema(*stored, option, "x", code=2)

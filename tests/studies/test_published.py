"""The publications' own tables: read, and their means, deviations and speed-ups found again to the printed digits."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest

from kinema.base.errors import ArgumentError, CorruptFileError, FileNotFound
from kinema.cli import main
from kinema.cli.in_process import call_kinema
from kinema.report.scaling import scaling_points
from kinema.studies import Published, read_published

_SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "published"
FOLDER = Path(os.environ.get("KINEMA_PUBLISHED_DATA", _SHARED))

needs_data = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"the published tables are not at {FOLDER}; name their folder in KINEMA_PUBLISHED_DATA"
)


@pytest.fixture(scope="module")
def both() -> tuple[Published, Published]:
    """2021 (H5MD) and 2020 (XTC)."""
    later, earlier = sorted(read_published(FOLDER), key=lambda one: "2020" in one.title)
    return later, earlier


def rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / "khoshlessan2020" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def assert_printed(found: float, printed: str) -> None:
    """Equal to the last digit that was printed."""
    digits = len(printed.split("e")[0].replace(".", "").lstrip("-0"))
    assert f"{found:.{digits}g}" == f"{float(printed):.{digits}g}" or abs(found - float(printed)) < 1e-11 * abs(found)


@needs_data
def test_summary_of_2020(both: tuple[Published, Published]) -> None:
    published = both[1]
    summary = rows("fig2_summary.csv")
    assert [int(row["blocks"]) for row in summary] == published.sizes
    for row in summary:
        n = int(row["blocks"])
        for name in ("t_comp", "t_IO", "t_end_loop", "t_init", "t_IO_plus_t_comp"):
            assert_printed(published.mean(name, n)[0], row[name if name in row else f"{name}_mean"])
        assert_printed(published.mean("t_comp", n)[1], row["std_comp"])
        assert_printed(published.mean("t_IO", n)[1], row["std_IO"])
        assert_printed(published.largest("t_IO_plus_t_comp", n), row["t_IO_plus_t_comp_max"])
        for name in ("t_comm", "t_block_RMSD"):
            for each in ("mean", "max"):
                mean, deviation = published.summarise_repeats(name, n, each)
                assert_printed(mean, row[f"{name}_{each}"])
                assert_printed(deviation, row[f"std_{name}_{each}"])
        mean, deviation = published.summarise_repeats("t_tot", n, "max")
        assert_printed(mean, row["t_tot_max"])
        assert_printed(deviation, row["std_tot_max"])


@needs_data
def test_the_command_gives_what_is_published(capsys: pytest.CaptureFixture[str]) -> None:
    """All that `kinema report --published` gives and the publication prints is the same, deviations as well."""
    with pytest.raises(SystemExit, match="0"):
        main(["report", "--published", str(FOLDER), "--json"])
    (told,) = [one["summary"] for one in json.loads(capsys.readouterr().out) if "2020" in one["title"]]
    # of the first names the publication's own differ
    names = {"ranks": "blocks", "std_t_comp": "std_comp", "std_t_IO": "std_IO", "std_tot_max": "std_tot_max"}
    printed = rows("fig2_summary.csv")
    same = {name: names.get(name, name) for name in told[0] if names.get(name, name) in printed[0]}
    assert len(same) == 21
    for row, expected in zip(told, printed, strict=True):
        for name, theirs in same.items():
            assert_printed(row[name], expected[theirs])
    assert {name for name in told[0] if name not in same} == {"repeats", "std_t_init", "std_t_end_loop", "stragglers"}


@needs_data
def test_speed_ups_of_2020(both: tuple[Published, Published]) -> None:
    for row, point in zip(rows("fig2_summary.csv"), both[1].scaling(), strict=True):
        assert point.n_workers == int(row["blocks"])
        assert_printed(point.mean, row["t_tot_max"])
        assert_printed(point.speed_up, row["speed_up"])
        assert_printed(point.speed_up_deviation, row["std_S"])
        assert_printed(point.efficiency, row["efficiency"])
        assert_printed(point.efficiency_deviation, row["std_E"])


@needs_data
def test_splitting_of_2020() -> None:
    table = rows("table4_splitting.csv")
    points = scaling_points({int(row["Np"]): [float(row["time"])] for row in table})
    for row, point in zip(table, points, strict=True):
        assert f"{point.speed_up:.1f}" == row["S"]
        # the table's own S and E were made of S as it is printed there in places
        assert abs(point.efficiency - float(row["E"])) <= 0.011


@needs_data
def test_workload_of_2020() -> None:
    """R_comp/IO of the printed times."""
    for row in rows("tableB1_workload.csv"):
        ratio = float(row["tcomp"]) / float(row["tIO"])
        assert abs(ratio - float(row["measured"])) <= 0.0011


@needs_data
def test_stragglers_of_2020(both: tuple[Published, Published]) -> None:
    published = both[1]
    # one repeat of 72 ranks: a dozen ranks at 20 s, all others beyond 50 s, as the publication tells
    found = published.stragglers(72, 5)
    assert len(found) == 60
    assert min(one.seconds for one in found) > 50
    assert {one.phase for one in found} == {"t_comm", "t_init"}
    # what all these waited for is one rank that opened the file slowly
    (opener,) = [one for one in found if one.phase == "t_init"]
    assert opener.rank == 12
    assert "rank 12 (t_init 37.5 s)" in str(published)
    # one node: none
    for n in (1, 8, 16, 24):
        assert not any(published.stragglers(n, repeat) for repeat in published.repeats(n))


@needs_data
def test_tables_of_2021(both: tuple[Published, Published]) -> None:
    published = both[0]
    assert published.sizes == [1, 28, 56, 112]
    assert all(published.repeats(n) == [1, 2, 3] for n in published.sizes)
    # the publication gives 83 s of I/O with 112 ranks
    assert round(published.mean("t_io", 112)[0]) == 83
    for n in published.sizes:
        for repeat in published.repeats(n):
            run = published.run(n, repeat)
            known = sum(run[name] for name in published.phases if name != "t_close_traj")
            # every second of every rank; the total was taken before the trajectory was closed
            assert np.all(run["total_time"] - known > -0.02)
            assert np.all(run["total_time"] - known < 0.06 * run["total_time"])


# -- without the data --------------------------------------------------------------------------------------------


def write_tables(folder: Path) -> None:
    header = (
        ",rank,t_init,t_init_top,t_init_traj,t_io,t_io/frame,t_rmsd,t_rmsd/frame,t_wait,t_comm,t_close_traj,total_time"
    )
    for repeat in (1, 2):
        lines = [header]
        for rank in (1, 0):
            io = 40.0 if rank == 1 and repeat == 2 else 10.0
            lines.append(f"0,{rank}.0,3.0,2.0,1.0,{io},0,4.0,0,{40.0 - io},0.5,0.5,48.0")
        (folder / f"ranks2_1node_{repeat}.csv").write_text("\n".join(lines) + "\n")


def test_made_up_tables(tmp_path: Path) -> None:
    write_tables(tmp_path)
    (published,) = read_published(tmp_path)
    assert published.mean("t_io", 2) == (17.5, 15.0)
    (straggler,) = published.stragglers(2, 2)
    assert (straggler.rank, straggler.phase) == (1, "t_io")
    assert published.stragglers(2, 1) == []
    # in words as well: what the publication gives with a deviation has one
    assert "17.5 ± 15" in str(published)
    (row,) = published.summary()
    assert (row["t_tot_max"], row["speed_up"], row["stragglers"]) == (48.0, 1.0, 1)
    with pytest.raises(ArgumentError, match="no run with 3 ranks"):
        published.run(3, 1)


def test_deviations_in_words_are_those_of_their_numbers(tmp_path: Path) -> None:
    for ranks, seconds in ((1, (40.0, 44.0)), (2, (20.0, 24.0))):
        for repeat, own in enumerate(seconds, start=1):
            lines = ["rank,t_init_top,t_init_traj,t_io,t_rmsd,t_wait,t_comm,t_close_traj,total_time"]
            lines += [f"{rank},0,0,{own},0,0,0,0,{own}" for rank in range(ranks)]
            (tmp_path / f"ranks{ranks}_1node_{repeat}.csv").write_text("\n".join(lines) + "\n")
    (published,) = read_published(tmp_path)
    relative = np.hypot(8**0.5 / 42, 8**0.5 / 22)
    told = str(published).splitlines()[-1].split("  ")
    told = [word.strip() for word in told if word.strip()]
    assert told[-3:] == [f"{42 / 22:.3g} ± {42 / 22 * relative:.3g}", f"{21 / 22:.3g} ± {21 / 22 * relative:.3g}", "0"]
    assert "22.0 ± 2.83" in told


def test_the_same_ranks_on_other_nodes_are_a_table_of_their_own(tmp_path: Path) -> None:
    for ranks, nodes, seconds in ((1, 1, 40.0), (4, 1, 20.0), (4, 2, 10.0)):
        lines = ["rank,t_init_top,t_init_traj,t_io,t_rmsd,t_wait,t_comm,t_close_traj,total_time"]
        lines += [f"{rank},0,0,{seconds},0,0,0,0,{seconds}" for rank in range(ranks)]
        (tmp_path / f"ranks{ranks}_{nodes}node_1.csv").write_text("\n".join(lines) + "\n")
    one, two = read_published(tmp_path)
    assert [table.scaling()[1].speed_up for table in (one, two)] == [2.0, 4.0]
    assert (one.title.partition(", ")[2], two.title.partition(", ")[2]) == ("4 ranks on 1 node", "4 ranks on 2 nodes")


def write_tables_of_2020(folder: Path, first: str, second: str, seconds: float) -> None:
    (folder / first).write_text("".join(f"2 1 {rank} 1.0 {seconds} {seconds + 1} 0.1 0.2\n" for rank in (0, 1)))
    (folder / second).write_text(f"2 1 [{seconds}, {seconds}]\n" * 6)


def test_tables_of_2020_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("2 1 0 and other words\n")
    (tmp_path / "link").symlink_to("nowhere")
    write_tables_of_2020(tmp_path, "Comet-all-ranks.dat", "Comet-all-runs.dat", 5.0)
    write_tables_of_2020(tmp_path, "SuperMIC-all-ranks.dat", "SuperMIC-all-runs.dat", 7.0)
    (tmp_path / "more").mkdir()
    write_tables_of_2020(tmp_path / "more", "x_a", "x_b", 9.0)
    tables = read_published(tmp_path)
    assert [table.run(2, 1)["t_tot"][0] for table in tables] == [5.0, 7.0, 9.0]
    assert len({table.title for table in tables}) == 3
    (tmp_path / "more" / "x_b").unlink()
    with pytest.raises(FileNotFound, match="no table with a line a run beside it, expected x_b"):
        read_published(tmp_path)


def test_slow_ranks_are_named_that_others_waited_for(tmp_path: Path) -> None:
    # rank 3 opens slowly; the others are in communication for so long
    lines = ["rank,t_init_top,t_init_traj,t_io,t_rmsd,t_wait,t_comm,t_close_traj,total_time"]
    lines += [f"{rank},0,{9 if rank == 3 else 1},4,0,0,{0 if rank == 3 else 8},0,13" for rank in range(6)]
    lines += ["6,0,1,4,0,0,0,0,5"]
    (tmp_path / "ranks7_1node_1.csv").write_text("\n".join(lines) + "\n")
    (table,) = read_published(tmp_path)
    assert "slow apart from communication: rank 3 (t_init_traj 9.0 s)" in str(table)


def test_the_picture_of_tables(tmp_path: Path) -> None:
    from kinema.studies.publications.figures import draw_figure

    write_tables(tmp_path)
    # of three repeats the one that took the median time
    for repeat, total in ((1, "47.0"), (2, "48.0"), (3, "49.0")):
        text = (tmp_path / "ranks2_1node_2.csv").read_text() if repeat != 1 else ""
        path = tmp_path / f"ranks2_1node_{repeat}.csv"
        path.write_text((text or path.read_text()).replace(",48.0", f",{total}"))
    series = [table.with_common_names().series() for table in read_published(tmp_path)]
    (bars, *_) = draw_figure("rank-bars", series).axes
    tops: dict[int, float] = {}
    for bar in bars.patches:
        at = round(bar.get_x() + bar.get_width() / 2)
        tops[at] = max(tops.get(at, 0.0), bar.get_y() + bar.get_height())
    # all of each rank's seconds
    assert tops == {0: 48.0, 1: 48.0}
    # without --figure: S and E of t_total, t_IO and t_compute
    done = call_kinema("report", "--published", tmp_path, "--plot", tmp_path / "both.png")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "both.png").stat().st_size > 10_000


def test_damaged_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFound, match="no published tables"):
        read_published(tmp_path)
    write_tables(tmp_path)
    path = tmp_path / "ranks2_1node_1.csv"
    whole = path.read_text()
    for damaged in ("", whole.replace("10.0", "ten"), whole[: whole.rindex("\n0,")], whole.replace("rank", "rang", 1)):
        path.write_text(damaged)
        with pytest.raises(CorruptFileError, match="damaged"):
            read_published(tmp_path)
    path.unlink()
    (tmp_path / "ranks2_1node_2.csv").unlink()
    (tmp_path / "fig2_ranks_a.txt").write_text("1 1 0 1 1 2 0 0\n")
    with pytest.raises(FileNotFound):
        read_published(tmp_path)
    for text in ("1 1 [1.0]\n", "1 1\n", "1 1 [1.0,\n", "x 1 [1.0]\n", "1 1 __import__('os')\n"):
        (tmp_path / "fig2_ranks_b.txt").write_text(text)
        with pytest.raises(CorruptFileError, match="damaged"):
            read_published(tmp_path)

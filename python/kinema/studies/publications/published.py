"""Reader of the publications' per-rank tables: computes means, deviations, speed-ups and stragglers as published.

Khoshlessan et al., Concurrency Computat. Pract. Exper. 32, e5789 (2020), data: DOI 10.5281/zenodo.3351616; Jakupovic
and Beckstein, Proc. 20th Python in Science Conf. (2021), data: DOI 10.5281/zenodo.5083858. It reads only the tables;
none of the data is part of Kinema.
"""

from __future__ import annotations

import ast
import csv
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from kinema.base.errors import CorruptFileError, FileNotFound, os_errors
from kinema.base.input_files import read_regular
from kinema.base.printable import printable, three_digits
from kinema.report.ranks import PUBLISHED, RankRun, RankTable, SeriesOrigin
from kinema.report.scaling import ScalingPoint, scaling_points
from kinema.report.stragglers import THRESHOLD

CONCURRENCY_2020 = "Concurrency Computat. Pract. Exper. 32, e5789 (2020)"
_SCIPY_2021 = "Proc. 20th Python in Science Conf. (2021)"
_RANK_COLUMNS = ("t_comp", "t_IO", "t_IO_plus_t_comp", "t_end_loop", "t_init")
# the rows of each run in the second table that agree with the summary; the other three are not documented
_TOTALS = {"t_tot": 0, "t_comm": 3, "t_block_RMSD": 5}
_ROWS = 6
# parts in the common names, of which opening has two
_COMMON = {
    "t_init_top": "t_open_topology",
    "t_init_traj": "t_open_trajectory",
    "t_init": "t_open_trajectory",
    "t_io": "t_IO",
    "t_IO": "t_IO",
    "t_rmsd": "t_compute",
    "t_comp": "t_compute",
    "t_wait": "t_wait",
    "t_comm": "t_communication",
    "t_close_traj": "t_end_loop",
    "t_end_loop": "t_end_loop",
}
# columns of a summary that are numbers of something
_COUNTS = ("ranks", "repeats", "stragglers")
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class Published(RankTable):
    """Per-rank tables of one publication, under the publication's own names.

    `of_runs`: names for which the publication gives each run's mean and largest value, and the deviation of these.
    """

    of_runs: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The label."""
        return self.label

    def with_common_names(self) -> RankTable:
        """The same table under the names of `kinema.report.ranks.QUANTITY_WORDS`."""
        runs = {key: self._with_common_names(run) for key, run in self.runs.items()}
        return RankTable(self.label, runs, origin=self.origin)

    def _with_common_names(self, run: RankRun) -> RankRun:
        found = {_COMMON[name]: run[name] for name in self.phases}
        parts = sum(found.values(), start=np.zeros_like(run[self.total]))
        found["t_open"] = found["t_open_trajectory"] + found.get("t_open_topology", 0.0)
        found["t_total"] = run[self.total]
        return found | {"t_unaccounted": np.maximum(0.0, run[self.total] - parts)}

    def scaling(self) -> tuple[ScalingPoint, ...]:
        """S and E of the slowest rank of each run."""
        times = {n: [float(self.runs[n, repeat][self.total].max()) for repeat in self.repeats(n)] for n in self.sizes}
        return scaling_points(times)

    def summary(self) -> list[dict[str, float]]:
        """One row per number of ranks: means, deviations, S and E, by the names in the publications."""
        rows = []
        for point in self.scaling():
            n = point.n_workers
            row: dict[str, float] = {"ranks": n, "repeats": point.repeats}
            for name in self.phases:
                if name not in self.of_runs:
                    row[name], row[f"std_{name}"] = self.mean(name, n)
            for name in self.of_runs:
                for each in ("mean", "max"):
                    row[f"{name}_{each}"], row[f"std_{name}_{each}"] = self.summarise_repeats(name, n, each)
            row["t_tot_max"], row["std_tot_max"] = point.mean, point.deviation
            row |= {"speed_up": point.speed_up, "std_S": point.speed_up_deviation}
            row |= {"efficiency": point.efficiency, "std_E": point.efficiency_deviation}
            row["stragglers"] = sum(len(self.stragglers(n, repeat)) for repeat in self.repeats(n))
            rows.append(row)
        return rows

    def __str__(self) -> str:
        rows = self.summary()
        columns = [
            [name, *(_with_deviation(row, name) for row in rows)] for name in rows[0] if not name.startswith("std_")
        ]
        widths = [max(map(len, column)) for column in columns]
        lines = [f"{printable(self.title)}: mean ± deviation"]
        for cells in zip(*columns, strict=True):
            lines.append("  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)))
        lines += [self._slow_ranks(n, repeat) for n in self.sizes for repeat in self.repeats(n)]
        return "\n".join(filter(None, lines))

    def _slow_ranks(self, n_ranks: int, repeat: int) -> str:
        """The stragglers of a run in one line; "" without any."""
        slow = self.stragglers(n_ranks, repeat)
        if not slow:
            return ""
        usual = slow[0].seconds / slow[0].times
        (phase, _), *_ = Counter(one.phase for one in slow).most_common(1)
        return (
            f"stragglers: {n_ranks} ranks, repeat {repeat}: {len(slow)} of {n_ranks} took "
            f"{median(one.seconds for one in slow):.1f} s (median), the fast ranks {usual:.1f} s; most of the "
            f"difference in {phase}" + self._waited_for(n_ranks, repeat)
        )

    def _waited_for(self, n_ranks: int, repeat: int) -> str:
        """The ranks whose own work, without communication, took long: communication may have waited for them."""
        run = self.runs[n_ranks, repeat]
        own = run[self.total] - run["t_comm"] - run.get("t_wait", 0.0)
        usual = float(np.median(own))
        slow = [rank for rank in np.argsort(-own) if own[rank] >= THRESHOLD * usual][:3]
        described = []
        for rank in slow:
            excess = {name: run[name][rank] - np.median(run[name]) for name in self.phases if "comm" not in name}
            phase = max(excess, key=lambda name: float(excess[name]))
            described.append(f"rank {rank} ({phase} {run[phase][rank]:.1f} s)")
        return f"; slow apart from communication: {', '.join(described)}" if slow else ""


def _with_deviation(row: Mapping[str, float], name: str) -> str:
    """A value of a summary with its deviation, which has the publication's name."""
    short = {"t_tot_max": "std_tot_max", "speed_up": "std_S", "efficiency": "std_E"}.get(name, f"std_{name}")
    deviation = f" ± {three_digits(row[short])}" if short in row else ""
    number = str(row[name]) if name in _COUNTS else three_digits(row[name])
    return number + deviation


def read_published(folder: str | os.PathLike[str]) -> list[Published]:
    """All tables below `folder`.

    2021: ranks<N>_<n>node_<repeat>.csv. If a number of ranks ran on different numbers of nodes, each number of nodes
    gets its own table, which also has the runs that they share. 2020: two files of any name in one folder, one with a
    line per rank (ranks, repeat, rank, five times) and one with a line per quantity (ranks, repeat, [times]).

    Raises FileNotFound for a folder without any, and for the first of the two files of 2020 without the second;
    CorruptFileError for a table that is damaged.
    """
    root = Path(folder)
    by_folder: dict[Path, list[Path]] = {}
    of_ranks: list[Path] = []
    of_runs: list[Path] = []
    for path in sorted(root.rglob("*")):
        if not path.is_file():
            continue
        if _NAME_2021.fullmatch(path.name):
            by_folder.setdefault(path.parent, []).append(path)
        elif _begins_as(path, _LINE_OF_RANK):
            of_ranks.append(path)
        elif _begins_as(path, _LINE_OF_RUN):
            of_runs.append(path)
    found = [table for place, paths in by_folder.items() for table in _read_2021(place.name, paths)]
    found += [_read_2020(path, _second_file(path, of_runs)) for path in of_ranks]
    if not found:
        raise FileNotFound(
            f"{root}: no published tables, expected ranks*_*node_*.csv, or pairs of files with a line a rank and a "
            "line a run",
            path=str(root),
        )
    return found


_NAME_2021 = re.compile(r"ranks(\d+)_(\d+)node_(\d+)\.csv")
_LINE_OF_RANK = re.compile(rb"\d+ \d+ \d+( [0-9.eE+-]+){5}\s")
_LINE_OF_RUN = re.compile(rb"\d+ \d+ \[[0-9.eE+-]+[,\]]")


def _begins_as(path: Path, line: re.Pattern[bytes]) -> bool:
    """Whether the file begins with such a line."""
    with os_errors("cannot read", str(path)), path.open("rb") as file:
        return line.match(file.read(1000)) is not None


def _second_file(path: Path, of_runs: Sequence[Path]) -> Path:
    """The file with a line per quantity for one with a line per rank: in its folder, the one of the likest name."""
    usual = path.with_name("_b".join(path.name.rsplit("_a", 1)))
    if usual != path and usual.is_file():
        return usual
    beside = [other for other in of_runs if other.parent == path.parent]
    if not beside:
        raise FileNotFound(f"{path}: no table with a line a run beside it, expected {usual.name}", path=str(path))
    likeness = {other: SequenceMatcher(None, path.name, other.name).ratio() for other in beside}
    return max(beside, key=lambda other: likeness[other])


def _read_2021(name: str, paths: Sequence[Path]) -> Iterator[Published]:
    """One table per placement: if numbers of ranks have several numbers of nodes, the first table has the smallest."""
    runs: dict[tuple[int, int], dict[int, RankRun]] = {}
    for path in paths:
        named = _NAME_2021.fullmatch(path.name)
        assert named is not None, "only such names are given"
        n_ranks, n_nodes, repeat = map(int, named.groups())
        rows = list(csv.DictReader(table_text(path).splitlines()))
        try:
            table = {column: np.array([float(row[column]) for row in rows]) for column in rows[0] if column}
            order = np.argsort(table["rank"])
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise damaged_table(path, error) from None
        if len(order) != n_ranks:
            raise damaged_table(path, f"expected {n_ranks} ranks, found {len(order)}")
        values = {column: values[order] for column, values in table.items()}
        runs.setdefault((n_ranks, n_nodes), {})[repeat] = values
    nodes: dict[int, list[int]] = {}
    for n_ranks, n_nodes in sorted(runs):
        nodes.setdefault(n_ranks, []).append(n_nodes)
    phases = ("t_init_top", "t_init_traj", "t_io", "t_rmsd", "t_wait", "t_comm", "t_close_traj")
    for number in range(max(map(len, nodes.values()))):
        chosen = {n: of_ranks[min(number, len(of_ranks) - 1)] for n, of_ranks in nodes.items()}
        several = [f"{n} ranks on {chosen[n]} node{'s' * (chosen[n] > 1)}" for n in chosen if len(nodes[n]) > 1]
        of_table = {(n, repeat): run for n in chosen for repeat, run in runs[n, chosen[n]].items()}
        title = ", ".join([f"{name} (SciPy 2021)", *several])
        yield Published(title, of_table, phases, "total_time", origin=SeriesOrigin(PUBLISHED, _SCIPY_2021))


def _read_2020(path: Path, others: Path) -> Published:
    try:
        table = np.array([[float(word) for word in line.split()] for line in table_text(path).splitlines()])
        totals: dict[tuple[int, int], list[Any]] = {}
        for line in table_text(others).splitlines():
            size, number, values = line.split(" ", 2)
            totals.setdefault((int(size), int(number)), []).append(np.array(ast.literal_eval(values), dtype=np.float64))
        runs: dict[tuple[int, int], RankRun] = {}
        for (n, repeat), rows in totals.items():
            own = table[(table[:, 0] == n) & (table[:, 1] == repeat)]
            own = own[np.argsort(own[:, 2])]
            run = {name: own[:, 3 + column] for column, name in enumerate(_RANK_COLUMNS)}
            run |= {name: rows[at] for name, at in _TOTALS.items()}
            if len(rows) != _ROWS or any(found.shape != (n,) for found in run.values()):
                raise damaged_table(path, f"expected {n} ranks and {_ROWS} rows in repeat {repeat}")
            runs[n, repeat] = run
    except (IndexError, KeyError, TypeError, ValueError, SyntaxError) as error:
        raise damaged_table(path, error) from None
    # the table that is printed in the publication
    what = "one shared XTC, MPI_Gather" if path.name == "fig2_ranks_a.txt" else path.stem
    title = f"{path.parent.name}: {what} (Concurrency Computat. 2020)"
    origin = SeriesOrigin(PUBLISHED, CONCURRENCY_2020)
    phases = ("t_init", "t_IO", "t_comp", "t_end_loop", "t_comm")
    return Published(title, runs, phases, "t_tot", ("t_comm", "t_block_RMSD"), origin=origin)


def table_text(path: Path) -> str:
    """The text of a file with a table."""
    return read_regular(path, "published table", most=_MOST_BYTES).decode()


def damaged_table(path: Path, why: object) -> CorruptFileError:
    """The error for a table that is damaged."""
    return CorruptFileError(f"{path}: the published table is damaged: {why}", path=str(path))

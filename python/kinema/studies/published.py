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
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, CorruptFileError, FileNotFound, from_os
from kinema.base.input_files import read_regular
from kinema.base.printable import printable, three_digits
from kinema.report.scaling import ScalingPoint, mean_and_deviation, scaling_points
from kinema.report.stragglers import THRESHOLD

__all__ = ["Published", "PublishedRun", "PublishedStraggler", "read_published"]

# values by name, (ranks,) seconds each, in the order of ranks
PublishedRun = Mapping[str, NDArray[np.float64]]

_RANK_COLUMNS = ("t_comp", "t_IO", "t_IO_plus_t_comp", "t_end_loop", "t_init")
# the rows of each run in the second table that agree with the summary; the other three are not documented
_TOTALS = {"t_tot": 0, "t_comm": 3, "t_block_RMSD": 5}
_ROWS = 6
# columns of a summary that are numbers of something
_COUNTS = ("ranks", "repeats", "stragglers")
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class PublishedStraggler:
    """A rank of a published run whose time is at least 1.5 times that of the fast group."""

    n_ranks: int
    repeat: int
    rank: int
    seconds: float
    times: float
    phase: str

    def __str__(self) -> str:
        return (
            f"{self.n_ranks} ranks, repeat {self.repeat}: rank {self.rank} took {self.seconds:.2f} s, "
            f"{self.times:.2f} times that of the fast ranks, most of the difference in {self.phase}"
        )


@dataclass(frozen=True, eq=False)
class Published:
    """Per-rank tables of one publication.

    Attributes
    ----------
    title : str
    runs : {(ranks, repeat): {name: (ranks,) seconds}}
    phases : names whose sum is a rank's time, except for a small rest
    total : name of the rank's whole time
    of_runs : names for which the publication gives each run's mean and largest value, and the deviation of these
    """

    title: str
    runs: Mapping[tuple[int, int], PublishedRun]
    phases: tuple[str, ...]
    total: str
    of_runs: tuple[str, ...] = ()

    @property
    def sizes(self) -> list[int]:
        """Numbers of ranks."""
        return sorted({n for n, _ in self.runs})

    def repeats(self, n_ranks: int) -> list[int]:
        """The repeats on `n_ranks` ranks."""
        return sorted(repeat for n, repeat in self.runs if n == n_ranks)

    def run(self, n_ranks: int, repeat: int) -> PublishedRun:
        """One run; raises ArgumentError if there is none."""
        if (n_ranks, repeat) not in self.runs:
            raise ArgumentError(f"{self.title}: no run with {n_ranks} ranks and repeat {repeat}")
        return self.runs[n_ranks, repeat]

    def mean(self, name: str, n_ranks: int) -> tuple[float, float]:
        """Mean and deviation (n - 1) over all ranks of all repeats."""
        return mean_and_deviation(self._all(name, n_ranks).tolist())

    def largest(self, name: str, n_ranks: int) -> float:
        """Largest value over all ranks of all repeats."""
        return float(self._all(name, n_ranks).max())

    def summarise_repeats(self, name: str, n_ranks: int, each: str) -> tuple[float, float]:
        """Mean and deviation (n - 1) over repeats of each repeat's "mean" or "max"."""
        if each not in ("mean", "max"):
            raise ArgumentError(f"each must be 'mean' or 'max', found {each!r}")
        values = [float(getattr(self.runs[n_ranks, repeat][name], each)()) for repeat in self.repeats(n_ranks)]
        return mean_and_deviation(values)

    def scaling(self) -> tuple[ScalingPoint, ...]:
        """S and E of the slowest rank of each run."""
        times = {n: [float(self.runs[n, repeat][self.total].max()) for repeat in self.repeats(n)] for n in self.sizes}
        return scaling_points(times)

    def stragglers(self, n_ranks: int, repeat: int, threshold: float = THRESHOLD) -> list[PublishedStraggler]:
        """Ranks that took at least `threshold` times the fast group's time, slowest first.

        The fast group are the ranks up to 1.5 times the fastest: if most ranks are slow, as 63 of 72 were once, the
        median is one of the slow ones. Waiting is not work; it is left out if the tables list it separately.
        """
        run = self.run(n_ranks, repeat)
        own = run[self.total] - run.get("t_wait", 0.0)
        fast = own <= THRESHOLD * own.min()
        usual = median(own[fast].tolist())
        work = {name: (run[name], median(run[name][fast].tolist())) for name in self.phases if name != "t_wait"}
        found = []
        for rank in np.flatnonzero(own >= threshold * usual):
            excess = {name: values[rank] - of_the_fast for name, (values, of_the_fast) in work.items()}
            phase = max(excess, key=lambda name: float(excess[name]))
            found.append(
                PublishedStraggler(n_ranks, repeat, int(rank), float(own[rank]), float(own[rank] / usual), phase)
            )
        return sorted(found, key=lambda one: -one.seconds)

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

    def _all(self, name: str, n_ranks: int) -> NDArray[np.float64]:
        return np.concatenate([self.runs[n_ranks, repeat][name] for repeat in self.repeats(n_ranks)])


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
    try:
        with path.open("rb") as file:
            return line.match(file.read(1000)) is not None
    except OSError as error:
        raise from_os("cannot read", error, str(path)) from None


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
    runs: dict[tuple[int, int], dict[int, PublishedRun]] = {}
    for path in paths:
        named = _NAME_2021.fullmatch(path.name)
        assert named is not None, "only such names are given"
        n_ranks, n_nodes, repeat = map(int, named.groups())
        rows = list(csv.DictReader(_text(path).splitlines()))
        try:
            table = {column: np.array([float(row[column]) for row in rows]) for column in rows[0] if column}
            order = np.argsort(table["rank"])
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise _damaged(path, error) from None
        if len(order) != n_ranks:
            raise _damaged(path, f"expected {n_ranks} ranks, found {len(order)}")
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
        yield Published(", ".join([f"{name} (SciPy 2021)", *several]), of_table, phases, "total_time")


def _read_2020(path: Path, others: Path) -> Published:
    try:
        table = np.array([[float(word) for word in line.split()] for line in _text(path).splitlines()])
        totals: dict[tuple[int, int], list[Any]] = {}
        for line in _text(others).splitlines():
            size, number, values = line.split(" ", 2)
            totals.setdefault((int(size), int(number)), []).append(np.array(ast.literal_eval(values), dtype=np.float64))
        runs: dict[tuple[int, int], PublishedRun] = {}
        for (n, repeat), rows in totals.items():
            own = table[(table[:, 0] == n) & (table[:, 1] == repeat)]
            own = own[np.argsort(own[:, 2])]
            run = {name: own[:, 3 + column] for column, name in enumerate(_RANK_COLUMNS)}
            run |= {name: rows[at] for name, at in _TOTALS.items()}
            if len(rows) != _ROWS or any(found.shape != (n,) for found in run.values()):
                raise _damaged(path, f"expected {n} ranks and {_ROWS} rows in repeat {repeat}")
            runs[n, repeat] = run
    except (IndexError, KeyError, TypeError, ValueError, SyntaxError) as error:
        raise _damaged(path, error) from None
    # the table that is printed in the publication
    what = "one shared XTC, MPI_Gather" if path.name == "fig2_ranks_a.txt" else path.stem
    title = f"{path.parent.name}: {what} (Concurrency Computat. 2020)"
    phases = ("t_init", "t_IO", "t_comp", "t_end_loop", "t_comm")
    return Published(title, runs, phases, "t_tot", ("t_comm", "t_block_RMSD"))


def _text(path: Path) -> str:
    return read_regular(path, "published table", most=_MOST_BYTES).decode()


def _damaged(path: Path, why: object) -> CorruptFileError:
    return CorruptFileError(f"{path}: the published table is damaged: {why}", path=str(path))

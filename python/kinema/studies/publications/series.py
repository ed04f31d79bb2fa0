"""Reader of all that publications give as numbers: tables of ranks, and summaries without the values of single ranks.

Summaries are those of Khoshlessan et al. (2020): means by number of ranks (figures 2 and 4), the seconds of splitting a
trajectory into segments (table 4), and the times of larger workloads (table B1).
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from kinema.base.errors import FileNotFound, os_errors
from kinema.report.ranks import PUBLISHED, RankSeries, SeriesOrigin, Statistic
from kinema.studies.publications.published import CONCURRENCY_2020, damaged_table, read_published, table_text

Rows = Sequence[Mapping[str, str]]

# names of the archive's files in words
_WORDS = {
    "fig2_summary.csv": "one shared XTC, MPI_Gather",
    "fig4_subfiling_mpi_summary.csv": "subfiling, MPI_Gather",
    "fig4_subfiling_ga_summary.csv": "subfiling, Global Arrays",
    "table4_splitting.csv": "splitting",
    "tableB1_workload.csv": "one shared XTC",
}
_SPLIT = "split"


def read_published_series(folder: str | os.PathLike[str]) -> list[RankSeries]:
    """All series below `folder`, by the common names of quantities.

    Raises FileNotFound for a folder without any table, CorruptFileError for a table that is damaged.
    """
    root = Path(folder)
    known: list[RankSeries] = []
    try:
        known = [table.with_common_names().series() for table in read_published(root)]
    except FileNotFound:
        # a folder of summaries
        if not any(_reader_of(path) for path in root.rglob("*.csv")):
            raise
    series = list(known)
    for path in sorted(root.rglob("*.csv")):
        reader = _reader_of(path)
        if reader is not None:
            series += [one for one in _read(path, reader) if not _is_summary_of(one, known)]
    return series


def _reader_of(path: Path) -> Callable[[str, Rows], Iterator[RankSeries]] | None:
    """The reader of the file by its header; None for other files."""
    if not path.is_file():
        return None
    with os_errors("cannot read", str(path)), path.open("rb") as file:
        names = set(file.readline(4096).decode(errors="replace").strip().split(","))
    for needed, reader in _READERS:
        if needed <= names:
            return reader
    return None


def _read(path: Path, reader: Callable[[str, Rows], Iterator[RankSeries]]) -> list[RankSeries]:
    label = f"{path.parent.name}: {_WORDS.get(path.name, path.stem)} (Concurrency Computat. 2020)"
    try:
        rows = list(csv.DictReader(table_text(path).splitlines()))
        found = list(reader(label, rows))
    except (KeyError, TypeError, ValueError) as error:
        raise damaged_table(path, error) from None
    if not rows:
        raise damaged_table(path, "no rows")
    return found


def _read_summary(label: str, rows: Rows) -> Iterator[RankSeries]:
    """Means by number of ranks; deviations of t_compute and t_IO are over ranks and repeats."""
    values: dict[str, dict[int, Statistic]] = {}
    for row in rows:
        # the column has the mean of the repeats' numbers, which count from 1
        n, repeats = int(row["blocks"]), round(2 * float(row["repeat"]) - 1)
        number = {name: float(text) for name, text in row.items() if name}
        unknown, total = math.nan, (number["t_tot_max"], number["std_tot_max"])
        communication = (number["t_comm_mean"], number["std_t_comm_mean"])
        largest = (number["t_comm_max"], number["std_t_comm_max"])
        for name, mean, most in (
            ("t_total", total, total),
            ("t_IO", (number["t_IO"], number["std_IO"]), (unknown, unknown)),
            ("t_compute", (number["t_comp"], number["std_comp"]), (unknown, unknown)),
            ("t_open", (number["t_init"], 0.0), (unknown, unknown)),
            ("t_open_trajectory", (number["t_init"], 0.0), (unknown, unknown)),
            ("t_communication", communication, largest),
            ("t_end_loop", (number["t_end_loop"], 0.0), (unknown, unknown)),
        ):
            values.setdefault(name, {})[n] = Statistic(*mean, *most, repeats)
    yield RankSeries(label, values, SeriesOrigin(PUBLISHED, CONCURRENCY_2020))


def _read_splitting(label: str, rows: Rows) -> Iterator[RankSeries]:
    seconds = {int(row["Np"]): float(row["time"]) for row in rows}
    values = {"t_total": {n: Statistic(found, 0.0, found, 0.0, 1) for n, found in seconds.items()}}
    yield RankSeries(label, values, SeriesOrigin(PUBLISHED, CONCURRENCY_2020, _SPLIT))


def _read_workloads(label: str, rows: Rows) -> Iterator[RankSeries]:
    """One series for each workload, on one rank."""
    for row in rows:
        times = {"t_compute": float(row["tcomp"]), "t_IO": float(row["tIO"])}
        values = {name: {1: Statistic(found, 0.0, found, 0.0, 1)} for name, found in times.items()}
        origin = SeriesOrigin(PUBLISHED, CONCURRENCY_2020, workload=float(row["workload"]))
        theory = float(row["theory"]) if row["theory"] else None
        yield RankSeries(f"{label}, work x{origin.workload:g}", values, origin, theory=theory)


def _is_summary_of(one: RankSeries, others: Sequence[RankSeries]) -> bool:
    """Whether a table of ranks has the same total times."""
    own = one.values.get("t_total", {})
    for other in others:
        theirs = other.values["t_total"]
        if own.keys() == theirs.keys() and all(math.isclose(own[n].mean, theirs[n].mean, rel_tol=1e-6) for n in own):
            return True
    return False


_READERS: tuple[tuple[set[str], Callable[[str, Rows], Iterator[RankSeries]]], ...] = (
    ({"blocks", "t_comp", "t_IO", "t_tot_max"}, _read_summary),
    ({"N_seg", "Np", "time"}, _read_splitting),
    ({"workload", "tcomp", "tIO", "theory"}, _read_workloads),
)

"""The publications' numbered tables, filled from reports, published tables and traces, as Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kinema.base.errors import ArgumentError
from kinema.base.printable import printable, three_digits
from kinema.report.names_2020 import NAMES_2020
from kinema.report.ranks import RankSeries, Statistic, gap_lines, gap_numbers, workload_ratios
from kinema.report.report import Report
from kinema.report.traces import TraceSummary
from kinema.report.traces.text import column_rows
from kinema.studies.publications import TABLES

_GIB = 1 << 30
_SPLIT = "split"
# a cell of runs that have no time; the words of the table say why
_GAP = "gap"

# rows of table 1 of 2021: facts of a report's machine, and names
_SOFTWARE = {
    "processor": "processor",
    "allowed_cores": "cores",
    "system": "operating system",
    "python": "Python",
    "compiler": "C compiler",
    "hdf5": "HDF5",
    "mpi": "MPI library",
    "h5py": "h5py",
    "mpi4py": "mpi4py",
    "MDAnalysis": "MDAnalysis",
    "dask": "Dask",
    "numpy": "NumPy",
    "kinema": "Kinema",
}
# table 2 of 2021: atoms, frames, and GiB by the names that `kinema scaling --formats` has for these layouts
_ATOMS_2021, _FRAMES_2021 = 111_815, 90_100
_SIZES_2021 = {
    "h5md-automatic": 113,
    "h5md-frame": 113,
    "h5md-contiguous": 113,
    "h5md-gzip1": 77,
    "h5md-gzip9": 75,
    "dcd": 113,
    "xtc": 35,
    "trr": 113,
}
# the names of table 3 of 2021, and what they are
_NAMES_2021: Mapping[str, tuple[str, str]] = {
    "t_open_topology": ("t_init_top", "reading the topology"),
    "t_open_trajectory": ("t_init_traj", "opening the trajectory and finding its frames"),
    "t_IO": ("t_I/O", "reading bytes and decoding them"),
    "t_compute": ("t_compute", "kernels and transforms"),
    "t_wait": ("t_wait", "waiting for a core, for work, and for the other ranks"),
    "t_communication": ("t_comm_gather", "sending and receiving results"),
    "t_end_loop": ("-", "closing files after the last frame"),
    "t_plan": ("-", "planning"),
    "t_unaccounted": ("-", "time that no clock measured"),
    "t_total": ("total", "the slowest rank, from opening to gathered results"),
}


@dataclass(frozen=True)
class PaperTable:
    """A table: `title`, the names of its columns, rows of text, and what readers must know of it."""

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: str = ""

    @property
    def markdown(self) -> str:
        """The table in Markdown, with its title and its words."""
        cells = [[printable(cell).replace("|", "/") for cell in row] for row in (self.head, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
        lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return "\n".join([f"## {printable(self.title)}", "", *lines, *(["", self.words] if self.words else [])])

    @property
    def csv(self) -> str:
        """Head and rows."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.head, *self.rows])
        return text.getvalue()

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        rows = [dict(zip(self.head, row, strict=True)) for row in self.rows]
        return {"table": self.name, "title": self.title, "rows": rows, "words": self.words}


def make_table(
    name: str, *, reports: Sequence[Report] = (), series: Sequence[RankSeries] = (), traces: Sequence[TraceSummary] = ()
) -> PaperTable:
    """A table by its name, of TABLES; `series` are of the reports and of published tables.

    Raises ArgumentError for another name, and if nothing given has what the table shows.
    """
    if name not in TABLES:
        raise ArgumentError(f"table must be one of {', '.join(TABLES)}, found {name!r}")
    title, make, needs = _TABLES[name]
    head, rows, words = make(reports, series, traces)
    if not rows or len(head) < 2:
        raise ArgumentError(f"the table {name} needs {needs}")
    gaps = [f"{_GAP}, {line}." for line in gap_lines(series)] if needs != _REPORTS else []
    return PaperTable(name, title, tuple(head), tuple(map(tuple, rows)), "\n\n".join(filter(None, [words, *gaps])))


_Rows = tuple[Sequence[str], Sequence[Sequence[str]], str]


def _systems(reports: Sequence[Report], series: Sequence[RankSeries], traces: Sequence[TraceSummary]) -> _Rows:
    """A column for each machine."""
    machines: dict[str, Mapping[str, object]] = {}
    file_systems: dict[str, dict[str, None]] = {}
    for report in reports:
        host = str(report.machine.get("host", "a machine without a name"))
        machines.setdefault(host, report.machine)
        file_systems.setdefault(host, {}).update(dict.fromkeys(map(str, report.input.get("file_systems", ()))))
    rows = [
        [words, *(_fact(machine.get(fact)) for machine in machines.values())]
        for fact, words in _SOFTWARE.items()
        if any(fact in machine for machine in machines.values())
    ]
    if machines:
        rows.append(["file systems", *(", ".join(found) or "-" for found in file_systems.values())])
    return ["system", *machines], rows, ""


def _fact(value: object) -> str:
    return "-" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _files(reports: Sequence[Report], series: Sequence[RankSeries], traces: Sequence[TraceSummary]) -> _Rows:
    """A row for each set of files, with the size of the publication's file of this layout beside it."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for report in reports:
        files = report.input["files"]
        key = (*(str(one["fingerprint"]) for one in files), str(report.extra.get("format", "")))
        name = str(report.extra.get("format") or files[0]["path"])
        size = sum(int(one.get("size", 0)) for one in files)
        facts = (len(files), report.input["n_atoms"], report.input.get("n_frames", report.timings.frames))
        values = max(1, facts[1] * facts[2])
        theirs = _SIZES_2021.get(name.lower()) or _SIZES_2021.get(str(report.input["format"]).lower())
        known = "-" if theirs is None else three_digits(theirs * _GIB / _ATOMS_2021 / _FRAMES_2021)
        row = [name, str(report.input["format"]), *(f"{fact:,}" for fact in facts), three_digits(size / _GIB)]
        rows.setdefault(key, [*row, three_digits(size / values), "-" if theirs is None else str(theirs), known])
    head = ["name", "format", "files", "atoms", "frames", "size (GiB)", "bytes an atom and frame"]
    words = f"2021: {_ATOMS_2021:,} atoms, {_FRAMES_2021:,} frames."
    return [*head, "2021: size (GiB)", "2021: bytes an atom and frame"], list(rows.values()), words


def _timings(reports: Sequence[Report], series: Sequence[RankSeries], traces: Sequence[TraceSummary]) -> _Rows:
    """The quantities of 2021, and for each series the means on its largest number of ranks."""
    shown = _with_parts(series)
    head = ["quantity", "2021", "is", *(f"{one.label}, N = {one.sizes[-1]} (s)" for one in shown)]
    rows = [
        [name, *meaning, *(_value(one, name, one.sizes[-1]) for one in shown)] for name, meaning in _NAMES_2021.items()
    ]
    return head, rows if shown else [], "Means over ranks, with their deviations over repeats."


def _names_of_2020(reports: Sequence[Report], series: Sequence[RankSeries], traces: Sequence[TraceSummary]) -> _Rows:
    """The names of 2020, as sums of quantities; quantities that a series does not have count nothing."""
    shown = _with_parts(series)
    head = ["2020", "sum of", *(f"{one.label}, N = {one.sizes[-1]} (s)" for one in shown)]
    rows = []
    for name, parts in NAMES_2020.items():
        sums = []
        for one in shown:
            found = [value for part in parts if (value := one.value(part, one.sizes[-1])) is not None]
            sums.append(three_digits(sum(found)) if found else "-")
        rows.append([name, " + ".join(parts), *sums])
    return head, rows if shown else [], "Means over ranks and repeats."


def _with_parts(series: Sequence[RankSeries]) -> list[RankSeries]:
    return [one for one in series if "t_total" in one.values and len(one.values) > 1]


def _splitting(reports: Sequence[Report], series: Sequence[RankSeries], traces: Sequence[TraceSummary]) -> _Rows:
    rows = []
    for one in series:
        if one.origin.task == _SPLIT:
            points = {point.n_workers: point for point in one.speed_ups("t_total")}
            for n in sorted({*points, *gap_numbers([one])}):
                if n not in points:
                    rows.append([one.label, str(n), _GAP, "-", "-"])
                    continue
                point = points[n]
                deviation = f" ± {three_digits(point.deviation)}" if point.repeats > 1 else ""
                ratios = (three_digits(point.speed_up), three_digits(point.efficiency))
                rows.append([one.label, str(n), f"{three_digits(point.mean)}{deviation}", *ratios])
    words = "S and E are measured against the smallest number of ranks of each series. As many segments as ranks."
    return ["series", "ranks", "time (s)", "S", "E"], rows, words


def _compute_and_io(reports: Sequence[Report], series: Sequence[RankSeries], traces: Sequence[TraceSummary]) -> _Rows:
    """t_compute and t_IO by number of ranks, two columns for each series."""
    shown = [one for one in series if one.origin.workload == 1 and {"t_compute", "t_IO", "t_total"} <= set(one.values)]
    numbers = sorted({n for one in shown for n in one.sizes} | gap_numbers(shown))
    head = ["ranks", *(f"{one.label}: {name} (s)" for one in shown for name in ("t_compute", "t_IO"))]
    rows = [[str(n), *(_value(one, name, n) for one in shown for name in ("t_compute", "t_IO"))] for n in numbers]
    return head, rows if shown else [], "Means over ranks, with their deviations over repeats."


def _workloads(reports: Sequence[Report], series: Sequence[RankSeries], traces: Sequence[TraceSummary]) -> _Rows:
    rows = []
    for one, ratio, theory in workload_ratios(series):
        times = [_value(one, name, 1) for name in ("t_compute", "t_IO")]
        expected = "-" if theory is None else three_digits(theory)
        rows.append([one.label, f"{one.origin.workload:g}", *times, three_digits(ratio), expected])
    words = "Runs with one rank. By theory R_comp/IO is the workload times R_comp/IO of workload 1."
    return ["series", "workload", "t_compute (s)", "t_IO (s)", "R_comp/IO", "by theory"], rows, words


def _tasks(reports: Sequence[Report], series: Sequence[RankSeries], traces: Sequence[TraceSummary]) -> _Rows:
    """Function, task and job time of runs with a scheduler."""
    rows = []
    for report in reports:
        for number, one in enumerate(report.timings.passes, start=1):
            if one.tasks is None:
                continue
            tasks = one.tasks
            task = "-" if tasks.note else three_digits(tasks.task)
            rows.append(
                [
                    report.timings.runner, str(report.input["format"]), str(report.n_workers), str(number),
                    three_digits(tasks.function), task, three_digits(tasks.job),
                    str(sum(one.tasks for one in tasks.workers)),
                ]
            )  # fmt: skip
    head = ["runner", "format", "workers", "pass", "function (s)", "task (s)", "job (s)", "tasks"]
    words = (
        "Function: the slowest worker by its own timers; task: by the scheduler's account; job: for the client. "
        "In 2017: 43.6 s, 104.3 s and 105.1 s on 54 cores."
    )
    return head, rows, words


def _summaries(reports: Sequence[Report], series: Sequence[RankSeries], traces: Sequence[TraceSummary]) -> _Rows:
    head, *rows = column_rows(traces)
    return ["", *head[1:]], [[cell.strip() for cell in row] for row in rows] if traces else [], ""


def _value(one: RankSeries, name: str, n: int) -> str:
    found: Statistic | None = one.values.get(name, {}).get(n)
    if found is None:
        return _GAP if one.is_gap(n) else "-"
    return three_digits(found.mean) + (
        f" ± {three_digits(found.deviation)}" if found.repeats > 1 and found.deviation > 0 else ""
    )


_Make = Callable[[Sequence[Report], Sequence[RankSeries], Sequence[TraceSummary]], _Rows]
_REPORTS, _SERIES = "reports", "reports or published tables"

# title, how a table is made, and what it needs, by name
_TABLES: Mapping[str, tuple[str, _Make, str]] = {
    "2021-1": ("Table 1 of 2021: systems and library versions", _systems, _REPORTS),
    "2021-2": ("Table 2 of 2021: data files", _files, _REPORTS),
    "2021-3": ("Table 3 of 2021: timings", _timings, _SERIES),
    "2020-3": ("Table 3 of 2020: quantities", _names_of_2020, _SERIES),
    "2020-4": ("Table 4 of 2020: splitting a trajectory", _splitting, "reports of splitting, or the published table"),
    "2020-5": ("Table 5 of 2020: computing and I/O", _compute_and_io, _SERIES),
    "2020-B1": ("Table B1 of 2020: workloads", _workloads, "runs with one rank, or the published table"),
    "2017-tasks": ("Tasks of 2017: function, task and job time", _tasks, "reports of the Dask runner"),
    "2024-summaries": ("Behaviour summaries of 2024", _summaries, "traces"),
}

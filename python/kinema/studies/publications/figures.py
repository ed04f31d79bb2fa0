"""The publications' figures from files: reports, published tables, results of `bench-write`, traces."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from statistics import median
from typing import TYPE_CHECKING

from kinema.base.errors import ArgumentError
from kinema.report.quantities import checked_quantity
from kinema.report.ranks import RankSeries, leave_out, tables_of_reports
from kinema.report.report import Report
from kinema.studies.publications import FIGURES
from kinema.studies.publications.gaps import find_gaps
from kinema.studies.publications.series import read_published_series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kinema.report.figures.machines import Speeds

Path = str | os.PathLike[str]

_MB = 1e6


def gather_series(
    files: Sequence[Path] = (),
    *,
    labels: Sequence[str | None] | None = None,
    published: Path | None = None,
    exclude: Sequence[str] = (),
) -> list[RankSeries]:
    """Series of reports and of published tables, in this order, without the runs that `exclude` matches.

    Series have the gaps of the experiments that the reports belong to, as `find_gaps` finds them.

    A pattern of `exclude` matches the path of a report, or the name of a run: "LABEL, N ranks, repeat R". `labels` are
    as in `kinema.report.scaling_of`.

    Raises as `Report.load`, `scaling_of` and `read_published_series`, and ArgumentError for a pattern without a run.
    """
    names = list(labels) if labels is not None else [None] * len(files)
    of_files = [one for one in exclude if any(fnmatchcase(str(file), one) for file in files)]
    kept = [at for at, file in enumerate(files) if not any(fnmatchcase(str(file), one) for one in of_files)]
    if files and not kept:
        raise ArgumentError("all reports are left out")
    reports = [Report.load(files[at]) for at in kept]
    gaps = find_gaps(files)
    series = []
    if reports:
        of_reports = [gaps.of_reports[at] for at in kept]
        series = [one.series() for one in tables_of_reports(reports, [names[at] for at in kept], of_reports)]
        series += gaps.alone
    series += [] if published is None else read_published_series(published)
    return leave_out(series, [one for one in exclude if one not in of_files])


def draw_figure(
    kind: str, series: Sequence[RankSeries], *, quantities: Sequence[str] = (), baseline: str | None = None
) -> Figure:
    """One of RANK_FIGURES. `quantities` choose panels of "timings" and "speedup", and the one of "bars"; `baseline` is
    the label of the series, or a part of it, that "speedup" measures against.

    Raises ArgumentError for options that do not fit the figure, and for series without the values it needs.
    """
    from kinema.report.figures import bars, phases, rank_bars, ratios, speedup, timings

    check_figure_options(kind, quantities=quantities, baseline=baseline)
    quantities = list(map(checked_quantity, quantities))
    if kind == "timings":
        return timings.draw_timings(series, quantities)
    if kind == "speedup":
        against = None if baseline is None else _series_named(series, baseline)
        return speedup.draw_speedup(series, quantities, against)
    if kind == "bars":
        return bars.draw_bars_of_series(series, *quantities)
    if kind == "phases":
        return phases.draw_phases(series)
    if kind == "ratios":
        return ratios.draw_ratios(series)
    return rank_bars.draw_rank_bars(series)


def check_figure_options(kind: str, *, quantities: Sequence[str] = (), baseline: str | None = None) -> None:
    """Raises ArgumentError for options that do not fit the figure."""
    if kind not in FIGURES:
        raise ArgumentError(f"figure must be one of {', '.join(FIGURES)}, found {kind!r}")
    if quantities and kind not in ("timings", "speedup", "bars"):
        raise ArgumentError(f"a quantity belongs to the figures timings, speedup and bars, not to {kind}")
    if kind == "bars" and len(quantities) > 1:
        raise ArgumentError(f"the figure bars shows one quantity, found {', '.join(quantities)}")
    if baseline is not None and kind != "speedup":
        raise ArgumentError(f"a baseline belongs to the figure speedup, not to {kind}")


def draw_machine_figure(files: Sequence[Path]) -> Figure:
    """The figure "machines" of results of `kinema bench-write` and of reports, whose speeds are those of reading.

    Raises CorruptFileError for other files, ArgumentError if no run has a speed.
    """
    from kinema.report.figures.machines import draw_machines
    from kinema.studies.publications.write_speeds import is_write_study, read_speeds

    studies = [file for file in files if is_write_study(file)]
    speeds = [one for file in studies for one in read_speeds(file)]
    return draw_machines(speeds + _reading_speeds([file for file in files if file not in studies]))


def _reading_speeds(files: Sequence[Path]) -> list[Speeds]:
    """Bytes read by the time of the slowest worker, a method for each series of reports."""
    from kinema.report.figures.machines import Speeds

    found = []
    reports = [Report.load(file) for file in files]
    for table in tables_of_reports(reports, gaps=find_gaps(files).of_reports) if reports else []:
        points = {}
        for n in table.sizes:
            seconds = {(n, repeat): float(table.runs[n, repeat][table.total].max()) for repeat in table.repeats(n)}
            speeds = [table.bytes_read[key] / _MB / time for key, time in seconds.items()]
            points[n] = (median(speeds), min(speeds), max(speeds))
        repeats = max(len(table.repeats(n)) for n in table.sizes)
        gaps = {gap.n_ranks: gap.reason for gap in table.gaps if gap.n_ranks not in points}
        found.append(
            Speeds(table.origin.where, table.label, "reading", points, gaps, repeats=repeats, kind=table.origin.kind)
        )
    return found


def _series_named(series: Sequence[RankSeries], name: str) -> RankSeries:
    exact = [one for one in series if one.label == name]
    fitting = exact or [one for one in series if name in one.label]
    if len(fitting) != 1:
        known = ", ".join(repr(one.label) for one in series)
        raise ArgumentError(f"the baseline {name!r} fits {len(fitting)} series, expected one of {known}")
    return fitting[0]

"""Words of figures: the legend's entries, and the caption that says what was measured where."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from kinema.base.errors import ArgumentError
from kinema.base.printable import counted, plot_text
from kinema.report.figures.style import mark_missing, series_style
from kinema.report.ranks import EMULATED, PUBLISHED, RankSeries, SeriesOrigin, gap_lines, gap_numbers

_LABEL = 70
# labels that are named in a line of the caption; more are counted
_NAMED = 3
_NAMED_GAPS = 8


def with_quantity(series: Sequence[RankSeries], names: Sequence[str]) -> list[RankSeries]:
    """The series that have one of the quantities, and those of gaps alone; ArgumentError if there are no values."""
    if not any(name in one.values for one in series for name in names):
        raise ArgumentError(f"no series has {' or '.join(names)}")
    return [one for one in series if not one.values or any(name in one.values for name in names)]


def mark_gaps(axes: Axes, series: Sequence[RankSeries], quantity: str) -> None:
    """A cross at the bottom where a series has no value of the quantity because all runs are gaps."""
    found = [
        (n, series_style(number)["color"])
        for number, one in enumerate(series)
        for n in sorted(gap_numbers([one]))
        if one.is_gap(n, quantity)
    ]
    mark_missing(axes, found)


def series_handles(series: Sequence[RankSeries]) -> list[Line2D]:
    """Entries of the legend for series in the order of their styles."""
    handles = []
    for number, one in enumerate(series):
        style = series_style(number)
        del style["capsize"]
        handles.append(Line2D([], [], label=textwrap.fill(plot_text(one.label), _LABEL), **style))
    return handles


def caption_of(series: Sequence[RankSeries]) -> list[str]:
    """A line for each place where series were measured, emulated, or published, and for each gap with its reason."""
    places: dict[SeriesOrigin, list[RankSeries]] = {}
    for one in series:
        if not one.values:
            continue
        places.setdefault(SeriesOrigin(one.origin.kind, one.origin.where), []).append(one)
    # several places need the names of their series
    lines = [_place_line(origin, some, named=len(places) > 1) for origin, some in places.items()]
    gaps = gap_lines(series)
    more = [f"\u00d7 and {len(gaps) - _NAMED_GAPS} more in results.jsonl."] if len(gaps) > _NAMED_GAPS else []
    return [*lines, *(plot_text(f"\u00d7 {line}.") for line in gaps[:_NAMED_GAPS]), *more]


def _place_line(origin: SeriesOrigin, series: Sequence[RankSeries], *, named: bool) -> str:
    labels = list(dict.fromkeys(one.label for one in series))
    of = "; ".join(labels) if len(labels) <= _NAMED else counted(len(labels), "series").removesuffix("s")
    numbers = sorted({one.repeats for one in series})
    repeats = counted(numbers[-1], "repeat") if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]} repeats"
    how = {PUBLISHED: "Published in", EMULATED: "Emulated, with the parameters of"}.get(origin.kind, "Measured on")
    return plot_text(f"{how} {origin.where}; {repeats}" + (f": {of}." if named else "."))

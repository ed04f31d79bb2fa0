"""The figure `speedup`: speed-up and efficiency of quantities over the number of ranks, a line for each series."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from kinema.base.errors import ArgumentError
from kinema.base.printable import plot_text
from kinema.report.figures.captions import caption_of, mark_gaps, series_handles, with_quantity
from kinema.report.figures.scaling import draw_speed_up
from kinema.report.figures.style import add_legend_and_caption, make_panels, series_style
from kinema.report.ranks import QUANTITY_WORDS, RankSeries, gap_numbers

_SHOWN = ("t_total", "t_IO", "t_compute")


def draw_speedup(
    series: Sequence[RankSeries], quantities: Sequence[str] = (), baseline: RankSeries | None = None
) -> Figure:
    """S in the first row and E in the second, a column for each quantity; the ideal as a line.

    Each series is measured against its own smallest number of ranks, or all against that of `baseline`.

    Raises ArgumentError if no series, or the baseline, has the quantities.
    """
    series = with_quantity(series, quantities or ("t_total",))
    names = [name for name in quantities or _SHOWN if any(one.speed_ups(name, baseline) for one in series)]
    if not names:
        raise ArgumentError(f"{baseline.label if baseline else 'the baseline'}: has no time to measure against")
    figure, panels = make_panels(2 * len(names), columns=max(2, len(names)))
    for column, name in enumerate(names):
        lines = [
            ([float(point.n_workers) for point in points], points, {**series_style(number), "label": one.label})
            for number, one in enumerate(series)
            for points in (one.speed_ups(name, baseline),)
            if points
        ]
        above, below = panels[column], panels[len(names) + column]
        draw_speed_up(above, below, lines, gap_numbers(series))
        above.set_title(f"{QUANTITY_WORDS[name]}, {name}", fontsize=10, loc="left")
        for axes in (above, below):
            axes.set_xlabel("number of ranks N")
            mark_gaps(axes, series, name)
    drawn = [line for axes in panels[: len(names)] for line in axes.lines]
    ideals = {line.get_label(): line for line in drawn if str(line.get_label()).startswith("ideal")}
    handles = [*series_handles(series), *ideals.values()]
    against = (
        "S and E are measured against the smallest number of ranks of each series."
        if baseline is None
        else f"S and E are measured against the smallest number of ranks of {plot_text(baseline.label)}."
    )
    about = f"{against} Deviations follow from those of both times over repeats."
    others = [] if baseline is None or baseline in series else [baseline]
    add_legend_and_caption(figure, handles, [about, *caption_of([*series, *others])])
    return figure

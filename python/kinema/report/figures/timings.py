"""The figure `timings`: a panel for each quantity, seconds over the number of ranks, a line for each series."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kinema.base.printable import plot_text
from kinema.report.figures.captions import caption_of, mark_gaps, series_handles, with_quantity
from kinema.report.figures.style import (
    add_legend_and_caption,
    decades_axis,
    make_panels,
    number_axis,
    plain,
    series_style,
)
from kinema.report.ranks import QUANTITY_WORDS, RankSeries, gap_numbers

# quantities that are drawn unless others are named; t_open instead of its parts if they are not known
_SHOWN = (
    "t_total", "t_IO", "t_compute", "t_wait", "t_open_topology", "t_open_trajectory", "t_communication", "t_end_loop",
)  # fmt: skip


def draw_timings(series: Sequence[RankSeries], quantities: Sequence[str] = ()) -> Figure:
    """Mean over ranks with its deviation over repeats, on a logarithmic axis; the largest rank as a thin line.

    Raises ArgumentError if no series has the quantities.
    """
    series = with_quantity(series, quantities or ("t_total",))
    names = list(quantities) or [name for name in _SHOWN if any(_is_above_zero(one, name) for one in series)]
    if not quantities and not {"t_open_topology", "t_open_trajectory"} & set(names):
        names += ["t_open"] if any(_is_above_zero(one, "t_open") for one in series) else []
    figure, panels = make_panels(len(names), columns=3 if len(names) > 4 else 2)
    for axes, name in zip(panels, names, strict=True):
        _draw_quantity(axes, series, name)
    handles = [*series_handles(series)]
    lines = ["Mean over ranks, with its deviation over repeats."]
    if any(_has_largest(one, name) for one in series for name in names if name != "t_total"):
        handles.append(Line2D([], [], color="0.4", linewidth=0.6, label="largest rank (thin)"))
    add_legend_and_caption(figure, handles, [*lines, *caption_of(series)])
    return figure


def _draw_quantity(axes: Axes, series: Sequence[RankSeries], name: str) -> None:
    numbers: set[int] = set()
    drawn: list[float] = []
    not_above: list[str] = []
    for number, one in enumerate(series):
        found = {n: value for n, value in sorted(one.values.get(name, {}).items()) if value.mean > 0}
        if not found:
            not_above += [one.label] if name in one.values else []
            continue
        style = series_style(number)
        axes.errorbar(
            list(found), [value.mean for value in found.values()], yerr=[value.deviation for value in found.values()],
            label=plot_text(one.label), **style,
        )  # fmt: skip
        drawn += [value.mean for value in found.values()]
        numbers |= set(found)
        if name != "t_total" and _has_largest(one, name):
            largest = [value.largest for value in found.values()]
            axes.plot(list(found), largest, color=style["color"], linestyle=style["linestyle"], linewidth=0.6)
            drawn += [value for value in largest if value > 0]
    axes.set_title(QUANTITY_WORDS[name], fontsize=10, loc="left")
    axes.set_ylabel(f"{name} (s)")
    axes.set_xlabel("number of ranks N")
    plain(axes)
    if not drawn:
        axes.text(0.5, 0.5, "0 s in all series", transform=axes.transAxes, ha="center", color="0.4")
        return
    mark_gaps(axes, series, name)
    number_axis(axes, sorted(numbers | gap_numbers(series)))
    # bars of deviations may reach zero; the axis does not follow them there
    decades_axis(axes, float(np.nanmin(drawn)), float(np.nanmax(drawn)))
    if not_above:
        words = f"{len(not_above)} series of 0 s"
        axes.text(0.99, 0.98, words, transform=axes.transAxes, ha="right", va="top", fontsize=7, color="0.4")


def _is_above_zero(one: RankSeries, name: str) -> bool:
    return any(value.mean > 0 for value in one.values.get(name, {}).values())


def _has_largest(one: RankSeries, name: str) -> bool:
    return any(not math.isnan(value.largest) and value.largest > 0 for value in one.values.get(name, {}).values())

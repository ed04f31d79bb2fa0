"""The figure `phases`: the parts of the time, stacked, over the number of ranks; a panel for each series."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from kinema.base.errors import ArgumentError
from kinema.base.printable import plot_text
from kinema.report.figures.captions import caption_of
from kinema.report.figures.style import QUANTITY_COLOURS, add_legend_and_caption, make_panels, mark_missing, plain
from kinema.report.quantities import PARTS
from kinema.report.ranks import QUANTITY_WORDS, RankSeries, gap_numbers

_TITLE = 48


def draw_phases(series: Sequence[RankSeries]) -> Figure:
    """Means over ranks and repeats of all parts of t_total, one on the other; a mark for the slowest rank.

    Raises ArgumentError if the parts of no series are known.
    """
    known = [sum(name in one.values for name in PARTS) > 1 and "t_total" in one.values for one in series]
    if not any(known):
        raise ArgumentError("the parts of no series are known")
    series = [one for one, is_known in zip(series, known, strict=True) if is_known or not one.values]
    figure, panels = make_panels(len(series), columns=2 if len(series) < 5 else 3, width=4.6, height=3.2)
    shown: dict[str, None] = {}
    for axes, one in zip(panels, series, strict=True):
        shown |= dict.fromkeys(_draw_series(axes, one))
    handles: list[Patch | Line2D] = [
        Patch(color=QUANTITY_COLOURS[name], label=f"{QUANTITY_WORDS[name]}, {name}") for name in PARTS if name in shown
    ]
    handles.append(Line2D([], [], linestyle="", marker="_", markersize=12, color="black", label="slowest rank"))
    lines = ["Means over ranks and repeats; the mark is the slowest rank's time, a mean over repeats."]
    add_legend_and_caption(figure, handles, [*lines, *caption_of(series)])
    return figure


def _draw_series(axes: Axes, one: RankSeries) -> list[str]:
    """Draws a stack for each number of ranks; returns the quantities that were drawn."""
    totals = one.values.get("t_total", {})
    numbers = sorted({*totals, *gap_numbers([one])})
    bottom = np.zeros(len(numbers))
    shown = []
    for name in PARTS:
        means = np.array([one.value(name, n) or 0.0 for n in numbers])
        if means.any():
            axes.bar(np.arange(len(numbers)), means, 0.7, bottom, color=QUANTITY_COLOURS[name], linewidth=0)
            bottom += means
            shown.append(name)
    slowest = [totals[n].mean for n in sorted(totals)]
    axes.plot(
        [numbers.index(n) for n in sorted(totals)], slowest, linestyle="", marker="_", markersize=14, color="black"
    )
    mark_missing(axes, [(at, "black") for at, n in enumerate(numbers) if one.is_gap(n)])
    axes.set_xticks(range(len(numbers)), [str(n) for n in numbers])
    axes.set_xlabel("number of ranks N")
    axes.set_ylabel("time (s)")
    axes.set_ylim(0, 1.08 * max([*slowest, *bottom]) or 1.0)
    axes.set_title(textwrap.fill(plot_text(one.label), _TITLE), fontsize=9, loc="left")
    plain(axes)
    return shown

"""The figure `ratios`: S and E over R_comp/IO; R_comp/comm and t_comm over the number of ranks; theory by workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kinema.base.errors import ArgumentError
from kinema.report.figures.captions import caption_of, series_handles
from kinema.report.figures.style import (
    add_legend_and_caption,
    decades_axis,
    make_panels,
    mark_missing,
    number_axis,
    plain,
    series_style,
)
from kinema.report.ranks import RankSeries, gap_numbers, workload_ratios

Draw = Callable[[Axes], None]
# numbers of ranks with lines of their own in panels over R_comp/IO
_MOST_NUMBERS = 6
_PER_COMM, _COMM = "R_comp/comm", "t_comm (s)"


def draw_ratios(series: Sequence[RankSeries]) -> Figure:
    """The panels that the series have values for; panels without values are left out.

    R_comp/IO is that of the run with one rank. Raises ArgumentError if no panel has values.
    """
    style = {id(one): series_style(number) for number, one in enumerate(series)}
    panels: list[Draw] = []
    with_ratio = [one for one in series if one.compute_per_io() is not None]
    with_ratio.sort(key=lambda one: one.compute_per_io() or 0.0)
    scaled = [one for one in with_ratio if len(one.speed_ups("t_total")) > 1]
    used: list[RankSeries] = []
    if scaled:
        panels += [partial(_over_ratio, series=scaled, name=name) for name in ("speed_up", "efficiency")]
        used += scaled
    per_comm = [one for one in series if any(one.compute_per_communication(n) for n in one.sizes if n > 1)]
    if per_comm:
        panels += [partial(_over_ranks, series=per_comm, style=style, label=label) for label in (_PER_COMM, _COMM)]
        used += per_comm
    rows = workload_ratios(with_ratio)
    if len({one.origin.workload for one, *_ in rows}) > 1:
        panels.append(partial(_over_workload, rows=rows, style=style))
        used += [one for one, *_ in rows]
    if not panels:
        raise ArgumentError(
            "the ratios need runs with one rank, I/O and computing, or runs on several ranks that communicate"
        )
    figure, axes = make_panels(len(panels), columns=2 if len(panels) in (2, 4) else 3)
    for one, draw in zip(axes, panels, strict=True):
        draw(one)
    drawn = [one for one in series if any(one is other for other in used) or not one.values]
    handles = [handle for one, handle in zip(series, series_handles(series), strict=True) if one in drawn]
    lines = [
        "R_comp/IO is t_compute / t_IO of the run with one rank; R_comp/comm is mean t_compute / mean t_communication.",
        "t_comm of the publication of 2020 contains waiting.",
    ]
    add_legend_and_caption(figure, handles, [*lines, *caption_of(drawn)])
    return figure


def _over_ratio(axes: Axes, series: Sequence[RankSeries], name: str) -> None:
    """A line for each number of ranks, a point for each series."""
    times = Counter(point.n_workers for one in series for point in one.speed_ups("t_total") if point.n_workers > 1)
    # numbers of ranks of several series make lines
    numbers = sorted(n for n, found in times.items() if found > 1) or sorted(times)
    if len(numbers) > _MOST_NUMBERS:
        numbers = [numbers[at] for at in np.linspace(0, len(numbers) - 1, _MOST_NUMBERS).astype(int)]
    colours = matplotlib.colormaps["cividis"](np.linspace(0.0, 0.9, len(numbers)))
    for at, (n, colour) in enumerate(zip(numbers, colours, strict=True)):
        style = {**series_style(at), "color": tuple(colour), "label": f"N = {n}"}
        # a line joins what was measured in one place
        for where in dict.fromkeys(one.origin.where for one in series):
            points = [
                (one.compute_per_io() or 0.0, point)
                for one in series
                for point in one.speed_ups("t_total")
                if point.n_workers == n and one.origin.where == where
            ]
            if points:
                axes.errorbar(
                    [ratio for ratio, _ in points], [getattr(point, name) for _, point in points],
                    yerr=[getattr(point, f"{name}_deviation") for _, point in points], **style,
                )  # fmt: skip
                style["label"] = None
    ratios = [ratio for one in series if (ratio := one.compute_per_io()) is not None]
    if max(ratios) > 3 * min(ratios):
        decades_axis(axes, min(ratios), max(ratios), which="x")
    axes.set_xlabel("R_comp/IO")
    axes.set_ylabel("speed-up S" if name == "speed_up" else "efficiency E = S / N")
    axes.set_ylim(bottom=0)
    axes.set_title("t_total", fontsize=10, loc="left")
    axes.legend(frameon=False, fontsize=7.5, loc="best")
    plain(axes)


def _over_ranks(axes: Axes, series: Sequence[RankSeries], style: Mapping[int, dict[str, Any]], label: str) -> None:
    """One rank sends nothing, and has no point."""
    found: dict[int, dict[int, float]] = {}
    for one in series:
        for n in one.sizes:
            value = one.compute_per_communication(n) if label == _PER_COMM else one.value("t_communication", n)
            if value and n > 1:
                found.setdefault(id(one), {})[n] = value
    for one in series:
        values = found[id(one)]
        line = {name: value for name, value in style[id(one)].items() if name != "capsize"}
        axes.plot(list(values), list(values.values()), **line)
    every = [value for values in found.values() for value in values.values()]
    gaps = [(n, style[id(one)]["color"]) for one in series for n in sorted(gap_numbers([one])) if one.is_gap(n)]
    mark_missing(axes, gaps)
    number_axis(axes, sorted({n for values in found.values() for n in values} | {n for n, _ in gaps}))
    decades_axis(axes, min(every), max(every))
    if label == _PER_COMM and min(every) < 1 < max(every):
        axes.axhline(1.0, color="0.6", linewidth=1, linestyle="--", zorder=0)
    axes.set_xlabel("number of ranks N")
    axes.set_ylabel(label)
    plain(axes)


def _over_workload(
    axes: Axes, rows: Sequence[tuple[RankSeries, float, float | None]], style: Mapping[int, dict[str, Any]]
) -> None:
    for one, ratio, _ in rows:
        marker, colour = style[id(one)]["marker"], style[id(one)]["color"]
        axes.plot([one.origin.workload], [ratio], marker=marker, color=colour, linestyle="", markersize=6)
    # a line for each place: each has its own base
    for where in dict.fromkeys(one.origin.where for one, *_ in rows):
        expected = [(one.origin.workload, theory) for one, _, theory in rows if one.origin.where == where and theory]
        axes.plot([x for x, _ in sorted(expected)], [y for _, y in sorted(expected)], "--", color="0.6", zorder=0)
    axes.legend(
        handles=[Line2D([], [], color="0.6", linestyle="--", label="theory: workload x R_comp/IO of one")],
        frameon=False, fontsize=7.5, loc="upper left",
    )  # fmt: skip
    axes.set_xlabel("workload (times each frame is computed)")
    axes.set_ylabel("R_comp/IO")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    plain(axes)

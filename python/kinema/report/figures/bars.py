"""The figure `bars`: one quantity of each series, such as layouts or formats, as bars."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from kinema.base.printable import plot_text
from kinema.report.figures.captions import caption_of, with_quantity
from kinema.report.figures.style import add_legend_and_caption, plain
from kinema.report.ranks import QUANTITY_WORDS, RankSeries, gap_numbers

# share of the axis for the numbers beside the bars, and letters of a label in a line
_ROOM = 1.2
_LABEL = 36


def draw_bars_of_series(series: Sequence[RankSeries], quantity: str = "t_IO") -> Figure:
    """A row for each series, a bar for each number of ranks: mean over ranks, and its deviation over repeats.

    Raises ArgumentError if no series has the quantity.
    """
    series = with_quantity(series, (quantity,))
    numbers = sorted({n for one in series for n in one.values.get(quantity, {})} | gap_numbers(series))
    gaps = [[n for n in numbers if one.is_gap(n, quantity)] for one in series]
    colours = matplotlib.colormaps["cividis"](np.linspace(0.1, 0.9, len(numbers)))
    thickness = max(0.16, 0.5 / len(numbers))
    n_bars = [len(one.values.get(quantity, {})) + len(missing) for one, missing in zip(series, gaps, strict=True)]
    labels = [textwrap.fill(plot_text(one.label), _LABEL) for one in series]
    # a row has room for its bars and for the lines of its label
    rooms = [max(size, 0.17 * (label.count("\n") + 1) / thickness) for size, label in zip(n_bars, labels, strict=True)]
    figure = Figure(figsize=(8.5, 1.0 + thickness * sum(rooms) + 0.22 * len(series)), layout="constrained")
    axes = figure.subplots()
    gap, place, ticks, most = 0.22 / thickness, 0.0, [], 0.0
    for one, missing, size, room in zip(series, gaps, n_bars, rooms, strict=True):
        place += (room - size) / 2
        ticks.append(place + (size - 1) / 2)
        for n, found in sorted(one.values.get(quantity, {}).items()):
            axes.barh(
                place, found.mean, 0.9, xerr=found.deviation or None, color=colours[numbers.index(n)], capsize=2,
                linewidth=0,
            )  # fmt: skip
            end = found.mean + found.deviation
            words = f"{found.mean:.3g}" + (f" (N = {n})" if len(numbers) > 1 else "")
            axes.annotate(words, (end, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7.5)
            most, place = max(most, end), place + 1
        for n in missing:
            words = "\u00d7 no time" + (f" (N = {n})" if len(numbers) > 1 else "")
            axes.annotate(words, (0, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7.5)
            place += 1
        place += gap + (room - size) / 2
    axes.set_yticks(ticks, labels, fontsize=8.5)
    # rows without bars have room too
    axes.set_ylim(place - gap - 0.3, -0.7)
    axes.set_xlim(0, (most or 1.0) * _ROOM)
    axes.set_xlabel(f"{QUANTITY_WORDS[quantity]}, {quantity} (s)")
    plain(axes)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", alpha=0.3, linewidth=0.6)
    about = "Mean over ranks, with its deviation over repeats."
    same = "" if len(numbers) > 1 else f"N = {numbers[0]}. "
    add_legend_and_caption(figure, [], [f"{same}{about}", *caption_of(series)])
    return figure

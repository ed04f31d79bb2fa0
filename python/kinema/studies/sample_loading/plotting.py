"""The picture of an experiment on loading: samples per second of each loop, by layout. It imports matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, NullFormatter

from kinema.studies.sample_loading.measuring import LoopRow

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

_STYLES = {
    ("NumPy, a sample at a time", "random"): ("#7b6d8d", "NumPy, a sample at a time"),
    ("NumPy, whole files", "files"): ("#b8a9c9", "NumPy, whole files, file by file"),
    ("h5py, a sample at a time", "random"): ("#3d5a80", "h5py, a sample at a time"),
    ("h5py, sorted", "random"): ("#6b8cae", "h5py, a sorted selection a batch"),
    ("h5py, whole files", "files"): ("#98c1d9", "h5py, whole files, file by file"),
    ("Kinema", "random"): ("#c8452d", "Kinema, random order"),
    ("Kinema", "windowed"): ("#f2a65a", "Kinema, random within windows"),
}
_DASHES = (0, (4, 3))
_WIDTH, _BAR, _GAP = 14.0, 0.25, 0.22
_HEAD, _FOOT = 1.15, 1.3
# left edges of the two columns, and their width, as shares of the picture's width
_COLUMNS, _COLUMN = (0.125, 0.635), 0.335


def draw_loading(rows: Sequence[LoopRow], limit: float, best: tuple[str, str], title: str, subtitle: str) -> Figure:
    """Bars by layout in two columns of one logarithmic scale.

    `limit`: samples per second of a plain read; `best`: the recommended layout and order.
    """
    layouts = list(dict.fromkeys(row.layout for row in rows))
    columns = _columns(layouts, rows)
    height = max(_height(column, rows) for column in columns)
    whole = _HEAD + height + _FOOT
    figure = Figure(figsize=(_WIDTH, whole))
    limits = (min(row.rate for row in rows) / 1.6, max(limit, *(row.rate for row in rows)) * 6)
    for left, column in zip(_COLUMNS, columns, strict=True):
        axes = figure.add_axes((left, _FOOT / whole, _COLUMN, height / whole))
        _draw_column(axes, [row for row in rows if row.layout in column], limit, best, limits)
        axes.set_ylim(height, 0)
    used = [style for kind, style in _STYLES.items() if any((row.program, row.order) == kind for row in rows)]
    handles: list[Artist] = [Patch(color=colour, label=label) for colour, label in used]
    handles.append(Line2D([], [], color="0.25", linestyle=_DASHES, label="a plain read of the same bytes"))
    figure.legend(handles=handles, loc="lower center", ncols=4, frameon=False, fontsize=10.5, columnspacing=1.4)
    figure.text(0.015, 1 - 0.16 / whole, title, fontsize=18, fontweight="bold", va="top")
    figure.text(0.015, 1 - 0.56 / whole, subtitle, fontsize=12, color="0.35", va="top")
    return figure


def _height(layouts: Sequence[str], rows: Sequence[LoopRow]) -> float:
    """Inches that the bars of layouts take."""
    return _BAR * sum(row.layout in layouts for row in rows) + _GAP * (len(layouts) + 1)


def _columns(layouts: Sequence[str], rows: Sequence[LoopRow]) -> tuple[Sequence[str], Sequence[str]]:
    """The layouts in two columns; the higher column is as low as possible."""

    def highest(cut: int) -> float:
        return max(_height(layouts[:cut], rows), _height(layouts[cut:], rows))

    cut = min(range(1, len(layouts) + 1), key=highest)
    return layouts[:cut], layouts[cut:]


def _draw_column(
    axes: Axes, rows: Sequence[LoopRow], limit: float, best: tuple[str, str], limits: tuple[float, float]
) -> None:
    at, places = _GAP, {}
    for number, layout in enumerate(dict.fromkeys(row.layout for row in rows)):
        there = [row for row in rows if row.layout == layout]
        if number % 2 == 0:
            axes.axhspan(at - _GAP / 2, at + _BAR * len(there) + _GAP / 2, color="0.965", zorder=0)
        for row in there:
            _bar(axes, at + _BAR / 2, row, limits[0], row.program == "Kinema" and (row.layout, row.order) == best)
            at += _BAR
        places[layout] = at - _BAR * len(there) / 2
        at += _GAP
    axes.axvline(limit, color="0.25", linestyle=_DASHES, linewidth=1.4, zorder=1)
    axes.set_xscale("log")
    axes.set_xlim(*limits)
    axes.set_yticks(list(places.values()), [_broken(layout) for layout in places], fontsize=12)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=10.5)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("samples a second", fontsize=12)
    axes.grid(axis="x", which="major", color="0.87", zorder=0)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _bar(axes: Axes, place: float, row: LoopRow, left: float, is_best: bool) -> None:
    colour, _ = _STYLES[row.program, row.order]
    axes.barh(place, row.rate - left, 0.86 * _BAR, left=left, color=colour, zorder=2)
    if is_best:
        axes.text(
            row.rate, place, "recommended ", va="center", ha="right", fontsize=10.5, fontweight="bold", color="white"
        )
    text = f" {_rounded(row.rate)}"
    weight = "bold" if row.program == "Kinema" else "normal"
    around = [withStroke(linewidth=2.5, foreground="white")]
    axes.text(
        row.rate, place, text, va="center", ha="left", fontsize=10.5, fontweight=weight, zorder=3, path_effects=around
    )


def _rounded(rate: float) -> str:
    digits = float(f"{rate:.3g}")
    return f"{digits:,.0f}" if digits >= 100 else f"{digits:g}"


def _broken(layout: str) -> str:
    """The layout's name, one line for each of its parts if it is long."""
    return layout.replace(", ", ",\n") if len(layout) > 14 else layout

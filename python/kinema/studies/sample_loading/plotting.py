"""The picture of an experiment on loading: samples a second of each loop, by layout. It imports matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from kinema.studies.sample_loading.measuring import LoopRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_loading"]

_STYLES = {
    ("NumPy, a sample at a time", "random"): ("#7b6d8d", "NumPy, a sample at a time"),
    ("NumPy, whole files", "files"): ("#b8a9c9", "NumPy, whole files (not shuffled across files)"),
    ("h5py, a sample at a time", "random"): ("#3d5a80", "h5py, a sample at a time"),
    ("h5py, sorted", "random"): ("#6b8cae", "h5py, a sorted selection a batch"),
    ("h5py, whole files", "files"): ("#98c1d9", "h5py, whole files (not shuffled across files)"),
    ("Kinema", "random"): ("#c8452d", "Kinema, random order"),
    ("Kinema", "windowed"): ("#f2a65a", "Kinema, random within windows"),
}
_BAR, _GAP = 0.235, 0.2
_HEAD, _FOOT = 0.95, 1.55


def draw_loading(rows: Sequence[LoopRow], limit: float, best: tuple[str, str], title: str, subtitle: str) -> Figure:
    """Bars by layout, on a logarithmic axis; `limit`: samples a second of a plain read; `best`: layout and order."""
    layouts = list(dict.fromkeys(row.layout for row in rows))
    height = _BAR * len(rows) + _GAP * (len(layouts) + 1)
    whole = _HEAD + height + _FOOT
    figure = Figure(figsize=(11.5, whole))
    axes = figure.add_axes((0.2, _FOOT / whole, 0.765, height / whole))
    places: list[float] = []
    at = _GAP
    lowest = min(row.rate for row in rows) / 1.6
    highest = max(limit, *(row.rate for row in rows)) * 2.4
    for number, layout in enumerate(layouts):
        there = [row for row in rows if row.layout == layout]
        if number % 2 == 0:
            axes.axhspan(at - _GAP / 2, at + _BAR * len(there) + _GAP / 2, color="0.965", zorder=0)
        for row in there:
            _bar(axes, at + _BAR / 2, row, lowest, row.program == "Kinema" and (row.layout, row.order) == best)
            at += _BAR
        places.append(at - _BAR * len(there) / 2)
        at += _GAP
    axes.axvline(limit, color="0.25", linestyle=(0, (4, 3)), linewidth=1.3, zorder=1)
    axes.text(limit, -0.03, "a plain read of the same bytes", ha="center", va="bottom", fontsize=9.5, color="0.25")
    axes.set_xscale("log")
    axes.set_xlim(lowest, highest)
    axes.set_ylim(at, 0)
    axes.set_yticks(places, [_broken(layout) for layout in layouts], fontsize=11)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=10)
    axes.set_xlabel("samples a second", fontsize=11)
    axes.grid(axis="x", which="major", color="0.85", zorder=0)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    used = [style for kind, style in _STYLES.items() if any((row.program, row.order) == kind for row in rows)]
    handles = [Patch(color=colour, label=label) for colour, label in used]
    figure.legend(handles=handles, loc="lower center", ncols=3, frameon=False, fontsize=9.5)
    figure.text(0.02, 1 - 0.18 / whole, title, fontsize=15, fontweight="bold", va="top")
    figure.text(0.02, 1 - 0.5 / whole, subtitle, fontsize=10, color="0.35", va="top")
    return figure


def _bar(axes: Axes, place: float, row: LoopRow, left: float, is_best: bool) -> None:
    colour, _ = _STYLES[row.program, row.order]
    axes.barh(place, row.rate - left, 0.86 * _BAR, left=left, color=colour, zorder=2)
    text = f" {_rounded(row.rate)}" + ("  recommended" if is_best else "")
    weight = "bold" if row.program == "Kinema" else "normal"
    axes.text(row.rate, place, text, va="center", ha="left", fontsize=9.5, fontweight=weight, zorder=3)


def _rounded(rate: float) -> str:
    digits = float(f"{rate:.3g}")
    return f"{digits:,.0f}" if digits >= 100 else f"{digits:g}"


def _broken(layout: str) -> str:
    """In two lines where it is long."""
    head, comma, tail = layout.partition(", ")
    return f"{head},\n{tail}" if comma and len(layout) > 18 else layout

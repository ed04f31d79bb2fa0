"""Figures of result tables. It imports matplotlib, and so is imported only when a plot is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from kinema.writing.tables import Table

__all__ = ["draw"]

_MANY_POINTS = 2000
# so few that each is marked: one alone would make no line
_FEW_POINTS = 30


def draw(table: Table) -> Figure:
    """The columns that have a unit over the column `table.x`, one line each; a line ends where `x` goes back."""
    # without pyplot, so that no window system is chosen and nothing stays open
    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = figure.subplots()
    x, curves = table.curves()
    width = 0.6 if len(x.values) > _MANY_POINTS else 1.2
    marker = "o" if len(x.values) <= _FEW_POINTS else None
    # a line is not drawn back to where time starts again
    turns = np.flatnonzero(np.diff(x.values.astype(np.float64)) < 0) + 1
    for column in curves:
        pieces = _broken(x.values, turns), _broken(column.values, turns)
        axes.plot(*pieces, linewidth=width, marker=marker, markersize=4, label=column.name)
    axes.set_xlabel(x.label)
    axes.set_ylabel(table.label(curves).replace("angstrom", "Å"))
    if x.values.dtype.kind in "iu":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    names = next((column.values for column in table.columns if column.name == table.names), None)
    if names is not None:
        if len(x.values) <= _FEW_POINTS:
            axes.set_xticks(np.unique(x.values))
            axes.tick_params(axis="x", rotation=90)
        axes.xaxis.set_major_formatter(_named(x.values, names))
    axes.margins(x=0.01)
    axes.grid(alpha=0.3)
    if len(curves) > 1:
        axes.legend(frameon=False)
    return figure


def _broken(values: NDArray[Any], places: NDArray[np.intp]) -> NDArray[Any]:
    """The values with NaN, where a line ends, before each of the places."""
    return np.insert(np.asarray(values, np.float64), places, np.nan) if len(places) else values


def _named(numbers: NDArray[np.integer], names: NDArray[np.str_]) -> FuncFormatter:
    """Labels of ticks: the name of a number and the number; the number alone where it has several names."""
    found: dict[int, set[str]] = {}
    for number, name in zip(numbers.tolist(), names.tolist(), strict=True):
        found.setdefault(number, set()).add(name)

    def label(value: float, _position: int | None) -> str:
        number = round(value)
        known = found.get(number, set())
        return f"{next(iter(known))} {number}" if len(known) == 1 else str(number) if known else ""

    return FuncFormatter(label)

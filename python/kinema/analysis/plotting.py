"""Figures of result tables. It imports matplotlib, and so is imported only when a plot is asked for."""

from __future__ import annotations

from matplotlib.figure import Figure

from kinema.output import Table

__all__ = ["draw"]

_MANY_POINTS = 2000


def draw(table: Table) -> Figure:
    """The columns that have a unit over the column `table.x`, one line each."""
    # without pyplot, so that no window system is chosen and nothing stays open
    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = figure.subplots()
    x, curves = table.curves()
    width = 0.6 if len(x.values) > _MANY_POINTS else 1.2
    for column in curves:
        axes.plot(x.values, column.values, linewidth=width, label=column.name)
    axes.set_xlabel(x.label)
    units = sorted({column.unit for column in curves})
    axes.set_ylabel(f"{table.title} ({', '.join(units)})".replace("angstrom", "Å"))
    axes.margins(x=0.01)
    axes.grid(alpha=0.3)
    if len(curves) > 1:
        axes.legend(frameon=False)
    return figure

"""The picture of a 2-D histogram. This module imports matplotlib; import it only when a picture is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from kinema.base.printable import plot_label

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from numpy.typing import NDArray

    from kinema.statistics.histogram import Histogram2D, QuantityOfBins

_LABELS = {"free-energy": "free energy (kJ/mol)", "probability": "probability of a bin", "counts": "frames"}
# full turns have ticks at these angles
_TICKS_OF_TURN = {360.0: 60.0}


def draw_histogram(histogram: Histogram2D, quantity: QuantityOfBins) -> Figure:
    """A map of one quantity of the bins, with a colour bar; empty bins are white."""
    values = histogram.counts.astype(np.float64) if quantity == "counts" else histogram.probability
    if quantity == "free-energy":
        values = histogram.free_energy
    shown = np.where(histogram.counts == 0, np.nan, values)
    figure = Figure(figsize=(6.4, 5.0), layout="constrained")
    axes = figure.subplots()
    image = axes.pcolormesh(
        histogram.x_edges,
        histogram.y_edges,
        shown.T,
        cmap="viridis" if quantity == "free-energy" else "viridis_r",
        vmin=0.0,
        rasterized=True,
    )
    axes.set(xlabel=plot_label(histogram.x.label), ylabel=plot_label(histogram.y.label))
    for axis, series, edges in (
        (axes.xaxis, histogram.x, histogram.x_edges),
        (axes.yaxis, histogram.y, histogram.y_edges),
    ):
        _ticks(axis, series.period, edges)
    label = plot_label(_LABELS[quantity])
    if quantity == "free-energy" and histogram.temperature is not None:
        label += f" at {histogram.temperature:g} K"
    figure.colorbar(image, ax=axes, label=label)
    return figure


def _ticks(axis: Axis, period: float, edges: NDArray[np.float64]) -> None:
    step = _TICKS_OF_TURN.get(period)
    if step is not None and edges[-1] - edges[0] == period:
        axis.set_major_locator(MultipleLocator(step))

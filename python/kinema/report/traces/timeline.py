"""The figure `timeline`: transfers of traces over time: bandwidth, transfer size, and overlap of I/O and compute."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from kinema.base.printable import counted, plot_text
from kinema.report.figures.style import add_legend_and_caption, plain
from kinema.report.traces.kinds import POSIX
from kinema.report.traces.picture import OPERATION_COLOURS, PARTS_OF_TIME, byte_unit, time_unit
from kinema.report.traces.summary import TraceSummary

__all__ = ["draw_timelines"]

# reading and writing; copies within a file system are not transfers
_OPERATIONS = {name: OPERATION_COLOURS[name] for name in ("read", "write")}
_COLOURS = {label: colour for label, _, colour in PARTS_OF_TIME}
# shares of a summary, from the bottom, and the parts of the time that they are
_OVERLAP = {
    "unoverlapped_io": "I/O alone",
    "overlapped": "I/O and compute at once",
    "unoverlapped_compute": "compute alone",
}


def draw_timelines(summaries: Sequence[TraceSummary]) -> Figure:
    """A column for each trace, a row for bandwidth, size of a transfer, and overlap; rows share their scales."""
    figure = Figure(figsize=(max(7.0, 4.4 * len(summaries)), 7.2), layout="constrained")
    axes = figure.subplots(3, len(summaries), squeeze=False, sharey="row", sharex="col")
    found = [one.bandwidth for one in summaries]
    unit, size = byte_unit(max(max([*one.read, *one.write]) / (one.part / 1e9) for one in found))
    size_unit, size_of = byte_unit(max(max([*one.read_size, *one.write_size]) for one in found))
    for column, one in enumerate(summaries):
        time, scale = time_unit(one.job.total)
        edges = np.arange(len(one.bandwidth.read) + 1) * one.bandwidth.part / scale
        _draw_bandwidth(axes[0, column], one, edges, size)
        _draw_sizes(axes[1, column], one, edges, size_of)
        _draw_overlap(axes[2, column], one, scale)
        axes[0, column].set_title(textwrap.fill(plot_text(one.label), 42), fontsize=10, loc="left")
        axes[2, column].set_xlabel(f"time since the first event ({time})")
        for panel in axes[:, column]:
            panel.set_xlim(0, max(1, one.job.total) / scale)
            plain(panel)
    axes[0, 0].set_ylabel(f"bandwidth ({unit}/s)")
    axes[1, 0].set_ylabel(f"size of a transfer ({size_unit})")
    axes[2, 0].set_ylabel("share of the time")
    for row in (0, 1):
        axes[row, 0].set_ylim(bottom=0)
    axes[2, 0].set_ylim(0, 1)
    handles: list[Patch | Line2D] = [
        Patch(color=colour, label=name)
        for name, colour in _OPERATIONS.items()
        if any(any(getattr(one, name)) for one in found)
    ]
    handles += [Patch(color=_COLOURS[label], label=label) for label in _OVERLAP.values()]
    add_legend_and_caption(figure, handles, [_line(one) for one in summaries])
    return figure


def _line(one: TraceSummary) -> str:
    whose = "POSIX calls" if one.bandwidth.of == POSIX else "application-level I/O"
    hosts = ", ".join(one.hosts) or "hosts that the trace does not name"
    return plot_text(f"{one.label}: {whose}, processes {one.processes:,}, on {hosts}; {counted(one.n_files, 'file')}.")


def _draw_bandwidth(axes: Axes, one: TraceSummary, edges: np.ndarray, size: float) -> None:
    seconds = one.bandwidth.part / 1e9
    for name, colour in _OPERATIONS.items():
        values = np.array(getattr(one.bandwidth, name))
        if values.any():
            axes.stairs(values / seconds / size, edges, fill=True, alpha=0.75, color=colour, label=name)


def _draw_sizes(axes: Axes, one: TraceSummary, edges: np.ndarray, size: float) -> None:
    """The mean size of the transfers of each moment; moments without transfers have none."""
    for name, colour in _OPERATIONS.items():
        values = np.array(getattr(one.bandwidth, f"{name}_size"))
        middles = (edges[1:] + edges[:-1]) / 2
        if values.any():
            axes.plot(
                middles[values > 0], values[values > 0] / size, linestyle="", marker="o", markersize=3.5, color=colour,
                label=name,
            )  # fmt: skip


def _draw_overlap(axes: Axes, one: TraceSummary, scale: float) -> None:
    bottom = np.zeros(len(one.overlap["overlapped"]))
    edges = np.linspace(0, max(1, one.job.total) / scale, len(bottom) + 1)
    for name, label in _OVERLAP.items():
        shares = np.array(one.overlap[name])
        axes.stairs(bottom + shares, edges, baseline=bottom, fill=True, color=_COLOURS[label], linewidth=0, label=label)
        bottom = bottom + shares

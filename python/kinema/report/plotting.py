"""Pictures of reports: where each worker's time went, the blocks over time, speed-up and efficiency.

It imports matplotlib, and so is imported only when a picture is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from kinema._core import __version__
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted, plot_text
from kinema.base.timings import BLOCK_PHASES, PHASES, UNACCOUNTED, block_column
from kinema.report.scaling import Scaling, ScalingPoint
from kinema.storage.output_file import write_whole
from kinema.storage.provenance import picture_metadata

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kinema.report.report import Report

__all__ = ["draw_bars", "draw_scaling", "draw_speed_up", "draw_timeline", "series_style", "stack_phases", "write"]

# distinguishable also without colour vision (after Okabe and Ito): work in colours, loss in greys
_COLOURS = {
    "start": "#56B4E9",
    "plan": "#A6761D",
    "open": "#0072B2",
    "io": "#E69F00",
    "decode": "#F0E442",
    "compute": "#009E73",
    "wait": "#C9C9C9",
    "communicate": "#CC79A7",
    "close": "#7A5195",
    UNACCOUNTED: "#5A5A5A",
}
# phases that have another name in pictures
_NAMES = {"io": "I/O", "frames": "more work"}
_SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vP*"
# shares of all time below which a phase has no entry in the legend
_VISIBLE = 2e-3
_MANY_WORKERS = 24
_CROWD = 60
# share of a picture's width that a straggler's label takes
_WORDS = 0.16
# distance between points with the same number of workers, and the most for all of them
_APART = 0.02
_ALL_APART = 0.08
_PLAIN_NUMBERS = FuncFormatter(lambda value, _: f"{value:g}")


def write(figure: Figure, path: str | os.PathLike[str], provenance: Sequence[str] | None = None) -> None:
    """Writes a figure, whole or not at all, in the suffix's format, with `provenance` or the version as metadata."""
    suffix = os.path.splitext(os.fspath(path))[1]
    metadata = picture_metadata(suffix, provenance or [f"kinema {__version__}"])
    write_whole(path, lambda file: figure.savefig(file, format=suffix[1:], dpi=150, metadata=metadata))


def draw_bars(report: Report) -> Figure:
    """Seconds of each worker by phase, summed over passes; stragglers are marked."""
    n_workers = _rows_for(report)
    sums = {phase: np.zeros(n_workers) for phase in (*PHASES, UNACCOUNTED)}
    for worker in report.timings.workers:
        for phase, values in sums.items():
            values[worker.worker] += max(0.0, getattr(worker, phase))
    marked = [(one.worker, _NAMES.get(one.phase, one.phase)) for one in report.stragglers]
    title = f"{_analyses(report)}, {report.timings.frames:,} frames, "
    figure = Figure(figsize=(min(12.0, max(6.0, 3.5 + 0.18 * n_workers)), 4.2), layout="constrained")
    axes = figure.subplots()
    stack_phases(
        axes, sums, title + f"{plot_text(report.timings.runner)}, {counted(n_workers, 'worker')}", "worker", marked
    )
    handles, labels = axes.get_legend_handles_labels()
    # in the order of the stack, from the top
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper", frameon=False, fontsize=9)
    return figure


def _analyses(report: Report) -> str:
    return plot_text(", ".join(dict.fromkeys(report.run["analyses"])))


def _rows_for(report: Report) -> int:
    """Number of rows for workers: the largest worker number plus one, because some passes may lack workers."""
    numbers = [worker.worker for worker in report.timings.workers]
    if not numbers:
        raise ArgumentError("nothing was read, all results came from a checkpoint: there is no time to be drawn")
    return max(numbers) + 1


def stack_phases(
    axes: Axes, sums: dict[str, NDArray[np.float64]], title: str, of: str, marked: Sequence[tuple[int, str]]
) -> None:
    n = len(next(iter(sums.values())))
    bottom = np.zeros(n)
    total = sum(values.sum() for values in sums.values())
    for phase, values in sums.items():
        if values.sum() > _VISIBLE * total or phase == UNACCOUNTED:
            label = _NAMES.get(phase, phase)
            # no gaps if a bar has few pixels: gaps of one pixel or none would make patterns
            width = 0.7 if n <= _MANY_WORKERS else 0.9 if n <= _CROWD else 1.0
            axes.bar(np.arange(n), values, width, bottom, color=_COLOURS[phase], label=label, linewidth=0)
        bottom = bottom + values
    # words if they have room beside each other
    places = sorted(worker for worker, _ in marked)
    in_words = len(marked) <= 3 and all(right - left >= _WORDS * n for left, right in pairwise(places))
    for worker, phase in marked:
        axes.annotate(
            f"straggler\n({phase})" if in_words else "▾", (worker, bottom[worker]), ha="center", va="bottom",
            fontsize=8, xytext=(0, 2), textcoords="offset points",
        )  # fmt: skip
    axes.set_xlabel(of + ("" if in_words else "; ▾: straggler"))
    axes.set_ylabel("time (s)")
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlim(-0.6, n - 0.4)
    axes.set_ylim(0, (bottom.max() or 1.0) * (1.14 if marked else 1.05))
    if n <= _MANY_WORKERS:
        axes.set_xticks(range(n))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True))
    _plain(axes)


def draw_timeline(report: Report) -> Figure:
    """Each worker's activity over time: I/O, decoding and computing of its blocks in turn; then the next pass."""
    n_workers = _rows_for(report)
    figure = Figure(figsize=(9.0, min(10.0, 1.6 + 0.34 * max(2, n_workers))), layout="constrained")
    axes = figure.subplots()
    height = 0.8 if n_workers <= _CROWD else 1.0
    offset = 0.0
    shown: set[str] = set()
    for one in report.timings.passes:
        for worker in one.workers:
            if worker.start > 0:
                axes.broken_barh(
                    [(offset, worker.start)], (worker.worker - height / 2, height), color=_COLOURS["start"], lw=0
                )
                shown.add("start")
        for phase, bars in _bars_of_blocks(one.blocks, offset).items():
            for worker_number, spans in bars.items():
                axes.broken_barh(
                    spans,
                    (worker_number - height / 2, height),
                    color=_COLOURS[phase],
                    lw=0,
                    rasterized=len(spans) > 500,
                )
                shown.add(phase)
        if offset > 0:
            axes.axvline(offset, color="black", linewidth=0.8, linestyle=":")
        offset += one.wall
    axes.set_ylim(n_workers - 0.4, -0.6)
    axes.set_xlim(0, offset or 1.0)
    if n_workers <= _MANY_WORKERS:
        axes.set_yticks(range(n_workers))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=20, integer=True))
    axes.set_xlabel("time since the beginning (s)")
    axes.set_ylabel("worker")
    axes.set_title(
        f"{_analyses(report)}, {plot_text(report.timings.runner)}, {counted(n_workers, 'worker')} "
        "(white: all else)",
        fontsize=10, loc="left",
    )  # fmt: skip
    _plain(axes)
    axes.grid(visible=False, axis="y")
    handles = [Patch(color=_COLOURS[phase], label=_NAMES.get(phase, phase)) for phase in _COLOURS if phase in shown]
    figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=9)
    return figure


def _bars_of_blocks(blocks: NDArray[np.float64], offset: float) -> dict[str, dict[int, list[tuple[float, float]]]]:
    """(begin, length) of each phase of each block, by phase and worker."""
    found: dict[str, dict[int, list[tuple[float, float]]]] = {phase: {} for phase in BLOCK_PHASES}
    workers = block_column(blocks, "worker")
    for worker in np.unique(workers):
        rows = blocks[workers == worker]
        begin = block_column(rows, "start") + offset
        for phase in BLOCK_PHASES:
            seconds = block_column(rows, phase)
            found[phase][int(worker)] = list(zip(begin.tolist(), seconds.tolist(), strict=True))
            begin = begin + seconds
    return found


def draw_scaling(scaling: Scaling) -> Figure:
    """Time, speed-up and efficiency over the number of workers, with deviations; ideal scaling as a line.

    If all runs have the same number of workers, draws only the times of the series, side by side.
    """
    numbers_of_workers = {point.n_workers for points in scaling.series.values() for point in points}
    if len(numbers_of_workers) == 1:
        return _draw_times(scaling, *numbers_of_workers)
    figure = Figure(figsize=(11.0, 4.3), layout="constrained")
    time_axes, speed_axes, efficiency_axes = figure.subplots(1, 3, gridspec_kw={"wspace": 0.12})
    series = []
    for number, (label, points) in enumerate(scaling.series.items()):
        # side by side, so that error bars do not hide each other
        shift = 1 + min(_APART, _ALL_APART / len(scaling.series)) * (number - (len(scaling.series) - 1) / 2)
        series.append(
            (
                [point.n_workers * shift for point in points],
                points,
                {**series_style(number), "label": plot_text(label)},
            )
        )
    for n, points, style in series:
        time_axes.errorbar(n, [p.mean for p in points], yerr=[p.deviation for p in points], **style)
    numbers = draw_speed_up(speed_axes, efficiency_axes, series)
    time_axes.set_ylabel("time t (s)")
    repeats = {point.repeats for points in scaling.series.values() for point in points}
    if repeats != {1}:
        repeated = f"{min(repeats)} to {max(repeats)}" if len(repeats) > 1 else f"{max(repeats)}"
        time_axes.set_title(f"mean and deviation of {repeated} repeats", fontsize=10, loc="left")
    _number_axis(time_axes, numbers)
    _plain(time_axes)
    if time_axes.get_xscale() == "log":
        _logarithmic(time_axes)
    else:
        time_axes.set_ylim(bottom=0)
    for axes in (time_axes, speed_axes, efficiency_axes):
        axes.set_xlabel("workers N")
    handles, labels = speed_axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(3, len(labels)), frameon=False, fontsize=9)
    return figure


def _draw_times(scaling: Scaling, n_workers: int) -> Figure:
    """A bar for each series: mean and deviation of its time."""
    figure = Figure(figsize=(8.0, 1.2 + 0.42 * len(scaling.series)), layout="constrained")
    axes = figure.subplots()
    points = [points[0] for points in scaling.series.values()]
    axes.barh(
        [plot_text(label) for label in scaling.series], [point.mean for point in points], 0.7,
        xerr=[point.deviation for point in points], color=_SERIES[0], capsize=3,
    )  # fmt: skip
    axes.invert_yaxis()
    axes.set_xlabel("time t (s)")
    about = ", mean and deviation of repeats" if any(point.repeats > 1 for point in points) else ""
    axes.set_title(f"{counted(n_workers, 'worker')}{about}", fontsize=10, loc="left")
    _plain(axes)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", alpha=0.3, linewidth=0.6)
    return figure


def series_style(number: int) -> dict[str, Any]:
    """The style of a series."""
    colour = _SERIES[number % len(_SERIES)]
    # when colours repeat, the marker changes
    marker = _MARKERS[(number + number // len(_SERIES)) % len(_MARKERS)]
    return {"color": colour, "marker": marker, "capsize": 3, "linewidth": 1.3, "markersize": 5}


def draw_speed_up(
    speed_axes: Axes,
    efficiency_axes: Axes,
    series: Sequence[tuple[Sequence[float], Sequence[ScalingPoint], dict[str, Any]]],
) -> list[int]:
    """Draws S(N) and E(N) with deviations, series as (places, points, style), and the ideal. Returns the numbers N."""
    for n, points, style in series:
        speed_axes.errorbar(n, [p.speed_up for p in points], yerr=[p.speed_up_deviation for p in points], **style)
        efficiency_axes.errorbar(
            n, [p.efficiency for p in points], yerr=[p.efficiency_deviation for p in points], **style
        )
    numbers = sorted({point.n_workers for _, points, _ in series for point in points})
    base = min(points[0].base for _, points, _ in series)
    ideal = np.linspace(numbers[0], numbers[-1], 100)
    speed_axes.plot(ideal, ideal / base, color="0.6", linewidth=1, linestyle="--", zorder=0, label="ideal")
    efficiency_axes.axhline(1.0, color="0.6", linewidth=1, linestyle="--", zorder=0)
    speed_axes.set_ylabel(f"speed-up S = t({base}) / t(N)")
    efficiency_axes.set_ylabel(f"efficiency E = S / {'N' if base == 1 else f'(N / {base})'}")
    for axes in (speed_axes, efficiency_axes):
        _number_axis(axes, numbers)
        _plain(axes)
    if speed_axes.get_xscale() == "log":
        _logarithmic(speed_axes)
    else:
        speed_axes.set_ylim(bottom=0)
    efficiency_axes.set_ylim(0, max(1.15, efficiency_axes.get_ylim()[1]))
    return numbers


def _logarithmic(axes: Axes) -> None:
    """Scales the other axis like the axis of the numbers of workers: then the ideal is a straight line."""
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(_PLAIN_NUMBERS)
    axes.yaxis.set_minor_formatter(NullFormatter())


def _number_axis(axes: Axes, numbers: Sequence[int]) -> None:
    """Sets ticks at the numbers of workers, or at powers of two if the range is large."""
    if len(numbers) > 1 and numbers[-1] >= 8 * numbers[0]:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_formatter(_PLAIN_NUMBERS)
        axes.minorticks_off()
    if len(numbers) <= 8:
        axes.set_xticks(numbers)
    elif axes.get_xscale() != "log":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)

"""Pictures of one report: where each worker's time went, and its blocks over time.

It imports matplotlib, and so is imported only when a picture is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.printable import counted, plot_text
from kinema.base.timings import BLOCK_PHASES, PHASES, UNACCOUNTED, block_column
from kinema.report.figures.style import PHASE_COLOURS, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kinema.report.report import Report

__all__ = ["draw_bars", "draw_timeline", "phase_name", "stack_phases"]

# phases that have another name in pictures
_NAMES = {"io": "I/O", "frames": "more work"}
# shares of all time below which a phase has no entry in the legend
_VISIBLE = 2e-3
_MANY_WORKERS = 24
_CROWD = 60
# share of a picture's width that a straggler's label takes
_WORDS = 0.16


def phase_name(phase: str) -> str:
    """The phase's name in pictures."""
    return _NAMES.get(phase, phase)


def draw_bars(report: Report) -> Figure:
    """Seconds of each worker by phase, summed over passes; stragglers are marked."""
    n_workers = _rows_for(report)
    sums = {phase: np.zeros(n_workers) for phase in (*PHASES, UNACCOUNTED)}
    for worker in report.timings.workers:
        for phase, values in sums.items():
            values[worker.worker] += max(0.0, getattr(worker, phase))
    marked = [(one.worker, phase_name(one.phase)) for one in report.stragglers]
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
    """Draws a bar for each worker or rank, `of`, its phases one on the other; `sums` are by the names of phases."""
    n = len(next(iter(sums.values())))
    bottom = np.zeros(n)
    total = sum(values.sum() for values in sums.values())
    for phase, values in sums.items():
        if values.sum() > _VISIBLE * total or phase == UNACCOUNTED:
            label = phase_name(phase)
            # no gaps if a bar has few pixels: gaps of one pixel or none would make patterns
            width = 0.7 if n <= _MANY_WORKERS else 0.9 if n <= _CROWD else 1.0
            axes.bar(np.arange(n), values, width, bottom, color=PHASE_COLOURS[phase], label=label, linewidth=0)
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
    plain(axes)


def draw_timeline(report: Report) -> Figure:
    """Each worker's activity over time: start and planning; I/O, decoding and computing of its blocks in turn; then the
    next pass."""
    n_workers = _rows_for(report)
    figure = Figure(figsize=(9.0, min(10.0, 1.6 + 0.34 * max(2, n_workers))), layout="constrained")
    axes = figure.subplots()
    height = 0.8 if n_workers <= _CROWD else 1.0
    offset = 0.0
    shown: set[str] = set()
    for one in report.timings.passes:
        for worker in one.workers:
            begin = offset
            for phase in ("start", "plan"):
                seconds = getattr(worker, phase) / worker.threads
                if seconds > 0:
                    axes.broken_barh(
                        [(begin, seconds)], (worker.worker - height / 2, height), color=PHASE_COLOURS[phase], lw=0
                    )
                    shown.add(phase)
                begin += seconds
        for phase, bars in _bars_of_blocks(one.blocks, offset).items():
            for worker_number, spans in bars.items():
                axes.broken_barh(
                    spans,
                    (worker_number - height / 2, height),
                    color=PHASE_COLOURS[phase],
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
    plain(axes)
    axes.grid(visible=False, axis="y")
    known = [phase for phase in PHASE_COLOURS if phase in shown]
    handles = [Patch(color=PHASE_COLOURS[phase], label=phase_name(phase)) for phase in known]
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

"""Pictures of traces: activity over time, the parts of the time, and calls of one trace, or of several side by side.

It imports matplotlib, and so is imported only when a picture is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from kinema.base.printable import counted, plot_text
from kinema.report.traces.kinds import APPLICATION, BATCH, COMPUTE, OPERATIONS, POSIX, WAIT
from kinema.report.traces.text import format_bytes, format_ns, size_classes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kinema.report.traces.summary import TimeSplit, TraceSummary

__all__ = ["OPERATION_COLOURS", "PARTS_OF_TIME", "byte_unit", "draw_columns", "draw_summary", "time_unit"]

# as in the pictures of reports (after Okabe and Ito)
_COLOURS = {APPLICATION: "#E69F00", POSIX: "#D55E00", COMPUTE: "#009E73", WAIT: "#C9C9C9", BATCH: "#CC79A7"}
_NAMES = {
    APPLICATION: "application-level I/O",
    POSIX: "POSIX I/O",
    COMPUTE: "compute",
    WAIT: "wait",
    BATCH: "waiting for batches",
}
OPERATION_COLOURS = {"read": "#0072B2", "write": "#D55E00", "copy": "#CC79A7"}
# the parts of the whole time, in the order of a bar
PARTS_OF_TIME: tuple[tuple[str, Callable[[TimeSplit], int], str], ...] = (
    ("start-up, before the first work", lambda job: job.start_up, "#EFEFEF"),
    ("I/O alone", lambda job: job.unoverlapped_io, "#E69F00"),
    ("I/O and compute at once", lambda job: job.overlapped, "#8DB600"),
    ("compute alone", lambda job: job.unoverlapped_compute, "#009E73"),
    ("neither", lambda job: job.neither - job.start_up - job.ending, "#C0C0C0"),
    ("end, after the last work", lambda job: job.ending, "#8F8F8F"),
)
_SIZE_COLOURS = ("#C6DBEF", "#9ECAE1", "#6BAED6", "#3182BD", "#08519C")
_FUNCTIONS = 8
# share of a bar below which a part has no room for words
_WORDS = 0.12


def draw_summary(one: TraceSummary) -> Figure:
    """Activity over time, with bandwidth below it; the parts of the time; calls and bytes by size."""
    figure = Figure(figsize=(11.0, 8.6), layout="constrained")
    figure.suptitle(_headline(one), fontsize=11, x=0.01, ha="left")
    grid = figure.add_gridspec(3, 2, height_ratios=[1.15, 0.85, 1.25])
    when = figure.add_subplot(grid[0, :])
    unit, scale = time_unit(one.job.total)
    _draw_activity(when, one, scale)
    bandwidth = figure.add_subplot(grid[1, :], sharex=when)
    _draw_bandwidth(bandwidth, one, scale)
    when.tick_params(labelbottom=False)
    bandwidth.set_xlabel(f"time since the first event ({unit})")
    _draw_times(figure.add_subplot(grid[2, 0]), one)
    right = grid[2, 1].subgridspec(2, 1, height_ratios=[1.25, 1])
    _draw_functions(figure.add_subplot(right[0]), one)
    _draw_sizes(figure.add_subplot(right[1]), [one])
    return figure


def draw_columns(summaries: Sequence[TraceSummary]) -> Figure:
    """The parts of each trace's time, its I/O, its calls and the sizes of its transfers, one under the other."""
    height = 1.5 + 0.34 * len(summaries)
    figure = Figure(figsize=(12.0, 2.1 * height + 0.8), layout="constrained")
    axes = figure.subplots(2, 2)
    _draw_parts(axes[0, 0], summaries)
    _draw_io(axes[0, 1], summaries)
    _draw_calls(axes[1, 0], summaries)
    _draw_sizes(axes[1, 1], summaries)
    return figure


def _headline(one: TraceSummary) -> str:
    return (
        f"{plot_text(one.label)}: {format_ns(one.job.total)}, {counted(len(one.hosts), 'node')}, "
        f"processes {one.processes:,}, threads with I/O {one.io_threads:,}, with computing {one.compute_threads:,}; "
        f"{counted(one.n_files, 'file')}, {counted(one.events, 'event')}"
    )


def time_unit(total: int) -> tuple[str, float]:
    """The unit of a time axis of `total` ns, and its length in ns."""
    for unit, ns in (("µs", 1e3), ("ms", 1e6)):
        if total < 2000 * ns:
            return unit, ns
    return "s", 1e9


def byte_unit(most: float) -> tuple[str, float]:
    """The unit of an axis with up to `most` bytes, and its size in bytes."""
    return next(((name, size) for name, size in (("GiB", 2.0**30), ("MiB", 2.0**20)) if most >= size), ("KiB", 2.0**10))


def _draw_activity(axes: Axes, one: TraceSummary, scale: float) -> None:
    """One row per kind; its height is the share of each moment in which the kind was active."""
    shown = [kind for kind in one.activity if one.kinds.get(kind)]
    edges = np.linspace(0, max(1, one.job.total) / scale, len(next(iter(one.activity.values()))) + 1)
    for row, kind in enumerate(reversed(shown)):
        shares = np.array(one.activity[kind])
        axes.stairs(row + 0.85 * shares, edges, baseline=row, fill=True, color=_COLOURS[kind], linewidth=0)
        axes.axhline(row, color="0.6", linewidth=0.6)
    axes.set_yticks(np.arange(len(shown)) + 0.42, [_NAMES[kind] for kind in reversed(shown)])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(0, max(1, len(shown)))
    axes.set_xlim(0, edges[-1])
    axes.set_title("activity over time (full height: all the time, by any thread)", fontsize=10, loc="left")
    axes.spines[["top", "right", "left"]].set_visible(False)


def _draw_bandwidth(axes: Axes, one: TraceSummary, scale: float) -> None:
    found = one.bandwidth
    seconds = found.part / 1e9
    edges = np.arange(len(found.read) + 1) * found.part / scale
    rates = {"read": np.array(found.read) / seconds, "write": np.array(found.write) / seconds}
    most = max((float(values.max()) for values in rates.values()), default=0.0)
    unit, size = byte_unit(most)
    for name, values in rates.items():
        if values.any():
            total = sum(getattr(found, name))
            axes.stairs(
                values / size,
                edges,
                fill=True,
                alpha=0.75,
                color=OPERATION_COLOURS[name],
                label=f"{name}, {format_bytes(total)}",
            )
    axes.set_ylabel(f"{unit}/s")
    axes.set_ylim(bottom=0)
    whose = "POSIX calls" if found.of == POSIX else "application-level I/O"
    axes.set_title(f"bandwidth of {whose}", fontsize=10, loc="left")
    if most:
        axes.legend(frameon=False, fontsize=9, loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=2)
    _plain(axes, "y")


def _draw_times(axes: Axes, one: TraceSummary) -> None:
    """Bars of times of the job; unoverlapped parts are the dark ones."""
    job = one.job
    rows: list[tuple[str, int, int, str]] = []
    if one.kinds[APPLICATION]:
        rows.append((_NAMES[APPLICATION], job.application_io, job.unoverlapped_application_io, _COLOURS[APPLICATION]))
    if one.kinds[POSIX]:
        rows.append((_NAMES[POSIX], job.posix_io, job.unoverlapped_posix_io, _COLOURS[POSIX]))
    if one.kinds[COMPUTE]:
        rows.append((_NAMES[COMPUTE], job.compute, job.unoverlapped_compute, _COLOURS[COMPUTE]))
    rows += [("wait", job.wait, job.wait, _COLOURS[WAIT])] if one.kinds[WAIT] else []
    rows += [
        ("neither I/O nor compute", job.neither, job.neither, "#D9D9D9"),
        ("total", job.total, job.total, "#5A5A5A"),
    ]
    unit, scale = time_unit(job.total)
    for place, (_, whole, alone, colour) in enumerate(rows):
        axes.barh(place, whole / scale, 0.66, color=colour, alpha=0.35, linewidth=0)
        axes.barh(place, alone / scale, 0.66, color=colour, linewidth=0)
        words = format_ns(whole) + (f", alone {format_ns(alone)}" if alone != whole else "")
        axes.annotate(words, (whole / scale, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [name for name, *_ in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.45 * job.total / scale or 1)
    axes.set_xlabel(f"time ({unit})")
    axes.set_title("time of the job (pale: I/O and compute at once)", fontsize=10, loc="left")
    _plain(axes, "x")


def _draw_functions(axes: Axes, one: TraceSummary) -> None:
    """The functions that took most time, with their numbers of calls."""
    kind = POSIX if one.kinds[POSIX] else APPLICATION
    rows = [row for row in one.functions if row.kind == kind][:_FUNCTIONS]
    unit, scale = time_unit(max([row.time for row in rows], default=0))
    axes.barh(range(len(rows)), [row.time / scale for row in rows], 0.7, color=_COLOURS[kind], linewidth=0)
    for place, row in enumerate(rows):
        words = counted(row.count, "call") + (f", {format_bytes(row.bytes)}" if row.bytes else "")
        axes.annotate(
            words, (row.time / scale, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8
        )
    axes.set_yticks(range(len(rows)), [plot_text(row.name) for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.5 * max([row.time / scale for row in rows], default=1) or 1)
    axes.set_title(f"{_NAMES[kind]}: time of all calls, all threads ({unit})", fontsize=10, loc="left")
    _plain(axes, "x")


def _draw_parts(axes: Axes, summaries: Sequence[TraceSummary]) -> None:
    """The whole time of each trace in four parts."""
    most = max(1, *(one.job.total for one in summaries))
    unit, scale = time_unit(most)
    for place, one in enumerate(summaries):
        left = 0.0
        for _, part, colour in PARTS_OF_TIME:
            ns = part(one.job)
            axes.barh(place, ns / scale, 0.66, left, color=colour, linewidth=0)
            if ns > _WORDS * most:
                axes.text(left + ns / scale / 2, place, format_ns(ns), ha="center", va="center", fontsize=8)
            left += ns / scale
        axes.annotate(
            format_ns(one.job.total), (left, place), xytext=(4, 0), textcoords="offset points", va="center",
            fontsize=9, fontweight="bold",
        )  # fmt: skip
    _rows(axes, summaries, 1.14 * most / scale)
    axes.set_xlabel(f"time ({unit})")
    axes.set_title("what the time went to", fontsize=10, loc="left")
    handles = [Patch(color=colour, label=name) for name, _, colour in PARTS_OF_TIME]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=3, frameon=False, fontsize=8)


def _draw_io(axes: Axes, summaries: Sequence[TraceSummary]) -> None:
    """Application-level and POSIX I/O of each trace."""
    most = max(1, *(max(one.job.application_io, one.job.posix_io) for one in summaries))
    unit, scale = time_unit(most)
    for place, one in enumerate(summaries):
        for shift, kind, ns in ((-0.19, APPLICATION, one.job.application_io), (0.19, POSIX, one.job.posix_io)):
            words = format_ns(ns) if one.kinds[kind] else "not traced"
            axes.barh(place + shift, ns / scale, 0.36, color=_COLOURS[kind], linewidth=0)
            axes.annotate(
                words, (ns / scale, place + shift), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8
            )
    _rows(axes, summaries, 1.25 * most / scale)
    axes.set_xlabel(f"time ({unit})")
    axes.set_title("time with I/O", fontsize=10, loc="left")
    handles = [Patch(color=_COLOURS[kind], label=_NAMES[kind]) for kind in (APPLICATION, POSIX)]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2, frameon=False, fontsize=8)


def _draw_calls(axes: Axes, summaries: Sequence[TraceSummary]) -> None:
    """Numbers of POSIX calls by operation, on a logarithmic axis."""
    shown = [name for name in OPERATIONS if any(one.operations[name].count for one in summaries)]
    colours = {**OPERATION_COLOURS, "metadata": "#7A5195", "sync": "#56B4E9", "map": "#A0A0A0"}
    step = 0.8 / max(1, len(shown))
    for place, one in enumerate(summaries):
        for number, name in enumerate(shown):
            at, count = place - 0.4 + (number + 0.5) * step, one.operations[name].count
            axes.barh(at, count, 0.92 * step, color=colours[name], linewidth=0)
            axes.annotate(
                f"{count:,}", (max(1, count), at), xytext=(4, 0), textcoords="offset points", va="center", fontsize=7
            )
    most = max([one.operations[name].count for one in summaries for name in shown], default=1)
    axes.set_xscale("log")
    _rows(axes, summaries, 4.0 * max(10, most), 0.8)
    axes.set_xlabel("calls, logarithmic")
    axes.set_title("POSIX calls", fontsize=10, loc="left")
    handles = [Patch(color=colours[name], label=name) for name in shown]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=6, frameon=False, fontsize=8)


def _draw_sizes(axes: Axes, summaries: Sequence[TraceSummary]) -> None:
    """Bytes that were read and written, by the size of a transfer; small transfers are pale."""
    rows = [
        (f"{plot_text(one.label)}, {name}" if len(summaries) > 1 else name, one.transfers[name]["bytes"])
        for one in summaries
        for name in ("read", "write")
        if sum(one.transfers[name]["bytes"]) or (len(summaries) > 1 and name == "read")
    ]
    most = max([sum(sizes) for _, sizes in rows], default=1) or 1
    unit, scale = byte_unit(most)
    for place, (_, sizes) in enumerate(rows):
        left = 0.0
        for size, colour in zip(sizes, _SIZE_COLOURS, strict=True):
            axes.barh(place, size / scale, 0.66, left, color=colour, linewidth=0)
            left += size / scale
        axes.annotate(
            format_bytes(sum(sizes)), (left, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8
        )
    axes.set_yticks(range(len(rows)), [name for name, _ in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 1.2 * most / scale)
    axes.set_xlabel(f"bytes ({unit})")
    axes.set_title("bytes, by the size of a transfer", fontsize=10, loc="left")
    handles = [Patch(color=one, label=name) for one, name in zip(_SIZE_COLOURS, size_classes(), strict=True)]
    axes.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.4, -0.55 if len(summaries) == 1 else -0.22), ncols=3,
        frameon=False, fontsize=7.5,
    )  # fmt: skip
    _plain(axes, "x")


def _rows(axes: Axes, summaries: Sequence[TraceSummary], right: float, left: float = 0.0) -> None:
    axes.set_yticks(range(len(summaries)), [plot_text(one.label) for one in summaries])
    axes.set_ylim(len(summaries) - 0.4, -0.6)
    axes.set_xlim(left, right)
    _plain(axes, "x")


def _plain(axes: Axes, grid: str) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, alpha=0.3, linewidth=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)

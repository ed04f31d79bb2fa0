"""The figure `machines`: speeds of several machines or file systems, MB/s over the number of processors.

A colour is a platform, a marker a method; a run without a result is a cross at the bottom.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kinema.base.errors import ArgumentError
from kinema.base.printable import counted, plot_text
from kinema.report.figures.style import (
    LINES,
    add_legend_and_caption,
    decades_axis,
    make_panels,
    mark_missing,
    number_axis,
    plain,
    series_style,
)
from kinema.report.ranks import EMULATED, MEASURED

_LETTERS = 48
# distance between points with the same number of processors
_APART = 0.02


@dataclass(frozen=True)
class Speeds:
    """Speeds of one method on one platform, in MB/s, which are 1e6 bytes.

    `platform`: machine, file system, ranks a node.
    `method`: way of reading or writing.
    `records`: what was read or written; a panel for each.
    `points`: {processors: (median, slowest, fastest)}.
    `gaps`: {processors: why there is no result}.
    `kind`: MEASURED or EMULATED, of `kinema.report.ranks`.
    """

    platform: str
    method: str
    records: str
    points: Mapping[int, tuple[float, float, float]]
    gaps: Mapping[int, str] = field(default_factory=dict)
    repeats: int = 1
    kind: str = MEASURED


def draw_machines(speeds: Sequence[Speeds]) -> Figure:
    """A panel for each kind of records, all on the same scale. Raises ArgumentError if there is no result at all."""
    found = [value for one in speeds for point in one.points.values() for value in point if value > 0]
    if not found:
        raise ArgumentError("no run has a speed")
    records = list(dict.fromkeys(one.records for one in speeds))
    platforms = dict(zip(dict.fromkeys(one.platform for one in speeds), count(), strict=False))
    methods = dict(zip(dict.fromkeys(one.method for one in speeds), count(), strict=False))
    figure, panels = make_panels(len(records), columns=3, width=4.4, height=3.6)
    for axes, kind in zip(panels, records, strict=True):
        _draw_kind(axes, [one for one in speeds if one.records == kind], platforms, methods)
        decades_axis(axes, min(found) * 0.7, max(found))
        axes.set_title(_wrapped(kind), fontsize=10, loc="left")
    handles = [
        Line2D([], [], color=series_style(at)["color"], linestyle=LINES[at % len(LINES)], label=_wrapped(name))
        for name, at in platforms.items()
    ]
    handles += [
        Line2D([], [], color="0.3", linestyle="", marker=series_style(at)["marker"], label=plot_text(name))
        for name, at in methods.items()
    ]
    gaps = {(reason, one.method) for one in speeds for reason in one.gaps.values()}
    if gaps:
        handles.append(Line2D([], [], color="0.3", linestyle="", marker="x", label="no result"))
    repeats = max(one.repeats for one in speeds)
    lines = ["Colour and line: platform; marker: method. MB are 1e6 bytes."]
    if repeats > 1:
        lines.append(f"Median, and range of {counted(repeats, 'repeat')}.")
    for kind, words in ((MEASURED, "Measured on"), (EMULATED, "Emulated, with the parameters of")):
        some = list(dict.fromkeys(one.platform for one in speeds if one.kind == kind))
        lines += [plot_text(f"{words} {'; '.join(some)}.")] if some else []
    lines += [plot_text(f"No result of {method}: {reason}.") for reason, method in sorted(gaps)]
    add_legend_and_caption(figure, handles, lines)
    return figure


def _draw_kind(axes: Axes, speeds: Sequence[Speeds], platforms: Mapping[str, int], methods: Mapping[str, int]) -> None:
    numbers = sorted({n for one in speeds for n in (*one.points, *one.gaps)})
    for at, one in enumerate(speeds):
        colour = series_style(platforms[one.platform])["color"]
        marker = series_style(methods[one.method])["marker"]
        # a missing number of processors interrupts the line
        known = [n for n in numbers if n in one.points or n in one.gaps]
        values = [one.points[n][0] if n in one.points else float("nan") for n in known]
        # side by side, so that none hides another
        shift = 1 + _APART * (at - (len(speeds) - 1) / 2) if len(numbers) > 1 else 1.0
        axes.plot(
            [n * shift for n in known], values, color=colour, marker=marker, linewidth=1.4, markersize=6,
            linestyle=LINES[platforms[one.platform] % len(LINES)], label=plot_text(f"{one.platform}, {one.method}"),
        )  # fmt: skip
        for n, (_, slowest, fastest) in one.points.items():
            if fastest > slowest:
                axes.vlines(n * shift, slowest, fastest, color=colour, linewidth=1)
    mark_missing(axes, [(n, series_style(platforms[one.platform])["color"]) for one in speeds for n in one.gaps])
    number_axis(axes, numbers)
    axes.set_xlabel("number of processors")
    axes.set_ylabel("speed (MB/s)")
    plain(axes)


def _wrapped(text: str) -> str:
    return textwrap.fill(plot_text(text), _LETTERS)

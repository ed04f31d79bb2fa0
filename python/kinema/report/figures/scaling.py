"""Pictures of `Scaling`: time, speed-up and efficiency over the number of workers.

It imports matplotlib, and so is imported only when a picture is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from kinema.base.printable import counted, plot_text
from kinema.report.figures.style import logarithmic, mark_missing, number_axis, plain, series_style
from kinema.report.scaling import Scaling, ScalingPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# distance between points with the same number of workers, and the most for all of them
_APART = 0.02
_ALL_APART = 0.08
# gaps that a picture names, and letters of a line
_NAMED_GAPS = 6
_LINE = 190


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
    number_axis(time_axes, numbers)
    plain(time_axes)
    if time_axes.get_xscale() == "log":
        logarithmic(time_axes)
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
    colours = [series_style(number)["color"] for number in range(len(points))]
    axes.barh(
        [plot_text(label) for label in scaling.series], [point.mean for point in points], 0.7,
        xerr=[point.deviation for point in points], color=colours, capsize=3,
    )  # fmt: skip
    axes.invert_yaxis()
    axes.set_xlabel("time t (s)")
    about = ", mean and deviation of repeats" if any(point.repeats > 1 for point in points) else ""
    axes.set_title(f"{counted(n_workers, 'worker')}{about}", fontsize=10, loc="left")
    plain(axes)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", alpha=0.3, linewidth=0.6)
    return figure


def draw_speed_up(
    speed_axes: Axes,
    efficiency_axes: Axes,
    series: Sequence[tuple[Sequence[float], Sequence[ScalingPoint], dict[str, Any]]],
    gaps: Collection[int] = (),
) -> list[int]:
    """Draws S(N) and E(N) with deviations, series as (places, points, style), and the ideal. Returns the numbers N.

    The axes have room for the numbers N in `gaps` too.
    """
    for n, points, style in series:
        speed_axes.errorbar(n, [p.speed_up for p in points], yerr=[p.speed_up_deviation for p in points], **style)
        efficiency_axes.errorbar(
            n, [p.efficiency for p in points], yerr=[p.efficiency_deviation for p in points], **style
        )
    numbers = sorted({point.n_workers for _, points, _ in series for point in points})
    bases: dict[int, int] = {}
    for _, points, _ in series:
        bases[points[0].base] = max(bases.get(points[0].base, 0), points[-1].n_workers)
    for base, most in sorted(bases.items()):
        ideal = np.linspace(min(base, numbers[0]) if len(bases) == 1 else base, most, 100)
        label = "ideal" if base == min(bases) else f"ideal, against {base} ranks"
        speed_axes.plot(
            ideal, ideal / base, color="0.6", linewidth=1, linestyle="--" if base == min(bases) else ":", zorder=0,
            label=label,
        )  # fmt: skip
    efficiency_axes.axhline(1.0, color="0.6", linewidth=1, linestyle="--", zorder=0)
    (base, *others) = sorted(bases)
    first = "t(first)" if others else f"t({base})"
    share = "(N / first)" if others else "N" if base == 1 else f"(N / {base})"
    speed_axes.set_ylabel(f"speed-up S = {first} / t(N)")
    efficiency_axes.set_ylabel(f"efficiency E = S / {share}")
    for axes in (speed_axes, efficiency_axes):
        number_axis(axes, sorted({*numbers, *gaps}))
        plain(axes)
    if speed_axes.get_xscale() == "log":
        logarithmic(speed_axes)
    else:
        speed_axes.set_ylim(bottom=0)
    efficiency_axes.set_ylim(0, max(1.15, efficiency_axes.get_ylim()[1]))
    return numbers


def note_gaps(figure: Figure, gaps: Sequence[tuple[int, str]]) -> None:
    """Adds the runs that have no time to a picture of scaling: numbers of workers, and in words which and why.

    Each is a cross at its number of workers, at the bottom of the first panel, and a line above the picture.
    """
    if not gaps:
        return
    axes = figure.axes[0]
    over_workers = axes.get_xlabel().startswith("workers")
    if over_workers:
        mark_missing(axes, [(n, "black") for n in sorted({n for n, _ in gaps})])
    mark = "\u00d7" if over_workers else "no time"
    lines = [f"{mark}: {plot_text(words)}" for _, words in gaps[:_NAMED_GAPS]]
    if len(gaps) > _NAMED_GAPS:
        lines.append(f"and {len(gaps) - _NAMED_GAPS} more in results.jsonl")
    lines = [line if len(line) <= _LINE else f"{line[:_LINE]}..." for line in lines]
    figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=8)

"""Pictures of published tables: the time of each rank by phase, speed-up and efficiency. It imports matplotlib."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from kinema.base.timings import PHASES, UNACCOUNTED
from kinema.report.figures.scaling import draw_speed_up
from kinema.report.figures.style import series_style
from kinema.report.figures.workers import stack_phases
from kinema.studies.published import Published

__all__ = ["draw_publications"]

# Kinema's phase for each name in the publications
_PHASES = {
    "t_init_top": "start",
    "t_init": "open",
    "t_init_traj": "open",
    "t_io": "io",
    "t_IO": "io",
    "t_comp": "compute",
    "t_rmsd": "compute",
    "t_wait": "wait",
    "t_comm": "communicate",
    "t_close_traj": "close",
    "t_end_loop": "close",
}


def draw_publications(tables: Sequence[Published]) -> Figure:
    """One row per publication: the ranks of the repeat with the median time on most ranks, S(N), E(N)."""
    figure = Figure(figsize=(15.0, 4.6 * len(tables)), layout="constrained")
    rows = figure.subplots(len(tables), 3, squeeze=False, width_ratios=(2.2, 1, 1))
    for published, (bars, speed_axes, efficiency_axes) in zip(tables, rows, strict=True):
        n_ranks = published.sizes[-1]
        times = {repeat: published.run(n_ranks, repeat)[published.total].max() for repeat in published.repeats(n_ranks)}
        repeat = sorted(times, key=lambda one: times[one])[len(times) // 2]
        sums, marked = _sums(published, n_ranks, repeat)
        stack_phases(
            bars,
            sums,
            f"{published.title}\n{n_ranks} ranks, repeat {repeat} (the median of {len(times)})",
            "rank",
            marked,
        )
        handles, labels = bars.get_legend_handles_labels()
        bars.legend(handles[::-1], labels[::-1], loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)
        points = published.scaling()
        style = {**series_style(0), "label": None}
        draw_speed_up(speed_axes, efficiency_axes, [([p.n_workers for p in points], points, style)])
        for axes in (speed_axes, efficiency_axes):
            axes.set_xlabel("ranks N")
        efficiency_axes.set_title(f"mean and deviation of {points[0].repeats} repeats", fontsize=10, loc="left")
    return figure


def _sums(
    published: Published, n_ranks: int, repeat: int
) -> tuple[dict[str, NDArray[np.float64]], list[tuple[int, str]]]:
    """(ranks,) seconds by phase, and the stragglers with their phases."""
    run = published.run(n_ranks, repeat)
    marked = [(straggler.rank, straggler.phase) for straggler in published.stragglers(n_ranks, repeat)]
    sums = {phase: np.zeros(n_ranks) for phase in (*PHASES, UNACCOUNTED)}
    for name in published.phases:
        sums[_PHASES[name]] += run[name]
    sums[UNACCOUNTED] = np.maximum(0.0, run[published.total] - sum(sums.values()))
    return sums, marked

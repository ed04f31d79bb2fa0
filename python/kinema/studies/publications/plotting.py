"""Pictures of published tables: the time of each rank by phase, speed-up and efficiency.

It imports matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from kinema.report.figures.rank_bars import rank_sums
from kinema.report.figures.scaling import draw_speed_up
from kinema.report.figures.style import series_style
from kinema.report.figures.workers import stack_phases
from kinema.studies.publications.published import Published

__all__ = ["draw_publications"]


def draw_publications(tables: Sequence[Published]) -> Figure:
    """One row per publication: the ranks of the repeat with the median time on most ranks, S(N), E(N)."""
    figure = Figure(figsize=(15.0, 4.6 * len(tables)), layout="constrained")
    rows = figure.subplots(len(tables), 3, squeeze=False, width_ratios=(2.2, 1, 1))
    for published, (bars, speed_axes, efficiency_axes) in zip(tables, rows, strict=True):
        n_ranks = published.sizes[-1]
        repeat = published.median_repeat(n_ranks)
        sums, marked = rank_sums(published.with_common_names(), n_ranks, repeat)
        stack_phases(
            bars,
            sums,
            f"{published.title}\n{n_ranks} ranks, repeat {repeat} (the median of {len(published.repeats(n_ranks))})",
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

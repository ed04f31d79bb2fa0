"""The figure `rank-bars`: the time of each rank of one run by phase, a panel for each series."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.printable import counted, plot_text
from kinema.base.timings import UNACCOUNTED
from kinema.report.figures.captions import caption_of
from kinema.report.figures.style import PHASE_COLOURS, add_legend_and_caption, make_panels
from kinema.report.figures.workers import phase_name, stack_phases
from kinema.report.ranks import RankSeries, RankTable

# the phase of a worker that has the colour of a quantity
_PHASES = {
    "t_open": "open",
    "t_open_topology": "start",
    "t_open_trajectory": "open",
    "t_plan": "plan",
    "t_IO": "io",
    "t_compute": "compute",
    "t_wait": "wait",
    "t_communication": "communicate",
    "t_end_loop": "close",
    "t_unaccounted": UNACCOUNTED,
}
# ranks that have room in half of the width
_FEW = 16


def draw_rank_bars(series: Sequence[RankSeries]) -> Figure:
    """A bar for each rank of the run on most ranks, of its repeats the one with the median time.

    Raises ArgumentError if no series has the values of single ranks.
    """
    without_times = [one for one in series if not one.values]
    series = [one for one in series if one.table is not None]
    if not series:
        raise ArgumentError("no series has the values of single ranks")
    few = max(one.table.sizes[-1] for one in series if one.table is not None) <= _FEW
    figure, panels = make_panels(len(series), columns=2 if few else 1, width=4.75 if few else 9.5, height=3.4)
    shown: set[str] = set()
    for axes, one in zip(panels, series, strict=True):
        assert one.table is not None
        n = one.table.sizes[-1]
        repeat = one.table.median_repeat(n)
        sums, marked = _rank_sums(one.table, n, repeat)
        run, repeats = counted(n, "rank"), len(one.table.repeats(n))
        run += f", repeat {repeat} (the median of {repeats} repeats)" if repeats > 1 else ""
        stack_phases(axes, sums, f"{plot_text(one.label)}\n{run}", "rank", marked)
        shown |= set(axes.get_legend_handles_labels()[1])
    names = {phase: phase_name(phase) for phase in PHASE_COLOURS if phase_name(phase) in shown}
    # a rank's time has no start here: the topology has its colour
    names |= {"start": "topology"} if "start" in names else {}
    handles = [Patch(color=PHASE_COLOURS[phase], label=name) for phase, name in names.items()]
    about = "▾: a rank that took 1.5 times as long as the fast ranks, or longer."
    add_legend_and_caption(figure, handles, [about, *caption_of([*series, *without_times])])
    return figure


def _rank_sums(
    table: RankTable, n_ranks: int, repeat: int
) -> tuple[dict[str, NDArray[np.float64]], list[tuple[int, str]]]:
    """(ranks,) seconds of a run by phase, and its stragglers with their phases; names as in `QUANTITY_WORDS`."""
    run = table.run(n_ranks, repeat)
    # the topology is told apart if it is known
    parts = [name for name in _PHASES if name in run and not (name == "t_open" and "t_open_trajectory" in run)]
    sums = {phase: np.zeros(n_ranks) for phase in PHASE_COLOURS}
    for name in parts:
        sums[_PHASES[name]] += np.maximum(0.0, run[name])
    marked = [(one.rank, phase_name(_PHASES[one.phase])) for one in table.stragglers(n_ranks, repeat)]
    return sums, marked

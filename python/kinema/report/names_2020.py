"""The names of the publication of 2020, each as the sum of quantities of ours: a table of a run, as text or CSV.

Khoshlessan et al., Concurrency Computat. Pract. Exper. 32, e5789 (2020). In its tables t_RMSD is t_opening_trajectory,
t_all_frame and t_Overhead2 together, and t_N is t_RMSD and t_comm, which contains waiting. Their ranks opened the
topology themselves, so that t_opening_trajectory contains it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from kinema.base.printable import align_columns, three_digits
from kinema.base.timings import Timings
from kinema.report.quantities import rank_quantities
from kinema.report.scaling import mean_and_deviation

__all__ = ["NAMES_2020", "NamedTime", "named_times", "names_as_csv", "names_as_text"]

_ALL_FRAME = ("t_IO", "t_compute", "t_end_loop", "t_unaccounted")
_RMSD = ("t_open", *_ALL_FRAME, "t_plan")
_COMM = ("t_communication", "t_wait")
#: names of the publication, and the quantities that they are the sum of
NAMES_2020: Mapping[str, tuple[str, ...]] = {
    "t_opening_trajectory": ("t_open",),
    "t_IO": ("t_IO",),
    "t_comp": ("t_compute",),
    "t_end_loop": ("t_end_loop",),
    "t_Overhead1": ("t_unaccounted",),
    "t_all_frame": _ALL_FRAME,
    "t_Overhead2": ("t_plan",),
    "t_RMSD": _RMSD,
    "t_put": ("t_put",),
    "t_get": ("t_get",),
    "t_gather": ("t_gather",),
    "t_comm": _COMM,
    "t_N": (*_RMSD, *_COMM),
}


@dataclass(frozen=True)
class NamedTime:
    """A time of a run by a publication's name: seconds, mean, deviation and largest over ranks (or other workers)."""

    name: str
    sum_of: tuple[str, ...]
    mean: float
    deviation: float
    largest: float

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def named_times(timings: Timings) -> tuple[NamedTime, ...]:
    """The times of a run by NAMES_2020; none if nothing ran."""
    if not timings.workers:
        return ()
    ranks = rank_quantities(timings)
    found = []
    for name, parts in NAMES_2020.items():
        seconds = np.sum([ranks[part] for part in parts], axis=0)
        mean, deviation = mean_and_deviation(seconds.tolist())
        found.append(NamedTime(name, parts, mean, deviation, float(seconds.max())))
    return tuple(found)


def names_as_text(times: Sequence[NamedTime]) -> str:
    """A table for people."""
    rows = [["name", "sum of", "mean (s)", "deviation", "largest"]]
    for one in times:
        numbers = [three_digits(value) for value in (one.mean, one.deviation, one.largest)]
        rows.append([one.name, " + ".join(one.sum_of), *numbers])
    return "\n".join(align_columns(rows, left=2, indent=""))


def names_as_csv(runs: Mapping[str, Sequence[NamedTime]]) -> str:
    """A table for programs, of runs by the name of their report; seconds with all their digits."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["report", "name", "sum_of", "mean_s", "deviation_s", "largest_s"])
    for report, times in runs.items():
        for one in times:
            rows.writerow([report, one.name, "+".join(one.sum_of), one.mean, one.deviation, one.largest])
    return text.getvalue().rstrip("\n")

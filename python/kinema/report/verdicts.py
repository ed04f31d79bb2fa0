"""Which series of runs is the fastest, by the rule of `kinema.base.comparison`; each number of workers by itself.

Series are compared if they do the same work from the same source: they may differ in `--formats`, `--access` or
`--gather`, but not in `--workload` and `--source`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kinema.base.comparison import Comparison, compare
from kinema.base.printable import counted
from kinema.report.quantities import checked_quantity
from kinema.report.scaling import label_of

if TYPE_CHECKING:
    from kinema.report.report import Report

__all__ = ["SeriesVerdict", "verdicts_of"]


@dataclass(frozen=True)
class SeriesVerdict:
    """The comparison of several series on one number of workers; `about` names the work and the source they share."""

    n_workers: int
    about: str
    found: Comparison[str]

    def __str__(self) -> str:
        return f"{counted(self.n_workers, 'worker')}{self.about}: {self.found.in_words()}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = self.found
        return {
            "n_workers": self.n_workers,
            "about": self.about.removeprefix(", "),
            "fastest": found.winner,
            "tied": list(found.leaders) if found.is_judged and found.winner is None else [],
            "repeats": found.repeats,
            "verdict": found.in_words(),
        }


def verdicts_of(reports: Sequence[Report], quantity: str = "t_total") -> tuple[SeriesVerdict, ...]:
    """Verdicts on reports of one experiment, wherever several series can be compared. `quantity` as in `scaling_of`.

    Times of 0 are left out: nothing was measured.
    """
    quantity = checked_quantity(quantity)
    groups: dict[tuple[int, str], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for report in reports:
        extra = report.extra
        n = int(extra.get("workers", report.n_workers))
        about = f", work x{extra['workload']}" if extra.get("workload", 1) != 1 else ""
        about += f", source {extra['source']}" if extra.get("source", "file") != "file" else ""
        times = groups[n, about][label_of(report)]
        if (seconds := getattr(report.quantities, quantity)) > 0:
            times[int(extra.get("repeat", len(times)))] = seconds
    return tuple(
        SeriesVerdict(n, about, compare(series)) for (n, about), series in sorted(groups.items()) if len(series) > 1
    )

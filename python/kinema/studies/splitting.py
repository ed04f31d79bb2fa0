"""The cost of cutting a trajectory into a file per worker, and the number of analyses that pay it off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from kinema.base.timings import format_seconds
from kinema.studies.design import Setting
from kinema.studies.experiment import ExperimentRun


@dataclass(frozen=True)
class PaidOff:
    """Means over repeats: seconds of cutting into `parts` files, of an analysis of the file, and of the parts.

    `analyses` is the number after which cutting has paid off; None if an analysis of the parts is not faster.
    """

    runner: str
    parts: int
    seconds: float
    whole_seconds: float
    parts_seconds: float
    analyses: int | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def __str__(self) -> str:
        found = "never pays off"
        if self.analyses is not None:
            found = f"has paid off after {self.analyses:,} {'analysis' if self.analyses == 1 else 'analyses'}"
        return (
            f"{self.runner}: cutting into {self.parts} files takes {format_seconds(self.seconds)}, an analysis "
            f"{format_seconds(self.whole_seconds)} of one file and {format_seconds(self.parts_seconds)} of the parts: "
            f"{found}"
        )


def paid_off(outcomes: Sequence[ExperimentRun]) -> list[PaidOff]:
    """For each number of parts; needs the tasks rmsd and split of the same files, and the format subfiles too."""
    found = []
    for setting, workers in dict.fromkeys(
        (one.setting, one.workers) for one in outcomes if one.setting.task == "split"
    ):
        cut = _mean(outcomes, setting, workers)
        analysed = replace(setting, task="rmsd")
        parts = _mean(outcomes, replace(analysed, format="subfiles"), workers)
        whole = _mean(outcomes, analysed, workers)
        # parts of other formats are not those of the format subfiles
        if setting.format != "as is" or cut is None or whole is None or parts is None:
            continue
        gained = whole - parts
        after = math.ceil(cut / gained) if gained > 0 else None
        found.append(PaidOff(setting.runner, workers, cut, whole, parts, after))
    return found


def _mean(outcomes: Sequence[ExperimentRun], setting: Setting, workers: int) -> float | None:
    """Mean t_total over the repeats of a run."""
    seconds = [
        one.report.quantities.t_total
        for one in outcomes
        if one.report is not None and (one.setting, one.workers) == (setting, workers)
    ]
    return fmean(seconds) if seconds else None

"""Gaps of experiments: runs that failed or took too long, found in results.jsonl beside the reports that are shown."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from kinema.report.ranks import RankGap, RankSeries, SeriesOrigin
from kinema.studies.design import Setting
from kinema.studies.results_log import read_results


@dataclass(frozen=True)
class FoundGaps:
    """Gaps of the experiments that some reports belong to.

    Attributes
    ----------
    of_reports : for each report the gaps of its series
    alone : series without any time
        Only of experiments all of whose reports are named: a pattern may have left the others out.
    """

    of_reports: Sequence[Sequence[RankGap]]
    alone: Sequence[RankSeries]


def find_gaps(files: Sequence[str | os.PathLike[str]]) -> FoundGaps:
    """Gaps of the series that the reports belong to; none for reports that are not in the folder of an experiment.

    Raises CorruptFileError for results.jsonl files that are damaged.
    """
    paths = [Path(file) for file in files]
    experiments: dict[Path, _Experiment] = {}
    for path in paths:
        folder = path.absolute().parent
        if folder not in experiments:
            experiments[folder] = _Experiment(read_results(folder.parent))
    of_reports = [experiments[path.absolute().parent].gaps_of(path.stem) for path in paths]
    alone = [
        series
        for folder, experiment in experiments.items()
        if {path.absolute() for path in paths} >= set(folder.glob("*.json"))
        for series in experiment.without_times()
    ]
    return FoundGaps(of_reports, alone)


class _Experiment:
    """The lines of results.jsonl, by series."""

    def __init__(self, lines: Sequence[Mapping[str, Any]]) -> None:
        names = [one.name for one in fields(Setting)]
        self._series_of: dict[str, Setting] = {}
        self._gaps: dict[Setting, Counter[tuple[int, str]]] = {}
        for line in lines:
            if not {"name", "workers", "reason", "format"} <= set(line):
                # of another command
                continue
            setting = Setting(**{name: line[name] for name in names if name in line})
            if line["reason"]:
                self._gaps.setdefault(setting, Counter())[int(line["workers"]), str(line["reason"])] += 1
            else:
                self._series_of[str(line["name"])] = setting

    def gaps_of(self, name: str) -> tuple[RankGap, ...]:
        """The gaps of the series that a run belongs to."""
        setting = self._series_of.get(name)
        return () if setting is None else self._of_setting(setting)

    def without_times(self) -> list[RankSeries]:
        """The series that have nothing else."""
        timed = set(self._series_of.values())
        return [
            RankSeries(
                str(setting),
                {},
                SeriesOrigin(task="" if setting.task == "rmsd" else setting.task, workload=float(setting.workload)),
                gaps=self._of_setting(setting),
            )
            for setting in self._gaps
            if setting not in timed
        ]

    def _of_setting(self, setting: Setting) -> tuple[RankGap, ...]:
        found = self._gaps.get(setting, Counter())
        return tuple(RankGap(n, runs, reason) for (n, reason), runs in sorted(found.items()))

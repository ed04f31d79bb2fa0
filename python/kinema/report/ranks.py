"""Tables of ranks: the seconds of each rank of each run by phase, and the statistics that figures and tables show.

A table comes from reports, from a publication's files, or from an emulated run. `RankSeries` is one line of a figure:
the statistics of a table, or the statistics that a publication gives without the values of single ranks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.choices import PARTS
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.report.quantities import rank_quantities
from kinema.report.scaling import ScalingPoint, group_reports, mean_and_deviation
from kinema.report.stragglers import THRESHOLD

if TYPE_CHECKING:
    from kinema.report.report import Report

# values by name, (ranks,) seconds each, in the order of ranks
RankRun = Mapping[str, NDArray[np.float64]]

MEASURED, PUBLISHED, EMULATED = "measured", "published", "emulated"

#: quantities in the order of figures, and their names in words
QUANTITY_WORDS: Mapping[str, str] = {
    "t_total": "total, slowest rank",
    "t_IO": "I/O",
    "t_read": "reading",
    "t_decode": "decoding",
    "t_compute": "compute",
    "t_wait": "wait",
    "t_start": "start",
    "t_open": "opening, with topology",
    "t_open_topology": "topology",
    "t_open_trajectory": "opening the trajectory",
    "t_plan": "planning",
    "t_communication": "communication",
    "t_put": "one-sided, put",
    "t_get": "one-sided, get",
    "t_gather": "gathering",
    "t_end_loop": "end of loop",
    "t_unaccounted": "unaccounted for",
}


@dataclass(frozen=True)
class Statistic:
    """A quantity on one number of ranks, in seconds.

    `mean`, `deviation`: mean over ranks; its mean and deviation (n - 1) over repeats.
    `largest`, `largest_deviation`: the same of the largest value of any rank; NaN if it is not known.
    """

    mean: float
    deviation: float
    largest: float
    largest_deviation: float
    repeats: int


@dataclass(frozen=True)
class SeriesOrigin:
    """Where the values of a series come from, and what was done.

    Attributes
    ----------
    kind : {MEASURED, PUBLISHED, EMULATED}
    where : machine and file system, or the publication
    task : "" for an analysis; "split" for writing segments
    workload : how many times each frame is computed
    """

    kind: str = MEASURED
    where: str = ""
    task: str = ""
    workload: float = 1.0


@dataclass(frozen=True)
class RankGap:
    """Runs on one number of ranks that have no time, for one reason."""

    n_ranks: int
    runs: int
    reason: str

    def __str__(self) -> str:
        return f"N = {self.n_ranks}: {self.reason}" + (f" ({self.runs} runs)" if self.runs > 1 else "")


@dataclass(frozen=True)
class SlowRank:
    """A rank whose time is at least 1.5 times that of the fast group."""

    n_ranks: int
    repeat: int
    rank: int
    seconds: float
    times: float
    phase: str

    def __str__(self) -> str:
        return (
            f"{self.n_ranks} ranks, repeat {self.repeat}: rank {self.rank} took {self.seconds:.2f} s, "
            f"{self.times:.2f} times that of the fast ranks, most of the difference in {self.phase}"
        )


@dataclass(frozen=True, eq=False)
class RankTable:
    """Seconds of every rank of every run of one series.

    `runs`: {(ranks, repeat): {name: (ranks,) seconds}}.
    `phases`: names whose sum is a rank's time, except for a small rest.
    `total`: name of the rank's whole time.
    `bytes_read`: {(ranks, repeat): bytes}, if they are known.
    `gaps`: runs that have no time.
    """

    label: str
    runs: Mapping[tuple[int, int], RankRun]
    phases: tuple[str, ...] = PARTS
    total: str = "t_total"
    origin: SeriesOrigin = field(default=SeriesOrigin(), kw_only=True)
    bytes_read: Mapping[tuple[int, int], int] = field(default_factory=dict, kw_only=True)
    gaps: tuple[RankGap, ...] = field(default=(), kw_only=True)

    @property
    def sizes(self) -> list[int]:
        """Numbers of ranks."""
        return sorted({n for n, _ in self.runs})

    def repeats(self, n_ranks: int) -> list[int]:
        """The repeats on `n_ranks` ranks."""
        return sorted(repeat for n, repeat in self.runs if n == n_ranks)

    def run(self, n_ranks: int, repeat: int) -> RankRun:
        """One run; raises ArgumentError if there is none."""
        if (n_ranks, repeat) not in self.runs:
            raise ArgumentError(f"{self.label}: no run with {n_ranks} ranks and repeat {repeat}")
        return self.runs[n_ranks, repeat]

    def mean(self, name: str, n_ranks: int) -> tuple[float, float]:
        """Mean and deviation (n - 1) over all ranks of all repeats."""
        return mean_and_deviation(self._all(name, n_ranks).tolist())

    def largest(self, name: str, n_ranks: int) -> float:
        """Largest value over all ranks of all repeats."""
        return float(self._all(name, n_ranks).max())

    def summarise_repeats(self, name: str, n_ranks: int, each: str) -> tuple[float, float]:
        """Mean and deviation (n - 1) over repeats of each repeat's "mean" or "max"."""
        if each not in ("mean", "max"):
            raise ArgumentError(f"each must be 'mean' or 'max', found {each!r}")
        values = [float(getattr(self.runs[n_ranks, repeat][name], each)()) for repeat in self.repeats(n_ranks)]
        return mean_and_deviation(values)

    def median_repeat(self, n_ranks: int) -> int:
        """The repeat whose slowest rank took the median time."""
        times = {repeat: self.runs[n_ranks, repeat][self.total].max() for repeat in self.repeats(n_ranks)}
        return sorted(times, key=lambda one: times[one])[len(times) // 2]

    def stragglers(self, n_ranks: int, repeat: int, threshold: float = THRESHOLD) -> list[SlowRank]:
        """Ranks that took at least `threshold` times the fast group's time, slowest first.

        The fast group are the ranks up to 1.5 times the fastest: if most ranks are slow, as 63 of 72 were once, the
        median is one of the slow ones. Waiting is not work; it is left out if the tables list it separately.
        """
        run = self.run(n_ranks, repeat)
        own = run[self.total] - run.get("t_wait", 0.0)
        fast = own <= THRESHOLD * own.min()
        usual = median(own[fast].tolist())
        names = [name for name in self.phases if name in run and name != "t_wait"]
        work = {name: (run[name], median(run[name][fast].tolist())) for name in names}
        found = []
        for rank in np.flatnonzero(own >= threshold * usual) if usual > 0 else ():
            excess = {name: values[rank] - of_the_fast for name, (values, of_the_fast) in work.items()}
            phase = max(excess, key=lambda name: float(excess[name]))
            found.append(SlowRank(n_ranks, repeat, int(rank), float(own[rank]), float(own[rank] / usual), phase))
        return sorted(found, key=lambda one: -one.seconds)

    def series(self) -> RankSeries:
        """The statistics of all quantities that every run has."""
        common = set.intersection(*(set(run) for run in self.runs.values()))
        names = [name for name in QUANTITY_WORDS if name in common]
        values = {name: {n: self._statistic(name, n) for n in self.sizes} for name in names}
        return RankSeries(self.label, values, self.origin, table=self, gaps=self.gaps)

    def name_of_run(self, n_ranks: int, repeat: int) -> str:
        """The name by which a run is left out."""
        return f"{self.label}, {n_ranks} ranks, repeat {repeat}"

    def _statistic(self, name: str, n_ranks: int) -> Statistic:
        largest = self.summarise_repeats(name, n_ranks, "max")
        # the total of a run is that of its slowest rank
        mean = largest if name == "t_total" else self.summarise_repeats(name, n_ranks, "mean")
        return Statistic(*mean, *largest, len(self.repeats(n_ranks)))

    def _all(self, name: str, n_ranks: int) -> NDArray[np.float64]:
        return np.concatenate([self.runs[n_ranks, repeat][name] for repeat in self.repeats(n_ranks)])


@dataclass(frozen=True, eq=False)
class RankSeries:
    """A line of a figure.

    `values`: {quantity: {ranks: Statistic}}.
    `table`: the values of single ranks, if they are known.
    `theory`: R_comp/IO that the publication expects of this workload.
    `gaps`: runs that have no time. A series may have nothing else.
    """

    label: str
    values: Mapping[str, Mapping[int, Statistic]]
    origin: SeriesOrigin = SeriesOrigin()
    table: RankTable | None = field(default=None, kw_only=True)
    theory: float | None = field(default=None, kw_only=True)
    gaps: tuple[RankGap, ...] = field(default=(), kw_only=True)

    @property
    def sizes(self) -> list[int]:
        """Numbers of ranks."""
        return sorted({n for found in self.values.values() for n in found})

    @property
    def names(self) -> list[str]:
        """The names of the runs, by which they are left out."""
        runs = [self.label] if self.table is None else [self.table.name_of_run(*key) for key in self.table.runs]
        return [*runs, *map(self.name_of_gap, self.gaps)]

    def name_of_gap(self, gap: RankGap) -> str:
        """The name by which a gap is left out."""
        return f"{self.label}, {gap.n_ranks} ranks, gap"

    def is_gap(self, n_ranks: int, name: str = "t_total") -> bool:
        """Whether all runs on `n_ranks` ranks are gaps, so that a quantity has no value."""
        return n_ranks not in self.values.get(name, {}) and any(gap.n_ranks == n_ranks for gap in self.gaps)

    @property
    def repeats(self) -> int:
        """The largest number of repeats."""
        return max((one.repeats for found in self.values.values() for one in found.values()), default=0)

    def value(self, name: str, n_ranks: int) -> float | None:
        """Mean of a quantity; None if it is not known."""
        found = self.values.get(name, {}).get(n_ranks)
        return None if found is None or math.isnan(found.mean) else found.mean

    def compute_per_io(self, n_ranks: int | None = None) -> float | None:
        """R_comp/IO, t_compute / t_IO, of the run with one rank unless `n_ranks` is given."""
        n = 1 if n_ranks is None else n_ranks
        return _ratio(self.value("t_compute", n), self.value("t_IO", n))

    def compute_per_communication(self, n_ranks: int) -> float | None:
        """R_comp/comm, t_compute / t_communication."""
        return _ratio(self.value("t_compute", n_ranks), self.value("t_communication", n_ranks))

    def speed_ups(self, name: str, baseline: RankSeries | None = None) -> tuple[ScalingPoint, ...]:
        """S and E of a quantity, against the smallest number of ranks of `baseline`, by default of this series."""
        own = {n: one for n, one in self.values.get(name, {}).items() if one.mean > 0}
        others = own if baseline is None else baseline.values.get(name, {})
        others = {n: one for n, one in others.items() if one.mean > 0}
        if not own or not others:
            return ()
        base = min(others)
        return speed_up_points(own, base, others[base])


def gap_lines(series: Sequence[RankSeries]) -> list[str]:
    """A line for each gap: which runs have no time, and why."""
    return [f"no time: {one.label}, {gap}" for one in series for gap in one.gaps]


def gap_numbers(series: Sequence[RankSeries]) -> set[int]:
    """The numbers of ranks on which a series has a gap."""
    return {gap.n_ranks for one in series for gap in one.gaps}


def speed_up_points(values: Mapping[int, Statistic], base: int, first: Statistic) -> tuple[ScalingPoint, ...]:
    """S(N) = t(base) / t(N) and E(N) = S(N) base / N, in ascending order, with deviations."""
    points = []
    for n, one in sorted(values.items()):
        speed_up, share = first.mean / one.mean, base / n
        deviation = speed_up * math.hypot(first.deviation / first.mean, one.deviation / one.mean)
        points.append(
            ScalingPoint(
                n, one.repeats, one.mean, one.deviation, base, speed_up, deviation, speed_up * share, deviation * share
            )
        )
    return tuple(points)


def tables_of_reports(
    reports: Sequence[Report],
    labels: Sequence[str | None] | None = None,
    gaps: Sequence[Sequence[RankGap]] | None = None,
) -> list[RankTable]:
    """A table for each series of reports; `labels` and series as in `scaling_of`, `gaps` of the series of each report.

    Raises ArgumentError as `scaling_of` does.
    """
    tables = []
    gaps_of = {id(report): found for report, found in zip(reports, gaps or [()] * len(reports), strict=True)}
    for label, groups in group_reports(reports, labels).items():
        found = {(n, repeat): one for n, group in groups.items() for repeat, one in enumerate(group, start=1)}
        runs = {key: rank_quantities(report.timings) for key, report in found.items()}
        bytes_read = {key: report.timings.bytes_read for key, report in found.items()}
        origin = _origin_of(next(iter(found.values())))
        missing = tuple(dict.fromkeys(gap for report in found.values() for gap in gaps_of[id(report)]))
        tables.append(RankTable(label, runs, origin=origin, bytes_read=bytes_read, gaps=missing))
    return tables


def leave_out(series: Sequence[RankSeries], patterns: Sequence[str]) -> list[RankSeries]:
    """The series without the runs whose names match; a series without the values of ranks has its label as the name.

    Raises ArgumentError for a pattern that no run matches, and if nothing is left.
    """
    names = [name for one in series for name in one.names]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            examples = " and ".join(map(repr, names[:2]))
            raise ArgumentError(f"no run matches {pattern!r}, which is to be left out; names are like {examples}")
    left = [found for one in series if (found := _without(one, patterns)) is not None]
    if not left:
        raise ArgumentError("all runs are left out")
    return left


def _without(one: RankSeries, patterns: Sequence[str]) -> RankSeries | None:
    kept = {name for name in one.names if not any(fnmatchcase(name, pattern) for pattern in patterns)}
    if len(kept) == len(one.names):
        return one
    gaps = tuple(gap for gap in one.gaps if one.name_of_gap(gap) in kept)
    if one.table is None:
        return replace(one, gaps=gaps) if one.label in kept else None
    runs = {key: run for key, run in one.table.runs.items() if one.table.name_of_run(*key) in kept}
    return replace(one.table, runs=runs, gaps=gaps).series() if runs else None


def workload_ratios(series: Sequence[RankSeries]) -> list[tuple[RankSeries, float, float | None]]:
    """For each series R_comp/IO as measured and by theory, which is what the publication expects, or that of workload 1
    of the same series times the workload. If a series has several workloads, others are left out."""
    found = [(one, ratio) for one in series if (ratio := one.compute_per_io()) is not None]
    alike: dict[str, list[tuple[RankSeries, float]]] = {}
    for one, ratio in found:
        alike.setdefault(one.label.replace(f", work x{one.origin.workload:g}", ""), []).append((one, ratio))
    several = {name: some for name, some in alike.items() if len(some) > 1}
    rows: list[tuple[RankSeries, float, float | None]] = []
    for some in (several or alike).values():
        base = next((ratio for one, ratio in some if one.origin.workload == 1), None)
        for one, ratio in sorted(some, key=lambda pair: pair[0].origin.workload):
            theory = one.theory if one.theory is not None or base is None else base * one.origin.workload
            rows.append((one, ratio, theory))
    return rows


def _origin_of(report: Report) -> SeriesOrigin:
    machine, extra = report.machine, report.extra
    emulated = report.run.get("emulated")
    if emulated is None:
        words: list[Any] = [machine.get("host"), machine.get("processor")]
        cores = machine.get("allowed_cores")
        words += [counted(cores, "core")] if isinstance(cores, int) else []
        words += report.input.get("file_systems", ())
    else:
        # the machine is that of the simulation, not one that was measured
        described = emulated if isinstance(emulated, Mapping) else {}
        words = [described.get("name"), described.get("description")]
    found = ", ".join(str(word) for word in words if word) or "a machine that the reports do not name"
    kind = MEASURED if emulated is None else EMULATED
    return SeriesOrigin(kind, found, str(extra.get("task", "")), float(extra.get("workload", 1)))


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below is not None and below > 0 else None

"""Speed-up S(N) = t(1) / t(N) and efficiency E(N) = S(N) / N across runs, with deviations.

Deviations are sample deviations (n - 1); the deviations of S and E follow from those of both times, taken as
independent. This module runs nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.printable import align_columns, counted, printable, three_digits
from kinema.report.machine import LIBRARIES
from kinema.report.quantities import PARTS, QUANTITIES, checked_quantity, rank_quantities

if TYPE_CHECKING:
    from kinema.report.report import Report

# quantities that have a column beside the one that is asked for
_SHOWN = ("t_total", "t_start", *PARTS)
# names in `Report.extra` that are part of a label
_VARIED = (
    "lab", "program", "nodes", "task", "reader", "analysis", "times", "storage", "stripes", "source", "page_cache",
    "gather", "schedule", "ranks_per_node", "oversubscribe",
)  # fmt: skip


@dataclass(frozen=True)
class ScalingPoint:
    """One quantity of all repeats with one number of workers.

    Attributes
    ----------
    n_workers, repeats : int
    mean, deviation : seconds, over the repeats; the deviation is 0 for a single repeat
    base : the number of workers that S and E are measured against, 1 if there is a run with one
    speed_up, speed_up_deviation : S(N), t(base) / t(N); not a number if a time is 0
    efficiency, efficiency_deviation : S(N) base / N
    rank_mean, rank_deviation, rank_largest : seconds, over all ranks (or other workers) of all repeats; None if they
        are not known
    frame_ms : milliseconds of a rank for each of its frames; None if they are not known
    """

    n_workers: int
    repeats: int
    mean: float
    deviation: float
    base: int
    speed_up: float
    speed_up_deviation: float
    efficiency: float
    efficiency_deviation: float
    rank_mean: float | None = None
    rank_deviation: float | None = None
    rank_largest: float | None = None
    frame_ms: float | None = None


@dataclass(frozen=True, eq=False)
class Scaling:
    """Series of points by label, for each quantity.

    `print(scaling)` prints a table. The t_total of a run is the time of the slowest rank; other quantities are means
    over ranks.

    Attributes
    ----------
    points : {label: {quantity: points}}
        For each of QUANTITIES in `kinema.report.quantities`.
    quantity : str
        The quantity whose S and E are printed and drawn.
    R_comp_IO : {label: ratio}
        From the runs with one worker; absent without such runs.
    """

    points: Mapping[str, Mapping[str, tuple[ScalingPoint, ...]]]
    R_comp_IO: Mapping[str, float]
    quantity: str = "t_total"

    @property
    def series(self) -> dict[str, tuple[ScalingPoint, ...]]:
        """Points of `quantity` by label."""
        return {label: found[self.quantity] for label, found in self.points.items()}

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            label: {
                "quantity": self.quantity,
                "points": [asdict(point) for point in found[self.quantity]],
                "quantities": {name: [asdict(point) for point in points] for name, points in found.items()},
                "R_comp_IO": self.R_comp_IO.get(label),
            }
            for label, found in self.points.items()
        }

    def __str__(self) -> str:
        lines: list[str] = []
        for label, found in self.points.items():
            ratio = self.R_comp_IO.get(label)
            value = "not measured: no run with one worker" if ratio is None else f"{ratio:.3g} (measured, one worker)"
            lines.append(f"{printable(label)}: R_comp/IO {value}")
            lines += _rows(found, self.quantity)
            base = found[self.quantity][0].base
            if base > 1:
                lines.append(f"S and E are measured against {base} workers, as there is no run with one")
        return "\n".join(lines)


def _rows(found: Mapping[str, Sequence[ScalingPoint]], quantity: str) -> list[str]:
    """The table of a series. Without repeats there is no deviation."""
    others = [name for name in _SHOWN if name != quantity]
    rows = [
        ["N", "runs", f"{quantity} (s)", "S", "E", "mean of ranks", "largest", "ms/frame", *others],
    ]
    points = found[quantity]
    for at, point in enumerate(points):
        repeated = point.repeats > 1
        both = repeated and points[0].repeats > 1
        rows.append([
            str(point.n_workers), str(point.repeats),
            _with_deviation(point.mean, point.deviation if repeated else None),
            _with_deviation(point.speed_up, point.speed_up_deviation if both else None),
            _with_deviation(point.efficiency, point.efficiency_deviation if both else None),
            _with_deviation(point.rank_mean, point.rank_deviation if repeated or point.n_workers > 1 else None),
            _with_deviation(point.rank_largest), _with_deviation(point.frame_ms),
            *(three_digits(found[name][at].mean) for name in others),
        ])  # fmt: skip
    return align_columns(rows, left=0, indent="")


def _with_deviation(value: float | None, deviation: float | None = None) -> str:
    """A cell of the table; "-" for what is not known."""
    if value is None or not math.isfinite(value):
        return "-"
    return three_digits(value) + ("" if deviation is None else f" ± {three_digits(deviation)}")


def scaling_of(
    reports: Sequence[Report], *, quantity: str = "t_total", labels: Sequence[str | None] | None = None
) -> Scaling:
    """Reports of the same work on different numbers of workers; series are distinguished by runner, by what `kinema
    scaling` has noted, and by machine, file system, stripes, versions of libraries, nodes, analyses, atoms and files
    where these differ. Load and batch job do not matter.

    `labels`: for each report a name that stands for its machine, file system and versions of Kinema, Python and NumPy;
    None: these themselves.

    N is the number of workers that `kinema scaling` asked for, of other reports those that had work.

    `quantity`: the time t of which the speed-up is, one of QUANTITIES in `kinema.report.quantities`.

    Raises ArgumentError for no reports, labels that are not one for each report, reports without workers, another
    quantity, and series whose runs did not read the same number of frames.
    """
    quantity = checked_quantity(quantity)
    points, ratios = {}, {}
    for label, groups in group_reports(reports, labels).items():
        points[label] = _points_of(groups)
        alone = [report.quantities for report in groups.get(1, [])]
        measured = [one.R_comp_IO for one in alone if one.R_comp_IO is not None and not one.R_comp_IO_is_estimate]
        if measured:
            ratios[label] = fmean(measured)
    return Scaling(points, ratios, quantity)


def _points_of(groups: Mapping[int, Sequence[Report]]) -> dict[str, tuple[ScalingPoint, ...]]:
    """Points of each quantity, of reports by number of workers."""
    ranks = {n: [rank_quantities(report.timings) for report in group] for n, group in groups.items()}
    frames = {n: sum(report.timings.frames_read for report in group) for n, group in groups.items()}
    return {
        name: scaling_points(
            {n: [getattr(report.quantities, name) for report in group] for n, group in groups.items()},
            {n: np.concatenate([one[name] for one in found]) for n, found in ranks.items()},
            frames,
        )
        for name in QUANTITIES
    }


def group_reports(
    reports: Sequence[Report], labels: Sequence[str | None] | None = None
) -> Mapping[str, Mapping[int, list[Report]]]:
    """The reports by series and number of workers; series, `labels` and errors as in `scaling_of`."""
    if not reports:
        raise ArgumentError("scaling needs reports of at least one run")
    if labels is not None and len(labels) != len(reports):
        raise ArgumentError(f"labels are one for each report, expected {len(reports)}, found {len(labels)}")
    by_label: dict[str, dict[int, list[Report]]] = defaultdict(lambda: defaultdict(list))
    for report, label in zip(reports, _labels(reports, labels or [None] * len(reports)), strict=True):
        if not report.n_workers:
            raise ArgumentError("a report has no workers: all of its results came from a checkpoint")
        by_label[label][_workers_of(report)].append(report)
    for label, groups in by_label.items():
        frames = {report.timings.frames_read for group in groups.values() for report in group}
        if len(frames) > 1:
            found = ", ".join(f"{n:,}" for n in sorted(frames))
            raise ArgumentError(f"{label}: runs of different work cannot be compared, found {found} frames")
    return by_label


def label_of(report: Report) -> str:
    """Name of a series: runner, format, the values that `kinema scaling` varies, and the access if it is not direct."""
    extra = report.extra
    words = [report.timings.runner or "runs", str(extra.get("format", report.input["format"]))]
    usual = ("", "warm", "file")
    words += [f"{name.replace('_', ' ')} {extra[name]}" for name in _VARIED if extra.get(name, "") not in usual]
    if report.timings.access != "direct":
        words.append(f"access {report.timings.access}")
    if extra.get("workload", 1) != 1:
        words.append(f"work x{extra['workload']}")
    return ", ".join(words)


def _labels(reports: Sequence[Report], given: Sequence[str | None]) -> list[str]:
    """`label_of` each report with the name given, and with more of the work where several would have the same."""
    labels = [
        label_of(report) if name is None else f"{label_of(report)}, {name}"
        for report, name in zip(reports, given, strict=True)
    ]
    for describe in (_machine_of, _file_systems_of, _versions_of):
        values = [describe(report) if name is None else ("",) for report, name in zip(reports, given, strict=True)]
        labels = _told_apart(labels, values)
    for name in LIBRARIES:
        labels = _told_apart(labels, [_library_of(report, name) for report in reports])
    for describe in (_storage_of, _analyses_of, _atoms_of, _files_of):
        labels = _told_apart(labels, [describe(report) for report in reports])
    return _by_nodes(labels, reports)


def _by_nodes(labels: Sequence[str], reports: Sequence[Report]) -> list[str]:
    """The labels, with the number of nodes if as many workers of one label ran on several numbers of nodes."""
    nodes = [_nodes_of(report) for report in reports]
    counts: dict[tuple[str, int], set[int]] = defaultdict(set)
    for label, report, n in zip(labels, reports, nodes, strict=True):
        counts[label, _workers_of(report)].add(n)
    split = {label for (label, _), found in counts.items() if len(found) > 1}
    return [
        f"{label}, on {counted(n, 'node')}" if label in split else label for label, n in zip(labels, nodes, strict=True)
    ]


def _told_apart(labels: Sequence[str], values: Sequence[tuple[str, ...]]) -> list[str]:
    """The labels, with the words of the values where one label has several; `values` are words and what they mean."""
    kinds: dict[str, dict[tuple[str, ...], str]] = defaultdict(dict)
    for label, (words, *identity) in zip(labels, values, strict=True):
        known = kinds[label]
        if tuple(identity) not in known:
            # the same words for something else, such as a rewritten file
            number = sum(other.partition(" #")[0] == words for other in known.values())
            known[tuple(identity)] = f"{words} #{number + 1}" if number else words
    return [
        f"{label}, {kinds[label][tuple(identity)]}" if len(kinds[label]) > 1 else label
        for label, (_, *identity) in zip(labels, values, strict=True)
    ]


def _machine_of(report: Report) -> tuple[str, ...]:
    """By host, processor, cores and memory; not by what a process was allowed of them. Nodes that a batch system has
    chosen are one machine if they are alike."""
    facts = [str(report.machine.get(name, "")) for name in ("host", "processor", "architecture", "cores", "memory")]
    if report.machine.get("job"):
        facts[0] = str(report.machine.get("cluster") or facts[1] or "a cluster")
    return (facts[0] or "another machine", *facts)


def _library_of(report: Report, name: str) -> tuple[str, ...]:
    """Reports of earlier versions do not have most of them."""
    found = str(report.machine.get(name, "not known"))
    words = found.partition(",")[0] if name == "mpi" else found
    return (f"{'MPI' if name == 'mpi' else name} {words}", found)


def _storage_of(report: Report) -> tuple[str, ...]:
    """Mount options, kinds of disk and stripes."""
    found = report.input.get("storage", ())
    words = [str(one[name]) for one in found for name in ("disk", "options") if one.get(name)]
    words += [f"stripes {', '.join(one['stripes'])}" for one in found if one.get("stripes")]
    text = ", ".join(words)
    return (text or "stripes not known", text)


def _workers_of(report: Report) -> int:
    return int(report.extra.get("workers", report.n_workers))


def _nodes_of(report: Report) -> int:
    return len({worker.node for worker in report.timings.workers}) or 1


def _file_systems_of(report: Report) -> tuple[str, ...]:
    """The file systems of the files; reports of earlier versions do not have them."""
    found = ", ".join(map(str, report.input.get("file_systems", ())))
    return (found or "file system not known", found)


def _versions_of(report: Report) -> tuple[str, ...]:
    found = ", ".join(f"{name} {report.machine.get(name, '?')}" for name in ("kinema", "python", "numpy"))
    return (found, found)


def _analyses_of(report: Report) -> tuple[str, ...]:
    """In words, and then what makes it another's."""
    names = ", ".join(dict.fromkeys(report.run.get("analyses", ())))
    return (names, names)


def _atoms_of(report: Report) -> tuple[str, ...]:
    used, of = report.run.get("atoms", 0), report.input.get("n_atoms", 0)
    return (f"{used:,} of {of:,} atoms", f"{used} {of}")


def _files_of(report: Report) -> tuple[str, ...]:
    """By their fingerprints: a copy is the same. Nothing for files that an experiment has made of the same frames."""
    files = report.input.get("files", ())
    if "format" in report.extra or not files:
        return ("",)
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return (f"{files[0]['path']}{more}", *(str(file["fingerprint"]) for file in files))


def scaling_points(
    times: Mapping[int, Sequence[float]],
    ranks: Mapping[int, NDArray[np.float64]] | None = None,
    frames: Mapping[int, int] | None = None,
) -> tuple[ScalingPoint, ...]:
    """Points of times by number of workers, in ascending order, against the smallest number.

    `times`: {number: times of the repeats}.
    `ranks`: {number: times of all ranks of all repeats}, optional.
    `frames`: {number: frames of all repeats}; with `ranks`.
    """
    base = min(times)
    first, first_deviation = mean_and_deviation(times[base])
    points = []
    for n, found in sorted(times.items()):
        mean, deviation = mean_and_deviation(found)
        share = base / n
        speed_up = relative = math.nan
        if first > 0 and mean > 0:
            speed_up, relative = first / mean, math.hypot(first_deviation / first, deviation / mean)
        point = ScalingPoint(
            n, len(found), mean, deviation, base, speed_up, speed_up * relative, speed_up * share,
            speed_up * relative * share,
        )  # fmt: skip
        if ranks is not None:
            of_ranks, spread = mean_and_deviation(ranks[n].tolist())
            point = replace(point, rank_mean=of_ranks, rank_deviation=spread, rank_largest=float(ranks[n].max()))
            if frames is not None and frames[n]:
                point = replace(point, frame_ms=1e3 * float(ranks[n].sum()) / frames[n])
        points.append(point)
    return tuple(points)


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Mean and deviation of a sample (n - 1); 0 for a single value."""
    return fmean(values), stdev(values) if len(values) > 1 else 0.0

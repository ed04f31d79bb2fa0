"""Speed-up S(N) = t(1) / t(N) and efficiency E(N) = S(N) / N across runs, with deviations.

Deviations are sample deviations (n - 1); the deviations of S and E follow from those of both times, taken as
independent. This module runs nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from kinema.base.errors import ArgumentError
from kinema.base.printable import counted, printable
from kinema.base.timings import digits_for
from kinema.report.machine import LIBRARIES
from kinema.report.quantities import Quantities

if TYPE_CHECKING:
    from kinema.report.report import Report

__all__ = ["Scaling", "ScalingPoint", "label_of", "mean_and_deviation", "scaling_of", "scaling_points"]

_WIDTH = 13  # of a column of seconds, or that of its name


@dataclass(frozen=True)
class ScalingPoint:
    """All repeats with one number of workers.

    Attributes
    ----------
    n_workers, repeats : int
    mean, deviation : seconds; the deviation is 0 for a single repeat
    base : the number of workers that S and E are measured against, 1 if there is a run with one
    speed_up, speed_up_deviation : S(N), t(base) / t(N)
    efficiency, efficiency_deviation : S(N) base / N
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


@dataclass(frozen=True, eq=False)
class Scaling:
    """Series of points by label, and for each the means of the publications' quantities by number of workers.

    `print(scaling)` prints a table. `R_comp_IO` by label comes from the runs with one worker; absent without such runs.
    """

    series: Mapping[str, tuple[ScalingPoint, ...]]
    means: Mapping[str, Mapping[int, Mapping[str, float]]]
    R_comp_IO: Mapping[str, float]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            label: {
                "points": [asdict(point) for point in points],
                "means": {str(n): dict(values) for n, values in self.means[label].items()},
                "R_comp_IO": self.R_comp_IO.get(label),
            }
            for label, points in self.series.items()
        }

    def __str__(self) -> str:
        lines: list[str] = []
        for label, points in self.series.items():
            ratio = self.R_comp_IO.get(label)
            value = "not measured: no run with one worker" if ratio is None else f"{ratio:.3g} (measured, one worker)"
            lines.append(f"{printable(label)}: R_comp/IO {value}")
            lines += _rows(points, self.means[label])
            if points[0].base > 1:
                lines.append(f"S and E are measured against {points[0].base} workers, as there is no run with one")
        return "\n".join(lines)


def _rows(points: Sequence[ScalingPoint], means: Mapping[int, Mapping[str, float]]) -> Iterator[str]:
    """The table of a series. Without repeats there is no deviation."""
    names = ("t_opening_trajectory", "t_IO", "t_comp", "t_wait", "t_comm", "t_unaccounted")
    digits = digits_for(max(point.mean for point in points))
    yield f"{'N':>4} {'runs':>5} {'t (s)':>21} {'S':>15} {'E':>15} " + " ".join(f"{name:>{_WIDTH}}" for name in names)
    for point in points:
        mean = f"{point.mean:>10.{digits}f}"
        time = f"{mean} ± {point.deviation:<8.{digits}f}" if point.repeats > 1 else f"{mean}{'':11}"
        ratios = []
        for value, deviation in (
            (point.speed_up, point.speed_up_deviation), (point.efficiency, point.efficiency_deviation)
        ):  # fmt: skip
            shown = point.repeats > 1 and points[0].repeats > 1
            ratios.append(f"{value:>8.2f}" + (f" ± {deviation:<4.2f}" if shown else f"{'':7}"))
        yield f"{point.n_workers:>4} {point.repeats:>5} {time} {' '.join(ratios)} " + " ".join(
            f"{means[point.n_workers][name]:>{max(_WIDTH, len(name))}.{digits}f}" for name in names
        )


def scaling_of(
    reports: Sequence[Report], *, quantity: str = "t_rounds", labels: Sequence[str | None] | None = None
) -> Scaling:
    """Reports of the same work on different numbers of workers; series are distinguished by runner, by what `kinema
    scaling` has noted, and by machine, file system, stripes, versions of libraries, nodes, analyses, atoms and files
    where these differ. Load and batch job do not matter.

    `labels`: for each report a name that stands for its machine, file system and versions of Kinema, Python and NumPy;
    None: these themselves.

    N is the number of workers that `kinema scaling` asked for, of other reports those that had work.

    `quantity`: of `Quantities`, "t_rounds" (wall time of the passes) or "t_total" (with opening).

    Raises ArgumentError for no reports, labels that are not one for each report, reports without workers, another
    quantity, and series whose runs did not read the same number of frames.
    """
    if not reports:
        raise ArgumentError("scaling needs reports of at least one run")
    if quantity not in Quantities.__dataclass_fields__:
        raise ArgumentError(f"quantity must be one of {', '.join(Quantities.__dataclass_fields__)}, found {quantity!r}")
    if labels is not None and len(labels) != len(reports):
        raise ArgumentError(f"labels are one for each report, expected {len(reports)}, found {len(labels)}")
    by_label: dict[str, dict[int, list[Report]]] = defaultdict(lambda: defaultdict(list))
    for report, label in zip(reports, _labels(reports, labels or [None] * len(reports)), strict=True):
        if not report.n_workers:
            raise ArgumentError("a report has no workers: all of its results came from a checkpoint")
        by_label[label][_workers_of(report)].append(report)
    series, means, ratios = {}, {}, {}
    for label, groups in by_label.items():
        frames = {report.timings.frames_read for group in groups.values() for report in group}
        if len(frames) > 1:
            found = ", ".join(f"{n:,}" for n in sorted(frames))
            raise ArgumentError(f"{label}: runs of different work cannot be compared, found {found} frames")
        times = {n: [getattr(report.quantities, quantity) for report in group] for n, group in groups.items()}
        series[label] = scaling_points(times)
        means[label] = {n: _means(group) for n, group in groups.items()}
        alone = [report.quantities for report in groups.get(1, [])]
        measured = [one.R_comp_IO for one in alone if one.R_comp_IO is not None and not one.R_comp_IO_is_estimate]
        if measured:
            ratios[label] = fmean(measured)
    return Scaling(series, means, ratios)


def label_of(report: Report) -> str:
    """Name of a series: runner, format, the values that `kinema scaling` varies, and the access if it is not direct."""
    extra = report.extra
    words = [report.timings.runner or "runs", str(extra.get("format", report.input["format"]))]
    usual = ("", "warm", "file")
    words += [
        f"{name.replace('_', ' ')} {extra[name]}"
        for name in ("source", "page_cache", "gather", "schedule", "ranks_per_node", "oversubscribe")
        if extra.get(name, "") not in usual
    ]
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


def _means(reports: Sequence[Report]) -> dict[str, float]:
    found = [report.quantities.as_dict() for report in reports]
    return {name: fmean(one[name] for one in found) for name in found[0] if name.startswith("t_")}


def scaling_points(times: Mapping[int, Sequence[float]]) -> tuple[ScalingPoint, ...]:
    """Points of times by number of workers, in ascending order, against the smallest number."""
    base = min(times)
    first, first_deviation = mean_and_deviation(times[base])
    points = []
    for n, found in sorted(times.items()):
        mean, deviation = mean_and_deviation(found)
        speed_up = first / mean if mean > 0 else math.inf
        relative = math.hypot(first_deviation / first if first else 0.0, deviation / mean if mean else 0.0)
        share = base / n
        points.append(
            ScalingPoint(
                n, len(found), mean, deviation, base, speed_up, speed_up * relative, speed_up * share,
                speed_up * relative * share,
            )
        )  # fmt: skip
    return tuple(points)


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Mean and deviation of a sample (n - 1); 0 for a single value."""
    return fmean(values), stdev(values) if len(values) > 1 else 0.0

"""Summaries of traces as text: one as a report, or several side by side in columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from kinema.base.printable import align_columns, printable
from kinema.report.traces.kinds import APPLICATION, COMPUTE, OPERATIONS, POSIX, TRANSFERS, WAIT
from kinema.report.traces.tables import SIZES, Distribution, FunctionRow

if TYPE_CHECKING:
    from kinema.report.traces.summary import TimeSplit, TraceSummary

_NOT_TRACED = "-"
_FUNCTIONS = 24
_FILES = 8


def format_bytes(number: float) -> str:
    """As in "512 B", "64 KiB", "1.5 GiB"."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if number < 1024 or unit == "TiB":
            return (
                f"{number:.0f} {unit}"
                if unit == "B"
                else f"{number:.3g} {unit}"
                if number < 1000
                else f"{number:.0f} {unit}"
            )
        number /= 1024
    raise AssertionError


def format_ns(ns: float) -> str:
    """As in "12.3 µs", "4.56 s"."""
    for unit, size in (("ns", 1), ("µs", 1e3), ("ms", 1e6)):
        if ns < 999.5 * size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns / 1e9:.3g} s" if ns < 1e12 else f"{ns / 1e9:,.0f} s"


def size_classes() -> list[str]:
    """Names of the classes of transfer sizes."""
    ends = [format_bytes(one).replace(" ", " ") for one in SIZES]
    middle = [f"{low} to {high}" for low, high in pairwise(ends)]
    return [f"below {ends[0]}", *middle, f"{ends[-1]} and more"]


def summary_text(one: TraceSummary) -> str:
    """The behaviour summary of a trace."""
    lines = [*_head(one), "", *_time(one), "", *_calls(one), "", *_functions(one), *_transfers(one), *_files(one)]
    return "\n".join(map(printable, [*lines, *_cache(one), *_epochs(one)]))


def _head(one: TraceSummary) -> list[str]:
    by = {"kinema": "Kinema", "strace": "strace", "other": "another program's tracer"}
    lines = [f"{one.label}: {one.events:,} events, recorded by {' and '.join(by[source] for source in one.sources)}"]
    lines += [f"  command: {command}" for command in one.commands[:3]]
    if len(one.commands) > 3:
        lines.append(f"  and {len(one.commands) - 3} more commands")
    return [
        *lines,
        f"  nodes {len(one.hosts):,}, processes {one.processes:,}, threads {one.threads:,} "
        f"(with I/O {one.io_threads:,}, with computing {one.compute_threads:,}), files {one.n_files:,}",
    ]


def _traced(one: TraceSummary, *kinds: str) -> bool:
    return any(one.kinds.get(kind) for kind in kinds)


_TIMES: tuple[tuple[str, tuple[str, ...], Callable[[TimeSplit], int]], ...] = (
    ("application-level I/O", (APPLICATION,), lambda split: split.application_io),
    ("  not overlapped by computing", (APPLICATION,), lambda split: split.unoverlapped_application_io),
    ("  gap: outside of POSIX calls", (APPLICATION,), lambda split: split.gap),
    ("POSIX I/O", (POSIX,), lambda split: split.posix_io),
    ("  not overlapped by computing", (POSIX,), lambda split: split.unoverlapped_posix_io),
    ("unoverlapped I/O", (APPLICATION, POSIX), lambda split: split.unoverlapped_io),
    ("compute", (COMPUTE,), lambda split: split.compute),
    ("unoverlapped compute", (COMPUTE,), lambda split: split.unoverlapped_compute),
    ("I/O and compute at once", (COMPUTE,), lambda split: split.overlapped),
    ("wait", (WAIT,), lambda split: split.wait),
    ("neither I/O nor compute", (APPLICATION, POSIX, COMPUTE), lambda split: split.neither),
    ("  start-up: before the first work", (APPLICATION, POSIX, COMPUTE), lambda split: split.start_up),
    ("  end: after the last work", (APPLICATION, POSIX, COMPUTE), lambda split: split.ending),
)


def _time(one: TraceSummary) -> list[str]:
    rows = [["time", "of the job", "", "of its processes"], _time_row(one, "total", lambda split: split.total)]
    for name, kinds, of in _TIMES:
        if _traced(one, *kinds):
            rows.append(_time_row(one, name, of))
        elif not name.startswith(" "):
            rows.append([name, "not traced", "", ""])
    about = (
        "  (of the job: what several processes do at once counts once; of its processes: each one's own time, added up)"
    )
    return [*align_columns(rows), about]


def _time_row(one: TraceSummary, name: str, of: Callable[[TimeSplit], int]) -> list[str]:
    share = of(one.job) / one.job.total if one.job.total else 0.0
    return [name, format_ns(of(one.job)), f"{share:.0%}", format_ns(of(one.in_processes))]


def _calls(one: TraceSummary) -> list[str]:
    if not _traced(one, POSIX):
        return ["  POSIX calls: not traced"]
    rows = [["POSIX calls", "number", "failed", "time", "bytes", "bytes a second"]]
    for name, row in one.operations.items():
        if row.count:
            rate = f"{format_bytes(row.bytes * 1e9 / row.time)}/s" if row.bytes and row.time else ""
            moved = format_bytes(row.bytes) if name in TRANSFERS else ""
            rows.append([name, f"{row.count:,}", f"{row.failed:,}", format_ns(row.time), moved, rate])
    return align_columns(rows)


def _functions(one: TraceSummary) -> list[str]:
    rows = [
        [
            "function",
            "count",
            "time",
            "mean",
            "p99",
            "bytes",
            "size: min",
            "25 %",
            "median",
            "mean",
            "75 %",
            "p99",
            "max",
        ]
    ]
    for row in one.functions[:_FUNCTIONS]:
        rows.append(
            [
                f"{row.category} {row.name}", f"{row.count:,}", format_ns(row.time), format_ns(row.durations.mean),
                format_ns(row.durations.p99), *_sizes(row),
            ]
        )  # fmt: skip
    more = len(one.functions) - _FUNCTIONS
    return [*align_columns(rows), *([f"  and {more} more functions, in --json"] if more > 0 else []), ""]


def _sizes(row: FunctionRow) -> list[str]:
    sizes: Distribution | None = row.sizes
    if sizes is None or sizes.max == 0:
        return [""] * 8
    found = (sizes.min, sizes.q1, sizes.median, sizes.mean, sizes.q3, sizes.p99, sizes.max)
    return [format_bytes(row.bytes), *map(format_bytes, found)]


def _transfers(one: TraceSummary) -> list[str]:
    some = {name: found for name, found in one.transfers.items() if any(found["counts"])}
    if not some:
        return []
    rows = [["transfers", *size_classes()]]
    for name, found in some.items():
        rows.append([f"{name}, number", *(f"{count:,}" for count in found["counts"])])
        rows.append([f"{name}, bytes", *map(format_bytes, found["bytes"])])
    return [*align_columns(rows), ""]


def _files(one: TraceSummary) -> list[str]:
    if not one.files:
        return []
    rows = [["file", "read", "written", "calls", "time"]]
    for row in one.files[:_FILES]:
        rows.append(
            [row.path, format_bytes(row.read), format_bytes(row.written), f"{row.calls:,}", format_ns(row.time)]
        )
    more = one.n_files - len(one.files[:_FILES])
    return [*align_columns(rows), *([f"  and {more:,} more files"] if more > 0 else [])]


def _cache(one: TraceSummary) -> list[str]:
    found = one.cache
    if found is None:
        return []
    return [
        "",
        f"  node cache: {found.hits:,} hits ({format_bytes(found.bytes_hit)}), {found.misses:,} misses, "
        f"{format_bytes(found.bytes_fetched)} fetched from the source, {found.evictions:,} evictions",
    ]


def _epochs(one: TraceSummary) -> list[str]:
    if not one.epochs:
        return []
    rows = [["epoch", "time", "steps", "batches", "fetching batches", "computing", "bytes"]]
    for row in one.epochs:
        rows.append(
            [
                str(row.epoch), format_ns(row.time), f"{row.steps:,}", f"{row.batches:,}", format_ns(row.fetching),
                format_ns(row.computing), format_bytes(row.bytes) if row.bytes else _NOT_TRACED,
            ]
        )  # fmt: skip
    return ["", *align_columns(rows)]


def columns_text(summaries: Sequence[TraceSummary]) -> str:
    """Several traces side by side: a column each."""
    return "\n".join(map(printable, align_columns(column_rows(summaries), indent="")))


def column_rows(summaries: Sequence[TraceSummary]) -> list[list[str]]:
    """The cells of `columns_text`: a row for each fact, after its name a cell for each trace; the first has labels."""
    rows = [["", *(one.label for one in summaries)]]

    def add(name: str, of: Callable[[TraceSummary], str], *kinds: str) -> None:
        rows.append([name, *(of(one) if not kinds or _traced(one, *kinds) else _NOT_TRACED for one in summaries)])

    add("nodes", lambda one: f"{len(one.hosts):,}")
    add("processes", lambda one: f"{one.processes:,}")
    add("threads with I/O", lambda one: f"{one.io_threads:,}")
    add("threads with computing", lambda one: f"{one.compute_threads:,}")
    add("files", lambda one: f"{one.n_files:,}")
    add("events", lambda one: f"{one.events:,}")
    add("total time", lambda one: format_ns(one.job.total))
    for name, kinds, of in _TIMES:
        add(name, lambda one, of=of: format_ns(of(one.job)), *kinds)  # type: ignore[misc]
    for operation in OPERATIONS:
        if not any(one.operations[operation].count for one in summaries):
            continue
        add(f"{operation}: POSIX calls", lambda one, o=operation: f"{one.operations[o].count:,}", POSIX)  # type: ignore[misc]
        add("  time, all threads", lambda one, o=operation: format_ns(one.operations[o].time), POSIX)  # type: ignore[misc]
        if operation in TRANSFERS:
            add("  bytes", lambda one, o=operation: format_bytes(one.operations[o].bytes), POSIX)  # type: ignore[misc]
        if operation in ("read", "write"):
            add("  median transfer", lambda one, o=operation: _median(one, o), POSIX)  # type: ignore[misc]
    names = dict.fromkeys((row.category, row.name) for one in summaries for row in one.functions)
    for key in names:
        add(" ".join(key), lambda one, key=key: _count(one, key))  # type: ignore[misc]
    return rows


def _median(one: TraceSummary, operation: str) -> str:
    """The size class that holds the middle transfer."""
    counts = one.transfers[operation]["counts"]
    half, seen = (sum(counts) + 1) // 2, 0
    for name, count in zip(size_classes(), counts, strict=True):
        seen += count
        if seen >= half > 0:
            return name
    return _NOT_TRACED


def _count(one: TraceSummary, key: tuple[str, str]) -> str:
    found = [row for row in one.functions if (row.category, row.name) == key]
    return f"{sum(row.count for row in found):,}" if found else "0"

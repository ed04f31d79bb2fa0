"""Rows of a trace's summary: functions, operations, transfers by size, bandwidth, epochs, files, the node's cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.report.traces.events import TraceEvents
from kinema.report.traces.kinds import APPLICATION, BATCH, COMPUTE, OPERATIONS, POSIX

# upper ends of the classes of transfer sizes, bytes; the last has none
SIZES = (4 << 10, 64 << 10, 1 << 20, 16 << 20)
_MOST_FILES = 20
_PARTS = 60


@dataclass(frozen=True)
class Distribution:
    """Least, quartiles, mean, 99th percentile and largest of some numbers."""

    min: float
    q1: float
    median: float
    q3: float
    mean: float
    p99: float
    max: float


@dataclass(frozen=True)
class FunctionRow:
    """All events of one function.

    `time`: sum of durations, ns: what several threads do at once counts for each.
    `durations`: ns.
    `sizes`: sizes of the events that have one.
    """

    category: str
    name: str
    kind: str
    count: int
    failed: int
    time: int
    durations: Distribution
    bytes: int
    sizes: Distribution | None

    def as_dict(self) -> dict[str, Any]:
        """By name; times in ns."""
        return _row_in_ns(self, "time", "durations")


@dataclass(frozen=True)
class OperationRow:
    """POSIX calls of one operation. `time`: sum of durations, ns."""

    count: int
    failed: int
    time: int
    bytes: int

    def as_dict(self) -> dict[str, Any]:
        """By name; times in ns."""
        return _row_in_ns(self, "time")


@dataclass(frozen=True)
class Bandwidth:
    """Bytes over time, in equal parts of the whole.

    `of`: {"posix", "application"}; origin of the transfers: application-level if there are no POSIX events.
    `part`: length of a part, ns.
    `read`, `write`: bytes of each part; the bytes of a transfer are spread evenly over its duration.
    `read_size`, `write_size`: mean size of the transfers under way in each part, bytes; 0 if there are none.
    """

    of: str
    part: int
    read: tuple[float, ...]
    write: tuple[float, ...]
    read_size: tuple[float, ...]
    write_size: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        """By name; times in ns."""
        return _row_in_ns(self, "part")


@dataclass(frozen=True)
class EpochRow:
    """An epoch. Times are sums of durations, ns; `time` is its own event, or its first to its last.

    `steps`: different ones; `batches`: that were fetched; `bytes`: of application-level I/O.
    """

    epoch: int
    time: int
    steps: int
    batches: int
    fetching: int
    computing: int
    bytes: int

    def as_dict(self) -> dict[str, Any]:
        """By name; times in ns."""
        return _row_in_ns(self, "time", "fetching", "computing")


@dataclass(frozen=True)
class FileRow:
    """A file. `of`: origin of the events, as in `Bandwidth`; `time`: sum of durations, ns."""

    path: str
    of: str
    read: int
    written: int
    calls: int
    time: int

    def as_dict(self) -> dict[str, Any]:
        """By name; times in ns."""
        return _row_in_ns(self, "time")


@dataclass(frozen=True)
class CacheUse:
    """Use of the node's cache: events and their bytes."""

    hits: int
    misses: int
    fetches: int
    evictions: int
    bytes_hit: int
    bytes_fetched: int

    def as_dict(self) -> dict[str, Any]:
        """By name."""
        return asdict(self)


def _row_in_ns(row: Any, *times: str) -> dict[str, Any]:
    return {f"{name}_ns" if name in times else name: value for name, value in asdict(row).items()}


def distribution(values: NDArray[Any]) -> Distribution:
    """The distribution of at least one number; percentiles are interpolated linearly."""
    if len(values) == 1:
        (one,) = values.tolist()
        return Distribution(*[float(one)] * 7)
    least, q1, median, q3, p99, most = np.percentile(values, [0, 25, 50, 75, 99, 100])
    return Distribution(
        float(least), float(q1), float(median), float(q3), float(values.mean()), float(p99), float(most)
    )


def functions_of(trace: TraceEvents) -> tuple[FunctionRow, ...]:
    """A row for each function, by time."""
    columns = trace.columns
    order = np.argsort(columns["function"], kind="stable")
    bounds = np.searchsorted(columns["function"][order], np.arange(len(trace.functions) + 1))
    rows = []
    for number, function in enumerate(trace.functions):
        at = order[bounds[number] : bounds[number + 1]]
        if len(at) == 0:
            continue
        durations, sizes = columns["duration"][at], columns["size"][at]
        sized = sizes[sizes >= 0]
        rows.append(
            FunctionRow(
                function.category, function.name, function.kind, len(at), int((columns["result"][at] < 0).sum()),
                int(durations.sum()), distribution(durations), int(sized.sum()),
                distribution(sized) if len(sized) else None,
            )
        )  # fmt: skip
    return tuple(sorted(rows, key=lambda row: (-row.time, row.category, row.name)))


def operations_of(trace: TraceEvents) -> Mapping[str, OperationRow]:
    """POSIX calls by operation."""
    found: dict[str, OperationRow] = {}
    columns = trace.columns
    for operation in OPERATIONS:
        some = trace.matches(kind=POSIX, operation=operation)
        sizes = columns["size"][some]
        found[operation] = OperationRow(
            int(some.sum()), int((columns["result"][some] < 0).sum()), int(columns["duration"][some].sum()),
            int(sizes[sizes >= 0].sum()),
        )  # fmt: skip
    return found


def transfer_kind(trace: TraceEvents) -> str:
    """The kind of transfers that count: POSIX calls, or if none are traced, the application's own."""
    some = trace.matches(kind=POSIX, operation=("read", "write")) & (trace.columns["size"] >= 0)
    return POSIX if some.any() else APPLICATION


def transfers_of(trace: TraceEvents) -> Mapping[str, Mapping[str, list[int]]]:
    """Numbers and bytes of transfers by the classes of `SIZES`, without calls of no bytes at the end of a file."""
    kind, found = transfer_kind(trace), {}
    for operation in ("read", "write"):
        sizes = trace.columns["size"][trace.matches(kind=kind, operation=operation) & (trace.columns["size"] > 0)]
        at = np.searchsorted(SIZES, sizes, side="right")
        bytes_of = [int(sizes[at == number].sum()) for number in range(len(SIZES) + 1)]
        found[operation] = {"counts": np.bincount(at, minlength=len(SIZES) + 1).tolist(), "bytes": bytes_of}
    return found


def bandwidth_of(trace: TraceEvents, first: int, last: int) -> Bandwidth:
    """Bytes in equal parts of the time from `first` to `last`, ns."""
    kind = transfer_kind(trace)
    part = max(1, -(-(last - first) // _PARTS))
    found: dict[str, tuple[float, ...]] = {}
    for operation in ("read", "write"):
        some = trace.matches(kind=kind, operation=operation) & (trace.columns["size"] > 0)
        begins = (trace.columns["start"][some] - first).astype(np.float64)
        lengths = np.maximum(1, trace.columns["duration"][some])
        sizes = trace.columns["size"][some].astype(np.float64)
        until = [
            float((sizes * np.clip((edge - begins) / lengths, 0, 1)).sum()) for edge in part * np.arange(_PARTS + 1)
        ]
        # events that end after the last edge, by at most one ns, belong to the last part
        until[-1] = float(sizes.sum())
        found[operation] = tuple(np.diff(until).tolist())
        found[f"{operation}_size"] = _mean_sizes(begins, lengths, sizes, part)
    return Bandwidth(kind, part, **found)


def _mean_sizes(
    begins: NDArray[np.float64], lengths: NDArray[np.int64], sizes: NDArray[np.float64], part: int
) -> tuple[float, ...]:
    """Mean size of the transfers of each part; a transfer counts once in each part that it touches."""
    firsts = np.minimum(_PARTS - 1, begins // part).astype(np.int64)
    lasts = np.minimum(_PARTS - 1, (begins + lengths - 1) // part).astype(np.int64)
    sums = []
    for values in (np.ones(len(sizes)), sizes):
        changes = np.zeros(_PARTS + 1)
        np.add.at(changes, firsts, values)
        np.add.at(changes, lasts + 1, -values)
        sums.append(np.cumsum(changes)[:-1])
    # sums of floating-point numbers may leave a rest in a part without transfers
    counts = np.rint(sums[0])
    return tuple(np.where(counts > 0, sums[1] / np.maximum(1, counts), 0.0).tolist())


def epochs_of(trace: TraceEvents) -> tuple[EpochRow, ...]:
    """Rows of the events that name their epoch."""
    columns = trace.columns
    rows = []
    whole = trace.matches(name="epoch.block")
    # DFTracer's loops do not distinguish batches from the data loader's other events
    fetching = trace.matches(kind=BATCH) | trace.matches(name="fetch.iter")
    computing, reading = trace.matches(kind=COMPUTE), trace.matches(kind=APPLICATION) & (columns["size"] > 0)
    for epoch in np.unique(columns["epoch"][columns["epoch"] >= 0]).tolist():
        some = columns["epoch"] == epoch
        own = columns["duration"][some & whole]
        begins, ends = columns["start"][some], columns["start"][some] + columns["duration"][some]
        rows.append(
            EpochRow(
                epoch=epoch,
                # the longest of several ranks
                time=int(own.max()) if len(own) else int(ends.max() - begins.min()),
                steps=len(np.unique(columns["step"][some & (columns["step"] >= 0)])),
                batches=int((some & fetching).sum()),
                fetching=int(columns["duration"][some & fetching].sum()),
                computing=int(columns["duration"][some & computing].sum()),
                bytes=int(columns["size"][some & reading].sum()),
            )
        )
    return tuple(rows)


def files_of(trace: TraceEvents) -> tuple[FileRow, ...]:
    """The files with most bytes; by POSIX calls if there are any."""
    kind, columns = transfer_kind(trace), trace.columns
    some = trace.matches(kind=kind) & (columns["file"] >= 0)
    at = columns["file"][some]

    def sums(values: NDArray[np.int64]) -> NDArray[np.int64]:
        # in whole numbers: bincount would round
        found = np.zeros(len(trace.files), dtype=np.int64)
        np.add.at(found, at, values[some])
        return found

    moved = np.maximum(0, columns["size"])
    read = sums(moved * trace.matches(kind=kind, operation="read"))
    written = sums(moved * trace.matches(kind=kind, operation="write"))
    calls, time = sums(np.ones(len(trace), dtype=np.int64)), sums(columns["duration"])
    order = np.lexsort((-time, -(read + written)))
    return tuple(
        FileRow(trace.files[one], kind, int(read[one]), int(written[one]), int(calls[one]), int(time[one]))
        for one in order[:_MOST_FILES].tolist()
        if calls[one]
    )


def cache_of(trace: TraceEvents) -> CacheUse | None:
    """The use of the cache; None if no event belongs to it."""
    columns = trace.columns
    of = {name: trace.matches(category="cache", name=f"cache.{name}") for name in ("hit", "miss", "fetch", "evict")}
    if not any(some.any() for some in of.values()):
        return None
    moved = np.maximum(0, columns["size"])
    hits, misses, fetches, evictions = (int(some.sum()) for some in of.values())
    return CacheUse(hits, misses, fetches, evictions, int(moved[of["hit"]].sum()), int(moved[of["fetch"]].sum()))

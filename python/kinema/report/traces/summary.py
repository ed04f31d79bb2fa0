"""`TraceSummary`: how a program used its storage, from a trace: the publication's behaviour summary.

Times are whole nanoseconds. Times of the job are unions of intervals over all its processes on one time axis:
simultaneous activity counts once. Times of the processes are unions within each process, summed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.report.traces.events import TraceEvents, read_trace
from kinema.report.traces.intervals import Spans, union
from kinema.report.traces.kinds import APPLICATION, BATCH, COMPUTE, KINDS, OPENING, POSIX, TRANSFERS, WAIT
from kinema.report.traces.tables import (
    Bandwidth,
    CacheUse,
    EpochRow,
    FileRow,
    FunctionRow,
    OperationRow,
    bandwidth_of,
    cache_of,
    epochs_of,
    files_of,
    functions_of,
    operations_of,
    transfer_kind,
    transfers_of,
)
from kinema.storage.output_checks import check_not_input, check_plot_path, check_remade
from kinema.storage.output_file import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# the first plain value, which identifies a file of them
SCHEMA = "kinema-trace-summary"

_IO = (APPLICATION, POSIX)
# kinds that the split of time distinguishes
_SPLIT: tuple[tuple[str, ...], ...] = ((APPLICATION,), (POSIX,), _IO, (COMPUTE,), (WAIT,), (*_IO, COMPUTE))
# calls that open a file; work on data; what belongs to it: transfers of the system, waiting
_OPENING, _WORK, _BESIDE = ("opening",), ("work",), ("beside",)
_Doing = Mapping[tuple[str, ...], NDArray[np.bool_]]

# points of time in pictures
_MOMENTS = 120


@dataclass(frozen=True)
class TimeSplit:
    """The parts of the time, ns; I/O is application-level or POSIX.

    Attributes
    ----------
    total : from the first event to the end of the last
    application_io, posix_io : with application-level I/O, with POSIX I/O
    gap : of application-level I/O in which no POSIX call was under way: in libraries, in caches, copying
    io : application-level or POSIX
    compute, wait : decoding is computing
    unoverlapped_application_io, unoverlapped_posix_io, unoverlapped_io : in which nothing was computed
    unoverlapped_compute : in which there was no I/O
    overlapped : I/O and computing at once
    neither : nothing of both; of it
    start_up : interpreter, imports, opening: before the first work, which is application-level reading or writing, or
        computing; in a trace without both, before the first file was opened
    ending : the end of the interpreter: after the last work, transfer or wait
    """

    total: int
    application_io: int
    posix_io: int
    gap: int
    io: int
    compute: int
    wait: int
    unoverlapped_application_io: int
    unoverlapped_posix_io: int
    unoverlapped_io: int
    unoverlapped_compute: int
    overlapped: int
    neither: int
    start_up: int
    ending: int


@dataclass(frozen=True, eq=False)
class TraceSummary:
    """The behaviour of a traced program. `print(summary)` shows it; `kinema report` makes it.

    `commands`, `sources`, `hosts`: commands, if the trace names them; recorders ("kinema", "strace", "other"); nodes.
    `processes`, `threads`, `compute_threads`, `io_threads`: with any events; with computing; with I/O.
    `kinds`: numbers of events by kind.
    `functions`: by time, longest first.
    `operations`: OperationRow of "read", "write", "metadata", "sync", "map": POSIX calls.
    `transfers`: by "read" and "write" the numbers and bytes of POSIX transfers by size.
    `n_files`: files of POSIX calls; if none are traced, of application-level I/O.
    `files`: the files with most bytes.
    `activity`: by kind (120,), the share of each part of the time in which the kind was active.
    `overlap`: the same for "unoverlapped_io", "overlapped" and "unoverlapped_compute", which are as in `TimeSplit`.
    """

    label: str
    paths: tuple[str, ...]
    commands: tuple[str, ...]
    sources: tuple[str, ...]
    hosts: tuple[str, ...]
    processes: int
    threads: int
    compute_threads: int
    io_threads: int
    events: int
    kinds: Mapping[str, int]
    job: TimeSplit
    in_processes: TimeSplit
    functions: tuple[FunctionRow, ...]
    operations: Mapping[str, OperationRow]
    transfers: Mapping[str, Mapping[str, list[int]]]
    bandwidth: Bandwidth
    epochs: tuple[EpochRow, ...]
    n_files: int
    files: tuple[FileRow, ...]
    cache: CacheUse | None
    activity: Mapping[str, list[float]]
    overlap: Mapping[str, list[float]]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The summary as plain values, for JSON; times in ns, under names that end with `_ns`."""
        found: dict[str, Any] = {"schema": SCHEMA}
        for one in fields(self):
            found[one.name] = _plain(getattr(self, one.name))
        return found

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the summary as JSON, whole or not at all. Raises as other outputs do, and if `path` is a file of the
        trace. `overwrite` replaces a file that Kinema did not write."""
        check_not_input(path, *self.paths)
        check_remade(path, overwrite=overwrite)
        text = json.dumps(self.as_dict(), allow_nan=False)
        write_whole(path, lambda file: file.write(text.encode()))

    def plot(self, path: str | os.PathLike[str] | None = None, *, overwrite: bool = False) -> Figure:
        """A matplotlib figure of the activity over time, written to `path` (.png, .pdf, .svg) if one is given."""
        from kinema.report.figures import style
        from kinema.report.traces.picture import draw_summary

        if path is not None:
            check_not_input(path, *self.paths)
            check_plot_path(path, overwrite=overwrite)
        figure = draw_summary(self)
        if path is not None:
            style.write(figure, path)
        return figure

    def __str__(self) -> str:
        from kinema.report.traces.text import summary_text

        return summary_text(self)


def summarise(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | TraceEvents, *, label: str | None = None
) -> TraceSummary:
    """The summary of a trace, given as a folder, as files, or as a trace that is read already.

    Raises as `read_trace`; ArgumentError for a trace without events. Emits notes on left-out events.
    """
    trace = paths if isinstance(paths, TraceEvents) else read_trace(paths)
    emit(trace.notes)
    if len(trace) == 0:
        raise ArgumentError("the trace has no events", at=trace.paths[0])
    columns = trace.columns
    begins, ends = columns["start"], columns["start"] + columns["duration"]
    spans = {kind: union(begins[some], ends[some]) for kind in KINDS for some in (trace.matches(kind=kind),)}
    first, last = int(begins.min()), int(ends.max())
    # from zero: floating-point numbers do not have all ns since 1970
    edges = first + np.linspace(0, max(last - first, _MOMENTS), _MOMENTS + 1).astype(np.int64)
    doing: _Doing = {
        **{kinds: trace.matches(kind=kinds) for kinds in _SPLIT},
        _OPENING: trace.matches(kind=_IO, name=OPENING),
        _WORK: trace.matches(kind=APPLICATION, operation=TRANSFERS) | trace.matches(kind=COMPUTE),
        _BESIDE: trace.matches(kind=POSIX, operation=TRANSFERS) | trace.matches(kind=(WAIT, BATCH)),
    }
    doing_io, computing = doing[_IO], doing[(COMPUTE,)]
    functions = columns["function"]
    counts = np.bincount(functions, minlength=len(trace.functions))
    return TraceSummary(
        label=label if label is not None else _label_of(trace),
        paths=trace.paths,
        commands=trace.commands,
        sources=trace.sources,
        hosts=tuple(sorted({one.host for one in trace.processes})),
        processes=_distinct(columns["process"]),
        threads=_distinct(columns["thread"]),
        compute_threads=_distinct(columns["thread"][computing]),
        io_threads=_distinct(columns["thread"][doing_io]),
        events=len(trace),
        kinds={
            kind: int(sum(n for n, one in zip(counts, trace.functions, strict=True) if one.kind == kind))
            for kind in KINDS
        },
        job=_split(trace, doing, np.ones(len(trace), dtype=bool)),
        in_processes=_split_each_process(trace, doing),
        functions=functions_of(trace),
        operations=operations_of(trace),
        transfers=transfers_of(trace),
        bandwidth=bandwidth_of(trace, first, last),
        epochs=epochs_of(trace),
        n_files=_distinct(columns["file"][trace.matches(kind=transfer_kind(trace)) & (columns["file"] >= 0)]),
        files=files_of(trace),
        cache=cache_of(trace),
        activity={
            kind: spans[kind].shares(edges).round(4).tolist() for kind in (APPLICATION, POSIX, COMPUTE, WAIT, BATCH)
        },
        overlap=_overlap(begins, ends, doing_io, computing, edges),
        notes=trace.notes,
    )


def _overlap(
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    doing_io: NDArray[np.bool_],
    computing: NDArray[np.bool_],
    edges: NDArray[np.int64],
) -> Mapping[str, list[float]]:
    """Shares of each part of the time with I/O alone, with I/O and computing at once, and with computing alone."""
    io, compute, either = (
        union(begins[some], ends[some]).shares(edges) for some in (doing_io, computing, doing_io | computing)
    )
    shares = {
        "unoverlapped_io": either - compute,
        "overlapped": io + compute - either,
        "unoverlapped_compute": either - io,
    }
    return {name: values.clip(min=0.0).round(4).tolist() for name, values in shares.items()}


def _distinct(numbers: NDArray[np.int64]) -> int:
    return len(np.unique(numbers))


def _label_of(trace: TraceEvents) -> str:
    """The folder of the trace's files, or its single file."""
    if len(trace.paths) == 1:
        return os.path.basename(trace.paths[0])
    return os.path.basename(os.path.dirname(os.path.abspath(trace.paths[0]))) or "trace"


def _split_each_process(trace: TraceEvents, doing: _Doing) -> TimeSplit:
    """Unions within each process, summed."""
    order = np.argsort(trace.columns["process"], kind="stable")
    numbers = trace.columns["process"][order]
    bounds = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1], [True]]))
    splits = [_split(trace, doing, order[begin:end]) for begin, end in pairwise(bounds)]
    return TimeSplit(*(sum(values) for values in zip(*(vars(one).values() for one in splits), strict=True)))


def _split(trace: TraceEvents, doing: _Doing, chosen: NDArray[Any]) -> TimeSplit:
    """The parts of the time of the `chosen` events; `doing` marks, for sets of kinds, the events of these kinds."""
    begins = trace.columns["start"][chosen]
    ends = begins + trace.columns["duration"][chosen]

    def spans_of(*kinds: str) -> Spans:
        wanted = doing[kinds][chosen]
        return union(begins[wanted], ends[wanted])

    application, posix, io = spans_of(APPLICATION), spans_of(POSIX), spans_of(APPLICATION, POSIX)
    compute = spans_of(COMPUTE)
    first, last = int(begins.min()), int(ends.max())
    total = last - first
    overlapped = io.common(compute)
    active = spans_of(APPLICATION, POSIX, COMPUTE)
    work = doing[_WORK][chosen]
    begun = begins[work if work.any() else doing[_OPENING][chosen]]
    ended = ends[work | doing[_BESIDE][chosen]]
    # without an opening nothing is known to be start-up, and without work nothing to be the end
    worked_from = int(begun.min()) if len(begun) else first
    worked_to = max(int(ended.max()), worked_from) if len(ended) else last
    return TimeSplit(
        total=total,
        application_io=application.length,
        posix_io=posix.length,
        gap=application.length_outside(posix),
        io=io.length,
        compute=compute.length,
        wait=spans_of(WAIT).length,
        unoverlapped_application_io=application.length_outside(compute),
        unoverlapped_posix_io=posix.length_outside(compute),
        unoverlapped_io=io.length - overlapped,
        unoverlapped_compute=compute.length - overlapped,
        overlapped=overlapped,
        neither=total - active.length,
        start_up=worked_from - first - active.length_within(first, worked_from),
        ending=last - worked_to - active.length_within(worked_to, last),
    )


def _plain(value: Any) -> Any:
    """The value for JSON: dataclasses as objects, times under names that include their unit."""
    if isinstance(value, TimeSplit):
        return {f"{name}_ns": ns for name, ns in asdict(value).items()}
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    return value

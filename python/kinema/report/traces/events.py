"""`TraceEvents`: the events of all files of a trace as one table, with processes, functions and files by number."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.input_files import file_key
from kinema.base.printable import counted
from kinema.report.traces.kinds import POSIX, TRANSFERS, Operation, kind_of, operation_of
from kinema.report.traces.lines import trace_files
from kinema.report.traces.parsing import COLUMNS, FileEvents, read_file


@dataclass(frozen=True)
class TracedFunction:
    """The function, or activity, of an event.

    `kind`: one of `kinds.KINDS`.
    `operation`: one of `kinds.OPERATIONS`, or "".
    """

    category: str
    name: str
    kind: str
    operation: Operation


@dataclass(frozen=True)
class TracedProcess:
    """A process, or a command of which several processes were recorded together."""

    host: str
    pid: int


@dataclass(frozen=True, eq=False)
class TraceEvents:
    """Events as columns of numbers.

    `functions`, `processes`, `files`: by the numbers in the columns.
    `threads`: tuple of (process, thread id).
    `columns`: dict of (n,) int64; "function", "thread", "process"; "file", -1 if there is none; "start", ns since 1970,
        and "duration", ns; "size", bytes, -1 if there are none; "offset", "epoch", "step", "frames", -1 if there are
        none; "result", below 0 for calls that failed.
    `sources`: recorders: "kinema", "strace", "other".
    """

    paths: tuple[str, ...]
    functions: tuple[TracedFunction, ...]
    processes: tuple[TracedProcess, ...]
    threads: tuple[tuple[int, int], ...]
    files: tuple[str, ...]
    columns: dict[str, NDArray[np.int64]]
    commands: tuple[str, ...]
    sources: tuple[str, ...]
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.columns["start"])

    def matches(self, **wanted: Any) -> NDArray[np.bool_]:
        """(n,) which events are of functions with these attributes; a value may be a collection of values."""
        fits = [
            all(getattr(one, key) in (value if isinstance(value, tuple) else (value,)) for key, value in wanted.items())
            for one in self.functions
        ]
        return np.array([*fits, False])[self.columns["function"]]


def read_trace(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> TraceEvents:
    """All events of a folder, of files, or of several of these, as one trace; both dialects, plain or gzip.

    If strace has recorded a process, the POSIX calls come from strace, which sees the calls of all libraries. Kinema's
    own events of the same calls are left out, so that none counts twice.

    Raises as `trace_files`; CorruptFileError for a file that is not a trace.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    merged = _Merged()
    for path in trace_files(given):
        merged.add(read_file(path))
    return merged.finish()


class _Merged:
    def __init__(self) -> None:
        self._functions: dict[TracedFunction, int] = {}
        self._processes: dict[TracedProcess, int] = {}
        self._threads: dict[tuple[int, int], int] = {}
        # by name and the folder that it is relative to, if the trace states the folder
        self._files: dict[tuple[str, str | None], int] = {}
        self._parts: list[dict[str, NDArray[np.int64]]] = []
        self._paths: list[str] = []
        self._commands: list[str] = []
        self._sources: list[str] = []
        self._notes: list[str] = []

    def add(self, found: FileEvents) -> None:
        source = (found.process or {}).get("source")
        source = source if source in ("kinema", "strace") else "other"
        functions = [
            TracedFunction(category, name, kind, operation_of(kind, category, name))
            for category, name in found.functions
            for kind in (kind_of(category, name, own=source == "kinema"),)
        ]
        threads = []
        for host, pid, tid in found.threads:
            process = TracedProcess(found.hosts.get(host, host) or _only(found.hosts), pid)
            threads.append((self._processes.setdefault(process, len(self._processes)), tid))
        columns = dict(found.columns)
        # lseek returns a place, open a descriptor
        moves = np.array([one.kind != POSIX or one.operation in TRANSFERS for one in functions] or [False])
        columns["size"] = np.where(moves[columns["function"]] & (columns["result"] >= 0), columns["size"], -1)
        columns["function"] = _renumbered(columns["function"], functions, self._functions)
        columns["thread"] = _renumbered(columns["thread"], threads, self._threads)
        folder = str((found.process or {}).get("cwd", "")) or None
        files = [(name, None if os.path.isabs(name) else folder) for name in found.files]
        columns["file"] = _renumbered(columns["file"], files, self._files)
        columns["source"] = np.full(len(columns["start"]), source == "strace", dtype=np.int64)
        self._parts.append(columns)
        self._paths.append(found.path)
        self._sources.append(source)
        if found.process and found.process.get("command"):
            self._commands.append(str(found.process["command"]))
        self._notes += found.notes

    def finish(self) -> TraceEvents:
        columns = {name: np.concatenate([part[name] for part in self._parts]) for name in (*COLUMNS, "source")}
        threads = tuple(self._threads)
        process_of = np.array([process for process, _ in threads] or [0], dtype=np.int64)
        columns["process"] = process_of[columns["thread"]] if len(columns["thread"]) else columns["thread"]
        files, numbers = _each_once(list(self._files))
        columns["file"] = np.array([*numbers, -1], dtype=np.int64)[columns["file"]]
        trace = TraceEvents(
            tuple(self._paths), tuple(self._functions), tuple(self._processes), threads, files, columns,
            tuple(dict.fromkeys(self._commands)), tuple(dict.fromkeys(self._sources)), (),
        )  # fmt: skip
        return _remove_doubles(trace, self._notes)


def _each_once(found: list[tuple[str, str | None]]) -> tuple[tuple[str, ...], list[int]]:
    """The first name of each file, and for each of `found` the number of its file.

    Names belong to one file if they lead to the same file here and now, or else if they are equal except for "." and
    double slashes. A process that does not state its folder gets the others' folder, if they share one.
    """
    folders = {folder for _, folder in found if folder is not None}
    usual = folders.pop() if len(folders) == 1 else ""
    known: dict[Any, int] = {}
    names: list[str] = []
    numbers = []
    for name, folder in found:
        number = known.setdefault(file_key(os.path.join(folder or usual, name)), len(names))
        if number == len(names):
            names.append(name)
        numbers.append(number)
    return tuple(names), numbers


def _remove_doubles(trace: TraceEvents, notes: list[str]) -> TraceEvents:
    """Leaves out Kinema's POSIX events of processes that strace recorded as well; keeps the order."""
    columns = dict(trace.columns)
    straced = columns.pop("source") == 1
    keep = np.ones(len(straced), dtype=bool)
    if straced.any() and not straced.all():
        of_strace = np.unique(columns["process"][straced])
        keep = straced | ~(trace.matches(kind=POSIX) & np.isin(columns["process"], of_strace))
    left_out = int((~keep).sum())
    if left_out:
        notes = [
            *notes,
            f"{counted(left_out, 'POSIX event')} of Kinema's own left out: strace recorded these processes' calls",
        ]
    order = np.flatnonzero(keep)[np.argsort(columns["start"][keep], kind="stable")]
    columns = {name: values[order] for name, values in columns.items()}
    return TraceEvents(
        trace.paths, trace.functions, trace.processes, trace.threads, trace.files, columns, trace.commands,
        trace.sources, tuple(notes),
    )  # fmt: skip


def _only(hosts: dict[str, str]) -> str:
    """The name for the single host of a file whose events do not name theirs."""
    return next(iter(hosts.values())) if len(hosts) == 1 else ""


def _renumbered(numbers: NDArray[np.int64], names: list[Any], known: dict[Any, int]) -> NDArray[np.int64]:
    """Converts numbers within one file to numbers over all files; -1 stays."""
    new = np.array([*(known.setdefault(name, len(known)) for name in names), -1], dtype=np.int64)
    return new[numbers]

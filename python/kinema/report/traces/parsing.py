"""`FileEvents`: the events of one trace file as columns, from lines of JSON in either dialect.

The dialects are Chrome's, which Kinema and DFTracer before 2.2 write (`"ph": "X"`, a first line `[`), and the one of
integers of DFTracer 2.2 (`"ph": 1`). Lines that are not events are counted, with the place and reason of the first.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import CorruptFileError
from kinema.base.printable import counted, printable
from kinema.report.traces.lines import lines_of

COLUMNS = ("function", "thread", "file", "start", "duration", "size", "offset", "epoch", "step", "result", "frames")
"""int64 each; -1 where an event has none, `result` 0."""

# lines that are parsed at once: a call of the parser costs as much as a line
_LINES = 4000
_EVENTS = ("X", 1)
_METADATA = ("M", 4)
# counters of the machine's use, which are not events
_COUNTERS = ("C", 2)
_OTHERS = {3: "aggregated events", "B": "events in two halves", "E": "events in two halves"}
# DFTracer's units of time in ns, by its names
_UNITS = {"NS": 1, "US": 1_000, "MS": 1_000_000, "S": 1_000_000_000}
# a file that begins with this number of lines that are not events is not a trace
_MOST_BAD = 1000
# larger values are not times: 146 years
_MOST = 1 << 62


class _Numbers(dict[Any, int]):
    """Numbers things in the order in which they come."""

    def __missing__(self, key: Hashable) -> int:
        self[key] = number = len(self)
        return number


@dataclass(eq=False)
class FileEvents:
    """The events of one file.

    `columns`: dict of (n,) int64, as `COLUMNS`.
    `functions`: list of (category, name).
    `threads`: list of (host hash, process id, thread id).
    `files`: paths, or hashes of which no path is known.
    `hosts`: names by hash.
    `process`: the file's facts about the process that wrote it; "source" is the recorder: "kinema", "strace".
    """

    path: str
    columns: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    functions: list[tuple[str, str]] = field(default_factory=list)
    threads: list[tuple[Any, int, int]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    hosts: dict[str, str] = field(default_factory=dict)
    process: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)


def read_file(path: str) -> FileEvents:
    """Reads a whole trace file. Raises CorruptFileError for a file in which no line is one of a trace."""
    reader = _Reader(path)
    for number, lines in lines_of(path, reader.events.notes.append):
        for first in range(0, len(lines), _LINES):
            reader.take(number + first, lines[first : first + _LINES])
    return reader.finish()


class _Reader:
    def __init__(self, path: str) -> None:
        self.events = FileEvents(path)
        self._functions, self._threads = _Numbers(), _Numbers()
        # -1: no file
        self._file_keys = _Numbers({None: 0})
        self._file_names: dict[str, str] = {}
        self._batches: list[list[NDArray[np.int64]]] = []
        self._unit = _UNITS["US"]
        self._left_out: Counter[str] = Counter()
        self._bad = self._good = 0
        self._first_bad = ""
        self._brackets = [False, False]

    def take(self, number: int, lines: list[bytes]) -> None:
        """Takes lines, the first of which has this number; empty lines and brackets are not events."""
        kept: list[tuple[int, bytes]] = []
        for at, line in enumerate(lines, number):
            text = line.strip().rstrip(b",")
            if text in (b"[", b"]"):
                self._brackets[text == b"]"] = True
            elif text:
                kept.append((at, text))
        if kept:
            self._parse(kept)

    def _parse(self, lines: list[tuple[int, bytes]]) -> None:
        """Parses all lines at once; if one of them is not an event, each half by itself."""
        try:
            found = json.loads(b"[" + b",".join(line for _, line in lines) + b"]")
            if len(found) != len(lines):
                raise ValueError("expected one JSON object, found several values")
            self._add(found)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            if len(lines) == 1:
                self._bad += 1
                self._first_bad = self._first_bad or f"line {lines[0][0]}: {_reason(error)}"
                if self._bad == _MOST_BAD and not self._good:
                    self._refuse()
                return
            half = len(lines) // 2
            self._parse(lines[:half])
            self._parse(lines[half:])
            return
        self._good += len(lines)

    def _add(self, found: list[Any]) -> None:
        """Raises before it changes anything, except that names get numbers."""
        if not set(map(type, found)) <= {dict}:
            raise TypeError("expected a JSON object")
        phases = [one.get("ph") for one in found]
        if not set(map(type, phases)) <= {str, int}:
            raise TypeError('expected a phase "ph"')
        if set(phases) <= {"X"}:
            self._batches.append(self._columns(found))
            return
        metadata = [_metadata(one) for one, phase in zip(found, phases, strict=True) if phase in _METADATA]
        for one in metadata:
            self._describe(*one)
        events = [one for one, phase in zip(found, phases, strict=True) if phase in _EVENTS]
        if events:
            self._batches.append(self._columns(events))
        known = {*_EVENTS, *_METADATA, *_COUNTERS}
        self._left_out.update(_OTHERS.get(one, "events of other kinds") for one in phases if one not in known)

    def _describe(self, name: str, category: str, args: dict[str, Any]) -> None:
        label, value = str(args.get("name", "")), str(args.get("value", ""))
        if name == "HH":
            self.events.hosts[value] = label
        elif name == "FH":
            self._file_names[value] = label
        elif name == "CM" and label == "time_metric":
            if value not in _UNITS:
                raise ValueError(f"expected a unit of time of {', '.join(_UNITS)}, found {value!r}")
            self._unit = _UNITS[value]
        elif name == "process":
            self.events.process = {**args, "source": category}

    def _columns(self, events: list[dict[str, Any]]) -> list[NDArray[np.int64]]:
        args = [one.get("args") or {} for one in events]
        if not set(map(type, args)) <= {dict}:
            raise TypeError('expected an object "args"')
        names, categories = _texts(events, "name"), _texts(events, "cat")
        hosts, pids, tids = _hashes(args, "hhash"), _whole(events, "pid"), _whole(events, "tid")
        starts = _times(events, args, "ts", "start_ns", self._unit)
        durations = _times(events, args, "dur", "ns", self._unit)
        if int(starts.min()) < 0 or int(durations.min()) < 0 or int((starts + durations).max()) > _MOST:
            raise ValueError("expected times from 0 to 146 years")
        results = [one.get("ret") for one in args]
        # buffered calls return a number of elements
        sizes = [
            given if ret is None else ret if name[0] != "f" or name not in ("fread", "fwrite") else ret * (given or 1)
            for name, ret, given in zip(names, results, _sizes(args), strict=True)
        ]
        numbers = {key: _optional(args, key) for key in ("offset", "epoch", "step", "frames")}
        result, size = _integers(results, 0, "ret"), _integers(sizes, -1, "size")
        keys = [one.get("fhash", one.get("fname")) for one in args]
        if not set(map(type, keys)) <= {str, int, type(None)}:
            raise TypeError('expected a hash "fhash"')
        return [
            _coded(self._functions, zip(categories, names, strict=True)),
            _coded(self._threads, zip(hosts, pids.tolist(), tids.tolist(), strict=True)),
            _coded(self._file_keys, keys) - 1,
            starts, durations, size, numbers["offset"], numbers["epoch"], numbers["step"], result, numbers["frames"],
        ]  # fmt: skip

    def _refuse(self) -> NoReturn:
        path = self.events.path
        raise CorruptFileError(f"{self._first_bad}; is not a trace, expected a JSON object on each line", at=path)

    def finish(self) -> FileEvents:
        """The events of all lines. Raises CorruptFileError if there are lines, and none belongs to a trace."""
        found, path = self.events, self.events.path
        # a trace that was cut within its first line is still a trace
        cut = self._bad == 1 and self._brackets == [True, False]
        if self._bad and not self._good and not cut:
            self._refuse()
        if self._bad:
            # mostly the last line of a killed process
            found.notes.append(
                f"{path}: {counted(self._bad, 'line')} left out that are not events; the first is {self._first_bad}"
            )
        elif self._brackets == [True, False]:
            found.notes.append(f"{path}: has no end: its process was killed or still runs; its last events are missing")
        for what, number in self._left_out.items():
            found.notes.append(f"{path}: {number:,} {what} are left out: they have no single duration")
        columns = [np.concatenate(one) for one in zip(*self._batches, strict=True)]
        empty = np.zeros(0, dtype=np.int64)
        found.columns = dict(zip(COLUMNS, columns or [empty] * len(COLUMNS), strict=True))
        found.functions, found.threads = list(self._functions), list(self._threads)
        found.files = [str(self._file_names.get(str(key), key)) for key in list(self._file_keys)[1:]]
        return found


def _reason(error: BaseException) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"is not JSON ({error.msg}, character {max(0, error.pos - 1)})"
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    return printable(error)[:200]


def _metadata(one: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    args = one.get("args") or {}
    if not isinstance(args, dict):
        raise TypeError('expected an object "args"')
    return str(one.get("name")), str(one.get("cat")), args


def _texts(events: Sequence[dict[str, Any]], key: str) -> list[str]:
    found = [one.get(key) for one in events]
    if not set(map(type, found)) <= {str}:
        raise TypeError(f'expected text "{key}"')
    return found  # type: ignore[return-value]


def _hashes(args: Sequence[dict[str, Any]], key: str) -> list[str]:
    found = [one.get(key, "") for one in args]
    kinds = set(map(type, found))
    if not kinds <= {str, int}:
        raise TypeError(f'expected a hash "{key}"')
    return found if kinds == {str} else list(map(str, found))


def _whole(events: Sequence[dict[str, Any]], key: str) -> NDArray[np.int64]:
    found = [one.get(key) for one in events]
    if set(map(type, found)) != {int}:
        raise TypeError(f'expected a whole number "{key}"')
    return np.array(found, dtype=np.int64)


def _optional(args: Sequence[dict[str, Any]], key: str) -> NDArray[np.int64]:
    return _integers([one.get(key) for one in args], -1, key)


def _integers(found: list[Any], missing: int, key: str) -> NDArray[np.int64]:
    kinds = set(map(type, found))
    if not kinds <= {int, type(None)}:
        raise TypeError(f'expected a whole number "{key}"')
    if type(None) in kinds:
        found = [missing if one is None else one for one in found]
    return np.array(found, dtype=np.int64)


def _sizes(args: Sequence[dict[str, Any]]) -> list[Any]:
    """Bytes of events without a result: the sizes of application-level events."""
    return [one.get("size", one.get("image_size", one.get("size_sum"))) for one in args]


def _times(
    events: Sequence[dict[str, Any]], args: Sequence[dict[str, Any]], key: str, exact: str, unit: int
) -> NDArray[np.int64]:
    """(n,) ns: from the arguments if they have the times, else from the event's own unit."""
    found = [one.get(exact) for one in args]
    kinds = set(map(type, found))
    if kinds == {int}:
        return np.array(found, dtype=np.int64)
    if not kinds <= {int, type(None)}:
        raise TypeError(f'expected a whole number "{exact}"')
    times = [_nanoseconds(one.get(key), key, unit) if ns is None else ns for one, ns in zip(events, found, strict=True)]
    return np.array(times, dtype=np.int64)


def _nanoseconds(value: Any, key: str, unit: int) -> int:
    if type(value) is int:
        return value * unit
    if type(value) is float and math.isfinite(value):
        return round(value * unit)
    raise TypeError(f'expected a number "{key}"')


def _coded(numbers: Callable[..., Any] | _Numbers, keys: Any) -> NDArray[np.int64]:
    return np.array([numbers[key] for key in keys], dtype=np.int64)  # type: ignore[index]

"""Trace files as they come: both dialects, compressed, several processes, cut after a kill, lines without events."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.report import summarise
from kinema.report.traces import read_trace
from kinema.report.traces.parsing import COLUMNS
from kinema.testing import write_dcd

DFTRACER = Path(__file__).parents[2] / "data" / "traces" / "dftracer.pfw.gz"


def events(traces: Any, number: int) -> list[dict[str, Any]]:
    return [
        traces.event(
            "POSIX", "pread64", 5000 * at, 1000 + at, tid=at % 3 + 7, fhash="f0", offset=at, count=at + 9, ret=at + 9
        )
        for at in range(number)
    ]


def test_columns_of_kinemas_events(traces: Any) -> None:
    lines = [
        *traces.head(files=["/data/a.xtc"]),
        traces.event("reader", "read", 7, 123, pid=3, tid=4, fhash="f0", offset=10, size=20, frames=5, epoch=1, step=2),
        traces.event("POSIX", "pread64", 8, 99, pid=3, tid=5, fhash="f0", offset=10, count=30, ret=20),
        traces.event("POSIX", "open64", 9, 1, pid=3, tid=5, ret=-1),
    ]
    trace = read_trace(traces.write("a.pfw", lines))
    rows = list(zip(*(trace.columns[name].tolist() for name in COLUMNS), strict=True))
    begin = lines[2 + 1]["args"]["start_ns"] - 7
    assert rows == [
        # function, thread, file, start, duration, size, offset, epoch, step, result, frames
        (0, 0, 0, begin + 7, 123, 20, 10, 1, 2, 0, 5),
        (1, 1, 0, begin + 8, 99, 20, 10, -1, -1, 20, -1),
        (2, 1, -1, begin + 9, 1, -1, -1, -1, -1, -1, -1),
    ]
    assert [(one.category, one.name, one.kind, one.operation) for one in trace.functions] == [
        ("reader", "read", "application", "read"), ("POSIX", "pread64", "posix", "read"),
        ("POSIX", "open64", "posix", "metadata"),
    ]  # fmt: skip
    assert (trace.files, [(one.host, one.pid) for one in trace.processes]) == (("/data/a.xtc",), [("node0", 3)])
    assert trace.threads == ((0, 4), (0, 5))


@pytest.mark.parametrize("name", ["a.pfw", "a.pfw.gz"])
@pytest.mark.parametrize("dialect", ["chrome", "commas", "integers"])
def test_dialects_are_read_alike(traces: Any, name: str, dialect: str) -> None:
    # more than are parsed at once
    lines: list[Any] = [*traces.head(files=["/a"], source=None), *events(traces, 9000)]
    expected = read_trace(traces.write("expected.pfw", lines))
    if dialect == "commas":
        lines = [f"{json.dumps(one)}," for one in lines[:-1]] + [json.dumps(lines[-1])]
    if dialect == "integers":
        lines = [traces.integers(one) for one in lines]
    path = traces.write(name, lines, brackets=dialect != "integers")
    found = read_trace(path)
    assert (found.functions, found.files, found.processes, found.notes) == (
        expected.functions, expected.files, expected.processes, (),
    )  # fmt: skip
    for column, values in expected.columns.items():
        # DFTracer knows microseconds
        exact = values // 1000 * 1000 if dialect == "integers" and column in ("start", "duration") else values
        np.testing.assert_array_equal(found.columns[column], exact, err_msg=column)


def test_dftracers_own_file() -> None:
    found = summarise(DFTRACER)
    assert found.notes == ()
    operations = {name: (one.count, one.bytes) for name, one in found.operations.items() if one.count}
    # 8 samples of 4096 bytes; 9 times open and close, one seek at the open for writing, and the thread's opendir
    assert operations == {"read": (8, 8 * 4096), "write": (1, 4 * 4096), "metadata": (9 + 9 + 1 + 1, 0)}
    counts = {(one.category, one.name): one.count for one in found.functions}
    assert counts["POSIX", "opendir"] == 1 and counts["reader", "read"] == 8 and counts["compute", "compute"] == 8
    assert sum(counts.values()) == found.events == 49
    assert [(one.epoch, one.steps, one.bytes) for one in found.epochs] == [(0, 4, 4 * 4096), (1, 4, 4 * 4096)]
    assert (found.processes, found.threads, found.sources) == (1, 2, ("other",))
    assert found.files[0].path == "/tmp/samples/data/samples.bin"
    assert 0 < found.job.unoverlapped_io <= found.job.io < found.job.total
    # its reader does nothing but read, and its times are microseconds
    assert found.job.total % 1000 == 0


def test_files_of_several_processes_and_hosts(traces: Any) -> None:
    for host in ("node0", "node1"):
        for pid in (1, 2):
            one = traces.event("POSIX", "pread64", pid * 100, 50, pid=pid, fhash="f0", ret=10)
            # the number of a hash is the file's own: here it is of other files
            lines = [*traces.head(host, files=[f"/{host}/{pid}"]), one]
            traces.write(f"t/kinema-{host}-{pid}.pfw{'.gz' if pid == 2 else ''}", lines)
    found = summarise(traces.folder / "t")
    assert (found.processes, found.hosts, found.n_files, found.events) == (4, ("node0", "node1"), 4, 4)
    # 100-150 and 200-250, on both hosts at once
    assert (found.job.posix_io, found.in_processes.posix_io, found.job.total) == (100, 200, 150)
    assert [one.path for one in found.files] == ["/node0/1", "/node0/2", "/node1/1", "/node1/2"]
    # the same file twice is one, by whatever name
    (traces.folder / "link").symlink_to(traces.folder / "t")
    for name in ("t/kinema-node0-1.pfw", "t/../t//kinema-node0-1.pfw", "link/kinema-node0-1.pfw"):
        assert summarise([traces.folder / "t", f"{traces.folder}/{name}"]).events == 4


def names_of_one_file(folder: Path) -> list[str]:
    """A file of this machine under its name, others, and by links."""
    (folder / "data").mkdir()
    (folder / "data/a.dcd").write_bytes(b"frames")
    (folder / "link").symlink_to(folder / "data")
    (folder / "data/b.dcd").symlink_to("a.dcd")
    (folder / "data/c.dcd").hardlink_to(folder / "data/a.dcd")
    return [f"{folder}/data/{name}" for name in ("a.dcd", "./a.dcd", "../data//a.dcd", "b.dcd", "c.dcd")] + [
        f"{folder}/link/a.dcd"
    ]


@pytest.mark.parametrize("relative", [False, True])
def test_one_file_under_several_names_counts_once(traces: Any, relative: bool) -> None:
    names = names_of_one_file(traces.folder)
    if relative:
        names = [names[0], *(name.removeprefix(f"{traces.folder}/") for name in names[1:])]
    names.append(f"{traces.folder}/data/other.dcd")
    events = [traces.event("POSIX", "pread64", 10 * n, 5, fhash=f"f{n}", ret=100) for n in range(len(names))]
    traces.write("t/kinema-h-1.pfw", [*traces.head(files=names, cwd=str(traces.folder)), *events])
    # a child that does not say its folder has that of the others
    traces.write(
        "t/kinema-h-2.pfw", [*traces.head(files=names[1:2]), traces.event("POSIX", "pread64", 0, 5, fhash="f0", ret=7)]
    )
    found = summarise(traces.folder / "t")
    assert found.n_files == 2 and found.events == len(names) + 1
    assert [(one.path, one.read, one.calls) for one in found.files] == [(names[0], 607, 7), (names[-1], 100, 1)]


@pytest.mark.parametrize(
    ("names", "folders", "n_files"),
    [
        (["/gone/a", "/gone//./a"], ["/x", "/x"], 1),
        (["/gone/a", "/gone/b/../a"], ["/x", "/x"], 2),  # which may go through a link
        (["a", "./a", "/x/a"], ["/x", "/x", "/y"], 1),
        (["a", "a"], ["/x", "/y"], 2),
        (["a", "a"], [None, None], 1),
        (["a", "./a", "/x/a"], [None, None, None], 2),
        (["a", "a", "a"], ["/x", "/y", None], 3),  # it is not known of which of them
    ],
)
def test_names_of_files_that_are_not_here(
    traces: Any, names: list[str], folders: list[str | None], n_files: int
) -> None:
    for number, (name, folder) in enumerate(zip(names, folders, strict=True)):
        head = traces.head(files=[name], **({} if folder is None else {"cwd": folder}))
        traces.write(f"t/{number}.pfw", [*head, traces.event("POSIX", "pread64", 9 * number, 5, fhash="f0", ret=1)])
    found = summarise(traces.folder / "t")
    assert (found.n_files, sum(one.calls for one in found.files)) == (n_files, len(names))


def test_a_recorded_run_says_what_names_are_relative_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_dcd(tmp_path / "a.dcd", np.zeros((20, 9, 3), np.float32))
    (tmp_path / "link.dcd").symlink_to("a.dcd")
    with kn.trace("t"):
        for name in ("a.dcd", "./a.dcd", tmp_path / "a.dcd", "link.dcd"):
            kn.open(name, stored=False).read()
    monkeypatch.chdir("/")
    found = summarise(tmp_path / "t")
    assert found.n_files == 1 and [one.path for one in found.files] == ["a.dcd"]


@pytest.mark.parametrize("compressed", [False, True])
def test_a_trace_that_was_cut_by_a_kill(traces: Any, compressed: bool) -> None:
    lines = [*traces.head(files=["/a"]), *events(traces, 50)]
    path = traces.write("a.pfw.gz" if compressed else "a.pfw", lines)
    whole = path.read_bytes()
    plain = gzip.decompress(whole) if compressed else whole
    counts = set()
    for size in range(len(whole) - 3, 5, -max(1, len(whole) // 40)):
        path.write_bytes(whole[:size])
        trace = read_trace(path)
        assert len(trace.notes) >= 1 and all(str(path) in one for one in trace.notes)
        assert any("killed or still runs" in one or "left out that are not events" in one for one in trace.notes)
        counts.add(len(trace))
        if not compressed:
            # each whole line; the last one counts if only its end is missing
            text = plain[:size].decode()
            assert len(trace) in (text.count('"ph": "X"'), text.count("}}\n") - len(lines) + 50)
    assert len(counts) > 10 and max(counts) >= 49


HOSTILE = {
    "not JSON": ("{nonsense}", "is not JSON"),
    "another value": ("17", "expected a JSON object"),
    "two values": ('{"ph":"X"},{"ph":"X"}', "expected one JSON object"),
    "a huge number": ({"dur": 10**30}, "int too large|Python int|too large|out of bounds"),
    "a number of many digits": ('{"ph":"X","ts":' + "9" * 5000 + "}", "limit|digits|JSON"),
    "text for a number": ({"ts": "12"}, 'expected a number "ts"'),
    "no time": ({"ts": None}, 'expected a number "ts"'),
    "not a number": ('{"name":"a","cat":"b","pid":1,"tid":1,"ph":"X","ts":NaN,"dur":1}', 'expected a number "ts"'),
    "a negative time": ({"dur": -5}, "expected times from 0"),
    "beyond all times": ({"ts": 1 << 60}, "expected times from 0|too large|out of bounds"),
    "no name": ({"name": None}, 'expected text "name"'),
    "a name of another kind": ({"name": ["a"]}, 'expected text "name"'),
    "a process of another kind": ({"pid": 1.5}, 'expected a whole number "pid"'),
    "arguments of another kind": ({"args": [1]}, 'expected an object "args"'),
    "a size of another kind": ({"args": {"ret": "many"}}, 'expected a whole number "ret"'),
    "a hash of another kind": ({"args": {"fhash": [1]}}, 'expected a hash "fhash"'),
    "a phase of another kind": ({"ph": {}}, 'expected a phase "ph"'),
    "nested": ("[" * 100_000, "is nested too deeply|is not JSON"),
}


@pytest.mark.parametrize(("change", "why"), HOSTILE.values(), ids=HOSTILE)
def test_lines_that_are_no_events_are_counted(traces: Any, change: Any, why: str) -> None:
    good = [traces.integers(one) | {"ph": "X"} for one in events(traces, 6)]
    bad = change if isinstance(change, str) else {**good[0], **change}
    lines = [*traces.head(files=["/a"]), *good[:3], bad, *good[3:], bad]
    path = traces.write("a.pfw", lines)
    trace = read_trace(path)
    assert len(trace) == 6
    (note,) = trace.notes
    assert note.startswith(f"{path}: 2 lines left out that are not events; the first is line 8: "), note
    assert re.search(why, note), note
    assert note.isprintable() and len(note) < 600
    # nothing else is in the file: then it is not a trace
    path = traces.write("b.pfw", [bad], brackets=False)
    with pytest.raises(
        kn.CorruptFileError, match=r"b\.pfw: line 1: .*is not a trace, expected a JSON object on each line"
    ):
        read_trace(path)


def test_files_that_are_no_traces(tmp_path: Path) -> None:
    path = tmp_path / "a.pfw"
    path.write_bytes(b"\0" * (17 << 20))
    with pytest.raises(
        kn.CorruptFileError, match=r"a\.pfw: line 1: is not an event, expected at most 16,777,216 bytes"
    ):
        read_trace(path)
    path.write_bytes(gzip.compress(b"[\n")[:12] + b"nonsense that is no deflate stream" * 10)
    with pytest.raises(kn.CorruptFileError, match=r"a\.pfw: gzip member near byte 0"):
        read_trace(path)
    # long before its end
    path.write_text("text\n" * 1_000_000)
    with pytest.raises(kn.CorruptFileError, match=r"a\.pfw: line 1: is not JSON .*is not a trace"):
        read_trace(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(kn.FileNotFound, match="has no trace"):
        read_trace(path)


def test_what_is_no_single_event_is_noted(traces: Any) -> None:
    good = events(traces, 2)
    others = [{**good[0], "ph": phase} for phase in ("B", "E", "C", "i")]
    path = traces.write("a.pfw", [*traces.head(files=["/a"]), *good, *others, {**good[0], "ph": 3}])
    trace = read_trace(path)
    assert len(trace) == 2
    assert sorted(one.partition(": ")[2].partition(" are")[0] for one in trace.notes) == [
        "1 aggregated events", "1 events of other kinds", "2 events in two halves",
    ]  # fmt: skip


def test_the_unit_of_dftracers_times(traces: Any) -> None:
    good = traces.integers(events(traces, 1)[0])
    unit = {
        "name": "CM",
        "cat": "dftracer",
        "pid": 1,
        "tid": 1,
        "ph": 4,
        "args": {"name": "time_metric", "value": "NS"},
    }
    path = traces.write("a.pfw", [unit, {**good, "ts": 5_000_000, "dur": 77}], brackets=False)
    assert read_trace(path).columns["duration"].tolist() == [77]
    unit["args"]["value"] = "weeks"
    path = traces.write("a.pfw", [unit, good], brackets=False)
    (note,) = read_trace(path).notes
    assert "line 1: expected a unit of time of NS, US, MS, S, found 'weeks'" in note

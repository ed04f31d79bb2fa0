"""Summaries of traces made by hand: times of which the unions are known, counts, sizes, epochs, files, the cache."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinema as kn
from kinema.report import TraceSummary, side_by_side, summarise
from kinema.report.traces import read_trace
from kinema.report.traces.events import TraceEvents
from kinema.report.traces.intervals import union

US = 1000


def overlapping(traces: Any) -> list[Any]:
    """Two processes: times overlap, contain each other, touch, and stand alone.

    us:            0    10   20   30   40   50   60   70   80   90  100
    1 reader.read  |---------------|                                      0-30
    1 pread64      |----|                                                 0-10
    1 pread64                |-|                                          20-24
    1 compute                     |-----------|                           25-50
    2 reader.read                          |---------|                    45-65
    2 pread64                                   |----|                    50-60 of it
    2 compute                                                  |----|     80-90
    2 wait                                                          |---| 90-100
    """
    event = traces.event
    return [
        event("reader", "read", 0, 30 * US, size=300),
        event("POSIX", "pread64", 0, 10 * US, fhash="f0", offset=0, count=100, ret=100),
        event("POSIX", "pread64", 20 * US, 4 * US, fhash="f0", offset=100, count=300, ret=200),
        event("compute", "compute", 25 * US, 25 * US, frames=3),
        event("reader", "read", 45 * US, 20 * US, pid=2, size=700),
        event("POSIX", "pread64", 50 * US, 10 * US, pid=2, tid=22, fhash="f1", offset=0, count=700, ret=700),
        event("compute", "compute", 80 * US, 10 * US, pid=2),
        event("wait", "wait", 90 * US, 10 * US, pid=2),
    ]


def test_times_are_unions_over_all_processes(traces: Any) -> None:
    trace = traces.write("a.pfw", [*traces.head(files=["/a", "/b"]), *overlapping(traces)])
    found = summarise(trace)
    expected = {
        "total": 100, "application_io": 50, "posix_io": 24, "gap": 26, "io": 50, "compute": 35, "wait": 10,
        # 25-30 and 45-50 are computed at the same time, by the same or another process
        "unoverlapped_application_io": 40, "unoverlapped_posix_io": 24, "unoverlapped_io": 40,
        "unoverlapped_compute": 25, "overlapped": 10, "neither": 25, "start_up": 0, "ending": 0,
    }  # fmt: skip
    assert {name: ns / US for name, ns in vars(found.job).items()} == expected
    # each process for itself: 1 from 0 to 50, 2 from 45 to 100
    of_each = expected | {
        "total": 105, "unoverlapped_application_io": 45, "unoverlapped_io": 45, "unoverlapped_compute": 30,
        "overlapped": 5, "neither": 25, "start_up": 0, "ending": 0,
    }  # fmt: skip
    assert {name: ns / US for name, ns in vars(found.in_processes).items()} == of_each
    assert (found.events, found.processes, found.threads, found.io_threads, found.compute_threads) == (8, 2, 3, 3, 2)
    assert (found.hosts, found.n_files, found.commands, found.sources) == (("node0",), 2, ("kinema rmsd",), ("kinema",))
    assert found.notes == ()


def test_start_up_and_the_end_are_told_apart(traces: Any) -> None:
    """us: stat 0-1, open 20-21, read 21-22, computing 60-70, close 99-100."""
    event = traces.event
    posix = [
        event("POSIX", "stat", 0, US, fhash="f0"),
        event("POSIX", "open64", 20 * US, US, fhash="f0"),
        event("POSIX", "read", 21 * US, US, fhash="f0", ret=5),
        event("POSIX", "close", 99 * US, US, fhash="f0"),
    ]
    compute = event("compute", "compute", 60 * US, 10 * US)
    found = summarise(traces.write("a.pfw", [*traces.head(files=["/a"]), *posix, compute])).job
    # of the 60 before computing, calls take 3
    assert (found.neither, found.start_up, found.ending) == (86 * US, 57 * US, 29 * US)
    # if nothing says what is work, it begins with the first file that is opened
    found = summarise(traces.write("b.pfw", [*traces.head(files=["/a"]), *posix])).job
    assert (found.neither, found.start_up, found.ending) == (96 * US, 19 * US, 77 * US)


def test_functions_have_counts_times_and_sizes(traces: Any) -> None:
    sizes = [4096, 0, 100, 1 << 20, 5000]
    times = [10, 20, 30, 40, 1000]
    events = [
        traces.event("POSIX", "pread64", 10_000 * at, ns, fhash="f0", offset=at, count=size, ret=size)
        for at, (size, ns) in enumerate(zip(sizes, times, strict=True))
    ]
    # an offset does not count as a size, and calls that fail have none
    events += [
        traces.event("POSIX", "lseek64", 0, 5, fhash="f0", ret=1 << 40),
        traces.event("POSIX", "read", 0, 5, fhash="f0", ret=-1),
        traces.event("POSIX", "stat", 0, 5, fhash="f0"),
        traces.event("POSIX", "opendir", 0, 5, fhash="f0"),
        traces.event("POSIX", "close", 0, 5, fhash="f0", ret=0),
        traces.event("POSIX", "fsync", 0, 5, fhash="f0", ret=0),
        traces.event("POSIX", "pwrite64", 0, 5, fhash="f0", ret=20),
        # of buffered calls the result is a number of elements
        traces.event("STDIO", "fread", 0, 5, fhash="f0", size=8, ret=3),
    ]
    found = summarise(traces.write("a.pfw", [*traces.head(files=["/a"]), *events]))
    row = next(one for one in found.functions if one.name == "pread64")
    assert found.functions[0] is row
    assert (row.count, row.failed, row.time, row.bytes) == (5, 0, sum(times), sum(sizes))
    for of, values in ((row.durations, times), (row.sizes, sizes)):
        assert of is not None
        quartiles = np.percentile(values, [25, 50, 75, 99])
        assert (of.min, of.q1, of.median, of.q3, of.p99, of.max) == (min(values), *quartiles, max(values))
        assert of.mean == sum(values) / 5
    operations = {name: (one.count, one.failed, one.bytes) for name, one in found.operations.items()}
    assert operations == {
        "read": (7, 1, sum(sizes) + 24), "write": (1, 0, 20), "copy": (0, 0, 0), "metadata": (4, 0, 0),
        "sync": (1, 0, 0), "map": (0, 0, 0),
    }  # fmt: skip
    # below 4 KiB, 64 KiB, 1 MiB, 16 MiB, more; 4096 is not below 4 KiB, and no bytes make no transfer
    assert found.transfers["read"] == {"counts": [2, 2, 0, 1, 0], "bytes": [124, 9096, 0, 1 << 20, 0]}
    assert [(one.path, one.read, one.written, one.calls) for one in found.files] == [("/a", sum(sizes) + 24, 20, 13)]
    assert sum(found.bandwidth.read) == pytest.approx(sum(sizes) + 24)
    assert sum(found.bandwidth.write) == pytest.approx(20)


def test_bandwidth_lies_where_the_transfers_do(traces: Any) -> None:
    # 60 parts of 1 µs: one transfer over parts 3 to 6, one within part 40
    events = [
        traces.event("reader", "read", 3 * US, 4 * US, size=400),
        traces.event("reader", "read", 40_250, 500, size=50),
        traces.event("wait", "wait", 0, 60 * US),
    ]
    found = summarise(traces.write("a.pfw", [*traces.head(), *events])).bandwidth
    expected = np.zeros(60)
    expected[3:7], expected[40] = 100, 50
    assert (found.of, found.part) == ("application", US)
    assert found.read == pytest.approx(tuple(expected))


def test_epochs_cache_and_kinds_of_foreign_files(traces: Any) -> None:
    event = traces.event
    events = [
        event("pipeline", "epoch.block", 0, 100, epoch=1),
        event("dataloader", "fetch.iter", 0, 30, epoch=1, step=1, size=10),
        event("dataloader", "fetch.iter", 50, 10, epoch=1, step=2, size=10),
        event("pipeline", "train.step", 30, 20, epoch=1, step=1),
        event("dataloader", "fetch.iter", 200, 5, epoch=2, step=1),
        event("cache", "cache.hit", 5, 1, size=7),
        event("cache", "cache.miss", 6, 1),
        event("cache", "cache.fetch", 7, 3, size=100),
        event("cache", "cache.evict", 12, 1),
    ]
    own = summarise(traces.write("own.pfw", [*traces.head(), *events]))
    rows = [(one.epoch, one.time, one.steps, one.batches, one.fetching, one.computing) for one in own.epochs]
    assert rows == [(1, 100, 2, 2, 40, 20), (2, 5, 1, 1, 5, 0)]
    assert own.cache is not None and own.cache.as_dict() == {
        "hits": 1, "misses": 1, "fetches": 1, "evictions": 1, "bytes_hit": 7, "bytes_fetched": 100,
    }  # fmt: skip
    # waiting for a batch is no I/O of Kinema's, and a step of training is computing
    assert (own.kinds["batch"], own.job.compute, own.job.application_io) == (3, 20, 6)
    foreign = summarise(traces.write("other.pfw", [*traces.head(source=None), *events]))
    assert (foreign.kinds["batch"], foreign.kinds["application"], foreign.job.application_io) == (0, 3, 45)
    assert (foreign.sources, [one.batches for one in foreign.epochs]) == (("other",), [2, 1])


def test_strace_is_taken_where_both_recorded_a_process(traces: Any) -> None:
    read = {"fhash": "f0", "offset": 0, "ret": 100}
    own = [
        traces.event("reader", "read", 0, 50, pid=1, size=100),
        traces.event("POSIX", "pread64", 0, 40, pid=1, **read),
        traces.event("POSIX", "pread64", 0, 40, pid=2, **read),
    ]
    seen = [
        traces.event("POSIX", "pread64", 1, 45, pid=1, **read),
        traces.event("POSIX", "read", 60, 5, pid=1, fhash="f0", ret=3),
    ]
    traces.write("t/kinema-node0-1.pfw", [*traces.head(files=["/a"]), *own])
    # another host has a process of the same number
    traces.write("t/kinema-node1-1.pfw", [*traces.head(host="node1", files=["/a"]), own[1]])
    traces.write("t/strace-node0-1.pfw", [*traces.head(source="strace", files=["/a"]), *seen])
    with pytest.warns(kn.Note, match=r"1 POSIX event of Kinema's own left out"):
        found = summarise(traces.folder / "t")
    assert (found.operations["read"].count, found.operations["read"].bytes) == (4, 303)
    assert (found.events, found.processes, found.hosts, found.n_files) == (5, 3, ("node0", "node1"), 1)
    assert (found.label, found.sources) == ("t", ("kinema", "strace"))


def test_side_by_side(traces: Any, tmp_path: Path) -> None:
    one = traces.write("one.pfw", [*traces.head(files=["/a", "/b"]), *overlapping(traces)])
    other = traces.write(
        "other.pfw.gz", [*traces.head(), traces.event("POSIX", "pread64", 0, 2_000_000_000, ret=1 << 30)]
    )
    both = side_by_side({"ours": one, "theirs": [other]})
    lines = {line[:28].strip(): line[28:].split() for line in str(both).splitlines()[1:]}
    assert str(both).splitlines()[0].split() == ["ours", "theirs"]
    assert lines["events"] == ["8", "1"]
    assert lines["total time"] == ["100", "µs", "2", "s"]
    assert lines["compute"] == ["35", "µs", "-"]
    assert lines["POSIX pread64"] == ["3", "1"]
    assert both.as_dict()["traces"][1]["operations"]["read"] == {
        "count": 1, "failed": 0, "time_ns": 2_000_000_000, "bytes": 1 << 30,
    }  # fmt: skip
    both.save(tmp_path / "both.json")
    assert json.loads((tmp_path / "both.json").read_text()) == json.loads(json.dumps(both.as_dict()))
    with pytest.raises(kn.ArgumentError, match="labels of their own"):
        side_by_side([summarise(one), summarise(one)])


def test_text_and_json(traces: Any, tmp_path: Path) -> None:
    trace = traces.write("a.pfw", [*traces.head(files=["/a\x1b", "/b"]), *overlapping(traces)])
    found = summarise(trace, label="mine")
    text = str(found)
    assert "\x1b" not in text and "/a\\x1b" in text
    rows = {line.strip().split("  ")[0]: line.split("  ")[1:] for line in text.splitlines()}
    for name, time in (("application-level I/O", "50 µs"), ("unoverlapped I/O", "40 µs"), ("total", "100 µs")):
        assert time in [cell.strip() for cell in rows[name]], name
    found.save(tmp_path / "a.json")
    stored = json.loads((tmp_path / "a.json").read_text())
    assert stored["job"]["unoverlapped_io_ns"] == 40 * US and stored["label"] == "mine"
    assert stored["functions"][0].keys() >= {"name", "count", "time_ns", "durations_ns", "sizes"}
    with pytest.raises(kn.ArgumentError, match="is the file that is read"):
        found.save(trace)


def test_what_is_no_trace(traces: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(kn.FileNotFound, match=r"has no trace, expected files that end with \.pfw or \.pfw\.gz"):
        summarise(tmp_path / "empty")
    with pytest.raises(kn.FileNotFound, match="cannot read the trace"):
        summarise(tmp_path / "none.pfw")
    for lines, brackets in (([], False), (traces.head(), True)):
        nothing = traces.write("nothing.pfw", lines, brackets=brackets)
        with pytest.raises(kn.ArgumentError, match=r"nothing.pfw: the trace has no events"):
            summarise(nothing)
    with pytest.raises(kn.ArgumentError, match="no trace is named"):
        summarise([])


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=25), st.data())
def test_unions_are_those_of_points(intervals: list[tuple[int, int]], data: Any) -> None:
    others = data.draw(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=25))

    def points(some: list[tuple[int, int]]) -> set[int]:
        return {at for begin, length in some for at in range(begin, begin + length)}

    def spans(some: list[tuple[int, int]]) -> Any:
        begins = np.array([begin for begin, _ in some], dtype=np.int64)
        return union(begins, begins + np.array([length for _, length in some], dtype=np.int64))

    one, other = spans(intervals), spans(others)
    assert one.length == len(points(intervals))
    assert one.common(other) == len(points(intervals) & points(others)) == other.common(one)
    assert one.length_outside(other) == len(points(intervals) - points(others))
    assert all(end < begin for end, begin in zip(one.ends[:-1], one.begins[1:], strict=True))
    edges = np.array([0, 7, 8, 40, 80])
    shares = [len(points(intervals) & {*range(low, high)}) / (high - low) for low, high in pairwise(edges.tolist())]
    assert one.shares(edges) == pytest.approx(shares)


def test_a_summary_is_of_a_table_too(traces: Any) -> None:
    trace = read_trace(traces.write("a.pfw", [*traces.head(files=["/a", "/b"]), *overlapping(traces)]))
    assert len(trace) == 8
    assert isinstance(summarise(trace), TraceSummary)
    assert trace.columns["start"].tolist() == sorted(trace.columns["start"].tolist())
    assert [trace.files[one] if one >= 0 else "" for one in trace.columns["file"]].count("/a") == 2


def test_work_grows_as_events_and_functions_do(traces: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    of = TraceEvents.matches

    def counted(trace: TraceEvents, **wanted: Any) -> Any:
        # looks at each function once
        calls.append(len(trace.functions))
        return of(trace, **wanted)

    monkeypatch.setattr(TraceEvents, "matches", counted)
    work = {}
    for n in (20, 200):
        calls.clear()
        events = [traces.event("POSIX", f"call{i}", i * US, US, pid=i + 1) for i in range(n)]
        found = summarise(traces.write(f"{n}.pfw", [*traces.head(files=[]), *events]))
        assert (found.processes, len(found.functions), found.in_processes.posix_io) == (n, n, n * US)
        work[n] = sum(calls)
    assert work[200] == 10 * work[20]

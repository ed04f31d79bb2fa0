"""Contents of a trace: timings are sums of its events, and it holds all of them, whatever happens to the process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema import _core
from kinema.analysis import Analysis
from kinema.base import tracing
from kinema.base.timings import Timings
from kinema.ml import Loader, SampleDataset
from kinema.testing.traces import Event, all_events, events_of, file_calls, nanoseconds, spans

# what the phases of workers are the sums of
PHASES = {
    "open": ("reader.open",),
    "io": ("reader.read",),
    "decode": ("decode.decode",),
    "compute": ("compute.transform", "compute.compute", "compute.merge"),
}


def phases(timings: Timings) -> dict[str, int]:
    """Nanoseconds of the phases of all workers of all passes."""
    return {phase: sum(round(getattr(one, phase) * 1e9) for one in timings.workers) for phase in PHASES}


def count_phases(events: list[Event]) -> dict[str, int]:
    """The same from events."""
    found = nanoseconds(events)
    return {phase: sum(found[name] for name in names) for phase, names in PHASES.items()}


def events_of_workers(events: list[Event]) -> list[Event]:
    """Those from the beginning of the first pass on: a reference frame is read before it, on another thread."""
    computing = {event["tid"] for event in events if event["cat"] == "compute"}
    waits = [event for event in events if event["cat"] == "wait" and event["tid"] in computing]
    begun = min(event["args"]["start_ns"] for event in waits)
    return [event for event in spans(events) if event["args"]["start_ns"] >= begun]


def run_of(traj: kn.Trajectory, kind: str) -> Analysis:
    """An analysis with a transform, or one of two passes."""
    if kind == "rmsd":
        return kn.analysis.RMSD(traj)
    return kn.analysis.RMSF(traj, select="name CA", align="average")


@pytest.mark.parametrize("kind", ["rmsd", "rmsf"])
@pytest.mark.parametrize("runner", ["serial", "threads"])
def test_timings_are_sums_of_events(adk_dcd: Any, adk_xtc: Any, tmp_path: Path, runner: str, kind: str) -> None:
    for number, system in enumerate((adk_dcd, adk_xtc)):
        traj = kn.open(system.trajectory, topology=system.topology, stored=False)
        analysis = run_of(traj, kind)
        traj.n_frames  # noqa: B018
        folder = tmp_path / str(number)
        with kn.trace(folder) as trace:
            timings = analysis.run(runner=runner, workers=None if runner == "serial" else 3).timings
        events = events_of(Path(str(trace.path)))
        assert trace.events == len(spans(events)) > 0 and trace.lost == 0
        of_workers = events_of_workers(events)
        assert count_phases(of_workers) == phases(timings)
        waited = nanoseconds(of_workers)["wait.wait"]
        assert waited == sum(round(one.wait * 1e9) for one in timings.workers)
        assert round(timings.blocks[:, 6].sum() * 1e9) == phases(timings)["compute"]


def test_system_calls_have_the_bytes_of_the_workers(adk_xtc: Any, tmp_path: Path) -> None:
    traj = kn.open(adk_xtc.trajectory, stored=False)
    traj.n_frames  # noqa: B018
    with kn.trace(tmp_path / "t"):
        timings = kn.analysis.RMSD(traj, select=range(100)).run(workers=2).timings
    reads = [e["args"] for e in file_calls(all_events(tmp_path / "t"), adk_xtc.trajectory) if e["name"] == "pread64"]
    # less a read of the reference frame
    assert sum(one["ret"] for one in reads) >= sum(worker.bytes_read for worker in timings.workers) > 0
    assert all(one["count"] == one["ret"] for one in reads)
    assert all(0 <= one["offset"] < os.path.getsize(adk_xtc.trajectory) for one in reads)


def test_compressed_traces_hold_the_same_events(small: kn.Trajectory, tmp_path: Path) -> None:
    small.read()
    names = []
    for compress in (False, True):
        with kn.trace(tmp_path / str(compress), compress=compress) as trace:
            small.read()
        assert str(trace.path).endswith(".pfw.gz" if compress else ".pfw")
        events = all_events(tmp_path / str(compress))
        names.append(sorted(str((e["name"], e["args"].get("offset"), e["args"].get("size"))) for e in spans(events)))
    assert names[0] == names[1] and len(names[0]) > 3


def test_spans_of_python(tmp_path: Path) -> None:
    with tracing.span("before", "test", size=1):
        tracing.event("before", "test", 0, 0)
    with kn.trace(tmp_path) as trace:
        with tracing.span('a "name"\n', "test", tmp_path / "file", size=np.int64(7), part=0.5, text="ü\\", none=None):
            pass
        tracing.event("later", "test", 1_500, 2_700, flag=True)
        with pytest.raises(TypeError, match="arguments of events are numbers and text, found list"):
            tracing.event("wrong", "test", 0, 0, what=[])
        with pytest.raises(kn.ArgumentError, match="the duration of an event"):
            tracing.event("wrong", "test", 0, -1)
    span, later = spans(events_of(Path(str(trace.path))))
    assert span["name"] == 'a "name"\n' and span["cat"] == "test" and trace.events == 2
    args = span["args"]
    assert (args["size"], args["part"], args["text"], args["none"]) == (7, 0.5, "ü\\", None)
    assert (later["ts"], later["dur"], later["args"]["ns"], later["args"]["flag"]) == (1, 2, 2_700, True)


def test_a_trace_is_one_at_a_time_and_gives_back_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KINEMA_TRACE", raising=False)
    with kn.trace(tmp_path) as trace:
        assert os.environ["KINEMA_TRACE"] == str(tmp_path) and _core.trace_enabled()
        with pytest.raises(kn.ArgumentError, match="a trace is recorded already"):
            kn.trace(tmp_path)
    trace.stop()
    assert "KINEMA_TRACE" not in os.environ and not _core.trace_enabled()
    # nothing happened, so there is no file
    assert trace.path is None and os.listdir(tmp_path) == []
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(kn.Error, match="cannot record a trace in this folder"):
            kn.trace(folder)
    assert "KINEMA_TRACE" not in os.environ


def test_loops_over_a_loader(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(300, dtype=np.float32).reshape(100, 3))
    loader = Loader(SampleDataset(path), 32, tensors=False, workers=1)
    with kn.trace(tmp_path / "t"):
        for _ in range(2):
            assert [len(batch.ids) for batch in loader] == [32, 32, 32, 4]
    events = all_events(tmp_path / "t")
    loader.close()
    batches = [e["args"] for e in spans(events) if e["name"] == "fetch.iter"]
    assert [(one["epoch"], one["step"]) for one in batches] == [(e, s) for e in (0, 1) for s in (1, 2, 3, 4)]
    assert [one["size"] for one in batches[:4]] == [384, 384, 384, 48]
    assert loader.times.waited == pytest.approx(sum(one["ns"] for one in batches) * 1e-9, rel=1e-12)
    count = [sum(e["name"] == name for e in events) for name in ("train.step", "epoch.block")]
    assert count == [8, 2]


def fails_in_the_second_step(loader: Loader) -> None:
    for number, _ in enumerate(loader):
        if number == 1:
            raise RuntimeError


def test_epochs_that_are_left_end_with_the_loop_or_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(300, dtype=np.float32).reshape(100, 3))
    loader = Loader(SampleDataset(path), 32, tensors=False, workers=1)
    with kn.trace(tmp_path / "t"):
        for _ in loader:
            break
        with pytest.raises(RuntimeError):
            fails_in_the_second_step(loader)
        left = iter(loader)
        next(left)
    next(left)
    loader.close()
    found = spans(all_events(tmp_path / "t"))
    blocks, steps = ([e["args"] for e in found if e["name"] == name] for name in ("epoch.block", "train.step"))
    assert len(blocks) == 3 and [one["step"] for one in steps] == [1, 1, 2, 1]
    # a block ends with its last step, in which the loop was left
    ends = [{one["start_ns"] + one["ns"] for one in kind} for kind in (blocks, [steps[0], *steps[2:]])]
    assert all(0 <= block - step < 1e9 for block, step in zip(*map(sorted, ends), strict=True))


@pytest.mark.parametrize("name", ["a.h5md", "a.nc"])
def test_writers_that_use_h5py(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    positions = np.zeros((6, 5, 3), np.float32)
    more: dict[str, Any] = {"netcdf4": True} if name == "a.nc" else {}
    with kn.trace(tmp_path / "t"):
        with kn.Writer(path, n_atoms=5, **more) as writer:
            writer.write(positions[:4])
            writer.flush()
            writer.write(positions[4:])
        assert kn.open(path, stored=False).n_frames == 6
    events = all_events(tmp_path / "t")
    hashes = {e["args"]["value"] for e in events if e["name"] == "FH" and e["args"]["name"] == str(path)}
    found = [(e["name"], e["args"].get("frames")) for e in spans(events) if e["args"].get("fhash") in hashes]
    assert [row for row in found if row[0] == "write"] == [("write", 4), ("write", 2)]
    assert [row for row in found if row[0] == "commit"] == [("commit", 4), ("commit", 2)]
    assert ("structure", None) in found


@pytest.mark.parametrize("small_disk", ["256k"], indirect=True)
@pytest.mark.parametrize("compress", [False, True])
def test_a_full_disk_ends_the_trace_and_not_the_run(small: kn.Trajectory, small_disk: Path, compress: bool) -> None:
    expected = small.read()
    trace = kn.trace(small_disk, compress=compress)
    for _ in range(20_000):
        found = small.read()
        if compress:
            # as at the end of a run: else a member has a mebibyte of lines
            _core.trace_flush()
        if not _core.trace_enabled():
            break
    assert not _core.trace_enabled()
    assert np.array_equal(found, expected)
    with pytest.warns(kn.Note, match="the trace ends early, .* No space left on device") as noted:
        trace.stop()
    assert trace.lost > 0 and f"{trace.lost:,} events" in str(noted[0].message)
    # what is there is whole lines
    events = spans(events_of(Path(str(trace.path)), whole=False))
    assert len(events) == trace.events > 100

"""A real run on ranks, recorded by its trace, becomes a program with the same reads, frames and results' sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kinema.base.errors import ArgumentError, FileNotFound
from kinema.cli.in_process import call_kinema
from kinema.report import Report
from kinema.studies.lab.operations import Compute, GatherTo, Metadata, ReadBytes, WriteBytes
from kinema.studies.lab.platform import read_platform
from kinema.studies.lab.programs import AnalysisWork, FrameCost, FrameFile, analysis_program
from kinema.studies.lab.recording import recorded_batches, recorded_run
from kinema.studies.lab.replay import emulate
from kinema.testing import random_walk, write_dcd

COST = FrameCost(50_000, 4_000, "made up")
N_FRAMES, N_RANKS = 2000, 3


def event(name: str, category: str, start: int, **args: Any) -> str:
    ns = args.get("ns", 1000)
    own = {"hhash": "h", "start_ns": start, "ns": ns, **args}
    if "offset" in args or name == "open64":
        own["fhash"] = "f"
    found = {"name": name, "cat": category, "pid": 1, "tid": 1, "ts": start // 1000, "dur": ns // 1000, "ph": "X"}
    return json.dumps(found | {"id": start, "args": own})


def trace(folder: Path, rank: str, *events: str) -> None:
    head = [
        "[",
        '{"name":"HH","cat":"dftracer","pid":1,"tid":1,"ph":"M","args":{"name":"node","value":"h"}}',
        f'{{"name":"process","cat":"kinema","pid":1,"tid":1,"ph":"M","args":{{"hhash":"h","rank":"{rank}"}}}}',
        '{"name":"FH","cat":"dftracer","pid":1,"tid":1,"ph":"M","args":{"hhash":"h","name":"/data/a.dcd","value":"f"}}',
    ]
    (folder / f"kinema-node-{rank or 'x'}.pfw").write_text("\n".join([*head, *events, "]"]) + "\n")


EVENTS = (
    event("open64", "POSIX", 1000, ret=3),
    event("read", "reader", 2000, offset=100, size=400, frames=4),
    event("pread64", "POSIX", 2100, offset=100, count=400, ret=400),
    event("decode", "decode", 3000, size=400, frames=4, ns=9000),
    event("compute", "compute", 20_000, frames=2, ns=700),
    event("merge", "compute", 21_000, frames=2, ns=50),
    event("compute", "compute", 22_000, frames=2, ns=300),
    event("pwrite64", "POSIX", 30_000, offset=0, count=64, ret=64),
    event("pread64", "POSIX", 31_000, offset=900, count=400, ret=-5),
)


def test_events_become_operations_in_order(tmp_path: Path) -> None:
    trace(tmp_path, "0", *EVENTS)
    found = recorded_run(tmp_path, cost=COST, result_bytes=8, stripes=4)
    file = found.files["/data/a.dcd"]
    assert (file.size, file.stripes) == (500, 4) and found.n_frames == 4
    assert found.ranks == (
        (
            Metadata("open", file),
            ReadBytes(file, 100, 400),
            Compute(4 * 50_000, "decode"),
            Compute(4 * 4_000, "compute", 4, 0),
            WriteBytes(file, 0, 64),
            GatherTo(0, 4 * 8),
        ),
    )
    # recorded times, if every rank had a core
    (own,) = recorded_run(tmp_path).ranks
    assert own[2:4] == (Compute(9000, "decode"), Compute(1050, "compute", 4, 0)) and len(own) == 5


def test_traces_that_are_not_of_all_ranks_are_refused(tmp_path: Path) -> None:
    trace(tmp_path, "1", *EVENTS)
    with pytest.raises(ArgumentError, match="no file of rank 0, expected ranks from 0 to 1"):
        recorded_run(tmp_path)
    trace(tmp_path, "", *EVENTS)
    with pytest.raises(ArgumentError, match="expected the trace of an MPI rank that no other file has, found rank ''"):
        recorded_run(tmp_path)
    with pytest.raises(FileNotFound):
        recorded_run(tmp_path / "none")


def on_thread(thread: int, *events: str) -> list[str]:
    return [json.dumps({**json.loads(one), "tid": thread}) for one in events]


def sample(start: int) -> tuple[str, ...]:
    """A small file: its end is read, then its front, both again, and it is closed."""
    places = ((9000, 100), (0, 8), (8, 100), (9050, 20), (4096, 4904))
    reads = [
        event("read", "POSIX", start + 20 + 10 * n, offset=offset, count=size, ret=size, ns=5)
        for n, (offset, size) in enumerate(places)
    ]
    opened = event("open64", "POSIX", start, ret=3, ns=5), event("fstat", "POSIX", start + 6, ret=0, ns=2)
    return *opened, *reads, event("close", "POSIX", start + 80, offset=-1, ret=0, ns=5)


def test_batches_are_those_of_the_threads_whatever_their_turns(tmp_path: Path) -> None:
    one = (event("read", "reader", 1000, epoch=0, step=0, ns=100), *sample(1000))
    other = (event("read", "reader", 1050, epoch=0, step=1, ns=100), *sample(1050))
    trace(tmp_path, "0", *on_thread(7, *one), *on_thread(8, *other))
    found = recorded_batches(tmp_path, stripes=2)
    (file,) = {one.file for calls in found.ranks[0].values() for one in calls if isinstance(one, ReadBytes)}
    assert (file.name, file.size, file.stripes) == ("/data/a.dcd", 9100, 2) and not found.blocks
    # the end, the front, and the page between them: what was read is in memory until the file is closed
    assert found.ranks[0][0, 0] == found.ranks[0][0, 1] == (
        Metadata("open", file), Metadata("stat", file), ReadBytes(file, 8192, 908), ReadBytes(file, 0, 4096),
        ReadBytes(file, 4096, 4096), Metadata("close", file),
    )  # fmt: skip


def test_batches_of_the_loader_are_sorted_and_a_cache_is_read_through(tmp_path: Path) -> None:
    def batch(start: int, *offsets: int) -> list[str]:
        reads = [
            event(name, category, start + 10 + n, offset=offset, count=50, size=50, ret=50, ns=3)
            for n, offset in enumerate(offsets)
            for name, category in (("read", "reader"), ("pread64", "POSIX"))
        ]
        return [event("gather", "loader", start, epoch=start // 1000, first=0, ns=90), *reads]

    events = [*batch(0, 300, 100), *batch(100, 200), *batch(1000, 100)]
    (tmp_path / "plain").mkdir()
    trace(tmp_path / "plain", "0", *events)
    found = recorded_batches(tmp_path / "plain")
    assert list(found.ranks[0]) == [(0, 0), (0, 1), (1, 0)]
    assert [(one.offset, one.size, one.keep) for one in found.ranks[0][0, 0] if isinstance(one, ReadBytes)] == [
        (100, 50, ""), (300, 50, ""),
    ]  # fmt: skip
    trace(tmp_path, "0", *events, event("cache.fetch", "cache", 5, offset=0, size=4000, ns=3))
    cached = recorded_batches(tmp_path)
    assert cached.blocks == {"/data/a.dcd": ((0, 4000),)}
    assert [(one.offset, one.keep) for one in cached.ranks[0][0, 0] if isinstance(one, ReadBytes)] == [
        (100, "node"), (300, "node"),
    ]  # fmt: skip


@pytest.mark.processes
def test_a_run_on_ranks_and_its_plan_agree(mpi: Any, tmp_path: Path) -> None:
    path = tmp_path / "walk.dcd"
    write_dcd(path, random_walk(N_FRAMES, 300))
    words = "-m kinema rmsd walk.dcd --runner mpi --schedule static --trace traces -o rmsd.csv --no-stored".split()
    code, _, err = mpi.ended(mpi.started(N_RANKS, words, tmp_path))
    assert code == 0, err
    recorded = recorded_run(tmp_path / "traces", cost=COST, result_bytes=8)
    assert recorded.n_ranks == N_RANKS and recorded.n_frames == N_FRAMES
    (file,) = (one for one in recorded.files.values() if one.name.endswith("walk.dcd"))
    work = AnalysisWork([FrameFile(file, N_FRAMES)], range(N_FRAMES), COST, schedule="static")
    lustre = read_platform("lustre")
    replayed = emulate(recorded.program, N_RANKS, lustre)
    planned = emulate(analysis_program(work, N_RANKS), N_RANKS, lustre)
    # the plan knows which rank gets which frames
    assert [rank.frames for rank in replayed.ranks] == [rank.frames for rank in planned.ranks]
    assert sum(rank.frames for rank in planned.ranks) == N_FRAMES
    for run in (replayed, planned):
        # each byte of the frames once; the recorded run has looked at headers as well
        n_bytes = sum(rank.bytes_read for rank in run.ranks)
        assert path.stat().st_size * 0.99 < n_bytes < path.stat().st_size * 1.1
    # the reference is decoded as well
    assert replayed.mean("decode") == pytest.approx(planned.mean("decode"), rel=0.01)
    # the ranks have read the reference too; rank 0 has looked for frames in the file, in many short reads
    for own, of_plan in zip(replayed.ranks[1:], planned.ranks[1:], strict=True):
        assert own.phases["io"] == pytest.approx(of_plan.phases["io"], rel=0.5)
    assert replayed.ranks[0].reads > planned.ranks[0].reads
    # the same as an experiment
    words = (
        "--lab lustre --runner mpi --recorded traces --cpu-per-frame 50,4 --no-stored --stripes 1,4 --workers".split()
    )
    done = call_kinema("scaling", "walk.dcd", *words, N_RANKS, "-o", "lab", cwd=tmp_path)
    assert done.returncode == 0 and "lab lustre, program recorded, stripes 4" in done.stdout, done.stderr
    (report, _) = sorted((tmp_path / "lab" / "reports").iterdir())
    assert Report.load(report).timings.frames == N_FRAMES
    # the experiment makes and records the runs itself, also of files in other formats, once for all stripes
    auto = (
        "--lab lustre --runner mpi --recorded auto --cpu-per-frame 50,4 --no-stored --stripes 1,4 --formats xtc".split()
    )
    done = call_kinema("scaling", "walk.dcd", *auto, "--workers", N_RANKS, "-o", "own", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr.count("recorded: mpi") == 1, done.stderr
    assert "mpi, xtc, lab lustre, program recorded, stripes 4" in done.stdout
    assert sorted(path.name for path in (tmp_path / "own").iterdir()) == ["reports", "results.jsonl", "scaling.png"]
    found = [Report.load(one) for one in sorted((tmp_path / "own" / "reports").iterdir())]
    assert [one.timings.frames for one in found] == [N_FRAMES] * 2
    done = call_kinema("scaling", "walk.dcd", *auto, "--workers", 129, "-o", "other", cwd=tmp_path)
    assert done.returncode == 2 and "workers must be at most 128 for runs that are recorded here" in done.stderr
    done = call_kinema("scaling", "walk.dcd", *words, N_RANKS + 1, "-o", "other", cwd=tmp_path)
    assert done.returncode == 2 and "the trace is of 3 ranks, expected as many workers, found 4" in done.stderr

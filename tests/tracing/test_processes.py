"""Traces of several processes, and of those that are killed or forked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kinema as kn
from kinema.runners.local.processes import ProcessesRunner
from kinema.testing import random_walk, write_dcd
from kinema.testing.programs.children import start_child
from kinema.testing.traces import all_events, events_of, file_calls, spans
from kinema.testing.traces import nanoseconds as sums

pytestmark = pytest.mark.processes

COMMAND = [sys.executable, "-m", "kinema"]


@pytest.fixture
def environment() -> dict[str, str]:
    """In which children find this package."""
    return {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parents[1])}


def python(code: str, environment: dict[str, str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, **options
    )


def test_workers_of_the_processes_runner(adk_dcd: Any, tmp_path: Path) -> None:
    analysis = kn.analysis.RMSD(kn.open(adk_dcd.trajectory, topology=adk_dcd.topology, stored=False))
    runner = ProcessesRunner()
    with runner.session():
        # the workers are there before the trace is
        analysis.run(runner=runner, workers=2)
        with kn.trace(tmp_path / "t"):
            timings = analysis.run(runner=runner, workers=2).timings
        # and stay when it has ended
        before = sorted(os.listdir(tmp_path / "t"))
        analysis.run(runner=runner, workers=2)
        assert sorted(os.listdir(tmp_path / "t")) == before
    assert len(before) == 3
    found, read = Counter[str](), 0
    for path in (tmp_path / "t").iterdir():
        if path.name.endswith(f"-{os.getpid()}.pfw"):
            continue
        events = events_of(path, whole=False)
        process = next(event["args"] for event in events if event["name"] == "process")
        assert process["runner"] == "processes" and process["version"] == kn.__version__
        found += sums(events)
        read += sum(e["args"]["ret"] for e in file_calls(events, adk_dcd.trajectory) if e["name"] == "pread64")
    for phase, names in {"open": ["reader.open"], "io": ["reader.read"], "decode": ["decode.decode"]}.items():
        expected = sum(round(getattr(one, phase) * 1e9) for one in timings.workers)
        assert sum(found[name] for name in names) == expected > 0
    compute = sum(round(one.compute * 1e9) for one in timings.workers)
    assert sum(value for name, value in found.items() if name.startswith("compute.")) == compute
    assert read >= sum(one.bytes_read for one in timings.workers) > 0


def test_every_command_records(adk_dcd: Any, tmp_path: Path, environment: dict[str, str]) -> None:
    def kinema(*words: Any, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *map(str, words)], env={**environment, **more}, capture_output=True, text=True, timeout=120
        )

    out = tmp_path / "out.xtc"
    done = kinema("convert", adk_dcd.trajectory, "-o", out, "--trace", tmp_path / "a")
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "a").iterdir()
    count = len(spans(events_of(path)))
    assert done.stderr.splitlines()[-1] == f"trace: {count:,} events of this process in {path}"
    events = all_events(tmp_path / "a")
    names = Counter(f"{event['cat']}.{event['name']}" for event in events)
    assert min(names[name] for name in ("reader.read", "decode.decode", "writer.encode", "writer.write")) > 0
    assert names["writer.commit"] == 1 and names["POSIX.fdatasync"] >= 1
    written = [e["args"] for e in spans(events) if e["name"] == "pwrite64"]
    assert sum(one["ret"] for one in written) >= out.stat().st_size
    quiet = kinema("info", out, "--quiet", f"--trace={tmp_path / 'b'}", KINEMA_TRACE=str(tmp_path / "c"))
    assert (quiet.returncode, quiet.stderr) == (0, "") and len(os.listdir(tmp_path / "b")) == 1
    assert not (tmp_path / "c").exists() or os.listdir(tmp_path / "c") == []
    by_variable = kinema("info", out, KINEMA_TRACE=str(tmp_path / "c"), KINEMA_TRACE_COMPRESS="1")
    assert by_variable.returncode == 0 and "trace: " in by_variable.stderr
    assert any(e["name"] == "pread64" for e in all_events(tmp_path / "c"))
    (tmp_path / "file").touch()
    for words, more in ((["--trace", str(tmp_path / "file")], {}), ([], {"KINEMA_TRACE": str(tmp_path / "file")})):
        refused = kinema("convert", out, "-o", tmp_path / "no.dcd", *words, **more)
        assert refused.returncode == 2 and not (tmp_path / "no.dcd").exists()
        assert "cannot record a trace in this folder" in refused.stderr and len(refused.stderr.splitlines()) == 1


def test_strace_sees_the_same_reads(adk_xtc: Any, tmp_path: Path, environment: dict[str, str]) -> None:
    probe = subprocess.run(["sh", "-c", "strace -f -o /dev/null true"], capture_output=True, timeout=60)
    if probe.returncode:
        pytest.skip(f"strace cannot be used here: {probe.stderr.decode().strip()}")
    words = ["strace", "-f", "-y", "-qq", "-e", "trace=pread64,preadv,preadv2,pwrite64", "-o", str(tmp_path / "s")]
    command = ["rmsd", adk_xtc.trajectory, "--trace", str(tmp_path / "t"), "--workers", "2", "--no-stored"]
    command += ["-o", str(tmp_path / "rmsd.csv")]
    done = subprocess.run([*words, *COMMAND, *command], env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    calls = Counter[tuple[str, int, int, int]]()
    started: dict[str, str] = {}
    for line in (tmp_path / "s").read_text().splitlines():
        thread, call = line.split(maxsplit=1)
        # a call that another thread's interrupts in the log is on two lines
        if call.endswith("<unfinished ...>"):
            started[thread] = call.removesuffix("<unfinished ...>").rstrip()
            continue
        if call.startswith("<... "):
            call = started.pop(thread) + call.partition("resumed>")[2]
        # strace names files by their real paths
        if f"<{os.path.realpath(adk_xtc.trajectory)}>" not in call:
            continue
        name = call.partition("(")[0]
        size, offset, ret = re.search(r", (\d+), (\d+)\) += (-?\d+)", call).groups()  # type: ignore[union-attr]
        calls[name, int(offset), int(size), int(ret)] += 1
    events = file_calls(all_events(tmp_path / "t"), adk_xtc.trajectory)
    reads = [(e["name"], e["args"]) for e in events if e["name"] in ("pread64", "preadv64", "pwrite64")]
    assert calls == Counter((name, one["offset"], one["count"], one["ret"]) for name, one in reads)
    assert sum(size * n for (_, _, size, _), n in calls.items()) >= os.path.getsize(adk_xtc.trajectory)


KILLED = """
import os, signal, sys
import kinema as kn
traj = kn.open({path!r}, stored=False)
print(os.getpid(), flush=True)
while True:
    traj.read()
"""


@pytest.mark.parametrize("compress", ["0", "1"])
def test_a_process_that_is_killed_leaves_whole_lines(
    tmp_path: Path, environment: dict[str, str], kills: Callable[..., int], compress: str
) -> None:
    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(50, 30))
    for number in range(kills(3)):
        folder = tmp_path / str(number)
        more = {"KINEMA_TRACE": str(folder), "KINEMA_TRACE_COMPRESS": compress}
        process = start_child([sys.executable, "-c", KILLED.format(path=str(path))], env={**environment, **more})
        assert process.stdout is not None and process.stdout.readline()
        # in the middle of its writes: as soon as there is more than the first buffer
        while not (folder.exists() and any(one.stat().st_size > 20_000 for one in folder.iterdir())):
            assert process.poll() is None
        process.kill()
        process.wait(timeout=60)
        (file,) = folder.iterdir()
        events = events_of(file, whole=False)
        assert len(spans(events)) > 20 and file_calls(events, path)


FORKED = """
import os, sys, threading
import kinema as kn
from kinema import _core
traj = kn.open({path!r}, stored=False)
with kn.trace({folder!r}) as trace:
    threads = [threading.Thread(target=traj.read) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    child = os.fork()
    traj.read(frames=[3])
    if child == 0:
        print("child", os.getpid(), flush=True)
        trace.stop()
        os._exit(0)
    os.waitpid(child, 0)
import multiprocessing
with kn.trace({folder!r}):
    process = multiprocessing.get_context("fork").Process(target=traj.read)
    process.start()
    process.join()
    print("process", process.pid)
"""


def test_forked_children_have_files_of_their_own(tmp_path: Path, environment: dict[str, str]) -> None:
    path, folder = tmp_path / "a.dcd", tmp_path / "t"
    write_dcd(path, random_walk(50, 30))
    done = python(FORKED.format(path=str(path), folder=str(folder)), environment)
    assert done.returncode == 0, done.stderr
    pids = dict(line.split() for line in done.stdout.splitlines())
    by_process = {e["pid"] for e in spans(all_events(folder))}
    assert {int(pids["child"]), int(pids["process"])} < by_process and len(by_process) == 3
    for name in folder.iterdir():
        events = events_of(name)
        assert {event["pid"] for event in events} == {int(name.stem.split("-")[2])}
        reads = [e for e in spans(events) if (e["cat"], e["name"]) == ("reader", "read")]
        if f"-{pids['child']}." in name.name:
            # of the parent's events none is there
            assert len(reads) == 1


def test_ranks_have_files_of_their_own(adk_dcd: Any, mpi: Any, tmp_path: Path) -> None:
    command = ["rmsd", adk_dcd.trajectory, "--trace", str(tmp_path / "t"), "--no-stored", "-o", "rmsd.csv"]
    code, _, err = mpi.ended(mpi.started(2, ["-m", "kinema", *command], tmp_path))
    assert code == 0, err
    # rank 0 prints for all
    assert err.count("trace: ") == 1
    events = all_events(tmp_path / "t")
    assert sorted(event["args"]["rank"] for event in events if event["name"] == "process") == ["0", "1"]
    assert sum(event["args"]["frames"] for event in events if event["name"] == "compute") == 98

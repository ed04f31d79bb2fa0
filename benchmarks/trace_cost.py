"""Cost of a trace: reads of 64 KiB and more, and whole runs, with a trace and without, in turn, in one run.

    python benchmarks/trace_cost.py [--mib 256] [--folder FOLDER]

Files are in the page cache; rows "from the storage" have them out of it before each pass. A read is two events: the
system call, and what it was for. The thread that reads also reads the clock once more and puts two records into a
buffer; another thread makes lines of these. Ratios are with a trace to without one, of three times: of the thread that
reads (its CPU time, which the goal is for), of the clock on the wall, and of the CPU of all threads. Without a trace
an event costs one load; rows "without a trace" are beside a loop that calls the system and does nothing else. Goal:
tracing costs less than 1 % of reads of 64 KiB and more. It judges nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import kinema as kn
from kinema.ml import Batch, SampleDataset
from kinema.testing import random_walk, write_dcd

GOAL = 1.01
SIZES = (64 << 10, 1 << 20)
TRIES = 15
# bytes that are read in a measurement
PASSED = 1 << 30


def seconds_of(work: Callable[[], object]) -> np.ndarray:
    """Seconds of this thread's CPU, of the clock, and of the CPU of all threads."""

    def now() -> np.ndarray:
        return np.array([time.thread_time(), time.perf_counter(), time.process_time()])

    began = now()
    work()
    return now() - began


def plain_reads(path: Path, size: int, ids: np.ndarray) -> None:
    """The same rows, each by a call of the system into one buffer."""
    handle, buffer = os.open(path, os.O_RDONLY), bytearray(size)
    for row in ids.tolist():
        os.preadv(handle, [buffer], 128 + row * size)
    os.close(handle)


def compare(name: str, work: Callable[[], object], folder: Path, tries: int) -> dict[str, Any]:
    """Work with a trace and without, in turn: medians, their ratios, and what an event costs."""
    without, traced, events = [], [], 0
    work()
    for number in range(tries):
        without.append(seconds_of(work))
        target = folder / str(number)
        trace = kn.trace(target)
        # lines are written within what is measured
        traced.append(seconds_of(lambda: (work(), trace.stop())))  # noqa: B023
        events = trace.events
        shutil.rmtree(target, ignore_errors=True)
    thread, wall, cpu = np.median(np.array(traced) / np.array(without), axis=0)
    more = (np.median(traced, axis=0) - np.median(without, axis=0)) * 1e9 / max(1, events)
    return {
        "what": name,
        "seconds": float(np.median(without, axis=0)[0]),
        "ratio": float(thread),
        "wall_ratio": float(wall),
        "cpu_ratio": float(cpu),
        "events": events,
        "ns_per_event": float(more[0]),
        "cpu_ns_per_event": float(more[2]),
    }


def forget(path: Path) -> None:
    """Has the system drop a file from the page cache."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def read_rows(folder: Path, size: int, total: int, tries: int) -> list[dict[str, Any]]:
    """Every second row of an array, each by a read of its own, and the same in a plain loop."""
    path = folder / f"{size}.npy"
    rows = total // size
    np.save(path, np.zeros((rows, size), np.uint8))
    ids = np.arange(0, rows, 2)
    data, batch = SampleDataset(path), Batch()
    # long beside the start and end of a trace
    passes = max(1, PASSED // (len(ids) * size))

    def read() -> None:
        for _ in range(passes):
            for first in range(0, len(ids), 64):
                data.read(ids[first : first + 64], out=batch, workers=1)

    def read_from_storage() -> None:
        forget(path)
        for first in range(0, len(ids), 64):
            data.read(ids[first : first + 64], out=batch, workers=1)

    def plain() -> None:
        for _ in range(passes):
            plain_reads(path, size, ids)

    name = f"reads of {size >> 10} KiB"
    found = compare(name, read, folder / "traces", tries)
    alone = statistics.median(float(seconds_of(plain)[0]) for _ in range(tries))
    cold = compare(f"{name} from the storage", read_from_storage, folder / "traces", max(3, tries // 3))
    path.unlink()
    return [{"what": f"{name} without a trace / plain loop", "ratio": found["seconds"] / alone}, found, cold]


def runs(folder: Path, total: int, tries: int) -> list[dict[str, Any]]:
    """An analysis of a DCD trajectory whose frames have 64 KiB, in blocks of the plan, and frame by frame."""
    path, n_atoms = folder / "run.dcd", 5461
    write_dcd(path, random_walk(max(64, total // (12 * n_atoms)), n_atoms))
    traj = kn.open(path, stored=False)

    def analyse() -> None:
        kn.analysis.RMSD(traj).run(workers=1)

    def frame_by_frame() -> None:
        for frame in range(0, traj.n_frames, 2):
            traj.read(frames=[frame], workers=1)

    found = [
        compare("RMSD, DCD frames of 64 KiB", analyse, folder / "traces", tries),
        compare("single frames of 64 KiB", frame_by_frame, folder / "traces", tries),
    ]
    path.unlink()
    return found


def measure(folder: Path, total: int, tries: int = TRIES) -> list[dict[str, Any]]:
    """All rows."""
    found = [row for size in SIZES for row in read_rows(folder, size, total, tries)]
    return found + runs(folder, total, tries)


def trace_cost(bench: Any) -> None:
    """The rows of `make bench`."""
    from cases import Goal

    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
        rows = measure(Path(folder), (16 if bench.quick else 128) << 20, 3 if bench.quick else TRIES)
    goal = Goal(GOAL, at_least=False, source="step 13")
    for row in rows:
        if "events" not in row:
            bench.record(row["what"], "", "kinema", figure=row["ratio"], unit="ratio")
            continue
        bench.record_beside_goal(f"{row['what']}, with/without a trace", "", "kinema", row["ratio"], goal)
        bench.record(f"{row['what']}, an event", "", "kinema", figure=row["ns_per_event"], unit="ns, thread")
        bench.record(f"{row['what']}, an event", "", "kinema", figure=row["cpu_ns_per_event"], unit="ns, all threads")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="MiB of each file")
    parser.add_argument("--folder", type=Path, default=None, help="where the files are made")
    parser.add_argument("--tries", type=int, default=TRIES)
    parser.add_argument("--json", type=Path, default=None, help="a file for the figures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        rows = measure(Path(folder), options.mib << 20, options.tries)
    for row in rows:
        more = ""
        if "events" in row:
            more = f"; wall {row['wall_ratio']:.4f}, CPU {row['cpu_ratio']:.4f}; {row['events']:,} events of "
            more += f"{row['ns_per_event']:.0f} ns, {row['cpu_ns_per_event']:.0f} ns CPU"
        print(f"{row['what']:50} {row['ratio']:8.4f}{more}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()

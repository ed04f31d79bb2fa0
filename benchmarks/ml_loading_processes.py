"""Measurements of `ml_loading.py` in separate processes: trainers side by side, and system calls under strace."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ml_loading_loops import BATCH, CONTIGUOUS, WORKERS, Loop, kinema_batches, torch_batches, torch_name
from ml_loading_rows import Row, measured

SYSTEM_CALLS = "read,pread64,preadv,preadv2,lseek,openat,fadvise64"
# layouts and programs whose system calls are counted
COUNTED = [
    ("NPZ stored", "NumPy, a sample at a time"),
    ("NPZ stored", "NumPy, whole files"),
    ("a sample a file", "NumPy, a sample at a time"),
    (CONTIGUOUS, "h5py, a sample at a time"),
    (CONTIGUOUS, "h5py, sorted"),
    (CONTIGUOUS, "Kinema"),
]
_SECONDS_OF_THE_STORAGE = 2.0


# -- trainers ----------------------------------------------------------------------------------------------------------


def programs_of(ranks: int, most: int) -> Iterator[tuple[str, str, int, int | None]]:
    """Program, order, workers and prefetch_factor of each row of `ranks` trainers; prints why others are left out."""
    yield "Kinema", "random", 0, None
    yield "Kinema", "windowed", 0, None
    if find_spec("torch") is None:
        print(f"{ranks} trainers: torch is not installed: its rows are left out")
        return
    for workers, ahead in WORKERS:
        processes = ranks * (1 + workers)
        if processes <= most:
            yield torch_name(workers, ahead), "random", workers, ahead
        else:
            print(f"{ranks} trainers, {torch_name(workers, ahead)}: {processes} processes are more than {most}")


def trainer(paths: list[Path], row: dict[str, Any], rank: int, step: float, limits: Any, gate: Any, out: Any) -> None:
    """One of several processes that train side by side."""
    ranks, workers, ahead = row["trainers"], row.pop("workers"), row.pop("ahead")
    if row["program"] == "Kinema":
        made: Any = partial(kinema_batches, paths, row["order"], rank, ranks)
    else:
        import kinema.ml.torch  # noqa: F401 - takes seconds, which must not count as part of the loop

        made = partial(torch_batches, paths, workers, ahead, rank, ranks)
    gate.wait()
    out.put(measured(made, step, *limits, workers == 0, **row))


def run_trainers(
    paths: list[Path], row: dict[str, Any], step: float, seconds: float, most_samples: int | None
) -> list[Row]:
    """The rows of all processes, each with its share of the samples; RuntimeError if a process ended without a row."""
    context = multiprocessing.get_context("spawn")
    ranks = row["trainers"]
    gate, answers = context.Barrier(ranks), context.Queue()
    limits = (seconds, None if most_samples is None else most_samples // ranks)
    children = [
        context.Process(target=trainer, args=(paths, dict(row), rank, step, limits, gate, answers))
        for rank in range(ranks)
    ]
    for child in children:
        child.start()
    found: list[Row] = []
    until = time.monotonic() + 120 + 20 * seconds
    try:
        while len(found) < ranks:
            try:
                found.append(answers.get(timeout=1))
            except queue.Empty:
                if time.monotonic() > until or any(child.exitcode not in (None, 0) for child in children):
                    raise RuntimeError("a trainer has ended without an answer, or takes too long") from None
    finally:
        for child in children:
            child.join(10)
            child.kill()
    return found


def storage_limit(paths: list[Path], threads: int, sample_bytes: int) -> float:
    """Bytes a second of samples at random places, read by `threads` threads past the page cache (O_DIRECT)."""
    block = -(-sample_bytes // 4096) * 4096
    handles = [os.open(path, os.O_RDONLY | os.O_DIRECT) for path in paths]
    blocks = min(os.path.getsize(path) for path in paths) // block
    done = [0] * threads
    until = time.monotonic() + _SECONDS_OF_THE_STORAGE

    def reads(number: int) -> None:
        random, buffer = np.random.default_rng(number), mmap.mmap(-1, block)
        while time.monotonic() < until:
            handle, at = handles[random.integers(len(handles))], int(random.integers(blocks))
            done[number] += os.preadv(handle, [buffer], at * block)

    workers = [threading.Thread(target=reads, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for handle in handles:
        os.close(handle)
    return sum(done) / _SECONDS_OF_THE_STORAGE


# -- system calls ------------------------------------------------------------------------------------------------------

CHILD = """
import pickle, sys
made, batches = pickle.loads(sys.stdin.buffer.read())
samples, loop = 0, iter(())
if batches:
    loop = made()
    for number, batch in enumerate(loop, 1):
        samples += len(batch)
        if number == batches:
            break
    if hasattr(loop, "close"):
        loop.close()
print(getattr(loop, "samples", samples))
"""


def system_calls(loops: list[Loop]) -> None:
    """Prints calls for a batch in random order, from `strace -c` of a process with some batches and one without."""
    if shutil.which("strace") is None:
        print("strace is not installed: system calls are not counted")
        return
    print(f"system calls for a batch of {BATCH} ({SYSTEM_CALLS})")
    for loop in loops:
        if (loop.layout, loop.program) in COUNTED and loop.order != "windowed":
            (without, _), (some, samples) = (_counted(loop, batches) for batches in (0, 2))
            print(f"{loop.layout:26} {loop.program:27} {(some - without) * BATCH / samples:10,.0f}")


def _counted(loop: Loop, batches: int) -> tuple[int, int]:
    """Calls, and samples that were read."""
    import pickle

    with tempfile.NamedTemporaryFile("r") as table:
        words = ["strace", "-f", "-c", "-e", f"trace={SYSTEM_CALLS}", "-o", table.name]
        given = pickle.dumps((loop.made, batches))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [*words, sys.executable, "-c", CHILD], input=given, stdout=subprocess.PIPE, check=True, timeout=300,
            env=environment,
        )  # fmt: skip
        lines = [line.split() for line in table]
    names = set(SYSTEM_CALLS.split(","))
    calls = sum(int(line[3]) for line in lines if line and line[-1] in names and re.fullmatch(r"\d+", line[3]))
    return calls, int(done.stdout)

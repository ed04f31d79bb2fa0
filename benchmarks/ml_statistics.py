"""Statistics of sample archives beside plain reads of the same bytes; ratios, in one run.

    python benchmarks/ml_statistics.py [--samples 16000] [--features 8691] [--dtype float64] [--folder FOLDER]

Two plain reads, each by as many threads. "plain read" takes 1 MiB at a time into one buffer a thread: from the page
cache it is a copy that stays in the processor's cache, the least that any reader can take. "plain read, batches" is
what training programs do: batches of 256 samples in stored order into a buffer of that size, by Kinema's data set.
First from the storage: files are put out of the page cache before each measurement, as an archive that is larger than
the memory always is. The goal is about that. Then from the page cache, where the sums themselves count: "sums" are
those of values that lie in the processor's cache, without a read. It prints what it measures beside the goal and judges
nothing.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import kinema.ml
from kinema import _core
from kinema.base.notes import collected
from kinema.base.resources import worker_count

TRIES = 7
GOAL = 1.1
PIECE = 1 << 20
BATCH = 256
# of the sums alone
ROWS = 16


def plain_read(path: Path, workers: int) -> None:
    """Reads all bytes of a file with `workers` threads."""
    size, handle = path.stat().st_size, os.open(path, os.O_RDONLY)

    def share(worker: int) -> None:
        buffer = bytearray(PIECE)
        for offset in range(worker * PIECE, size, workers * PIECE):
            os.preadv(handle, [buffer], offset)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(share, range(workers)))
    os.close(handle)


def read_batches(data: kinema.ml.SampleDataset, workers: int) -> None:
    """All samples in stored order, batch by batch."""
    batch = kinema.ml.Batch()
    for start in range(0, len(data), BATCH):
        data.read(np.arange(start, min(start + BATCH, len(data))), out=batch, workers=workers)


def statistics(data: kinema.ml.SampleDataset, workers: int) -> None:
    """The measured call."""
    with collected():
        kinema.ml.statistics(data, workers=workers)


def sums_alone(data: kinema.ml.SampleDataset, workers: int) -> None:
    """The sums of as many values, of the same few rows again and again."""
    rows = data.read(np.arange(min(ROWS, len(data))))["samples"]
    values, columns = rows.reshape(-1).view(np.uint8), rows.shape[1]

    def share(_: int) -> None:
        for _ in range(len(data) // (workers * len(rows))):
            _core.column_moments(values, columns, rows.dtype.name)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(share, range(workers)))


def forget(path: Path) -> None:
    """Puts a file out of the page cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def seconds(works: dict[str, Callable[[], object]], path: Path, cold: bool) -> dict[str, float]:
    """The least of several tries of each, in turns."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(TRIES):
        for name, work in works.items():
            if cold:
                forget(path)
            began = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - began)
    return best


def measure(path: Path, workers: int, cold: bool) -> None:
    """A table."""
    data = kinema.ml.SampleDataset(path, file_is_sample=False)
    works: dict[str, Callable[[], object]] = {
        "plain read": lambda: plain_read(path, workers),
        "plain read, batches": lambda: read_batches(data, workers),
        "statistics": lambda: statistics(data, workers),
    }
    if not cold:
        works["sums"] = lambda: sums_alone(data, workers)
    size, found = path.stat().st_size, seconds(works, path, cold)
    print(f"from {'the storage' if cold else 'the page cache'}, {workers} threads")
    for name, time_ in found.items():
        print(f"  {name:19} {size / time_ / 2**30:6.2f} GiB/s")
    for name in ("plain read", "plain read, batches"):
        goal = f", goal {GOAL}" if cold else ""
        print(f"  statistics / {name}: {found['statistics'] / found[name]:.2f}{goal}")
    if not cold:
        parts = found["plain read"] + found["sums"]
        print(f"  statistics / (plain read + sums): {found['statistics'] / parts:.2f}")


def main() -> None:
    """Makes a file, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=16000)
    parser.add_argument("--features", type=int, default=8691)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "x.npy"
        random = np.random.default_rng(1)
        np.save(path, random.standard_normal((options.samples, options.features)).astype(options.dtype))
        size = path.stat().st_size / 2**30
        print(f"{options.samples} samples of {options.features} {options.dtype}, {size:.2f} GiB")
        for cold in (True, False):
            for workers in sorted({1, worker_count(None)}):
                measure(path, workers, cold)


if __name__ == "__main__":
    main()

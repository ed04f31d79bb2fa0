"""Statistics of sample archives beside a plain read of the same bytes; ratios, in one run.

    python benchmarks/ml_statistics.py [--samples 16000] [--features 8691] [--cold] [--folder FOLDER]

The plain read takes 1 MiB at a time into one buffer a thread, with as many threads. With `--cold` the files are put out
of the page cache before each measurement, so that both wait for the storage; else both copy from memory, where the sums
themselves count. It prints what it measures beside the goal and judges nothing.
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
from kinema.notes import collected
from kinema.resources import worker_count

TRIES = 5
GOAL = 1.1
PIECE = 1 << 20


def plain_read(path: Path, workers: int) -> None:
    """All bytes of a file, by so many threads."""
    size, handle = path.stat().st_size, os.open(path, os.O_RDONLY)

    def share(worker: int) -> None:
        buffer = bytearray(PIECE)
        for offset in range(worker * PIECE, size, workers * PIECE):
            os.preadv(handle, [buffer], offset)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(share, range(workers)))
    os.close(handle)


def numpy_read(path: Path) -> None:
    """All bytes into an array of their size."""
    np.load(path)


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


def main() -> None:
    """Makes a file, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=16000)
    parser.add_argument("--features", type=int, default=8691)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "x.npy"
        random = np.random.default_rng(1)
        np.save(path, random.standard_normal((options.samples, options.features)).astype(options.dtype))
        data = kinema.ml.SampleDataset(path, file_is_sample=False)

        def measured(workers: int) -> None:
            with collected():
                kinema.ml.statistics(data, workers=workers)

        size = path.stat().st_size
        print(f"{options.samples} samples of {options.features} {options.dtype}, {size / 2**30:.2f} GiB, ", end="")
        print("from storage" if options.cold else "from the page cache")
        for workers in sorted({1, worker_count(None)}):
            works: dict[str, Callable[[], object]] = {
                "plain read": lambda n=workers: plain_read(path, n),
                "statistics": lambda n=workers: measured(n),
                "numpy.load": lambda: numpy_read(path),
            }
            found = seconds(works, path, options.cold)
            for name, time_ in found.items():
                ratio = time_ / found["plain read"]
                goal = f" (goal {GOAL})" if name == "statistics" else ""
                print(
                    f"{workers} threads: {name:11} {size / time_ / 2**30:6.2f} GiB/s, {ratio:.2f} of a plain read{goal}"
                )


if __name__ == "__main__":
    main()

"""Batches of samples out of archives: Kinema's gather beside a plain loop of reads, h5py and NumPy; ratios, in one run.

    python benchmarks/ml.py [--samples 8000] [--features 8691] [--files 2] [--batch 256] [--folder FOLDER]

The shape is that of the fourth publication, scaled down: float64 samples in files of 8,000, batches of 256 in random
order. It prints what it measures beside the goals and judges nothing. Files are read once before, so that they are in
the page cache where the memory is large enough.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.ml import Batch, SampleDataset

TRIES = 12
# of samples a second
PREAD_GOAL, H5PY_GOAL = 0.8, 3.0
# per cent of a batch, step 18
COMPARED_GOAL = 1.0


class Case:
    """Files of one run, and the batches that are read of them."""

    def __init__(self, folder: Path, samples: int, features: int, files: int, batch: int) -> None:
        self.samples, self.features, self.batch = samples, features, batch
        self.row_bytes = 8 * features
        random = np.random.default_rng(1)
        self.npy = [folder / f"x{n}.npy" for n in range(files)]
        self.hdf5 = folder / "contiguous.h5"
        self.gzip = folder / "gzip.h5"
        for n, path in enumerate(self.npy):
            values = random.standard_normal((samples, features))
            np.save(path, values)
            if n == 0:
                with h5py.File(self.hdf5, "w") as file:
                    file["x"] = values
                with h5py.File(self.gzip, "w") as file:
                    few = np.round(values[: max(samples // 8, batch)], 2)
                    file.create_dataset("x", data=few, chunks=(1, features), compression="gzip", compression_opts=1)
                np.savez(folder / "stored.npz", x=values)
        self.stored = folder / "stored.npz"

    def batches(self, n: int, samples: int | None = None) -> Iterator[NDArray[np.int64]]:
        """Random batches, the same each time."""
        random = np.random.default_rng(7)
        for _ in range(n):
            yield random.choice(samples or self.samples, self.batch, replace=False)


def rates(works: dict[str, Callable[[], int]]) -> dict[str, tuple[float, float]]:
    """Samples a second, and a second of CPU, of each work: the best of several tries that take turns."""
    best = dict.fromkeys(works, (0.0, 0.0))
    for _ in range(TRIES):
        for name, work in works.items():
            began, cpu = time.perf_counter(), time.process_time()
            done = work()
            found = (done / (time.perf_counter() - began), done / max(time.process_time() - cpu, 1e-9))
            best[name] = (max(best[name][0], found[0]), max(best[name][1], found[1]))
    return best


def kinema_epoch(data: SampleDataset, case: Case, n: int, workers: int) -> Callable[[], int]:
    """Batches into the buffers of the one before."""
    batch = Batch()
    samples = len(data)

    def work() -> int:
        for ids in case.batches(n, samples):
            data.read(ids, out=batch, workers=workers)
        return n * case.batch

    return work


def pread(case: Case, n: int) -> Callable[[], int]:
    """The loop of positional reads in Rust, of the same sorted rows into a buffer that is used again."""
    out = np.empty(case.batch * case.row_bytes, np.uint8)
    offset = case.npy[0].stat().st_size - case.samples * case.row_bytes

    def work() -> int:
        for ids in case.batches(n):
            _core._pread_rows(str(case.npy[0]), offset, case.row_bytes, np.sort(ids), out)
        return n * case.batch

    return work


def h5py_epoch(path: Path, case: Case, n: int, how: str) -> Callable[[], int]:
    """Sample by sample, or a sorted list of them at once."""
    file = h5py.File(path)
    data = file["x"]

    def work() -> int:
        for ids in case.batches(n, len(data)):
            if how == "sample":
                np.stack([data[i] for i in ids])
            else:
                order = np.argsort(ids)
                found = np.empty((len(ids), case.features))
                found[order] = data[ids[order]]
        return n * case.batch

    return work


def mapped(case: Case, n: int) -> Callable[[], int]:
    """NumPy's memory map."""
    values = np.load(case.npy[0], mmap_mode="r")

    def work() -> int:
        for ids in case.batches(n):
            values[ids]
        return n * case.batch

    return work


def measure(case: Case, n: int) -> None:
    """Prints the table."""
    npy, hdf5 = SampleDataset(case.npy[0]), SampleDataset(case.hdf5)
    few = max(1, n // 2)
    works = {
        "pread loop, sorted rows, 1 thread": pread(case, n),
        "Kinema .npy, 1 thread": kinema_epoch(npy, case, n, 1),
        "Kinema HDF5 contiguous, 1 thread": kinema_epoch(hdf5, case, n, 1),
        "Kinema HDF5 contiguous, all threads": kinema_epoch(hdf5, case, n, len(os.sched_getaffinity(0))),
        "Kinema .npz stored, 1 thread": kinema_epoch(SampleDataset(case.stored), case, n, 1),
        "Kinema, all files, 1 thread": kinema_epoch(SampleDataset(case.npy), case, n, 1),
        "h5py contiguous, sample by sample": h5py_epoch(case.hdf5, case, few, "sample"),
        "h5py contiguous, sorted list": h5py_epoch(case.hdf5, case, few, "list"),
        "NumPy, memory map": mapped(case, n),
        "Kinema gzip, a sample a chunk, 1 thread": kinema_epoch(SampleDataset(case.gzip), case, few, 1),
        "h5py gzip, a sample a chunk": h5py_epoch(case.gzip, case, few, "sample"),
    }
    found = rates(works)
    for name, (rate, of_cpu) in found.items():
        print(
            f"{name:42} {rate:10.0f} samples/s {rate * case.row_bytes / 1e9:7.2f} GB/s {1e6 / of_cpu:8.1f} us CPU each"
        )

    def ratio(one: str, other: str) -> str:
        return f"{found[one][0] / found[other][0]:.2f} ({found[one][1] / found[other][1]:.2f} by CPU time)"

    print(
        f"gather / pread loop: {ratio('Kinema .npy, 1 thread', 'pread loop, sorted rows, 1 thread')}, goal {PREAD_GOAL}"
    )
    for ours in ("Kinema HDF5 contiguous, 1 thread", "Kinema HDF5 contiguous, all threads"):
        for how in ("sample by sample", "sorted list"):
            print(f"{ours} / h5py {how}: {ratio(ours, f'h5py contiguous, {how}')}, goal {H5PY_GOAL:g}")
    ours = "Kinema gzip, a sample a chunk, 1 thread"
    print(f"gzip, a sample a chunk / h5py: {ratio(ours, 'h5py gzip, a sample a chunk')}")
    print(
        f"comparing an open file with what was opened, after each batch of {case.batch}: "
        f"{100 * compared(npy, case):.2f} % of the batch, goal {COMPARED_GOAL:g} %"
    )
    print(hdf5.explain(case.batch))


def compared(samples: SampleDataset, case: Case) -> float:
    """Time of the look at an open file after a batch, as a share of the batch on one thread."""
    files = samples._opened.get()._unchanged
    ids, touched = np.random.default_rng(3).permutation(len(samples))[: case.batch], np.zeros(1, np.int64)
    batch = samples.read(ids, workers=1)

    def best(work: Callable[[], object], n: int) -> float:
        tries = []
        for _ in range(7):
            began = time.perf_counter()
            for _ in range(n):
                work()
            tries.append((time.perf_counter() - began) / n)
        return min(tries)

    return best(lambda: files.check(touched), 200) / best(lambda: samples.read(ids, out=batch, workers=1), 3)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=8000)
    parser.add_argument("--features", type=int, default=8691)
    parser.add_argument("--files", type=int, default=2)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        case = Case(Path(folder), arguments.samples, arguments.features, arguments.files, arguments.batch)
        measure(case, arguments.batches)


if __name__ == "__main__":
    main()

"""Loops over samples: Kinema's loaders beside NumPy, h5py, LMDB, WebDataset and zarr, in one run, warm and cold.

    python benchmarks/ml_peers.py [--samples 4096] [--features 8691] [--tries 5] [--folder FOLDER]

Every loop gives all samples once, in random order, as batches of x (256, features) and y (256,) of float64: tensors if
torch is installed, else arrays. All batches are looked at. Rates, and ratios of rates of one try, are medians of
several tries, in which the loops take turns; each loop has run an epoch before, so that its workers are there. "cold":
no page of the files is in the page cache. It prints what it measures beside the goals, and judges nothing; of packages
that are missing it says so. All are there in the environment of `make test-ml` after `pip install lmdb webdataset
"zarr>=3"` in it.
"""

from __future__ import annotations

import argparse
import importlib
import io
import mmap
import multiprocessing
import os
import statistics
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.ml import Batch, Loader, Order, SampleDataset
from ml_loading_rows import call_on_files, read_pages
from repeats import drop_pages

BATCH = 256
WORKERS = 2
# samples of a tar file, and of the buffer that WebDataset shuffles in
SHARD = 512
HAS_TORCH = find_spec("torch") is not None

Epoch = Callable[[], Iterator[tuple[Any, Any]]]

READ, LOADER, ARRAYS = "dataset.read, one reader", "Loader", "Loader, arrays of NumPy"
TORCH, PROCESSES = f"DataLoader, {WORKERS} workers", f"{WORKERS} processes without torch"
PLAIN, ROWS, MAPPED = "plain read, in order", "plain reads, row by row", "NumPy, memory map"


@dataclass
class Loop:
    """A way to get batches."""

    program: str
    layout: str
    paths: list[Path]
    epoch: Epoch
    """Gives x and y of all samples."""
    counts: bool = True
    """Whether these are the samples; else bytes alone."""
    rates: dict[str, list[float]] = field(default_factory=lambda: {"warm": [], "cold": []})
    """Rates of each try."""
    cpu: float = float("inf")
    """Milliseconds of this process for each batch, warm."""


class Samples:
    """The samples, in the files of each program."""

    def __init__(self, folder: Path, n: int, features: int) -> None:
        self.folder, self.n, self.features = folder, n, features
        self.hdf5, self.npy = folder / "samples.h5", [folder / "x.npy", folder / "y.npy"]
        self.y = np.arange(n, dtype=np.float64)
        values = np.random.default_rng(0).random((n, features))
        # what is looked at: the number of the sample
        values[:, 0] = self.y
        self.x = values
        np.save(self.npy[0], values)
        np.save(self.npy[1], self.y)
        with h5py.File(self.hdf5, "w") as file:
            file["x"], file["y"] = values, self.y

    def batches(self, seed: int = 0) -> Iterator[NDArray[np.int64]]:
        """Numbers of the samples of each batch, in random order."""
        order = Order(self.n, seed)
        for start in range(0, self.n, BATCH):
            yield order.positions(start, min(start + BATCH, self.n))

    def lmdb(self) -> Path:
        """A sample a key."""
        lmdb = importlib.import_module("lmdb")
        path = self.folder / "samples.lmdb"
        with (
            lmdb.open(str(path), map_size=4 * self.x.nbytes + (1 << 26)) as environment,
            environment.begin(write=True) as put,
        ):
            for number in range(self.n):
                put.put(number.to_bytes(8, "big"), self.x[number].tobytes() + self.y[number].tobytes())
        return path

    def shards(self) -> list[Path]:
        """Tar files, as WebDataset has them."""
        paths = []
        for start in range(0, self.n, SHARD):
            paths.append(self.folder / f"shard-{start // SHARD:04d}.tar")
            with tarfile.open(paths[-1], "w") as tar:
                for number in range(start, min(start + SHARD, self.n)):
                    for name, value in (("x", self.x[number]), ("y", self.y[number])):
                        content = io.BytesIO()
                        np.save(content, value)
                        member = tarfile.TarInfo(f"{number:08d}.{name}.npy")
                        member.size = content.tell()
                        content.seek(0)
                        tar.addfile(member, content)
        return paths

    def zarr(self) -> Path:
        """A sample a chunk, not compressed."""
        zarr = importlib.import_module("zarr")
        path = self.folder / "samples.zarr"
        for name, values in (("x", self.x), ("y", self.y)):
            chunks = (1, self.features) if name == "x" else (self.n,)
            array = zarr.create_array(
                path / name, shape=values.shape, chunks=chunks, dtype=values.dtype, compressors=None
            )
            array[...] = values
        return path


def tensor(array: NDArray[Any]) -> Any:
    """Over the same memory, if torch is there."""
    if not HAS_TORCH:
        return array
    import torch

    return torch.from_numpy(array)


# -- Kinema ------------------------------------------------------------------------------------------------------------


def read_epoch(samples: Samples) -> Epoch:
    """`dataset.read` in a plain loop, into the same batch."""
    data, batch = SampleDataset(samples.hdf5), Batch()

    def epoch() -> Iterator[tuple[Any, Any]]:
        for ids in samples.batches():
            found = data.read(ids, out=batch)
            yield found["x"], found["y"]

    return epoch


def loader_epoch(samples: Samples, tensors: bool) -> Epoch:
    """Its threads read no other epoch ahead."""
    loader = Loader(SampleDataset(samples.hdf5), BATCH, tensors=tensors, next_epoch=False)
    return lambda: ((batch["x"], batch["y"]) for batch in loader)


def torch_epoch(samples: Samples) -> Epoch:
    """Our data set and collation in torch's loader."""
    from torch.utils.data import DataLoader

    from kinema.ml.torch import OrderSampler, collate

    loader = DataLoader(
        SampleDataset(samples.hdf5),
        BATCH,
        sampler=OrderSampler(Order(samples.n)),
        collate_fn=collate,
        num_workers=WORKERS,
        persistent_workers=True,
        multiprocessing_context="fork",
    )
    return lambda: ((batch["x"], batch["y"]) for batch in loader)


def processes_epoch(samples: Samples) -> Epoch:
    """The same without torch: each process reads every other batch into memory that it shares with this one."""
    context = multiprocessing.get_context("fork")
    rooms = [[mmap.mmap(-1, BATCH * (samples.features + 1) * 8) for _ in range(4)] for _ in range(WORKERS)]
    pipes: list[Connection] = []
    for number in range(WORKERS):
        own, other = context.Pipe()
        pipes.append(own)
        context.Process(target=read_for_another, args=(samples, rooms[number], number, other), daemon=True).start()

    def epoch() -> Iterator[tuple[Any, Any]]:
        for pipe in pipes:
            pipe.send("begin")
        for at, ids in enumerate(samples.batches()):
            pipe, room = pipes[at % WORKERS], rooms[at % WORKERS][at // WORKERS % 4]
            assert pipe.recv() == at
            x = np.frombuffer(room, count=len(ids) * samples.features).reshape(len(ids), samples.features)
            yield x, np.frombuffer(room, count=len(ids), offset=BATCH * samples.features * 8)
            pipe.send("done")

    return epoch


def read_for_another(samples: Samples, rooms: list[mmap.mmap], number: int, pipe: Connection) -> None:
    """One of these processes: reads into each room in turn when the other process is done with it."""
    data = SampleDataset(samples.hdf5)
    batches = []
    for room in rooms:
        parts = iter(np.split(np.frombuffer(room, np.uint8), [BATCH * samples.features * 8]))
        batches.append(Batch(lambda size, parts=parts: next(parts)[:size]))
        # x, then y, in their places
        data.read(np.arange(BATCH) % samples.n, out=batches[-1])
    while pipe.recv():
        lent = 0
        for at, ids in enumerate(samples.batches()):
            if at % WORKERS != number:
                continue
            if lent == len(rooms):
                pipe.recv()
                lent -= 1
            data.read(ids, out=batches[at // WORKERS % len(rooms)], workers=1)
            pipe.send(at)
            lent += 1
        for _ in range(lent):
            pipe.recv()


# -- others ------------------------------------------------------------------------------------------------------------


def plain_read_epoch(samples: Samples) -> Epoch:
    """The bytes of the file, one after the other: what the storage, or the page cache, gives."""
    buffer = bytearray(BATCH * samples.features * 8)

    def epoch() -> Iterator[tuple[Any, Any]]:
        with samples.hdf5.open("rb", buffering=0) as file:
            while n := file.readinto(buffer):
                yield n // (8 * samples.features), None

    return epoch


def plain_rows_epoch(samples: Samples) -> Epoch:
    """Each row of x by one read, in the order of the file within a batch."""
    with h5py.File(samples.hdf5) as file:
        begin = file["x"].id.get_offset()
    out = np.empty((BATCH, samples.features))

    def epoch() -> Iterator[tuple[Any, Any]]:
        with samples.hdf5.open("rb", buffering=0) as file:
            for ids in samples.batches():
                for row, number in enumerate(np.sort(ids).tolist()):
                    os.preadv(file.fileno(), [out[row]], begin + number * out[row].nbytes)
                yield len(ids), None

    return epoch


def mapped_epoch(samples: Samples) -> Epoch:
    """NumPy's memory map; what is taken of it by a list is a copy."""

    def epoch() -> Iterator[tuple[Any, Any]]:
        # pages that are mapped stay in the page cache: no map outlives an epoch
        x, y = (np.load(path, mmap_mode="r") for path in samples.npy)
        for ids in samples.batches():
            yield tensor(np.asarray(x[ids])), tensor(np.asarray(y[ids]))

    return epoch


def h5py_epoch(samples: Samples) -> Epoch:
    """By a sorted list of each batch."""
    file = h5py.File(samples.hdf5)

    def epoch() -> Iterator[tuple[Any, Any]]:
        for ids in samples.batches():
            rows = np.sort(ids)
            yield tensor(file["x"][rows]), tensor(file["y"][rows])

    return epoch


class H5pySamples:
    """A data set of torch that opens the file in each worker, as most write it."""

    def __init__(self, path: Path, n: int) -> None:
        self.path, self.n = path, n
        self.file: Any = None

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        if self.file is None:
            self.file = h5py.File(self.path)
        return self.file["x"][number], self.file["y"][number]


def torch_h5py_epoch(samples: Samples) -> Epoch:
    """torch's own shuffling and collation."""
    from torch.utils.data import DataLoader

    data = H5pySamples(samples.hdf5, samples.n)
    options: dict[str, Any] = {"num_workers": WORKERS, "persistent_workers": True, "multiprocessing_context": "fork"}
    loader = DataLoader(data, BATCH, shuffle=True, **options)
    return lambda: iter(loader)


def lmdb_epoch(samples: Samples, path: Path) -> Epoch:
    """Sample by sample into the arrays of a batch."""
    lmdb = importlib.import_module("lmdb")

    def epoch() -> Iterator[tuple[Any, Any]]:
        # a map, too
        with lmdb.open(str(path), readonly=True, lock=False, readahead=False) as environment:
            for ids in samples.batches():
                x, y = np.empty((len(ids), samples.features)), np.empty(len(ids))
                with environment.begin(buffers=True) as get:
                    for row, number in enumerate(ids.tolist()):
                        value = np.frombuffer(get.get(number.to_bytes(8, "big")))
                        x[row], y[row] = value[:-1], value[-1]
                yield tensor(x), tensor(y)

    return epoch


def webdataset_epoch(samples: Samples, paths: list[Path]) -> Epoch:
    """Tar files in random order, samples shuffled in a buffer, batches made by the workers."""
    webdataset = importlib.import_module("webdataset")
    data = webdataset.WebDataset(list(map(str, paths)), shardshuffle=len(paths), empty_check=False)
    data = data.shuffle(SHARD).decode().to_tuple("x.npy", "y.npy").batched(BATCH)
    loader = webdataset.WebLoader(data, batch_size=None, num_workers=min(WORKERS, len(paths)), persistent_workers=True)
    return lambda: iter(loader)


def zarr_epoch(samples: Samples, path: Path) -> Epoch:
    """By a sorted list of each batch."""
    zarr = importlib.import_module("zarr")
    x, y = (zarr.open_array(path / name, mode="r") for name in "xy")

    def epoch() -> Iterator[tuple[Any, Any]]:
        for ids in samples.batches():
            rows = np.sort(ids)
            yield tensor(x.oindex[rows]), tensor(y.oindex[rows])

    return epoch


# -- all of them -------------------------------------------------------------------------------------------------------


def is_there(module: str, least: int = 0) -> bool:
    """Whether a package is installed, in this version at least; says so if not."""
    found = find_spec(module) is not None
    version = getattr(importlib.import_module(module), "__version__", "0") if found else ""
    if found and int(version.split(".")[0]) >= least:
        return True
    wanted = f"{module} {least}" if least else module
    print(f"{wanted} is not installed{f' ({version} is)' if found else ''}: its rows are left out")
    return False


def loops_of(samples: Samples) -> Iterator[Loop]:
    """All loops whose packages are there."""
    hdf5, layout = [samples.hdf5], "HDF5, contiguous"
    # processes that are forked first: nothing runs beside them yet
    yield Loop(PROCESSES, layout, hdf5, processes_epoch(samples))
    has_torch = is_there("torch")
    if has_torch:
        yield Loop(TORCH, layout, hdf5, torch_epoch(samples))
        yield Loop(f"DataLoader(h5py), {WORKERS} workers", layout, hdf5, torch_h5py_epoch(samples))
    if has_torch and is_there("webdataset"):
        paths = samples.shards()
        yield Loop(f"WebDataset, {WORKERS} workers", "tar files", paths, webdataset_epoch(samples, paths))
    yield Loop(READ, layout, hdf5, read_epoch(samples))
    yield Loop(ARRAYS, layout, hdf5, loader_epoch(samples, False))
    if has_torch:
        yield Loop(LOADER, layout, hdf5, loader_epoch(samples, True))
    yield Loop(PLAIN, layout, hdf5, plain_read_epoch(samples), counts=False)
    yield Loop(ROWS, layout, hdf5, plain_rows_epoch(samples), counts=False)
    yield Loop(MAPPED, "two .npy", samples.npy, mapped_epoch(samples))
    yield Loop("h5py, sorted list", layout, hdf5, h5py_epoch(samples))
    if is_there("lmdb"):
        path = samples.lmdb()
        yield Loop("LMDB", "a sample a key", [path / "data.mdb"], lmdb_epoch(samples, path))
    if is_there("zarr", 3):
        path = samples.zarr()
        files = [one for one in path.rglob("*") if one.is_file()]
        yield Loop("zarr 3, sorted list", "a sample a chunk", files, zarr_epoch(samples, path))


def rate_of(loop: Loop, n: int) -> tuple[float, float]:
    """Samples a second of an epoch, and seconds of this process's CPU for it; every batch is looked at."""
    seen = 0
    began, cpu = time.perf_counter(), time.process_time()
    for x, y in loop.epoch():
        if loop.counts:
            assert x.shape[0] == y.shape[0] and (x[:, 0] == y).all()
            seen += len(y)
        else:
            seen += x
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    assert seen >= n - BATCH if not loop.counts else seen == n, f"{loop.program}: {seen} of {n} samples"
    return n / seconds, cpu


def measure(samples: Samples, loops: list[Loop], tries: int) -> None:
    """Fills in the rates."""
    for loop in loops:
        rate_of(loop, samples.n)
    for how, prepare in (("warm", read_pages), ("cold", drop_pages)):
        for _ in range(tries):
            for loop in loops:
                call_on_files(loop.paths, prepare)
                rate, cpu = rate_of(loop, samples.n)
                loop.rates[how].append(rate)
                if how == "warm":
                    loop.cpu = min(loop.cpu, 1e3 * cpu * BATCH / samples.n)


def ratio(one: Loop, other: Loop, how: str) -> float:
    """Median ratio of the rates of the same try."""
    return statistics.median(a / b for a, b in zip(one.rates[how], other.rates[how], strict=True))


def report(loops: list[Loop], sample_bytes: int) -> None:
    """The table, and the ratios beside their goals."""
    by_name = {loop.program: loop for loop in loops}
    ours = by_name.get(LOADER, by_name[ARRAYS])
    print(f"{'program':32} {'layout':18} {'warm, samples/s':>16} {'GB/s':>6} {'cold':>9} {'GB/s':>6}", end="")
    print("  Loader / this, warm  cold   CPU ms a batch, of this process")
    for loop in loops:
        warm, cold = (statistics.median(loop.rates[how]) for how in ("warm", "cold"))
        print(
            f"{loop.program:32} {loop.layout:18} {warm:16,.0f} {warm * sample_bytes / 1e9:6.2f} {cold:9,.0f} "
            f"{cold * sample_bytes / 1e9:6.2f} {ratio(ours, loop, 'warm'):21.2f} {ratio(ours, loop, 'cold'):5.2f} "
            f"{loop.cpu:8.2f}"
        )
    goals = [
        (ours.program, READ, "warm", 0.9),
        (ours.program, MAPPED, "warm", 1.0),
        (ours.program, ROWS, "cold", 0.9),
        (ours.program, PLAIN, "cold", 0.9),
        (TORCH, PROCESSES, "warm", 0.9),
    ]
    for one, other, how, goal in goals:
        if one in by_name:
            print(f"{one} / {other}, {how}: {ratio(by_name[one], by_name[other], how):.2f}, goal {goal:g}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--features", type=int, default=8691)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where a folder for the files is made, and removed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        samples = Samples(Path(folder), options.samples, options.features)
        print(f"{os.cpu_count()} cores; {samples.n} samples of {samples.features} + 1 float64, batches of {BATCH}")
        loops = list(loops_of(samples))
        measure(samples, loops, options.tries)
        report(loops, 8 * (samples.features + 1))


if __name__ == "__main__":
    main()

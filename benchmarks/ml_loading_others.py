"""More loops of `ml_loading.py`: zarr, frames by MDAnalysis and MDTraj, workers of torch's DataLoader, system calls.

Each is measured where its package, or strace, is installed; what is not is named. Of the worker processes of torch
the bytes read are not counted.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.ml import FrameDataset, Loader, Order, SampleDataset
from kinema.testing import write_dcd

Batches = Iterator[NDArray[Any]]
# layout, program, order, loop
Loop = tuple[str, str, str, Callable[[], Batches]]
WORKERS = [(0, None), *((workers, ahead) for workers in (2, 6) for ahead in (2, 4, 8))]
SYSTEM_CALLS = "read,pread64,preadv,preadv2,lseek,openat"


def _is_there(name: str) -> bool:
    there = find_spec(name) is not None
    if not there:
        print(f"{name} is not installed: its rows are left out")
    return there


def other_loops(folder: Path, hdf5: list[Path], values: list[NDArray[np.float64]], batch: int) -> Iterator[Loop]:
    """Of the samples of all files, (samples, features) each; files are made in `folder`."""
    if _is_there("zarr"):
        for chunk in (1, batch):
            stores = zarr_stores(folder / f"zarr-{chunk}", values, chunk)
            yield f"zarr chunks of {chunk}", "zarr, sorted", "random", lambda s=stores: zarr_sorted(s, batch)
    path = folder / "frames.dcd"
    # coordinates of single precision: as many numbers a frame as a sample has
    frames = np.concatenate(values).astype(np.float32).reshape(-1, values[0].shape[1] // 3, 3)
    write_dcd(path, frames)
    if _is_there("MDAnalysis"):
        yield "frames, DCD", "MDAnalysis", "random", lambda: mdanalysis_frames(path, frames.shape[1], batch)
    if _is_there("mdtraj"):
        yield "frames, DCD", "MDTraj", "random", lambda: mdtraj_frames(path, len(frames), batch)
    yield "frames, DCD", "Kinema", "random", lambda: kinema_frames(path, batch)
    if _is_there("torch"):
        for workers, ahead in WORKERS:
            name = f"torch, {workers} workers" + (f", {ahead} ahead" if ahead else "")
            yield "HDF5 contiguous", name, "random", lambda w=workers, a=ahead: torch_batches(hdf5, batch, w, a)


def zarr_stores(folder: Path, values: list[NDArray[np.float64]], chunk: int) -> list[Any]:
    """A directory store a file, with zarr's own compression."""
    import zarr

    return [
        zarr.array(array, store=str(folder / f"{number:04d}"), chunks=(chunk, array.shape[1]), overwrite=True)
        for number, array in enumerate(values)
    ]


def zarr_sorted(stores: list[Any], batch: int) -> Batches:
    """Samples in random order, those of each store in a batch by one sorted selection."""
    n_samples = len(stores[0])
    for ids in _random(n_samples * len(stores), batch):
        file, number = np.divmod(ids, n_samples)
        rows = np.empty((len(ids), stores[0].shape[1]))
        for one in np.unique(file):
            places = np.flatnonzero(file == one)
            places = places[np.argsort(number[places])]
            rows[places] = stores[one].oindex[number[places]]
        yield rows


def mdanalysis_frames(path: Path, n_atoms: int, batch: int) -> Batches:
    """Frames in random order, one by one."""
    import MDAnalysis

    universe = MDAnalysis.Universe.empty(n_atoms, trajectory=False)
    universe.load_new(str(path))
    for ids in _random(len(universe.trajectory), batch):
        yield np.stack([universe.trajectory[int(frame)].positions.reshape(-1) for frame in ids])


def mdtraj_frames(path: Path, n_frames: int, batch: int) -> Batches:
    """Frames in random order, one by one of a file that stays open."""
    from mdtraj.formats import DCDTrajectoryFile

    with DCDTrajectoryFile(str(path)) as file:
        for ids in _random(n_frames, batch):
            rows = []
            for frame in ids:
                file.seek(int(frame))
                rows.append(file.read(1)[0].reshape(-1))
            yield np.stack(rows)


def kinema_frames(path: Path, batch: int) -> Batches:
    """Frames in random order by a loader."""
    for one in Loader(FrameDataset(path), batch, tensors=False):
        positions = one["positions"]
        yield positions.reshape(len(one.ids), -1)


def torch_batches(hdf5: list[Path], batch: int, workers: int, ahead: int | None) -> Batches:
    """Kinema's data set by torch's DataLoader and its worker processes."""
    from torch.utils.data import DataLoader

    from kinema.ml.torch import OrderSampler, collate

    data = SampleDataset(hdf5)
    sampler = OrderSampler(Order(len(data)))
    options = {} if ahead is None else {"prefetch_factor": ahead, "multiprocessing_context": "spawn"}
    for one in DataLoader(data, batch, sampler=sampler, collate_fn=collate, num_workers=workers, **options):
        yield one["x"].numpy()


def _random(n: int, batch: int) -> Iterator[NDArray[np.int64]]:
    order = Order(n)
    for start in range(0, n, batch):
        yield order.positions(start, min(start + batch, n))


# -- system calls ------------------------------------------------------------------------------------------------------

CHILD = """
import sys
import h5py
import numpy as np
from kinema.ml import Order, SampleDataset
paths, program, batches, batch = sys.argv[4:], sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
data = SampleDataset(paths)
files = [h5py.File(path)["x"] for path in paths]
for start in range(0, batch * batches, batch):
    ids = Order(len(data)).positions(start, min(start + batch, len(data)))
    if program == "Kinema":
        data.read(ids, workers=1)
    else:
        file, number = np.divmod(ids, len(files[0]))
        for one in np.unique(file):
            files[one][np.sort(number[file == one])]
"""


def system_calls(hdf5: list[Path], batch: int) -> None:
    """Prints calls of a batch in random order, from `strace -c` of a process with some batches and one without."""
    if shutil.which("strace") is None:
        print("strace is not installed: system calls are not counted")
        return
    for program in ("h5py, sorted", "Kinema"):
        without, some = (_counted(program, batches, batch, hdf5) for batches in (0, 2))
        print(f"{program}: {(some - without) / 2:.0f} system calls a batch of {batch} ({SYSTEM_CALLS})")


def _counted(program: str, batches: int, batch: int, hdf5: list[Path]) -> int:
    with tempfile.NamedTemporaryFile("r") as table:
        words = ["strace", "-f", "-c", "-e", f"trace={SYSTEM_CALLS}", "-o", table.name]
        words += [sys.executable, "-c", CHILD, program, str(batches), str(batch), *map(str, hdf5)]
        subprocess.run(words, check=True, timeout=300)
        lines = [line.split() for line in table]
    names = set(SYSTEM_CALLS.split(","))
    return sum(int(line[3]) for line in lines if line and line[-1] in names and re.fullmatch(r"\d+", line[3]))

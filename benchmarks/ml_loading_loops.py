"""The loops of `ml_loading.py`: files in every layout, and what gives batches of them; nothing is measured here.

A loop that needs a package which is not installed is left out, and its reason is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.ml import FrameDataset, Loader, Order, SampleDataset
from kinema.testing import write_dcd

FEATURES = 8_691
BATCH = 256
# of loops that take a sample at a time, in seconds: what they have by then is a batch
LONGEST_BATCH = 3.0
# of the HDF5 layouts: samples a chunk and level of gzip
HDF5: dict[str, dict[str, Any]] = {
    "HDF5 contiguous": {},
    "HDF5 chunks of 1": {"chunks": (1, FEATURES)},
    "HDF5 chunks of 256": {"chunks": (256, FEATURES)},
    "HDF5 chunks of 1, gzip": {"chunks": (1, FEATURES), "compression": "gzip", "compression_opts": 1},
    "HDF5 chunks of 256, gzip": {"chunks": (256, FEATURES), "compression": "gzip", "compression_opts": 1},
}
NPZ = {"NPZ stored": np.savez, "NPZ deflated": np.savez_compressed}
SINGLE = "a sample a file"
CONTIGUOUS = "HDF5 contiguous"
# workers of torch's DataLoader, and its prefetch_factor
WORKERS = [(0, None), *((workers, ahead) for workers in (2, 6) for ahead in (2, 4, 8))]

Batches = Iterator[NDArray[Any]]


class Loop(NamedTuple):
    """One way to get batches."""

    layout: str
    program: str
    order: str
    made: Callable[[], Batches]
    files: list[Path]
    n_samples: int
    """That are different, in all files."""


# -- files -------------------------------------------------------------------------------------------------------------


def make_files(folder: Path, n_files: int, n_samples: int) -> dict[str, list[Path]]:
    """Every layout of the same samples, whose first number is the sample's; files that are there are used again."""
    layouts: dict[str, list[Path]] = {}
    for file in range(n_files):
        values: NDArray[np.float64] | None = None
        for name in (*NPZ, *HDF5, SINGLE):
            path = folder / f"{n_samples} {name}".replace(" ", "-").replace(",", "") / f"{file:04d}"
            path = path if name == SINGLE else path.with_suffix(".npz" if name in NPZ else ".h5")
            layouts.setdefault(name, []).append(path)
            if not path.exists():
                values = samples_of(file, n_samples) if values is None else values
                write(name, path, values)
    return layouts


def samples_of(file: int, n_samples: int) -> NDArray[np.float64]:
    """The samples of one file: of single precision, as features mostly are, so that half of the bytes compress."""
    values = np.random.default_rng(file).random((n_samples, FEATURES), np.float32).astype(np.float64)
    values[:, 0] = np.arange(n_samples) + file * n_samples
    return values


def write(name: str, path: Path, values: NDArray[Any]) -> None:
    """One file of a layout, or its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"part-{path.name}")
    if name in NPZ:
        NPZ[name](part, x=values)
    elif name in HDF5:
        with h5py.File(part, "w") as file:
            file.create_dataset("x", data=values, **HDF5[name])
    else:
        part.mkdir(exist_ok=True)
        for number, sample in enumerate(values):
            np.save(part / f"{number:06d}.npy", sample)
    part.rename(path)


# -- loops of others ---------------------------------------------------------------------------------------------------


def _random(n: int) -> Iterator[NDArray[np.int64]]:
    order = Order(n)
    for start in range(0, n, BATCH):
        yield order.positions(start, min(start + BATCH, n))


def batches_sample_by_sample(paths: list[Path], n_samples: int, get: Callable[[Path, int], Any]) -> Batches:
    """Samples in random order, each by itself; a batch that takes too long is cut."""
    batch = np.empty((BATCH, FEATURES))
    for ids in _random(len(paths) * n_samples):
        began, rows = time.perf_counter(), 0
        for sample in ids:
            file, number = divmod(int(sample), n_samples)
            batch[rows] = get(paths[file], number)
            rows += 1
            if time.perf_counter() - began > LONGEST_BATCH:
                break
        yield batch[:rows]


def npz_sample(path: Path, number: int) -> Any:
    """As loaders do that are written for archives of one sample: the member is read whole."""
    with np.load(path) as archive:
        return archive["x"][number]


def single_sample(path: Path, number: int) -> Any:
    """One file."""
    return np.load(path / f"{number:06d}.npy")


def h5py_single(paths: list[Path], n_samples: int) -> Batches:
    """Samples in random order, one by one from files that stay open."""
    files = {path: h5py.File(path)["x"] for path in paths}
    return batches_sample_by_sample(paths, n_samples, lambda path, number: files[path][number])


def sorted_selections(stores: list[Any], n_samples: int, get: Callable[[Any, NDArray[np.int64]], Any]) -> Batches:
    """Samples in random order; one sorted selection reads all samples of a file in a batch."""
    batch = np.empty((BATCH, FEATURES))
    for ids in _random(len(stores) * n_samples):
        file, number = np.divmod(ids, n_samples)
        for one in np.unique(file):
            rows = np.flatnonzero(file == one)
            rows = rows[np.argsort(number[rows])]
            batch[rows] = get(stores[one], number[rows])
        yield batch[: len(ids)]


def h5py_sorted(paths: list[Path], n_samples: int) -> Batches:
    """By h5py's selection with a list."""
    return sorted_selections([h5py.File(path)["x"] for path in paths], n_samples, lambda data, rows: data[rows])


def whole_files(paths: list[Path], load: Callable[[Path], NDArray[np.float64]]) -> Batches:
    """Files in random order, each read whole, its samples in random order."""
    rng = np.random.default_rng(0)
    for file in rng.permutation(len(paths)):
        values = load(paths[file])
        ids = rng.permutation(len(values))
        for start in range(0, len(ids), BATCH):
            yield values[ids[start : start + BATCH]]


def npz_whole(path: Path) -> NDArray[np.float64]:
    """The array of an archive."""
    with np.load(path) as archive:
        array: NDArray[np.float64] = archive["x"]
        return array


def h5py_whole(path: Path) -> NDArray[np.float64]:
    """The data set of a file."""
    with h5py.File(path) as file:
        array: NDArray[np.float64] = file["x"][:]
        return array


def zarr_stores(folder: Path, values: list[NDArray[np.float64]], chunk: int) -> list[Any]:
    """A directory store a file, with zarr's own compression."""
    import zarr

    return [
        zarr.array(array, store=str(folder / f"{number:04d}"), chunks=(chunk, array.shape[1]), overwrite=True)
        for number, array in enumerate(values)
    ]


def _oindex(store: Any, rows: NDArray[np.int64]) -> Any:
    return store.oindex[rows]


def mdanalysis_frames(path: Path, n_atoms: int) -> Batches:
    """Frames in random order, one by one."""
    import MDAnalysis

    universe = MDAnalysis.Universe.empty(n_atoms, trajectory=False)
    universe.load_new(str(path))
    for ids in _random(len(universe.trajectory)):
        yield np.stack([universe.trajectory[int(frame)].positions.reshape(-1) for frame in ids])


def mdtraj_frames(path: Path, n_frames: int) -> Batches:
    """Frames in random order, one by one of a file that stays open."""
    from mdtraj.formats import DCDTrajectoryFile

    with DCDTrajectoryFile(str(path)) as file:
        for ids in _random(n_frames):
            rows = []
            for frame in ids:
                file.seek(int(frame))
                rows.append(file.read(1)[0].reshape(-1))
            yield np.stack(rows)


# -- Kinema ------------------------------------------------------------------------------------------------------------


class KinemaBatches:
    """Epoch after epoch; knows how many samples were read, with those that were read ahead."""

    def __init__(self, dataset: Any, order: str = "random", rank: int = 0, ranks: int = 1) -> None:
        self.samples = 0
        read = dataset.read

        def counted(ids: Any, **options: Any) -> Any:
            self.samples += len(ids)
            return read(ids, **options)

        dataset.read = counted
        # whole chunks of 256 samples for each rank
        window = {"window": 4 * BATCH * ranks} if order == "windowed" else {}
        options: dict[str, Any] = {"rank": rank, "ranks": ranks, "lanes": ranks, "order": order, **window}
        self._loader = Loader(dataset, BATCH, tensors=False, drop_last=True, **options)
        self._batches = iter(self._loader)

    def __iter__(self) -> Batches:
        while True:
            for batch in self._batches:
                first = next(iter(batch.values()))
                yield first.reshape(len(first), -1)
            self._batches = iter(self._loader)

    def close(self) -> None:
        """Ends the threads."""
        self._loader.close()


def kinema_batches(paths: list[Path], order: str, rank: int = 0, ranks: int = 1) -> KinemaBatches:
    """Samples of archives; folders have a sample a file."""
    files = [file for path in paths for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    return KinemaBatches(SampleDataset(files, file_is_sample=paths[0].is_dir()), order, rank, ranks)


def frame_batches(path: Path) -> KinemaBatches:
    """Frames in random order."""
    return KinemaBatches(FrameDataset(path))


def torch_batches(paths: list[Path], workers: int, ahead: int | None, rank: int = 0, ranks: int = 1) -> Batches:
    """Kinema's data set by torch's DataLoader and its worker processes, epoch after epoch."""
    from torch.utils.data import DataLoader

    from kinema.ml.torch import OrderSampler, collate

    data = SampleDataset(paths)
    sampler = OrderSampler(Order(len(data), lanes=ranks), rank, ranks, drop_last=True)
    options: dict[str, Any] = {"prefetch_factor": ahead, "multiprocessing_context": "fork"} if workers else {}
    loader = DataLoader(
        data, BATCH, sampler=sampler, collate_fn=collate, num_workers=workers, persistent_workers=workers > 0, **options
    )
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        for one in loader:
            yield one["x"].numpy()
        epoch += 1


# -- all of them -------------------------------------------------------------------------------------------------------


def archive_loops(layouts: dict[str, list[Path]], n_samples: int) -> Iterator[Loop]:
    """Loops over samples in archives."""
    for layout, paths in layouts.items():
        found: list[tuple[str, str, Callable[[], Batches]]] = []
        if layout in NPZ:
            found.append(
                ("NumPy, a sample at a time", "random", partial(batches_sample_by_sample, paths, n_samples, npz_sample))
            )
            found.append(("NumPy, whole files", "files", partial(whole_files, paths, npz_whole)))
        elif layout in HDF5:
            found.append(("h5py, a sample at a time", "random", partial(h5py_single, paths, n_samples)))
            found.append(("h5py, sorted", "random", partial(h5py_sorted, paths, n_samples)))
            found.append(("h5py, whole files", "files", partial(whole_files, paths, h5py_whole)))
        else:
            single = partial(batches_sample_by_sample, paths, n_samples, single_sample)
            found.append(("NumPy, a sample at a time", "random", single))
        if layout != "NPZ deflated":
            found.append(("Kinema", "random", partial(kinema_batches, paths, "random")))
            if layout != SINGLE:
                found.append(("Kinema", "windowed", partial(kinema_batches, paths, "windowed")))
        for program, order, made in found:
            yield Loop(layout, program, order, made, paths, len(paths) * n_samples)


def _is_there(name: str) -> bool:
    there = find_spec(name) is not None
    if not there:
        print(f"{name} is not installed: its rows are left out")
    return there


def other_loops(folder: Path, values: list[NDArray[np.float64]]) -> Iterator[Loop]:
    """zarr and frames, of `values`, (samples, features) of each file, which are written to `folder`."""
    few = sum(map(len, values))
    if _is_there("zarr"):
        for chunk in (1, BATCH):
            stores = zarr_stores(folder / f"zarr-{chunk}", values, chunk)
            made: Callable[[], Batches] = partial(sorted_selections, stores, len(values[0]), _oindex)
            yield Loop(f"zarr chunks of {chunk}", "zarr, sorted", "random", made, [], few)
    path = folder / "frames.dcd"
    # coordinates of single precision: as many numbers a frame as a sample has
    frames = np.concatenate(values).astype(np.float32).reshape(-1, FEATURES // 3, 3)
    write_dcd(path, frames)
    if _is_there("MDAnalysis"):
        made = partial(mdanalysis_frames, path, frames.shape[1])
        yield Loop("frames, DCD", "MDAnalysis", "random", made, [path], few)
    if _is_there("mdtraj"):
        yield Loop("frames, DCD", "MDTraj", "random", partial(mdtraj_frames, path, len(frames)), [path], few)
    yield Loop("frames, DCD", "Kinema", "random", partial(frame_batches, path), [path], few)


def torch_name(workers: int, ahead: int | None) -> str:
    """Name of a PyTorch row in the table."""
    return f"torch, {workers} workers" + (f", prefetch {ahead}" if ahead else "")

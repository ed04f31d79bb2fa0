"""Loops over samples, as in training codes: NumPy and h5py sample by sample, by sorted selections, by whole files; and
Kinema's loader. Each yields sample numbers and their values, epoch after epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.ml import Dataset, Loader, Order, SampleDataset
from kinema.studies.sample_loading.design import SampleLayout

Taken = tuple[NDArray[np.int64], Mapping[str, Any]]
"""Numbers of the samples of a batch, and their values by array."""

Shuffled = Callable[[], Iterator[Taken]]


@dataclass(frozen=True)
class Loop:
    """A loop over the files of a layout.

    `order`: {"random", "windowed", "files"}; random over all samples; random within windows; whole files in random
        order, with their samples in random order.
    `start`: opens the files, and yields the batches.
    """

    program: str
    order: str
    start: Shuffled


@dataclass(frozen=True)
class _Files:
    """The files of a layout, and the places of samples in them."""

    paths: Sequence[Path]
    bounds: NDArray[np.int64]
    names: Sequence[str]
    batch: int
    seed: int
    longest: float
    """Seconds after which a batch that is read a sample at a time is cut."""

    def orders(self) -> Iterator[NDArray[np.int64]]:
        """Random batches without end."""
        n, epoch = int(self.bounds[-1]), 0
        while True:
            ids = Order(n, seed=self.seed, epoch=epoch).positions(0, n)
            for start in range(0, n - n % self.batch, self.batch):
                yield ids[start : start + self.batch]
            epoch += 1

    def place(self, sample: int) -> tuple[int, int]:
        """The file of a sample, and its row in the file."""
        file = int(np.searchsorted(self.bounds, sample, side="right")) - 1
        return file, sample - int(self.bounds[file])


def loops_of(
    layout: SampleLayout, paths: Sequence[Path], bounds: NDArray[np.int64], names: Sequence[str], **options: Any
) -> Iterator[Loop]:
    """The loops that make sense for a layout. `options`: batch, seed, longest."""
    files = _Files(paths, bounds, names, **options)
    if layout.kind == "files":
        yield Loop("NumPy, a sample at a time", "random", lambda: _each_sample(files, _archive_of_one))
    elif layout.kind == "npz":
        yield Loop("NumPy, a sample at a time", "random", lambda: _each_sample(files, _row_of_archive))
        yield Loop("NumPy, whole files", "files", lambda: _whole_files(files, _archive))
    else:
        yield Loop("h5py, a sample at a time", "random", lambda: _h5py_each(files))
        yield Loop("h5py, sorted", "random", lambda: _h5py_sorted(files))
        yield Loop("h5py, whole files", "files", lambda: _whole_files(files, _hdf5))

    def opened() -> Dataset:
        is_folder = layout.kind == "files"
        return SampleDataset(paths[0] if is_folder else list(paths), list(names), file_is_sample=is_folder)

    yield loop_of_kinema(opened, "random", files.batch, files.seed)
    if layout.chunk is not None:
        yield loop_of_kinema(opened, "windowed", files.batch, files.seed)


def loop_of_kinema(opened: Callable[[], Dataset], order: str, batch: int, seed: int) -> Loop:
    """Kinema's loader over a data set, which is opened with the loop, because it may keep decompressed data."""

    def batches(data: Dataset) -> Iterator[Taken]:
        window: dict[str, Any] = {"window": 4 * batch, "lanes": 1} if order == "windowed" else {}
        loader = Loader(data, batch, order=order, seed=seed, tensors=False, drop_last=True, **window)
        try:
            while True:
                for one in loader:
                    yield one.ids, one
        finally:
            loader.close()

    return Loop("Kinema", order, lambda: batches(opened()))


# -- NumPy -------------------------------------------------------------------------------------------------------------


def _archive_of_one(files: _Files, sample: int) -> dict[str, Any]:
    with np.load(files.paths[0] / f"{sample:08d}.npz") as archive:
        return {name: archive[name] for name in files.names}


def _row_of_archive(files: _Files, sample: int) -> dict[str, Any]:
    """Reads the members whole, as loaders do that were written for archives of one sample."""
    file, row = files.place(sample)
    with np.load(files.paths[file]) as archive:
        return {name: archive[name][row] for name in files.names}


def _archive(path: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    with np.load(path) as archive:
        return {name: archive[name] for name in names}


def _each_sample(files: _Files, get: Callable[[_Files, int], dict[str, Any]]) -> Iterator[Taken]:
    for ids in files.orders():
        began, rows = time.perf_counter(), []
        for sample in map(int, ids):
            rows.append(get(files, sample))
            if time.perf_counter() - began > files.longest:
                break
        yield ids[: len(rows)], {name: np.stack([row[name] for row in rows]) for name in files.names}


def _whole_files(files: _Files, load: Callable[[Path, Sequence[str]], dict[str, NDArray[Any]]]) -> Iterator[Taken]:
    chance = np.random.default_rng(files.seed)
    while True:
        for file in chance.permutation(len(files.paths)):
            values = load(files.paths[file], files.names)
            ids = chance.permutation(int(files.bounds[file + 1] - files.bounds[file]))
            for start in range(0, len(ids), files.batch):
                some = ids[start : start + files.batch]
                yield files.bounds[file] + some, {name: array[some] for name, array in values.items()}


# -- h5py --------------------------------------------------------------------------------------------------------------


def _hdf5(path: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    import h5py

    with h5py.File(path) as file:
        return {name: file[name][()] for name in names}


def _h5py_each(files: _Files) -> Iterator[Taken]:
    import h5py

    with ExitStack() as stack:
        opened = [stack.enter_context(h5py.File(path)) for path in files.paths]
        sets = [{name: file[name] for name in files.names} for file in opened]

        def get(_: _Files, sample: int) -> dict[str, Any]:
            file, row = files.place(sample)
            return {name: dataset[row] for name, dataset in sets[file].items()}

        yield from _each_sample(files, get)


def _h5py_sorted(files: _Files) -> Iterator[Taken]:
    """Reads the samples of a batch that lie in one file by one selection, which h5py requires in ascending order."""
    import h5py

    with ExitStack() as stack:
        opened = [stack.enter_context(h5py.File(path)) for path in files.paths]
        for ids in files.orders():
            file = np.searchsorted(files.bounds, ids, side="right") - 1
            values: dict[str, Any] = {}
            for name in files.names:
                kind = opened[0][name]
                values[name] = np.empty((len(ids), *kind.shape[1:]), kind.dtype)
                for one in np.unique(file):
                    rows = np.flatnonzero(file == one)
                    rows = rows[np.argsort(ids[rows])]
                    values[name][rows] = opened[one][name][ids[rows] - files.bounds[one]]
            yield ids, values

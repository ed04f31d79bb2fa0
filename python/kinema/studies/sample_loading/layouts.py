"""The same samples in every layout: some of the user's, in runs from all parts of the data, written to scratch."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.ml import SampleDataset
from kinema.studies.sample_loading.design import LAYOUTS, LoadingDesign, SampleLayout

_FILES = 4
_RUNS = 16
# share of a folder's free space; bytes around an array
_SHARE = 0.8
_AROUND = 4096


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples under comparison: arrays by name, (samples, ...), their numbers in the data set, and its size."""

    arrays: Mapping[str, NDArray[Any]]
    ids: NDArray[np.int64]
    of: int

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample."""
        return sum(array.nbytes for array in self.arrays.values()) // len(self)

    @property
    def bounds(self) -> NDArray[np.int64]:
        """(files + 1,) number of the first sample in each file."""
        return np.linspace(0, len(self), min(_FILES, len(self)) + 1).astype(np.int64)


def take_samples(data: SampleDataset, design: LoadingDesign) -> Samples:
    """Samples of `data` in runs that are spread evenly, as many as the design's size allows.

    Raises ArgumentError if these are fewer than two batches.
    """
    n = min(len(data), design.size // max(1, data.sample_bytes))
    if n < 2 * design.batch:
        what = f"the data set has {len(data):,}" if n == len(data) else f"{design.size:,} bytes hold {n:,}"
        raise ArgumentError(
            f"{design.sources[0]}: two batches of {design.batch} samples are needed, and {what}; give a smaller batch"
            + ("" if n == len(data) else " or a larger size")
        )
    lengths = np.diff(np.linspace(0, n, _RUNS + 1).astype(np.int64))
    starts = np.linspace(0, len(data) - n, _RUNS).astype(np.int64) + np.concatenate([[0], np.cumsum(lengths)[:-1]])
    ids = np.concatenate([start + np.arange(length) for start, length in zip(starts, lengths, strict=True)])
    batch = data.read(ids)
    return Samples({name: np.array(batch[name]) for name in data.fields}, ids, len(data))


def check_room(samples: Samples, folder: Path) -> None:
    """Raises ArgumentError if the samples in all layouts do not fit into a folder."""
    each = len(samples) * samples.sample_bytes
    needed = len(LAYOUTS) * each + len(samples) * _AROUND * (1 + 2 * len(samples.arrays))
    free = shutil.disk_usage(folder).free
    if needed > _SHARE * free:
        raise ArgumentError(
            f"{folder}: {len(LAYOUTS)} layouts of the samples take {needed:,} bytes, and {free:,} are free there; give "
            "a smaller size or another folder for them"
        )


def chunk_of(layout: SampleLayout, samples: Samples, batch: int) -> int:
    """Samples per chunk, for a layout with chunks."""
    return int(min(layout.chunk or batch, np.diff(samples.bounds).min()))


def write_layout(layout: SampleLayout, samples: Samples, folder: Path, batch: int) -> list[Path]:
    """The files of a layout; its folder, if each sample has a file."""
    import h5py

    folder.mkdir()
    if layout.kind == "files":
        for number in range(len(samples)):
            # a single value becomes an array of one: data sets are samples x features
            one: Any = {name: np.atleast_1d(array[number]) for name, array in samples.arrays.items()}
            np.savez(folder / f"{number:08d}.npz", **one)
        return [folder]
    paths = []
    for number, (start, stop) in enumerate(zip(samples.bounds, samples.bounds[1:], strict=False)):
        arrays = {name: array[start:stop] for name, array in samples.arrays.items()}
        path = folder / f"{number:04d}.{'npz' if layout.kind == 'npz' else 'h5'}"
        if layout.kind == "npz":
            save: Any = np.savez_compressed if layout.deflated else np.savez
            save(path, **arrays)
        else:
            with h5py.File(path, "w") as file:
                for name, array in arrays.items():
                    chunks = None
                    if layout.chunk is not None:
                        chunks = (chunk_of(layout, samples, batch), *array.shape[1:])
                    file.create_dataset(name, data=array, chunks=chunks, **layout.options)
        paths.append(path)
    return paths

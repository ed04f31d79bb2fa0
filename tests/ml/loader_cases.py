"""A data set of numbers and what the tests of the loader ask of its loops."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinema.base.errors import CorruptFileError
from kinema.ml import Batch, Dataset, Loader, Reading


class Numbers(Dataset):
    """Sample i is [i, i + 0.5, ...]; counts its reads, and can be slow or damaged."""

    def __init__(self, n: int, *, chunk: int = 1, width: int = 3, seconds: float = 0.0, bad: int | None = None) -> None:
        self.n, self.chunk, self.width, self.seconds, self.bad = n, chunk, width, seconds, bad
        self.reads: list[np.ndarray[Any, Any]] = []
        self.buffers: set[int] = set()

    def __len__(self) -> int:
        return self.n

    def read(self, ids: ArrayLike, *, out: Batch | None = None, workers: int | None = None) -> Batch:
        numbers = np.asarray(ids, np.int64)
        self.reads.append(numbers)
        time.sleep(self.seconds)
        if self.bad is not None and self.bad in numbers:
            raise CorruptFileError(f"some.h5: HDF5 frame {self.bad}, byte 77: bad", path="some.h5", frame=self.bad)
        batch = (Batch() if out is None else out).start(numbers)
        room = batch.room("x", (len(numbers), self.width), np.float64)
        self.buffers.add(room.__array_interface__["data"][0])
        room[:] = numbers[:, None] + 0.5 * np.arange(self.width)
        return batch

    def plan(self, ids: ArrayLike) -> Reading:
        return Reading(*(np.size(ids) * self.sample_bytes,) * 3, np.size(ids))

    @property
    def sample_bytes(self) -> int:
        return 8 * self.width

    @property
    def chunk_samples(self) -> int:
        return self.chunk

    @property
    def rows_stand_alone(self) -> bool:
        return True


def loader_of(dataset: Dataset, batch_size: int, **options: Any) -> Loader:
    """Without torch, even if it is installed."""
    return Loader(dataset, batch_size, tensors=False, **options)


def samples(batches: Any) -> list[list[int]]:
    """Ids of batches, whose values are checked."""
    found = []
    for batch in batches:
        np.testing.assert_array_equal(batch["x"], batch.ids[:, None] + 0.5 * np.arange(batch["x"].shape[1]))
        found.append(batch.ids.tolist())
    return found


def readahead_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith("kinema-readahead")]


def settled(reads: list[Any]) -> int:
    """Number of reads once it has been the same for a while."""
    count = -1
    while count != len(reads):
        count = len(reads)
        time.sleep(0.2)
    return count

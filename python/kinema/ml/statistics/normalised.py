"""`Normalised`: a data set whose batches are normalised."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinema.errors import ArgumentError
from kinema.ml.dataset import Batch, Dataset, Reading
from kinema.ml.statistics.fingerprint import fingerprint
from kinema.ml.statistics.statistics import Statistics

__all__ = ["Normalised"]


class Normalised(Dataset):
    """A data set with arrays normalised by statistics; `Loader(normalise=)` makes it.

    Parameters
    ----------
    dataset : Dataset
    statistics : Statistics
        ArgumentError where they are of other data: neither of this data set nor of a part of it.
    """

    def __init__(self, dataset: Dataset, statistics: Statistics) -> None:
        if not statistics.of_any_data and statistics.fingerprint != fingerprint(dataset):
            raise ArgumentError(
                "the statistics are of other data than this data set (expected fingerprint "
                f"{statistics.fingerprint}, found {fingerprint(dataset)}); statistics.for_other_data() is taken "
                "nevertheless"
            )
        self.dataset, self.statistics = dataset, statistics

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, ids: ArrayLike, *, out: Batch | None = None, workers: int | None = None) -> Batch:
        batch = self.dataset.read(ids, out=out, workers=workers)
        for name, array in self.statistics.normalise(batch).items():
            # in the buffers of the batch, which are used again
            room = batch.scratch(f"{name} normalised", array.shape, array.dtype)
            np.copyto(room, array)
            batch.put(name, room)
        return batch

    def plan(self, ids: ArrayLike) -> Reading:
        return self.dataset.plan(ids)

    @property
    def sample_bytes(self) -> int:
        return self.dataset.sample_bytes

    @property
    def chunk_samples(self) -> int:
        return self.dataset.chunk_samples

    @property
    def rows_stand_alone(self) -> bool:
        return self.dataset.rows_stand_alone

    @property
    def bounds(self) -> NDArray[np.int64]:
        return self.dataset.bounds

    def _single(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        return self.dataset._single(name, array)

    def _better_layout(self) -> str:
        return self.dataset._better_layout()

"""`Normalised`: a data set whose batches are normalised."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kinema.base.errors import ArgumentError
from kinema.ml.batch import Batch
from kinema.ml.dataset import Dataset, DatasetOverAnother
from kinema.ml.fingerprint import fingerprint
from kinema.ml.statistics.statistics import Statistics


class Normalised(DatasetOverAnother):
    """A data set with arrays normalised by statistics; `Loader(normalise=)` makes it.

    `statistics`: raises ArgumentError if they are neither of this data set nor of a part of it.
    """

    def __init__(self, dataset: Dataset, statistics: Statistics) -> None:
        if not statistics.of_any_data and statistics.fingerprint != fingerprint(dataset):
            raise ArgumentError(
                "the statistics are of other data than this data set (expected fingerprint "
                f"{statistics.fingerprint}, found {fingerprint(dataset)}); statistics.for_other_data() is taken "
                "nevertheless"
            )
        self.dataset, self.statistics = dataset, statistics

    def read(self, ids: ArrayLike, *, out: Batch | None = None, workers: int | None = None) -> Batch:
        batch = self.dataset.read(ids, out=out, workers=workers)
        for name, array in self.statistics.normalise(batch).items():
            if array is batch[name]:
                continue
            # in the buffers of the batch, which are reused
            room = batch.scratch(f"{name} normalised", array.shape, array.dtype)
            np.copyto(room, array)
            batch.put(name, room)
        return batch

"""`Buffers`: memory of earlier batches, reused once nobody refers to any part of it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import numpy as np

from kinema.ml.batch import Batch

# batches whose memory is kept at most: with more, each is small and quickly allocated again
_MOST_KEPT = 256


class Buffers:
    """Batches to read into. `kept` of them are kept: as many as are being read, ready or in use at a time.

    `make` makes new ones.

    A batch that a loop, a tensor or a view still refers to is never overwritten; batches held for longer cost memory.
    """

    def __init__(self, kept: int, make: Callable[[], Batch] = Batch) -> None:
        self._make = make
        self._kept: deque[Batch] = deque(maxlen=min(kept, _MOST_KEPT))
        self._lock = threading.Lock()

    def take(self) -> Batch:
        """A batch whose memory is free, or a new one; first the one used last, as it is most likely in a cache."""
        with self._lock:
            for place in reversed(range(len(self._kept))):
                batch = self._kept[place]
                if not batch.is_referred_to():
                    # not by `remove`: batches without arrays are equal to each other
                    del self._kept[place]
                    return batch
        return self._make()

    def give(self, batch: Batch) -> Batch:
        """Keeps the memory of a batch. Returns a batch over the same memory for the caller."""
        loan = rows_of(batch, 0, batch.n_samples)
        # arrays of the batch itself would count as references
        batch.start(np.zeros(0, np.int64))
        with self._lock:
            self._kept.append(batch)
        return loan


def rows_of(batch: Batch, start: int, stop: int) -> Batch:
    """The samples from row `start` to before `stop`, as a batch that refers to the same memory.

    Arrays have a row for each sample; if there is "ptr", also a row for each atom (`ptr`, `batch` count from the first
    sample of the part).
    """
    part = Batch().start(batch.ids[start:stop])
    whole = start == 0 and stop == batch.n_samples
    ptr = batch.get("ptr")
    for name, array in batch.items():
        if whole:
            part.put(name, array[:])
        elif ptr is None or len(array) == batch.n_samples:
            part.put(name, array[start:stop])
        elif name == "ptr":
            part.put(name, array[start : stop + 1] - array[start])
        else:
            atoms = array[ptr[start] : ptr[stop]]
            part.put(name, atoms - start if name == "batch" else atoms)
    return part

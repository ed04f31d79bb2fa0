"""`Gather`: batches of a rank, one after the other, that a loader reads by one call of `Dataset.read`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.tracing import span
from kinema.ml.batch import Batch
from kinema.ml.dataset import Dataset
from kinema.ml.loading.buffers import Buffers

# samples named in the note of an error
_NAMED = 8


@dataclass(frozen=True)
class Gather:
    """Batches that are read by one call: a run of batches of all ranks."""

    epoch: int
    first: int
    """Position in the epoch of the first batch."""
    ids: tuple[NDArray[np.int64], ...]
    """Samples of this rank, by batch."""

    @property
    def samples(self) -> int:
        """Number of samples of this rank, in all its batches."""
        return sum(map(len, self.ids))


@dataclass(frozen=True)
class GatheredBatches:
    """The batches read for a gather."""

    batch: Batch
    """All its batches, one after the other."""
    rows: tuple[tuple[int, int], ...]
    """First row of each batch, and the row after its last one."""


class BatchReader:
    """Reads for the threads of a loader: it has their buffers and types, and names the samples in errors."""

    def __init__(
        self,
        dataset: Dataset,
        workers: int,
        dtype: np.dtype[Any] | None,
        tensors: bool,
        device: Any,
        kept: int,
    ) -> None:
        self._dataset, self._workers, self._dtype = dataset, workers, dtype
        self._to_torch = None
        if tensors:
            from kinema.ml.loading.delivery import Delivery

            self._to_torch = Delivery(device)
        allocate = None if self._to_torch is None else self._to_torch.allocate
        self._buffers = Buffers(kept, partial(Batch, allocate))

    def read(self, gather: Gather, began: Callable[[Gather], None] | None = None) -> GatheredBatches:
        """The batches of a gather, one after the other. `began` is called with the gather before it is read."""
        ids = np.concatenate(gather.ids)
        if began is not None:
            began(gather)
        try:
            with span("gather", "loader", epoch=gather.epoch, first=gather.first):
                batch = self._dataset.read(ids, out=self._buffers.take(), workers=self._workers)
        except BaseException as error:
            more = ", ..." if len(ids) > _NAMED else ""
            named = ", ".join(map(str, ids[:_NAMED].tolist())) + more
            error.add_note(f"while reading samples {named} of epoch {gather.epoch}, from place {gather.first} on")
            raise
        if self._dtype is not None:
            self._convert(batch, self._dtype)
        ends = np.cumsum([len(one) for one in gather.ids]).tolist()
        return GatheredBatches(self._buffers.give(batch), tuple(zip([0, *ends[:-1]], ends, strict=True)))

    @staticmethod
    def _convert(batch: Batch, dtype: np.dtype[Any]) -> None:
        for name in list(batch):
            array = batch[name]
            if array.dtype.kind == "f" and array.dtype != dtype:
                converted = batch.scratch(f"{name} as {dtype}", array.shape, dtype)
                np.copyto(converted, array, casting="same_kind")
                batch.put(name, converted)

    def given(self, batch: Batch) -> Any:
        """A batch in the form that the loop gets."""
        return batch if self._to_torch is None else self._to_torch.tensors(batch)

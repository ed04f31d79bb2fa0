"""torch over data sets and orders: tensors of batches, and samplers for torch's own loaders. Needs torch.

from torch.utils.data import DataLoader
from kinema.ml.torch import OrderSampler, collate

DataLoader(dataset, batch_size=256, sampler=OrderSampler(order), collate_fn=collate, num_workers=2)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kinema.base.errors import ArgumentError, missing_package
from kinema.base.resources import worker_count
from kinema.ml.batch import Batch, SingleSamples, batch_of
from kinema.ml.loading.order import Order

try:
    from torch.utils.data import Sampler, get_worker_info

    from kinema.ml.loading.tensors import TensorBatch, shared_buffers, tensors_of
except ImportError as error:  # pragma: no cover - where torch is not installed
    raise missing_package("kinema.ml.torch", "torch", "ml", error) from error

__all__ = ["OrderSampler", "TensorBatch", "collate"]


def collate(samples: SingleSamples | Batch) -> TensorBatch:
    """A `collate_fn` of torch's DataLoader for a data set of Kinema: tensors over the memory of the batch.

    A worker process reads into shared memory, with its share of the cores; the tensors of the training process use that
    memory.
    """
    worker = get_worker_info()
    if not isinstance(samples, SingleSamples) or worker is None:
        return tensors_of(batch_of(samples))
    buffers = shared_buffers()
    threads = max(1, worker_count(None) // worker.num_workers)
    return tensors_of(buffers.give(samples.read(buffers.take(), threads)))


class OrderSampler(Sampler[int]):  # type: ignore[misc]
    """Samples of one rank in the order of an `Order`, for `sampler=` of torch's loaders: the same on every rank count.

    `rank`, `ranks`: rank r has the positions r, r + ranks, ... Every rank has the same number: if positions are missing
        at the end of an epoch, they are filled from its beginning, or the last ones are left out with `drop_last`.
    """

    def __init__(self, order: Order, rank: int = 0, ranks: int = 1, drop_last: bool = False) -> None:
        if not 0 <= rank < ranks:
            raise ArgumentError(f"rank must be from 0 to {ranks - 1}, found {rank}")
        order.check_ranks(ranks)
        self.order, self.rank, self.ranks = order, rank, ranks
        self._length = len(order) // ranks if drop_last else -(-len(order) // ranks)

    def set_epoch(self, epoch: int) -> None:
        """Changes to the order of another epoch. Lightning calls this; call it yourself in other loops."""
        self.order = self.order.with_epoch(epoch)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        order, at_a_time = self.order, 1 << 14
        for start in range(0, self._length, at_a_time):
            places = np.arange(start, min(start + at_a_time, self._length), dtype=np.int64)
            yield from order.samples_at((places * self.ranks + self.rank) % len(order)).tolist()

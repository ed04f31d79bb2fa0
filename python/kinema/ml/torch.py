"""torch over data sets and orders: tensors of batches, and samplers for torch's own loaders. Needs torch.

from torch.utils.data import DataLoader
from kinema.ml.torch import OrderSampler, collate

DataLoader(dataset, batch_size=256, sampler=OrderSampler(order), collate_fn=collate, num_workers=2)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, missing_package
from kinema.base.resources import worker_count
from kinema.ml.dataset import Batch, SingleSamples, batch_of
from kinema.ml.loading.order import Order

try:
    import torch
    from torch.utils.data import Sampler, get_worker_info

    from kinema.ml.loading.tensors import TensorBatch, shared_buffers, tensors_of
except ImportError as error:  # pragma: no cover - where torch is not installed
    raise missing_package("kinema.ml.torch", "torch", "ml", error) from error

__all__ = ["Delivery", "OrderSampler", "TensorBatch", "collate"]


def collate(samples: SingleSamples | Batch) -> TensorBatch:
    """A `collate_fn` of torch's DataLoader for a data set of Kinema: tensors over the memory of the batch.

    A worker process reads into shared memory, which the tensors of the training process are over, by its share of the
    cores.
    """
    worker = get_worker_info()
    if not isinstance(samples, SingleSamples) or worker is None:
        return tensors_of(batch_of(samples))
    buffers = shared_buffers()
    threads = max(1, worker_count(None) // worker.num_workers)
    return tensors_of(buffers.give(samples.read(buffers.take(), threads)))


class Delivery:
    """Brings batches to a device of torch; from pinned memory, without waiting, where that is a CUDA device."""

    def __init__(self, device: Any) -> None:
        self._device = None if device is None else torch.device(device)
        self._is_cuda = self._device is not None and self._device.type == "cuda"
        # copies that may not be complete, with what they are made of
        self._copying: list[tuple[Any, TensorBatch]] = []

    @property
    def allocate(self) -> Any:
        """Makes buffers in pinned memory; None where NumPy's do."""
        return _pinned if self._is_cuda else None

    def tensors(self, batch: Batch) -> TensorBatch:
        """The batch on the device."""
        here = tensors_of(batch)
        if self._device is None or self._device.type == "cpu":
            return here
        there = TensorBatch()
        there.ids = here.ids
        for name, value in here.items():
            is_tensor = isinstance(value, torch.Tensor)
            there[name] = value.to(self._device, non_blocking=self._is_cuda) if is_tensor else value
        if self._is_cuda:
            copied = torch.cuda.Event()
            copied.record(torch.cuda.current_stream(self._device))
            # what is referred to is not read into
            self._copying = [(event, kept) for event, kept in self._copying if not event.query()]
            self._copying.append((copied, here))
        return there


def _pinned(size: int) -> NDArray[np.uint8]:
    buffer: NDArray[np.uint8] = torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()
    return buffer


class OrderSampler(Sampler[int]):  # type: ignore[misc]
    """Samples of one rank in the order of an `Order`, for `sampler=` of torch's loaders: the same on every rank count.

    Parameters
    ----------
    order : Order
    rank, ranks : int
        Rank r has the places r, r + ranks, ... ; every rank the same number: the last ones of an epoch are repeated
        from its beginning, or left out with `drop_last`.
    """

    def __init__(self, order: Order, rank: int = 0, ranks: int = 1, drop_last: bool = False) -> None:
        if not 0 <= rank < ranks:
            raise ArgumentError(f"rank must be from 0 to {ranks - 1}, found {rank}")
        order.check_ranks(ranks)
        self.order, self.rank, self.ranks = order, rank, ranks
        self._length = len(order) // ranks if drop_last else -(-len(order) // ranks)

    def set_epoch(self, epoch: int) -> None:
        """The order of another epoch; Lightning calls it, other loops have to."""
        self.order = self.order.at_epoch(epoch)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        order, at_a_time = self.order, 1 << 14
        for start in range(0, self._length, at_a_time):
            places = np.arange(start, min(start + at_a_time, self._length), dtype=np.int64)
            yield from order.at((places * self.ranks + self.rank) % len(order)).tolist()

"""Batches as tensors on a device. Needs torch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import missing_package
from kinema.ml.batch import Batch

try:
    import torch

    from kinema.ml.loading.tensors import TensorBatch, tensors_of
except ImportError as error:  # pragma: no cover - where torch is not installed
    raise missing_package("kinema.ml.Loader", "torch", "ml", error) from error


class Delivery:
    """Copies batches to a device of torch; if it is a CUDA device, from pinned memory and without waiting."""

    def __init__(self, device: Any) -> None:
        self._device = None if device is None else torch.device(device)
        self._is_cuda = self._device is not None and self._device.type == "cuda"
        # copies that may not be complete, with their sources
        self._copying: list[tuple[Any, TensorBatch]] = []

    @property
    def allocate(self) -> Any:
        """The function that makes buffers in pinned memory; None if NumPy's buffers will do."""
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
            # memory that is referred to is not read into
            self._copying = [(event, kept) for event, kept in self._copying if not event.query()]
            self._copying.append((copied, here))
        return there


def _pinned(size: int) -> NDArray[np.uint8]:
    buffer: NDArray[np.uint8] = torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()
    return buffer

"""`TensorBatch`: tensors of a batch, over its memory; sent by a worker process of torch without a copy. Needs torch.

A worker reads into memory that processes share and sends where the arrays lie. The process that receives them says by a
byte in that memory when it refers to none of them any more; then the worker reads into it again. New shared memory for
each batch would cost several times what reading does.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from kinema.ml.dataset import Batch
from kinema.ml.loading.buffers import Buffers
from kinema.ml.processes import OfProcess

__all__ = ["SharedBatch", "TensorBatch", "shared_buffers", "tensors_of"]

# batches whose shared memory is kept: those that are read, sent, and in use in the other process
_KEPT = 32


class TensorBatch(dict[str, Any]):
    """Tensors of several samples by name; `ids` are the samples, (n,) int64 of NumPy."""

    ids: NDArray[np.int64]
    # arrays in shared memory that tensors were made over
    _shared: Mapping[str, NDArray[Any]] = MappingProxyType({})

    def __reduce_ex__(self, protocol: Any) -> Any:
        shared = {name: array for name, array in self._shared.items() if self._is_over(name, array)}
        if not shared:
            return super().__reduce_ex__(protocol)
        return _received, (self.ids, {name: _sent(shared[name]) if name in shared else self[name] for name in self})

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_shared"}

    def _is_over(self, name: str, array: NDArray[Any]) -> bool:
        tensor = self.get(name)
        return (
            isinstance(tensor, torch.Tensor)
            and tensor.device.type == "cpu"
            and tensor.data_ptr() == array.__array_interface__["data"][0]
            and tensor.dtype == torch.from_numpy(array).dtype
            and tensor.shape == array.shape
            and tensor.is_contiguous()
            and not tensor.requires_grad
        )


def tensors_of(batch: Batch) -> TensorBatch:
    """Tensors over the memory of a batch."""
    tensors, shared = TensorBatch(), {}
    for name, array in batch.items():
        # texts and objects are no tensors, and stay as they are
        tensors[name] = torch.from_numpy(array) if array.dtype.kind in "fiubc" else array
        if _whole(array) is not None and array.flags.c_contiguous and array.size:
            shared[name] = array
    tensors.ids, tensors._shared = batch.ids, shared
    return tensors


# -- the process that reads --------------------------------------------------------------------------------------------


class SharedBatch(Batch):
    """A batch in memory that processes share: referred to also as long as a process that it was sent to does."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_allocated)

    def is_referred_to(self) -> bool:
        """See `Batch`."""
        return super().is_referred_to() or any(_mark(buffer.base)[0] for buffer in self._buffers.values())


def _allocated(size: int) -> NDArray[np.uint8]:
    # the last byte is the mark
    storage = torch.UntypedStorage._new_shared(size + 1)
    buffer: NDArray[np.uint8] = _bytes(storage, 0, size)
    return buffer


def _bytes(storage: Any, begin: int, size: int) -> NDArray[np.uint8]:
    """An array whose base is a tensor over the storage."""
    array: NDArray[np.uint8] = torch.empty(0, dtype=torch.uint8).set_(storage, begin, (size,)).numpy()
    return array


def _mark(whole: Any) -> NDArray[np.uint8]:
    """(1,) 1 while a process that the memory of a tensor was sent to refers to it, else 0."""
    storage = whole.untyped_storage()
    return _bytes(storage, storage.nbytes() - 1, 1)


def _new_buffers() -> Buffers:
    return Buffers(_KEPT, SharedBatch)


_BUFFERS: OfProcess[Buffers] = OfProcess(_new_buffers)


def shared_buffers() -> Buffers:
    """Those that this process reads into."""
    return _BUFFERS.get()


class _Sent(NamedTuple):
    """Where an array lies."""

    whole: Any
    """A tensor of bytes over shared memory."""
    begin: int
    dtype: str
    shape: tuple[int, ...]


def _whole(array: NDArray[Any]) -> Any:
    """The tensor over shared memory that an array lies in; None for other memory."""
    buffer = array.base if isinstance(array.base, np.ndarray) else array
    whole = buffer.base
    return whole if isinstance(whole, torch.Tensor) and whole.is_shared() else None


def _sent(array: NDArray[Any]) -> _Sent:
    """Marks the memory of an array: it is not read into until `_received` says so."""
    whole = _whole(array)
    _mark(whole)[0] = 1
    begin = array.__array_interface__["data"][0] - whole.data_ptr()
    return _Sent(whole, begin, array.dtype.str, array.shape)


# -- the process that it is sent to ------------------------------------------------------------------------------------


def _received(ids: NDArray[np.int64], values: dict[str, Any]) -> TensorBatch:
    buffers: dict[int, NDArray[np.uint8]] = {}
    tensors = TensorBatch()
    tensors.ids = ids
    for name, value in values.items():
        if not isinstance(value, _Sent):
            tensors[name] = value
            continue
        if id(value.whole) not in buffers:
            buffers[id(value.whole)] = buffer = value.whole.numpy()
            # when no tensor, and no array below one, refers to it any more
            weakref.finalize(buffer, _give_back, _mark(value.whole), os.getpid()).atexit = False
        dtype = np.dtype(value.dtype)
        nbytes = int(np.prod(value.shape)) * dtype.itemsize
        rows = buffers[id(value.whole)][value.begin : value.begin + nbytes]
        tensors[name] = torch.from_numpy(rows.view(dtype).reshape(value.shape))
    return tensors


def _give_back(mark: NDArray[np.uint8], pid: int) -> None:
    # a process that was forked has the same memory, and does not speak for its parent
    if os.getpid() == pid:
        mark[0] = 0

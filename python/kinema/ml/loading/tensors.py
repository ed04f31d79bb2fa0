"""`TensorBatch`: tensors over the memory of a batch; worker processes of torch send it without a copy. Needs torch.

A worker reads into memory that processes share, and sends the location of the arrays. The receiving process sets a byte
of that memory when nothing refers to them any more; then the worker reads into it again. Allocating memory for each
batch would take several times as long as reading it. This works only for what torch sends between processes, on Linux.
Elsewhere, and for tensors added to a batch, torch makes copies as usual.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import weakref
from collections.abc import Mapping
from functools import partial
from itertools import count
from multiprocessing.reduction import ForkingPickler
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from kinema.base.errors import WorkerError
from kinema.ml.batch import Batch
from kinema.ml.loading.buffers import Buffers
from kinema.ml.processes import ProcessLocal

# batches whose shared memory is kept: being read, sent, or in use in the other process
_KEPT = 32
_FILES = "/proc/{}/fd"


class TensorBatch(dict[str, Any]):
    """Tensors of several samples by name; `ids` are the samples, (n,) int64 of NumPy."""

    ids: NDArray[np.int64]
    # tensors made over arrays in shared memory, with these arrays
    _shared: Mapping[str, tuple[Any, NDArray[Any]]] = MappingProxyType({})

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_shared"}

    def sent(self) -> Any:
        """The form in which it is pickled for another process."""
        still = [
            name for name, (made, array) in self._shared.items() if self.get(name) is made and _is_over(made, array)
        ]
        if not still:
            return self.__reduce_ex__(2)
        return _received, (self.ids, {**self, **{name: _place(self._shared[name][1]) for name in still}})


ForkingPickler.register(TensorBatch, TensorBatch.sent)


def tensors_of(batch: Batch) -> TensorBatch:
    """Tensors over the memory of a batch."""
    tensors, shared = TensorBatch(), {}
    for name, array in batch.items():
        # strings and objects stay arrays
        tensors[name] = torch.from_numpy(array) if array.dtype.kind in "fiubc" else array
        if _memory(array) is not None and array.flags.c_contiguous and array.size:
            shared[name] = tensors[name], array
    tensors.ids, tensors._shared = batch.ids, shared
    return tensors


def _is_over(tensor: Any, array: NDArray[Any]) -> bool:
    """Whether a tensor that was made over an array is still the same, except for its values."""
    return (
        tensor.data_ptr() == array.__array_interface__["data"][0]
        and tensor.dtype == torch.from_numpy(array).dtype
        and tensor.shape == array.shape
        and tensor.is_contiguous()
        and not tensor.requires_grad
    )


# -- the process that reads --------------------------------------------------------------------------------------------


# unique to a process, unlike its number
_PROCESS: ProcessLocal[bytes] = ProcessLocal(partial(os.urandom, 8))
_NUMBERS = count()


class _Memory(mmap.mmap):
    """Memory that another process can open as a file of this one; its last byte is 1 while that process uses it."""

    file: int
    number: int

    @classmethod
    def allocate(cls, size: int) -> _Memory:
        """New memory of `size` bytes; its file is open as long as the memory exists."""
        file = os.memfd_create("kinema-batch")
        try:
            os.ftruncate(file, size + 1)
            made = cls(file, size + 1)
        except BaseException:
            os.close(file)
            raise
        made.file, made.number = file, next(_NUMBERS)
        weakref.finalize(made, os.close, file).atexit = False
        return made

    def buffer(self) -> NDArray[np.uint8]:
        """All bytes except the last one."""
        return np.frombuffer(self, np.uint8, count=len(self) - 1)


class LentBatch(Batch):
    """A batch in shared memory: it also counts as referred to if only another process does."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(lambda size: _Memory.allocate(size).buffer())

    def is_referred_to(self) -> bool:
        """See `Batch`."""
        memories = map(_memory, self._buffers.values())
        return any(one is not None and one[-1] for one in memories) or super().is_referred_to()


def _new_buffers() -> Buffers:
    can_share = hasattr(os, "memfd_create") and os.path.isdir(_FILES.format("self"))
    return Buffers(_KEPT, LentBatch if can_share else Batch)


_BUFFERS: ProcessLocal[Buffers] = ProcessLocal(_new_buffers)


def shared_buffers() -> Buffers:
    """The buffers that this process reads into; in private memory if processes cannot open each other's."""
    return _BUFFERS.get()


def _memory(array: NDArray[Any]) -> _Memory | None:
    """The shared memory that an array lies in."""
    buffer = array.base if isinstance(array.base, np.ndarray) else array
    memory = getattr(buffer.base, "obj", None)
    return memory if isinstance(memory, _Memory) else None


class _LentArray(NamedTuple):
    """Location of an array: the memory of a process, which is a file of it, and the array within."""

    process: bytes
    number: int
    pid: int
    file: int
    size: int
    begin: int
    dtype: str
    shape: tuple[int, ...]


def _place(array: NDArray[Any]) -> _LentArray:
    """Marks the memory of an array, so that it is not read into until `_give_back`."""
    memory = _memory(array)
    assert memory is not None
    memory[-1] = 1
    begin = array.__array_interface__["data"][0] - memory.buffer().__array_interface__["data"][0]
    where = (_PROCESS.get(), memory.number, os.getpid(), memory.file, len(memory))
    return _LentArray(*where, begin, array.dtype.str, array.shape)


# -- the process that it is sent to ------------------------------------------------------------------------------------


def _received(ids: NDArray[np.int64], values: dict[str, Any]) -> TensorBatch:
    buffers: dict[int, NDArray[np.uint8]] = {}
    tensors = TensorBatch()
    tensors.ids = ids
    for name, value in values.items():
        if isinstance(value, _LentArray):
            if value.number not in buffers:
                buffers[value.number] = _buffer(value)
            dtype = np.dtype(value.dtype)
            end = value.begin + int(np.prod(value.shape)) * dtype.itemsize
            rows = buffers[value.number][value.begin : end]
            tensors[name] = torch.from_numpy(rows.view(dtype).reshape(value.shape))
        else:
            tensors[name] = value
    return tensors


def _no_maps() -> dict[bytes, dict[int, mmap.mmap]]:
    return {}


# of this process' workers, by their numbers: memory that nothing refers to here. Mapping it for each batch would take a
# third of the time of reading
_IDLE: ProcessLocal[dict[bytes, dict[int, mmap.mmap]]] = ProcessLocal(_no_maps)


def _buffer(place: _LentArray) -> NDArray[np.uint8]:
    """The memory. Its process is told when no tensor, and no array below one, refers to it any more."""
    idle = _IDLE.get()
    if place.process not in idle:
        worker = next((one for one in multiprocessing.active_children() if one.pid == place.pid), None)
        if worker is not None:
            idle[place.process] = {}
            # ends with the last reference to the process, which torch's loader holds
            weakref.finalize(worker, idle.pop, place.process, None).atexit = False
    memory = idle.get(place.process, {}).pop(place.number, None) or _mapped(place)
    buffer = np.frombuffer(memory, np.uint8, count=place.size - 1)
    weakref.finalize(buffer, _give_back, memory, place.process, place.number, os.getpid()).atexit = False
    return buffer


def _mapped(place: _LentArray) -> mmap.mmap:
    try:
        file = os.open(f"{_FILES.format(place.pid)}/{place.file}", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise WorkerError(f"a batch cannot be had of process {place.pid}, which may have ended: {error}") from error
    try:
        return mmap.mmap(file, place.size)
    finally:
        os.close(file)


def _give_back(memory: mmap.mmap, process: bytes, number: int, pid: int) -> None:
    # a forked process has the same memory, and does not speak for its parent
    if os.getpid() != pid:
        return
    idle = _IDLE.get().get(process)
    if idle is not None:
        idle[number] = memory
        if len(idle) > _KEPT:
            # the worker may have forgotten it
            idle.pop(next(iter(idle)), None)
    memory[-1] = 0

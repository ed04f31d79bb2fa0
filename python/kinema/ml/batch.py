"""`Batch`, the arrays of several samples, and `SingleSamples`, the same samples one by one."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kinema.base.errors import ArgumentError
from kinema.ml.sample_numbers import sample_number

Allocate = Callable[[int], NDArray[np.uint8]]


class Batch(Mapping[str, NDArray[Any]]):
    """Arrays of several samples by name. The buffers are reused if the batch is passed to `read(out=)`.

    Attributes
    ----------
    ids : (n,) int64
        The samples, in the order of the rows.

    Parameters
    ----------
    allocate : callable, optional
        Takes a number of bytes and returns a buffer of that size, (bytes,) uint8, for example in pinned memory. By
        default NumPy allocates.
    """

    __slots__ = ("_allocate", "_arrays", "_buffers", "ids")

    def __init__(self, allocate: Allocate | None = None) -> None:
        self.ids: NDArray[np.int64] = np.zeros(0, np.int64)
        self._arrays: dict[str, NDArray[Any]] = {}
        self._buffers: dict[str, NDArray[np.uint8]] = {}
        if allocate is not None and not callable(allocate):
            # torch's pinning passes arrays by name; after a TypeError it uses a dictionary instead
            raise TypeError(f"allocate must be a function of a number of bytes, found {type(allocate).__name__}")
        self._allocate = allocate

    def start(self, ids: NDArray[np.int64]) -> Batch:
        """Starts a batch of these samples: drops the arrays of the earlier batch and keeps its buffers."""
        self.ids = ids
        self._arrays = {}
        return self

    def room(self, name: str, shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
        """Returns a C-contiguous array to fill, in the earlier buffer of the name if that is large enough."""
        array = self.scratch(name, shape, dtype)
        self._arrays[name] = array
        return array

    def scratch(self, name: str, shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
        """The same for working memory, which does not become an array of the batch."""
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        buffer = self._buffers.get(name)
        if buffer is None or buffer.nbytes < size:
            buffer = np.empty(size, np.uint8) if self._allocate is None else self._allocate(size)
            self._buffers[name] = buffer
        return buffer[:size].view(kind).reshape(tuple(shape))

    def put(self, name: str, array: NDArray[Any]) -> None:
        """Adds or replaces an array."""
        self._arrays[name] = array

    def drop(self, name: str) -> None:
        """Removes an array; does nothing if there is none."""
        self._arrays.pop(name, None)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self._arrays.values())

    def is_referred_to(self) -> bool:
        """Whether anything besides the batch refers to its buffers: arrays, tensors over them, or parts of these."""
        # an array counts its references: the dictionary's, the loop's and the argument's
        return any(sys.getrefcount(buffer) > 3 for buffer in self._buffers.values())

    def copy(self) -> Batch:
        """A copy with memory of its own."""
        other = Batch().start(self.ids.copy())
        for name, array in self._arrays.items():
            other.put(name, array.copy())
        return other

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        # a buffer may be much larger than the batch; the other process allocates its own
        return _batch_from, (self.ids, dict(self._arrays))

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name} {array.shape} {array.dtype}" for name, array in self._arrays.items())
        return f"<Batch of {self.n_samples} samples: {arrays}>"


def _batch_from(ids: NDArray[np.int64], arrays: dict[str, NDArray[Any]]) -> Batch:
    batch = Batch().start(ids)
    for name, array in arrays.items():
        batch.put(name, array)
    return batch


class SingleSamples(Sequence[dict[str, NDArray[Any]]]):
    """The samples of a batch one by one: each as `dataset[i]` returns it, over the memory of the batch.

    All samples are read together when the first is asked for, or earlier by `read`, with which a `collate_fn` chooses
    the memory.
    """

    def __init__(
        self,
        ids: NDArray[np.int64],
        read: Callable[..., Batch],
        sample: Callable[[Batch, int], dict[str, NDArray[Any]]],
    ) -> None:
        self._ids, self._read, self._sample = ids, read, sample
        self._batch: Batch | None = None

    def read(self, out: Batch, workers: int) -> Batch:
        """Reads the batch into the memory of `out`, with `workers` threads. Raises as `Dataset.read`."""
        return self._read(self._ids, out=out, workers=workers)

    @property
    def batch(self) -> Batch:
        """All samples, in memory of their own."""
        if self._batch is None:
            self._batch = self._read(self._ids)
        return self._batch

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_batch": self.batch}

    @overload
    def __getitem__(self, index: int) -> dict[str, NDArray[Any]]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, NDArray[Any]]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, NDArray[Any]] | list[dict[str, NDArray[Any]]]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        return self._sample(self.batch, sample_number(index, len(self)))

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        return f"<SingleSamples: {len(self)}>"


def batch_of(samples: SingleSamples | Batch) -> Batch:
    """Returns the batch that the samples were read as."""
    return samples.batch if isinstance(samples, SingleSamples) else samples


def row_of(name: str, array: NDArray[Any], place: int, n: int) -> NDArray[Any]:
    """The row of one sample in an array of a batch of `n`.

    Raises ArgumentError if the array does not have a row for each sample.
    """
    if array.shape[:1] != (n,):
        raise ArgumentError(
            f"array {name} has shape {array.shape}, expected a row for each of {n} samples; let collate_fn be "
            "dataset.collate or kinema.ml.torch.collate, which take the batch as it is"
        )
    return np.asarray(array[place])

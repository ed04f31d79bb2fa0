"""`ExportSource`: the samples to export, in their order, and what formats ask about them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, MemoryLimitError
from kinema.base.prefetch import prefetched
from kinema.ml.batch import Batch
from kinema.ml.dataset import Dataset, Subset
from kinema.ml.frames import FrameDataset

# bytes of a block if memory allows: beyond the caches of processors reading gets slower
_BLOCK_BYTES = 8 << 20


@dataclass(frozen=True)
class Array:
    """An array of the data set: its shape and type for one sample."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of a sample."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


@dataclass(frozen=True)
class Run:
    """Samples that go to one file, or one set of files."""

    name: str
    """Name of the file within the folder, without ending; "" if the output is one file."""
    ranges: tuple[tuple[int, int], ...]
    """Ranges of samples of the exported data set, `stop` not included."""

    def __len__(self) -> int:
        return sum(stop - start for start, stop in self.ranges)


@dataclass(frozen=True)
class ExportSource:
    """The samples of a data set, or of a part of one."""

    dataset: Dataset

    def __len__(self) -> int:
        return len(self.dataset)

    @cached_property
    def frames(self) -> FrameDataset | None:
        """The data set of frames that has the samples; None for samples of archives."""
        inner = self.dataset
        while isinstance(inner, Subset):
            inner = inner.dataset
        return inner if isinstance(inner, FrameDataset) else None

    def require_frames(self, format: str) -> FrameDataset:
        """As `frames`. Raises ArgumentError if the samples are not frames that `format` can hold."""
        if self.frames is None:
            raise ArgumentError(f"{format} is for frames of trajectories, found samples of archives; use npz or npy")
        if self.frames.has_pairs:
            raise ArgumentError(f"{format} has single frames, found pairs (lag=); use npz, npy or samples-h5")
        return self.frames

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """(n,) numbers of the samples in the innermost data set."""
        return self.dataset.root()[1]

    @cached_property
    def trajectory_of(self) -> NDArray[np.int64]:
        """(n,) number of the trajectory of each sample."""
        assert self.frames is not None
        return np.searchsorted(self.frames.bounds, self.numbers, side="right").astype(np.int64) - 1

    @cached_property
    def sample_bytes(self) -> int:
        """Bytes of the largest sample."""
        if self.frames is None:
            return max(1, self.dataset.sample_bytes)
        atoms, mean = self.frames.n_atoms, max(1, self.dataset.sample_bytes)
        return int(mean * atoms.max() / max(1, atoms.min())) if self.frames.is_ragged else mean

    def arrays(self, format: str) -> list[Array]:
        """The arrays of every batch. Raises ArgumentError if samples differ in shape."""
        if self.frames is not None and self.frames.is_ragged:
            counts = np.unique(self.frames.n_atoms)
            raise ArgumentError(
                f"{format} has samples of one shape, and the trajectories have {_listed(counts)} atoms; choose as many "
                "of each with select= (--select), or export to extxyz or deepmd"
            )
        batch = self.dataset.read([0], workers=1)
        for name, array in batch.items():
            if array.shape[:1] != (1,):
                raise ArgumentError(f"array {name} has no row for each sample; {format} cannot hold it")
        return [Array(name, array.dtype, array.shape[1:]) for name, array in batch.items()]

    def check_memory(self, memory: int, factor: float) -> None:
        """Raises MemoryLimitError if not even blocks of one sample fit, at `factor` times its bytes."""
        least = int(np.ceil(self.sample_bytes * factor))
        if memory < least:
            raise MemoryLimitError(f"memory={memory} is less than a sample needs, expected {least} bytes or more")

    def blocks(
        self, run: Run, memory: int, factor: float, workers: int, *, bytes_of_block: int = _BLOCK_BYTES
    ) -> Generator[Batch, None, None]:
        """The samples of a run in order; each batch is read while the caller works on the one before.

        `memory` limits all that a block takes: `factor` times its bytes.
        """
        length = max(1, min(bytes_of_block, int(memory / factor)) // self.sample_bytes)
        coupled = self.dataset.chunk_samples
        if length > coupled:
            length -= length % coupled
        pieces = [(at, min(at + length, stop)) for start, stop in run.ranges for at in range(start, stop, length)]
        return prefetched(lambda piece: self.dataset.read(np.arange(*piece), workers=workers), pieces)


def _listed(numbers: Sequence[int] | NDArray[np.int64]) -> str:
    words = [f"{number:,}" for number in numbers]
    return ", ".join(words) if len(words) <= 4 else f"{words[0]} to {words[-1]}"

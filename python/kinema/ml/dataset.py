"""`Dataset`, the interface between samples and loaders, and data sets over another data set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinema.base.errors import OutOfRangeError
from kinema.cache.blocks import explain_blocks
from kinema.cache.node_cache import NodeCache
from kinema.ml.batch import Batch, SingleSamples, batch_of, row_of
from kinema.ml.sample_numbers import sample_number, sample_numbers


@dataclass(frozen=True)
class Reading:
    """Amounts that reading a batch takes from the files, known before it is read."""

    useful: int
    """Bytes of the samples as stored, after decoding; each sample counts once."""
    read: int
    """Bytes read from the files."""
    decoded: int
    """Bytes of the chunks after decoding; data that need no decoding count as they are read."""
    reads: int
    """System calls."""


@dataclass(frozen=True, eq=False)
class Extents:
    """Byte ranges of samples, in the order in which they are read; a sample may have several."""

    paths: Sequence[str]
    sample: NDArray[np.int64]
    """(n,) position of the sample in the list, ascending."""
    file: NDArray[np.int64]
    """(n,) number of the file."""
    offset: NDArray[np.int64]
    """(n,) first byte."""
    length: NDArray[np.int64]
    """(n,) bytes."""

    @classmethod
    def from_runs(cls, paths: Sequence[str], parts: Sequence[tuple[NDArray[np.int64], ...]]) -> Extents:
        """Joins several runs of (sample, file, offset, length), each in any order."""
        if not parts:
            return cls(paths, *(np.zeros(0, np.int64) for _ in range(4)))
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        return cls(paths, *(column[order].astype(np.int64) for column in columns))


class Dataset(ABC):
    """Samples by number: `dataset.read(ids)` returns the samples of any numbers, in their order, as one `Batch`.

    It is a map-style data set for torch as it is: `DataLoader(dataset)` calls `__getitems__` once a batch, and its
    default collation makes tensors. With `collate_fn=kinema.ml.torch.collate` the tensors use the memory of the batch.

    A pickle holds paths and what is known of the files, never open files; a forked process opens its own.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Number of samples."""

    @abstractmethod
    def read(self, ids: ArrayLike, *, out: Batch | None = None, workers: int | None = None) -> Batch:
        """Reads the samples with these numbers, in this order; numbers may repeat.

        Parameters
        ----------
        ids : (n,) integers, or (len(self),) booleans
            Negative numbers count from the end. A mask chooses the samples for which it is true.
        out : Batch, optional
            An earlier batch, whose buffers are reused: its arrays are overwritten, and it is returned.
        workers : int, optional
            Threads; by default as many as this process may use.

        Returns
        -------
        Batch

        Raises
        ------
        OutOfRangeError, ArgumentError, CorruptFileError, TruncatedFileError
        """

    @property
    @abstractmethod
    def sample_bytes(self) -> int:
        """Bytes of a sample in memory; the mean if samples differ in size."""

    @property
    def chunk_samples(self) -> int:
        """Number of neighbouring samples that are decoded together; 1 if each can be read alone.

        Windows of an order should be whole multiples of it. Chunks begin at `bounds`, not at its multiples, because the
        last chunk of a file may be shorter.
        """
        return 1

    @property
    def rows_stand_alone(self) -> bool:
        """Whether a row of a batch is independent of the other rows, so that several batches may be read at once."""
        return False

    @property
    def bounds(self) -> NDArray[np.int64]:
        """(files + 1,) number of the first sample of each file, ascending, then the number of samples."""
        return np.array([0, len(self)], np.int64)

    @abstractmethod
    def plan(self, ids: ArrayLike) -> Reading:
        """Amounts that `read(ids)` would take from the files, for sample numbers `ids` (n,). Reads nothing."""

    @property
    def node_cache(self) -> NodeCache | None:
        """The node cache that the files are read through, for a loader to prefetch into; None: no prefetch."""
        return None

    def extents(self, ids: NDArray[np.int64]) -> Extents:
        """Byte ranges of the samples `ids` (n,), from 0, in their order; only for data sets with a `node_cache`."""
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> dict[str, NDArray[Any]]: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | NDArray[Any]) -> Batch: ...
    def __getitem__(self, index: int | slice | Sequence[int] | NDArray[Any]) -> dict[str, NDArray[Any]] | Batch:
        """The arrays of one sample, without the dimension of the samples.

        For a slice, a list of numbers or a mask, the batch that `read` returns.
        """
        if isinstance(index, slice) or np.ndim(index):
            return self.read(sample_numbers(index, len(self)))
        return self._sample(self.read([sample_number(index, len(self))], workers=1), 0)

    def root(self) -> tuple[Dataset, NDArray[np.int64]]:
        """The data set that this one is a part of, or is built on, and numbers (n,) of its samples there."""
        return self, np.arange(len(self), dtype=np.int64)

    def _sample(self, batch: Batch, place: int) -> dict[str, NDArray[Any]]:
        """The arrays of one sample of a batch, without the dimension of the samples if they have one."""
        return {name: row_of(name, array, place, batch.n_samples) for name, array in batch.items()}

    def __getitems__(self, ids: Sequence[int]) -> SingleSamples:
        """The samples of a list of numbers, as torch's DataLoader asks for them: read at once, when the first is used.

        Raises OutOfRangeError or ArgumentError for numbers of samples that are not valid.
        """
        return SingleSamples(sample_numbers(ids, len(self)), self.read, self._sample)

    @staticmethod
    def collate(samples: SingleSamples | Batch) -> Batch:
        """A `collate_fn` for torch's DataLoader: the batch that `__getitems__` has read."""
        return batch_of(samples)

    def explain(self, batch_size: int = 256) -> str:
        """Bytes read and decoded for each useful byte, for batches in exact random order and in whole windows.

        If more than a tenth too much is read, the text names the layout that avoids it. Nothing is read.

        Parameters
        ----------
        batch_size : int
            Samples in a batch.

        Returns
        -------
        str
        """
        n = len(self)
        size = min(batch_size, n)
        if size == 0:
            return "no samples"
        rows = [("exact random order", self.plan(np.random.default_rng(0).choice(n, size, replace=False)))]
        window = max(size, self.chunk_samples)
        bounds = self.bounds
        file = int(np.argmax(np.diff(bounds)))
        begin = int(bounds[file])
        rows.append((f"windows of {window} samples", self.plan(np.arange(begin, min(begin + window, n)))))
        lines = [f"{n} samples of {self.sample_bytes} bytes in {len(bounds) - 1} files; batches of {size}"]
        worst = 0.0
        for name, reading in rows:
            useful = max(reading.useful, 1)
            worst = max(worst, reading.read / useful, reading.decoded / useful)
            lines.append(
                f"{name}: {reading.read / useful:.2f} bytes read and {reading.decoded / useful:.2f} decoded for each "
                f"useful byte, in {reading.reads} reads"
            )
        if worst > 1.1:
            lines.append(self._better_layout())
        # for neighbours: the bytes of a sample as stored, without gaps
        unit = rows[1][1].read // max(1, min(window, n - begin))
        return "\n".join(lines + self._explain_node_cache(size, max(1, unit)))

    def _explain_node_cache(self, batch: int, unit: int) -> list[str]:
        cache = self.node_cache
        if cache is None or cache.block is None:
            return []
        share = self._share_of_files
        size = int(unit * len(self) / share)
        about = f"node cache {cache.root}: headers and the structure of HDF5 files are read from the files themselves"
        found = explain_blocks(unit, cache.block, size=size, limit=cache.limit, batch=batch, coverage=share)
        return [about, *found]

    @property
    def _share_of_files(self) -> float:
        """Share of the samples of its files that it has."""
        return 1.0

    def _better_layout(self) -> str:
        if self.chunk_samples == 1:
            return "what lies between near samples is read with them, which takes less time than to read each by itself"
        return (
            f"{self.chunk_samples} samples are decoded together: a layout with one sample a chunk, or contiguous "
            "without compression, needs no more bytes than those of the samples; so does an order by whole windows"
        )


class DatasetOverAnother(Dataset):
    """A data set built on another data set, from which it takes all that it does not override."""

    dataset: Dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def root(self) -> tuple[Dataset, NDArray[np.int64]]:
        return self.dataset.root()

    def plan(self, ids: ArrayLike) -> Reading:
        return self.dataset.plan(ids)

    @property
    def sample_bytes(self) -> int:
        return self.dataset.sample_bytes

    @property
    def chunk_samples(self) -> int:
        return self.dataset.chunk_samples

    @property
    def rows_stand_alone(self) -> bool:
        return self.dataset.rows_stand_alone

    @property
    def bounds(self) -> NDArray[np.int64]:
        return self.dataset.bounds

    def _sample(self, batch: Batch, place: int) -> dict[str, NDArray[Any]]:
        return self.dataset._sample(batch, place)

    def _better_layout(self) -> str:
        return self.dataset._better_layout()

    @property
    def node_cache(self) -> NodeCache | None:
        return self.dataset.node_cache

    def extents(self, ids: NDArray[np.int64]) -> Extents:
        return self.dataset.extents(ids)

    @property
    def _share_of_files(self) -> float:
        return self.dataset._share_of_files


class Subset(DatasetOverAnother):
    """Some samples of a data set, for example a part of a split: sample `i` is sample `ids[i]` of `dataset`.

    `batch.ids` are numbers of the whole data set, also for a part of a part.

    Parameters
    ----------
    dataset : Dataset
    ids : (n,) integers, in any order
    """

    def __init__(self, dataset: Dataset, ids: ArrayLike) -> None:
        self.dataset = dataset
        self.ids = sample_numbers(ids, len(dataset))

    def __len__(self) -> int:
        return len(self.ids)

    def root(self) -> tuple[Dataset, NDArray[np.int64]]:
        whole, ids = self.dataset.root()
        return whole, ids[self.ids]

    def read(self, ids: ArrayLike, *, out: Batch | None = None, workers: int | None = None) -> Batch:
        return self.dataset.read(self.ids[sample_numbers(ids, len(self))], out=out, workers=workers)

    def origin(self, ids: ArrayLike) -> tuple[list[str], NDArray[np.int64]]:
        """As `SampleDataset.origin`, for samples given by their numbers in the whole data set, such as `batch.ids`.

        Raises OutOfRangeError for samples that are not in this part.
        """
        numbers, (whole, own) = np.asarray(ids), self.root()
        if (strange := numbers[~np.isin(numbers, own)]).size:
            raise OutOfRangeError(f"sample {strange.flat[0]} of the whole data set is not in this part of it")
        return whole.origin(numbers)  # type: ignore[attr-defined, no-any-return]

    def plan(self, ids: ArrayLike) -> Reading:
        return self.dataset.plan(self.ids[sample_numbers(ids, len(self))])

    def extents(self, ids: NDArray[np.int64]) -> Extents:
        return self.dataset.extents(self.ids[ids])

    @property
    def _share_of_files(self) -> float:
        return min(1.0, max(1, len(self)) / max(1, len(self.dataset))) * self.dataset._share_of_files

    @property
    def bounds(self) -> NDArray[np.int64]:
        """Positions at which the file changes from one sample to the next."""
        file = np.searchsorted(self.dataset.bounds, self.ids, side="right")
        changes = np.flatnonzero(np.diff(file)) + 1
        return np.concatenate([[0], changes, [len(self)]]).astype(np.int64)

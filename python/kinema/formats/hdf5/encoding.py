"""`ChunkEncoder`: encodes rows of a data set as chunks of its file, without the file.

An encoder can be pickled, so that one process can encode what another commits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, InternalError
from kinema.formats.given_frames import EncodedChunk, EncodedRows, check_numbers_kept
from kinema.storage.hdf5.filters import Filters, encodable_again, encoded_by_core, filters_of
from kinema.storage.hdf5.rounding import Rounding
from kinema.storage.hdf5.storage import Storage, dataset_in_memory, encode_by_library, padded


@dataclass(frozen=True)
class Preparation:
    """Converts values from Kinema's units to those of the file: divided by `unit_size`, then rounded, as `dtype`."""

    dtype: np.dtype[Any]
    unit_size: float = 1.0
    rounding: Rounding | None = None
    factor: float = 1.0
    """Instead of `unit_size`: values are multiplied by it."""

    def changes_nothing(self, values: NDArray[Any]) -> bool:
        """Whether the values already are what the file will hold."""
        return bool(values.flags.c_contiguous) and self.keeps(values.dtype)

    def keeps(self, dtype: np.dtype[Any]) -> bool:
        """Whether values of this type already are what the file will hold."""
        same = dtype == self.dtype and dtype.isnative
        return same and self.unit_size == 1.0 and self.factor == 1.0 and self.rounding is None

    def check(self, values: NDArray[Any], name: str = "values", *, first: int = 0) -> None:
        """Raises errors for values that cannot be stored.

        ArgumentError if storing as `dtype` alone exceeds the requested bound, UnsupportedFormatError for numbers that
        `dtype` does not hold; `first` is the number of the first row.
        """
        largest = float(np.finfo(self.dtype).max) if self.dtype.kind == "f" else np.inf
        largest *= self.unit_size if self.factor == 1.0 else 1.0 / self.factor
        if values.dtype.kind == "f" and largest < float(np.finfo(values.dtype).max):
            check_numbers_kept(name, values, largest, first=first)
        if self.rounding is None or not self._narrows(values) or not values.size:
            return
        largest = max(np.nanmax(values), -np.nanmin(values)) / self.unit_size
        bits = np.finfo(self.dtype).nmant + 1
        if np.isfinite(largest) and largest > self.rounding.quantum * 2.0**bits:
            raise ArgumentError(
                f"{largest:g} cannot be stored as {self.dtype.name} within max_error, give dtype='float64' or a larger "
                "max_error"
            )

    def _narrows(self, values: NDArray[Any]) -> bool:
        return values.dtype.kind in "iu" or values.dtype.itemsize > self.dtype.itemsize

    def into(self, values: NDArray[Any], out: NDArray[Any]) -> None:
        """Writes the prepared values into `out`, of the same shape and C-contiguous; `check` has passed them."""
        if self.rounding is not None and self._narrows(values):
            # rounded once, not to float32 first
            wide = np.ascontiguousarray(values / self.unit_size, dtype=np.float64)
            self.rounding.apply(wide)
            out[...] = wide
            return
        if self.factor != 1.0:
            # in float64, as readers and encoders multiply
            np.multiply(values, np.float64(self.factor), out=out, casting="unsafe")
        elif self.unit_size == 1.0:
            np.copyto(out, values, casting="unsafe")
        else:
            np.divide(values, self.unit_size, out=out, casting="unsafe")
        if self.rounding is not None:
            self.rounding.apply(out)


@dataclass(frozen=True)
class ChunkEncoder:
    """Encoder of the rows of one data set into stored chunks.

    `storage`: type, chunks and filters of the data set, with the client values that HDF5 has stored.
    """

    storage: Storage
    preparation: Preparation

    @classmethod
    def from_dataset(cls, dataset: Any, preparation: Preparation) -> ChunkEncoder:
        """The encoder of an existing data set."""
        storage = Storage((0, *dataset.shape[1:]), dataset.dtype, dataset.chunks, filters_of(dataset))
        made = cls(storage, preparation)
        # used instead of a scratch copy
        made.__dict__["_scratch"] = dataset
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {"storage": self.storage, "preparation": self.preparation}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def item(self) -> tuple[int, ...]:
        """Shape of a row."""
        return self.storage.shape[1:]

    @property
    def chunk_rows(self) -> int:
        """Rows of a chunk; 1 without chunks."""
        return 1 if self.storage.chunks is None else self.storage.chunks[0]

    def prepared(self, values: NDArray[Any]) -> NDArray[Any]:
        """Rows (n, ...) in the units and the type of the file; raises ArgumentError for values that it cannot hold."""
        self.preparation.check(values)
        if self.preparation.changes_nothing(values):
            return values
        made = np.empty(values.shape, self.preparation.dtype)
        self.preparation.into(values, made)
        return made

    def encoded(self, values: NDArray[Any], first: int, *, workers: int = 1) -> EncodedRows:
        """Encodes rows (n, ...) of the data set, from `first` on, for `Series.announce`.

        Whole chunks are encoded; the rows before and after them stay as given.
        """
        rows, stop = self.chunk_rows, first + len(values)
        begin = min(-(-first // rows) * rows, stop)
        end = max(stop - stop % rows, begin)
        if self.storage.chunks is None:
            begin = end = stop
        self.preparation.check(values, first=first)
        chunks: list[EncodedChunk] = []
        if begin < end:
            whole = self.prepared(values[begin - first : end - first])
            # copies: the array that they are views of is freed
            chunks = [(at, bytes(stored), mask) for at, stored, mask in self.chunks(whole, workers=workers)]
        return EncodedRows(
            first,
            len(values),
            values.dtype,
            values[: begin - first],
            chunks,
            rows,
            values[end - first :],
        )

    def chunks(self, rows: NDArray[Any], *, workers: int = 1, raw: bool = False) -> Iterator[EncodedChunk]:
        """Offset, bytes and filter mask of each chunk of prepared rows (n, ...), in the order of offsets.

        `raw`: without filters. The last chunks are padded with zeros.

        If a chunk is rewritten with the same number of bytes, libhdf5 keeps its mask. So a filtered chunk as large as
        the raw one is stored without filters, as raw chunks are.
        """
        chunk, filters = self.storage.chunks, self.storage.filters
        assert chunk is not None
        no_filters = (1 << len(filters)) - 1
        if filters and not raw and not self._uses_core:
            found = encode_by_library(self._scratch, rows)
        else:
            found = encode_chunks(rows, chunk, () if raw else filters, workers)
        plain = math.prod(chunk) * rows.dtype.itemsize
        for offset, stored, mask in found:
            if raw:
                yield offset, stored, no_filters
            elif mask != no_filters and len(stored) == plain:
                part = rows[tuple(slice(start, start + k) for start, k in zip(offset, chunk, strict=True))]
                yield offset, padded(part, chunk).tobytes(), no_filters
            else:
                yield offset, stored, mask

    @cached_property
    def _uses_core(self) -> bool:
        return encoded_by_core(self._scratch)

    @cached_property
    def _scratch(self) -> Any:
        """A data set in memory with the same type, chunks and filters."""
        given = encodable_again(self.storage.filters)
        dataset = dataset_in_memory(Storage(self.storage.shape, self.storage.dtype, self.storage.chunks, given))
        found = filters_of(dataset)
        if found != self.storage.filters:
            raise InternalError(f"filters of a data set made again, expected {self.storage.filters}, found {found}")
        return dataset


def encode_chunks(
    rows: NDArray[Any], chunk: tuple[int, ...], filters: Filters, workers: int = 1
) -> Iterator[EncodedChunk]:
    """Offset, bytes and filter mask of each chunk of `rows` (n, ...), in the order of offsets; Rust has the filters.

    The last chunks are padded with zeros.
    """
    if not filters and chunk[1:] == rows.shape[1:]:
        # chunks of whole rows are contiguous already
        zeros = (0,) * (len(chunk) - 1)
        for start in range(0, len(rows), chunk[0]):
            part = rows[start : start + chunk[0]]
            yield (start, *zeros), part if part.shape == chunk else padded(part, chunk), 0
        return
    for offset, stored in _core.encode_chunks(np.ascontiguousarray(rows), chunk, filters, workers):
        yield tuple(offset), stored, 0

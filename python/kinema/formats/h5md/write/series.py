"""Growing data sets: rows are buffered until whole chunks can be encoded and written.

Chunks are encoded by Rust on several threads and written past HDF5's own filters (direct chunk writes); where Rust has
no encoder libhdf5 encodes them. HDF5 stores whole chunks only, so the last one is padded behind the data set's extent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.errors import ArgumentError
from kinema.formats.hdf5.filters import encoded_by_core, filters_of
from kinema.formats.hdf5.library_encoder import encode_by_library
from kinema.formats.hdf5.rounding import Rounding

__all__ = ["Preparation", "Series", "buffered_rows"]

# frames of a data set without chunks are gathered up to this many bytes
# bytes of a file after which the kernel is to begin
_WRITEBACK_BYTES = 8 << 20
_RUN_BYTES = 1 << 20
# Chunks that wait to be encoded as one batch, and their bytes: whatever the number of workers is. Batches of several
# data sets lie in a file in the order in which they are full, and a file shall not depend on it.
_WAITING_CHUNKS, _WAITING_BYTES = 16, 64 << 20


def buffered_rows(chunks: tuple[int, ...] | None, item: tuple[int, ...], itemsize: int, *, filtered: bool) -> int:
    """Rows (of shape `item`) that a series with these chunks holds in memory before they are written."""
    item_bytes = max(1, math.prod(item) * itemsize)
    if chunks is None:
        return max(1, _RUN_BYTES // item_bytes)
    if not filtered:
        return chunks[0]
    in_a_row = math.prod(-(-n // c) for n, c in zip(item, chunks[1:], strict=True))
    wanted = -(-_WAITING_CHUNKS // max(1, in_a_row))
    return chunks[0] * max(1, min(wanted, _WAITING_BYTES // (chunks[0] * item_bytes)))


@dataclass(frozen=True)
class Preparation:
    """From values in Kinema's units to those of the file: divided by `unit_size`, then rounded, as `dtype`."""

    dtype: np.dtype[Any]
    unit_size: float = 1.0
    rounding: Rounding | None = None
    factor: float = 1.0
    """Instead of `unit_size`: values are multiplied by it."""

    def changes_nothing(self, values: NDArray[Any]) -> bool:
        """Whether the values are what the file shall hold already."""
        same = values.dtype == self.dtype and values.dtype.isnative and values.flags.c_contiguous
        return same and self.unit_size == 1.0 and self.factor == 1.0 and self.rounding is None

    def check(self, values: NDArray[Any]) -> None:
        """Raises ArgumentError where storing as `dtype` alone exceeds the bound that was asked for."""
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


class _Writeback:
    """Has the kernel write a new file to the storage while more is made, so that the sync at its end waits less."""

    def __init__(self, file: h5py.File) -> None:
        # files that grow go through a journal
        self._descriptor = file.id.get_vfd_handle() if file.driver == "sec2" else None
        self._bytes = 0

    def add(self, n_bytes: int) -> None:
        """So many were written."""
        self._bytes += n_bytes
        if self._descriptor is not None and self._bytes >= _WRITEBACK_BYTES:
            _core.start_writeback(self._descriptor)
            self._bytes = 0


class Series:
    """One growing data set of shape (rows, ...).

    `make(rows)` makes the data set anew, with chunks of so many rows: for a series that ends before its first chunk is
    full, which would be stored whole.
    """

    def __init__(
        self,
        dataset: h5py.Dataset,
        *,
        rows: int = 0,
        preparation: Preparation | None = None,
        workers: int = 1,
        make: Callable[[int], h5py.Dataset] | None = None,
    ) -> None:
        self.dataset = dataset
        self.preparation = preparation or Preparation(dataset.dtype)
        self._id = dataset.id
        self._item: tuple[int, ...] = dataset.shape[1:]
        self._chunk: tuple[int, ...] | None = dataset.chunks
        self._filters = filters_of(dataset)
        self._encodes = encoded_by_core(dataset)
        self._workers, self._make = workers, make
        self._writeback = _Writeback(dataset.file)
        self._extent: int = dataset.shape[0]
        self._chunk_rows = 1 if self._chunk is None else self._chunk[0]
        batch = buffered_rows(self._chunk, self._item, dataset.dtype.itemsize, filtered=bool(self._filters))
        # fewer rows are gathered first
        self._least = batch if self._chunk is None else self._chunk_rows
        self._buffer = np.zeros((batch, *self._item), dataset.dtype)
        # rows before `_first` are in the file for good; of those in the buffer, `_stored` are there as well
        self._first = rows - rows % self._chunk_rows
        self._filled = self._stored = rows - self._first
        if self._filled:
            dataset.read_direct(self._buffer, np.s_[self._first : rows], np.s_[: self._filled])

    @property
    def rows(self) -> int:
        """Rows taken, in the file or in memory."""
        return self._first + self._filled

    def extend(self, values: NDArray[Any]) -> None:
        """Takes rows (n, ...)."""
        taken = 0
        while taken < len(values):
            rest = values[taken:]
            if not self._filled and self.preparation.changes_nothing(rest) and len(rest) >= self._least:
                whole = len(rest) - len(rest) % self._chunk_rows
                whole = min(whole, len(self._buffer)) if self._filters else whole
                self._store(rest[:whole])
                self._first += whole
                taken += whole
                continue
            n = min(len(rest), len(self._buffer) - self._filled)
            self.preparation.into(rest[:n], self._buffer[self._filled : self._filled + n])
            self._filled += n
            taken += n
            if self._filled == len(self._buffer):
                self._store_whole_chunks()

    def flush(self) -> None:
        """Writes all rows, also those of the last chunk that is not full; more may follow.

        These are written again when the chunk is full, unfiltered until then: so they stay where they are, however
        often they are written.
        """
        self._store_whole_chunks()
        if self._filled > self._stored:
            self._store(self._buffer[: self._filled], raw=True)
            self._stored = self._filled

    def finish(self) -> None:
        """Writes all rows, the last chunk filtered like the others; nothing may follow."""
        if self._chunk is not None and self._make is not None and 0 < self.rows < self._chunk_rows and not self._stored:
            self.dataset = self._make(self.rows)
            self._id, self._chunk, self._chunk_rows = self.dataset.id, self.dataset.chunks, self.rows
        self._store_whole_chunks()
        if self._filled > self._stored:
            self._store(self._buffer[: self._filled])
            self._stored = self._filled

    # how

    def _store_whole_chunks(self) -> None:
        whole = self._filled - self._filled % self._chunk_rows
        if not whole:
            return
        self._store(self._buffer[:whole])
        rest = self._filled - whole
        self._buffer[:rest] = self._buffer[whole : self._filled].copy()
        self._first += whole
        self._filled, self._stored = rest, max(0, self._stored - whole)

    def _store(self, rows: NDArray[Any], *, raw: bool = False) -> None:
        self._store_rows(rows, raw)
        self._writeback.add(rows.nbytes)

    def _store_rows(self, rows: NDArray[Any], raw: bool) -> None:
        first, stop = self._first, self._first + len(rows)
        if self._chunk is None:
            self.dataset.write_direct(np.ascontiguousarray(rows), dest_sel=np.s_[first:stop])
            return
        if stop > self._extent:
            self._id.set_extent((stop, *self._item))
            self._extent = stop
        mask = (1 << len(self._filters)) - 1 if raw else 0
        filters = () if raw else self._filters
        if not filters and self._chunk[1:] == self._item:
            self._store_as_they_are(rows, mask)
            return
        if filters and not self._encodes:
            for place, stored, skipped in encode_by_library(self.dataset, rows):
                self._write(rows, place, stored, skipped)
            return
        for offset, encoded in _core.encode_chunks(np.ascontiguousarray(rows), self._chunk, filters, self._workers):
            self._write(rows, offset, encoded, mask)

    def _write(self, rows: NDArray[Any], offset: Sequence[int], encoded: bytes, mask: int) -> None:
        """A chunk of `rows`, which are those from `_first` on.

        libhdf5 keeps the mask of a chunk that is written again with as many bytes. So chunks of the size that they have
        without filters are stored without, as `flush` does.
        """
        assert self._chunk is not None
        raw_mask = (1 << len(self._filters)) - 1
        if mask != raw_mask and len(encoded) == math.prod(self._chunk) * rows.dtype.itemsize:
            part = rows[tuple(slice(start, start + k) for start, k in zip(offset, self._chunk, strict=True))]
            whole = np.zeros(self._chunk, rows.dtype)
            whole[tuple(slice(0, n) for n in part.shape)] = part
            encoded, mask = whole.tobytes(), raw_mask
        self._id.write_direct_chunk((self._first + offset[0], *offset[1:]), encoded, mask)

    def _store_as_they_are(self, rows: NDArray[Any], mask: int) -> None:
        """Chunks of whole rows without filters need no encoding."""
        zeros = (0,) * len(self._item)
        for start in range(0, len(rows), self._chunk_rows):
            part = rows[start : start + self._chunk_rows]
            if len(part) < self._chunk_rows:
                padded = np.zeros((self._chunk_rows, *self._item), part.dtype)
                padded[: len(part)] = part
                part = padded
            self._id.write_direct_chunk((self._first + start, *zeros), part, mask)

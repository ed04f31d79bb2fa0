"""Growing data sets: rows are buffered until whole chunks can be encoded and written.

Chunks are encoded by a `ChunkEncoder`, here or in another process, and written past HDF5's own filters (direct chunk
writes). HDF5 stores whole chunks only, so the last one is padded behind the data set's extent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.formats.given_frames import AnnouncedRows, EncodedChunk, EncodedRows
from kinema.formats.hdf5.encoding import ChunkEncoder, Preparation
from kinema.storage.hdf5.storage import write_chunks

__all__ = ["CountedRows", "Series", "buffered_rows"]

# frames of a data set without chunks are gathered up to this many bytes
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
        self.encoder = ChunkEncoder.of(dataset, preparation or Preparation(dataset.dtype))
        self._id = dataset.id
        self._workers, self._make = workers, make
        self._extent: int = dataset.shape[0]
        storage, self._chunk_rows = self.encoder.storage, self.encoder.chunk_rows
        filtered = bool(storage.filters)
        batch = buffered_rows(storage.chunks, self.encoder.item, dataset.dtype.itemsize, filtered=filtered)
        # fewer rows are gathered first
        self._least = batch if storage.chunks is None else self._chunk_rows
        self._buffer = np.zeros((batch, *self.encoder.item), dataset.dtype)
        # rows before `_first` are in the file for good; of those in the buffer, `_stored` are there as well
        self._first = rows - rows % self._chunk_rows
        self._filled = self._stored = rows - self._first
        if self._filled:
            dataset.read_direct(self._buffer, np.s_[self._first : rows], np.s_[: self._filled])
        # of rows that were announced: chunks by their first row, and values likewise
        self._encoded: dict[int, list[EncodedChunk]] = {}
        self._plain: dict[int, NDArray[Any]] = {}

    @property
    def preparation(self) -> Preparation:
        """Between the units of the caller and those of the file."""
        return self.encoder.preparation

    @property
    def rows(self) -> int:
        """Rows taken, in the file or in memory."""
        return self._first + self._filled

    def extend(self, values: NDArray[Any] | AnnouncedRows) -> None:
        """Takes rows (n, ...), or so many of those that were announced."""
        taken = 0
        filtered = bool(self.encoder.storage.filters)
        while taken < len(values):
            rest = values[taken:]
            if not self._filled and self._changes_nothing(rest) and len(rest) >= self._least:
                whole = len(rest) - len(rest) % self._chunk_rows
                whole = min(whole, len(self._buffer)) if filtered else whole
                self._store(rest[:whole])
                self._first += whole
                taken += whole
                continue
            n = min(len(rest), len(self._buffer) - self._filled)
            self._gather(rest[:n])
            self._filled += n
            taken += n
            if self._filled == len(self._buffer):
                self._store_whole_chunks()

    def announce(self, rows: EncodedRows) -> None:
        """Takes rows of which another process has encoded the whole chunks.

        `extend` with `AnnouncedRows` says when each is to be written. They go on behind those announced before.
        """
        if len(rows.head):
            self._plain[rows.first] = rows.head
        at = rows.first + len(rows.head)
        for offset, stored, mask in rows.chunks:
            place = at + offset[0]
            self._encoded.setdefault(place, []).append(((0, *offset[1:]), stored, mask))
        if len(rows.tail):
            self._plain[rows.first + rows.n_rows - len(rows.tail)] = rows.tail

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
        chunked = self.encoder.storage.chunks is not None
        if chunked and self._make is not None and 0 < self.rows < self._chunk_rows and not self._stored:
            self.dataset = self._make(self.rows)
            self._id, self._chunk_rows = self.dataset.id, self.rows
            self.encoder = ChunkEncoder.of(self.dataset, self.preparation)
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

    def _changes_nothing(self, rows: NDArray[Any] | AnnouncedRows) -> bool:
        if isinstance(rows, AnnouncedRows):
            return self.preparation.keeps(rows.dtype)
        return self.preparation.changes_nothing(rows)

    def _gather(self, rows: NDArray[Any] | AnnouncedRows) -> None:
        """Rows into the buffer; nothing of those that are encoded."""
        place = self._buffer[self._filled : self._filled + len(rows)]
        if not isinstance(rows, AnnouncedRows):
            self.preparation.into(rows, place)
            return
        begin, stop = self.rows, self.rows + len(rows)
        for first in [first for first in self._plain if first < stop]:
            values = self._plain.pop(first)
            here = values[: stop - first]
            self.preparation.into(here, place[first - begin : first - begin + len(here)])
            if len(here) < len(values):
                self._plain[stop] = values[len(here) :]

    def _store(self, rows: NDArray[Any] | AnnouncedRows, *, raw: bool = False) -> None:
        first, stop = self._first, self._first + len(rows)
        if self.encoder.storage.chunks is None:
            assert not isinstance(rows, AnnouncedRows)  # there are no chunks that could be encoded
            self.dataset.write_direct(np.ascontiguousarray(rows), dest_sel=np.s_[first:stop])
        else:
            if stop > self._extent:
                self._id.set_extent((stop, *self.encoder.item))
                self._extent = stop
            self._store_chunks(rows, first, raw)

    def _store_chunks(self, rows: NDArray[Any] | AnnouncedRows, first: int, raw: bool) -> None:
        """Rows from `first` on, in the order of their chunks; of those that were announced encoded the chunks alone."""
        done = 0
        places = range(0, len(rows), self._chunk_rows) if self._encoded else ()
        for start in places:
            made = self._encoded.pop(first + start, None)
            if made is None:
                continue
            self._encode(rows[done:start], first + done, raw)
            self._commit(made, first + start)
            done = start + self._chunk_rows
        self._encode(rows[done:], first + done, raw)

    def _encode(self, rows: NDArray[Any] | AnnouncedRows, first: int, raw: bool) -> None:
        if len(rows):
            assert not isinstance(rows, AnnouncedRows)  # plain ones are in the buffer
            self._commit(self.encoder.chunks(rows, workers=self._workers, raw=raw), first)

    def _commit(self, chunks: Iterable[EncodedChunk], first: int) -> None:
        """Writes chunks whose offsets count from row `first`."""
        write_chunks(self._id, (first, *(0,) * len(self.encoder.item)), chunks)


class CountedRows:
    """The rows of a data set that others write, in place of its `Series`."""

    def __init__(self, encoder: ChunkEncoder, dataset: h5py.Dataset, rows: int) -> None:
        self.encoder, self.dataset, self.rows = encoder, dataset, rows

    @property
    def preparation(self) -> Preparation:
        """As of `Series`."""
        return self.encoder.preparation

    def extend(self, values: AnnouncedRows) -> None:
        """Counts rows."""
        self.rows += len(values)

    def flush(self) -> None:
        """Nothing: they are written by others."""

    def finish(self) -> None:
        """Nothing: all rows are there."""

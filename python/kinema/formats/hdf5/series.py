"""Growing data sets: rows are buffered until whole chunks can be encoded and written.

Chunks are encoded by a `ChunkEncoder`, here or in another process, and written past HDF5's own filters (direct chunk
writes). HDF5 stores whole chunks only, so the last one is padded beyond the data set's extent.
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

# most bytes of frames that are gathered for a data set without chunks
_RUN_BYTES = 1 << 20
# Chunks that wait to be encoded as one batch, and their bytes, independent of the number of workers. Batches of several
# data sets lie in a file in the order in which they fill up, and a file must not depend on the workers.
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


def set_rows(dataset: h5py.Dataset, rows: int) -> None:
    """Gives a data set this number of rows; those beyond it are lost."""
    dataset.id.set_extent((rows, *dataset.shape[1:]))


class Series:
    """One growing data set of shape (rows, ...).

    `make(rows)` recreates the data set with chunks of `rows` rows, for a series that ends before its first chunk is
    full: that chunk would be stored whole.
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
        self.encoder = ChunkEncoder.from_dataset(dataset, preparation or Preparation(dataset.dtype))
        self._id = dataset.id
        self._workers, self._make = workers, make
        self._extent: int = dataset.shape[0]
        storage, self._chunk_rows = self.encoder.storage, self.encoder.chunk_rows
        filtered = bool(storage.filters)
        batch = buffered_rows(storage.chunks, self.encoder.item, dataset.dtype.itemsize, filtered=filtered)
        # fewer rows are gathered first
        self._least = batch if storage.chunks is None else self._chunk_rows
        self._buffer = np.zeros((batch, *self.encoder.item), dataset.dtype)
        # rows before `_first` are final in the file; of those in the buffer, `_stored` are there as well
        self._first = rows - rows % self._chunk_rows
        self._filled = self._stored = rows - self._first
        if self._filled:
            dataset.read_direct(self._buffer, np.s_[self._first : rows], np.s_[: self._filled])
        # for announced rows: chunks by their first row, and values likewise
        self._encoded: dict[int, list[EncodedChunk]] = {}
        self._plain: dict[int, NDArray[Any]] = {}

    @property
    def preparation(self) -> Preparation:
        """Conversion between the units of the caller and those of the file."""
        return self.encoder.preparation

    @property
    def rows(self) -> int:
        """Rows taken, in the file or in memory."""
        return self._first + self._filled

    def extend(self, values: NDArray[Any] | AnnouncedRows) -> None:
        """Takes rows (n, ...), or n of the announced rows."""
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
        """Takes rows whose whole chunks another process has encoded.

        `extend` with `AnnouncedRows` says when each is to be written. They follow the rows announced before.
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
        """Writes all rows, also from the last, incomplete chunk; more may follow.

        The incomplete chunk is written again when it is full. Until then it is unfiltered, so it keeps its place
        however often it is written.
        """
        self._store_whole_chunks()
        if self._filled > self._stored:
            self._store(self._buffer[: self._filled], raw=True)
            self._stored = self._filled

    def finish(self) -> None:
        """Writes all rows, the last chunk filtered like the others; no more may follow."""
        chunked = self.encoder.storage.chunks is not None
        if chunked and self._make is not None and 0 < self.rows < self._chunk_rows and not self._stored:
            self.dataset = self._make(self.rows)
            self._id, self._chunk_rows = self.dataset.id, self.rows
            self.encoder = ChunkEncoder.from_dataset(self.dataset, self.preparation)
        self._store_whole_chunks()
        if self._filled > self._stored:
            self._store(self._buffer[: self._filled])
            self._stored = self._filled

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
        """Copies rows into the buffer, except encoded ones."""
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
                set_rows(self.dataset, stop)
                self._extent = stop
            self._store_chunks(rows, first, raw)

    def _store_chunks(self, rows: NDArray[Any] | AnnouncedRows, first: int, raw: bool) -> None:
        """Stores rows from `first` on, in the order of their chunks; for announced rows only the encoded chunks."""
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
            assert not isinstance(rows, AnnouncedRows)  # plain rows are in the buffer
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
        """Does nothing: others write the rows."""

    def finish(self) -> None:
        """Does nothing: all rows are written."""

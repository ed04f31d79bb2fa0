"""Transfer of the values of one data set into another, tile by tile in bounded memory, and their comparison afterwards.

A tile is some rows by some columns, whole chunks of the new data set. It is read by Rust on all threads, encoded there
on all threads, and written to HDF5 as stored chunks. What was written is compared by a checksum of each tile (CRC-32),
so that no copy is kept in memory.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.errors import CorruptFileError
from kinema.formats.h5md.edit.values import Values
from kinema.formats.hdf5.filters import encoded_by_core, filters_of
from kinema.formats.hdf5.rounding import Rounding
from kinema.formats.hdf5.storage import Storage
from kinema.prefetch import prefetched

__all__ = ["TILES_IN_MEMORY", "MovedDataset", "Tile", "move", "read_back"]

# rows [start, stop), columns [first, last), which are (0, 1) where rows are single numbers
Tile = tuple[int, int, int, int]
Advance = Callable[[int], None]

# two tiles, encoded chunks, what the reader works with
TILES_IN_MEMORY = 6
# more at a time is no faster
_LARGE_TILE = 24 << 20


@dataclass
class MovedDataset:
    """What was moved into one data set: for each tile its checksum; the largest change of a value by rounding."""

    path: str
    checksums: list[tuple[Tile, int]] = field(default_factory=list)
    largest_change: float = 0.0


def move(
    values: Values,
    first_row: int,
    columns: NDArray[np.int64] | None,
    target: Any,
    storage: Storage,
    *,
    rounding: Rounding | None = None,
    memory: int,
    workers: int,
    advance: Advance,
) -> MovedDataset:
    """Writes rows from `first_row` on, of the given columns (None: all), into all of `target`.

    `memory` bounds two tiles (the next one is read meanwhile), encoded chunks and what the reader works with; but
    whole chunks are always held.
    """
    result = MovedDataset(target.name)
    if 0 in storage.shape:
        return result
    filters = filters_of(target)
    tiles = list(_tiles(storage, memory // TILES_IN_MEMORY, values.dataset.chunks))
    parts = prefetched(functools.partial(_read, values, first_row, columns), tiles)
    with closing(parts):
        for tile, part in zip(tiles, parts, strict=True):
            if rounding is not None:
                part, change = _rounded(part, rounding)
                result.largest_change = max(result.largest_change, change)
            result.checksums.append((tile, zlib.crc32(part.data)))
            _store(part, tile, target, storage, filters, workers)
            advance(part.nbytes)
    return result


def read_back(values: Values, moved: MovedDataset, path: str, *, advance: Advance) -> None:
    """Compares a data set with what was moved into it. Raises CorruptFileError where they differ."""
    for tile, expected in moved.checksums:
        part = _read(values, 0, None, tile)
        if zlib.crc32(part.data) != expected:
            start, stop, *_ = tile
            raise CorruptFileError(
                f"{path}: {moved.path} does not hold what was written, rows {start} to {stop - 1}; "
                "the disk or the memory of this machine may be faulty",
                path=path,
                format="H5MD",
            )
        advance(part.nbytes)


def _read(values: Values, first_row: int, columns: NDArray[np.int64] | None, tile: Tile) -> NDArray[Any]:
    """The values of a tile, contiguous."""
    start, stop, first, last = tile
    n_columns = len(columns) if columns is not None else values.item[0] if values.item else 1
    chosen = columns
    if (first, last) != (0, n_columns):
        chosen = np.arange(first, last) if columns is None else columns[first:last]
    return np.ascontiguousarray(values.rows(first_row + start, first_row + stop, chosen))


def _rounded(part: NDArray[Any], rounding: Rounding) -> tuple[NDArray[Any], float]:
    """The values rounded, in the file's byte order, and how far one has moved at most."""
    rounded = part.astype(part.dtype.newbyteorder("="), copy=True)
    rounding.apply(rounded)
    with np.errstate(invalid="ignore"):
        change = np.abs(rounded - part)
    largest = float(np.fmax.reduce(change, axis=None, initial=0.0))
    return rounded.astype(part.dtype, copy=False), largest


def _tiles(storage: Storage, limit: int, source_chunks: tuple[int, ...] | None) -> Iterator[Tile]:
    """Tiles of whole chunks within `limit` bytes, few columns only where one row of chunks is larger than that.

    Where there is room, they are as long as the chunks of the source, so that these are decoded once.
    """
    n_rows, n_columns = storage.shape[0], (storage.shape[1] if len(storage.shape) > 1 else 1)
    k = 1 if storage.chunks is None else storage.chunks[0]
    most = limit // storage.row_bytes
    rows = k * max(1, min(most, _LARGE_TILE // storage.row_bytes) // k)
    if source_chunks is not None:
        both, longer = math.lcm(k, source_chunks[0]), -(-source_chunks[0] // k) * k
        if both <= most:
            rows = max(both, rows // both * both)
        elif longer <= most:
            rows = max(rows, longer)
    width = n_columns
    if k > most and storage.chunks is not None and len(storage.chunks) > 1:
        column_bytes = max(1, k * storage.row_bytes // n_columns)
        width = storage.chunks[1] * max(1, limit // (column_bytes * storage.chunks[1]))
    for start in range(0, n_rows, rows):
        for first in range(0, n_columns, width):
            yield start, min(start + rows, n_rows), first, min(first + width, n_columns)


def _store(part: NDArray[Any], tile: Tile, target: Any, storage: Storage, filters: Any, workers: int) -> None:
    start, stop, first, last = tile
    if storage.chunks is None or not _as_in_memory(target) or not encoded_by_core(target):
        target.write_direct(part, dest_sel=np.s_[start:stop, first:last] if part.ndim > 1 else np.s_[start:stop])
        return
    corner = (start, first, *(0,) * (len(storage.shape) - 2))[: len(storage.shape)]
    if not filters and storage.chunks[1:] == part.shape[1:]:
        # chunks of whole rows are there already
        k = storage.chunks[0]
        whole = len(part) // k * k
        for row in range(0, whole, k):
            target.id.write_direct_chunk((start + row, *corner[1:]), part[row : row + k])
        part, corner = part[whole:], (start + whole, *corner[1:])
        if not len(part):
            return
    for offset, encoded in _core.encode_chunks(part, storage.chunks, filters, workers):
        place = tuple(a + b for a, b in zip(corner, offset, strict=True))
        target.id.write_direct_chunk(place, encoded)


def _as_in_memory(target: Any) -> bool:
    """Whether a file's numbers have the bytes that NumPy's have: no precision or padding of their own."""
    return bool(h5py.h5t.py_create(target.dtype).equal(target.id.get_type()))

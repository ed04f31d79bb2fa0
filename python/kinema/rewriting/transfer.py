"""Moves the values of one data set into another, tile by tile in bounded memory, and reads them back to compare.

It decides neither what is moved nor how it is stored.

A tile is some rows by some columns, whole chunks of the new data set. It is read by the Rust half on all threads,
encoded there on all threads, and handed to HDF5 as it shall lie in the file. What was written is compared by a
checksum of each tile (BLAKE2, 128 bits), so that nothing is kept in memory for it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.errors import CorruptFileError
from kinema.h5md.chunks import filters_of
from kinema.rewriting.storage import Storage
from kinema.rewriting.values import Values

__all__ = ["Moved", "Tile", "move", "read_back"]

# rows [start, stop), columns [first, last); without columns (0, 1)
Tile = tuple[int, int, int, int]
Advance = Callable[[int], None]


@dataclass
class Moved:
    """What was moved into one data set: for each tile its checksum; the largest change of a value by rounding."""

    path: str
    digests: list[tuple[Tile, bytes]] = field(default_factory=list)
    largest_change: float = 0.0


def move(
    values: Values,
    first_row: int,
    columns: NDArray[np.int64] | None,
    target: Any,
    storage: Storage,
    *,
    memory: int,
    workers: int,
    advance: Advance,
) -> Moved:
    """Writes rows from `first_row` on, of the given columns (None: all), into all of `target`.

    `memory` bounds a tile, its encoded chunks and what the reader works with; but one chunk is always held.
    """
    result = Moved(target.name)
    if 0 in storage.shape:
        return result
    native = storage.dtype.newbyteorder("=")
    filters = filters_of(target.id.get_create_plist())
    for tile in _tiles(storage, memory // 4, values.dataset.chunks):
        start, stop, first, last = tile
        chosen = columns
        if storage.shape[1:] and (first, last) != (0, storage.shape[1]):
            chosen = np.arange(first, last) if columns is None else columns[first:last]
        part = values.rows(first_row + start, first_row + stop, chosen)
        if storage.rounding is not None:
            before = part.astype(native, copy=True)
            rounded = before.copy()
            storage.rounding.apply(rounded)
            with np.errstate(invalid="ignore"):
                change = np.abs(rounded - before)
            result.largest_change = max(result.largest_change, float(np.nanmax(change, initial=0.0)))
            part = rounded.astype(storage.dtype, copy=False)
        part = np.ascontiguousarray(part)
        result.digests.append((tile, _digest(part)))
        _store(part, tile, target, storage, filters, workers)
        advance(part.nbytes)
    return result


def read_back(values: Values, moved: Moved, path: str, *, advance: Advance) -> None:
    """Compares a data set with what was moved into it. Raises CorruptFileError where they differ."""
    for (start, stop, first, last), expected in moved.digests:
        whole = not values.item or (first, last) == (0, values.item[0])
        part = np.ascontiguousarray(values.rows(start, stop, None if whole else np.arange(first, last)))
        if _digest(part) != expected:
            raise CorruptFileError(
                f"{path}: {moved.path} does not hold what was written, rows {start} to {stop - 1}; "
                "the disk or the memory of this machine may be faulty",
                path=path,
                format="H5MD",
            )
        advance(part.nbytes)


def _digest(part: NDArray[Any]) -> bytes:
    return hashlib.blake2b(part.reshape(-1).view(np.uint8), digest_size=16).digest()


def _tiles(storage: Storage, budget: int, source_chunks: tuple[int, ...] | None) -> Iterator[Tile]:
    """Tiles of whole chunks within `budget` bytes: as many rows as fit, and where one row of chunks does not, fewer
    columns."""
    n_rows, n_columns = storage.shape[0], (storage.shape[1] if len(storage.shape) > 1 else 1)
    chunk_rows = 1 if storage.chunks is None else storage.chunks[0]
    chunk_columns = storage.chunks[1] if storage.chunks is not None and len(storage.chunks) > 1 else n_columns
    rows, width = chunk_rows * max(1, budget // (chunk_rows * storage.row_bytes)), n_columns
    if source_chunks is not None:  # so that no chunk of the source is decoded twice
        both = math.lcm(chunk_rows, source_chunks[0])
        rows = rows // both * both or rows
    if chunk_rows * storage.row_bytes > budget and storage.chunks is not None:
        column_bytes = max(1, chunk_rows * storage.row_bytes // n_columns)
        width = chunk_columns * max(1, budget // (column_bytes * chunk_columns))
    for start in range(0, n_rows, rows):
        for first in range(0, n_columns, width):
            yield start, min(start + rows, n_rows), first, min(first + width, n_columns)


def _store(part: NDArray[Any], tile: Tile, target: Any, storage: Storage, filters: Any, workers: int) -> None:
    start, stop, first, last = tile
    if storage.chunks is None or not _as_in_memory(target):
        target.write_direct(part, dest_sel=np.s_[start:stop, first:last] if part.ndim > 1 else np.s_[start:stop])
        return
    corner = (start, first, *(0,) * (len(storage.shape) - 2))[: len(storage.shape)]
    whole_rows = storage.chunks[1:] == part.shape[1:]
    if not filters and whole_rows and (stop - start) % storage.chunks[0] == 0:
        for row in range(0, stop - start, storage.chunks[0]):
            target.id.write_direct_chunk((start + row, *corner[1:]), part[row : row + storage.chunks[0]])
        return
    for offset, encoded in _core.encode_chunks(part, storage.chunks, filters, workers):
        place = tuple(a + b for a, b in zip(corner, offset, strict=True))
        target.id.write_direct_chunk(place, encoded)


def _as_in_memory(target: Any) -> bool:
    """Whether a file's numbers have the bytes that NumPy's have: no precision or padding of their own."""
    return bool(h5py.h5t.py_create(target.dtype).equal(target.id.get_type()))

"""Transfer of the values of one data set into another, tile by tile in bounded memory, and their comparison afterwards.

A tile is a rectangle of rows and columns, made of whole chunks of the new data set. Rust reads and encodes it on all
threads, and its chunks are stored in HDF5 as they are. The comparison uses a checksum of each tile (CRC-32), so no copy
is kept in memory.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import CorruptFileError
from kinema.base.prefetch import prefetched
from kinema.files.h5md.dataset_values import Values
from kinema.files.h5md.workers import EncodedTile, Tile, TileReader, read_tile, rounded, shares
from kinema.formats.hdf5.encoding import encode_chunks
from kinema.runners.workers import CallWorkers
from kinema.storage.hdf5.filters import encoded_by_core, filters_of
from kinema.storage.hdf5.rounding import Rounding
from kinema.storage.hdf5.storage import Storage, write_chunks

Advance = Callable[[int], None]

# two tiles, encoded chunks, and the reader's buffers
TILES_IN_MEMORY = 6
# larger tiles are not faster
_LARGE_TILE = 24 << 20
# most chunks of the source per tile: libhdf5 needs some kB and microseconds for each, and delays signals meanwhile
_MOST_CHUNKS = 1 << 12


@dataclass
class MovedDataset:
    """Record of one moved data set: the checksum of each tile; the largest change of a value by rounding."""

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
    on: CallWorkers,
    advance: Advance,
) -> MovedDataset:
    """Writes rows from `first_row` on, of the given columns (None: all), into all of `target`.

    `memory` bounds two tiles (the next is read while one is written), encoded chunks and the reader's buffers; but
    whole chunks are always held.
    """
    result = MovedDataset(target.name)
    if 0 in storage.shape:
        return result
    filters = filters_of(target)
    tiles = list(_tiles(storage, memory // TILES_IN_MEMORY, values.dataset.chunks))
    if len(tiles) > 1 and not on.is_local:
        n_workers, share, tile_bytes = shares(on, memory)
        reader = TileReader(
            values.dataset.file.filename,
            values.dataset.name,
            first_row=first_row,
            columns=columns,
            rounding=rounding,
            chunks=storage.chunks if _is_encoded(target, storage) else None,
            filters=filters,
            memory=share,
            threads=on.runner.threads_per_worker,
        )
        tiles = list(_tiles(storage, tile_bytes, values.dataset.chunks))
        _move_on_workers(result, reader, tiles, target, replace(on, workers=n_workers), advance)
        return result
    parts = prefetched(functools.partial(read_tile, values, first_row, columns), tiles)
    with closing(parts):
        for tile, part in zip(tiles, parts, strict=True):
            if rounding is not None:
                part, change = rounded(part, rounding)
                result.largest_change = max(result.largest_change, change)
            result.checksums.append((tile, zlib.crc32(part.data)))
            _store(part, tile, target, storage, filters, on.threads)
            advance(part.nbytes)
    return result


def _move_on_workers(
    result: MovedDataset, reader: TileReader, tiles: list[Tile], target: Any, on: CallWorkers, advance: Advance
) -> None:
    """Workers read, round and encode; this process writes the results, because libhdf5 allows one writer."""
    checksums: dict[int, int] = {}

    def receive(number: int, made: EncodedTile) -> None:
        if made.values is not None:
            _store_values(made.values, tiles[number], target)
        write_chunks(target.id, _corner(tiles[number], len(target.shape)), made.chunks)
        checksums[number] = made.checksum
        result.largest_change = max(result.largest_change, made.change)
        advance(made.size)

    on.runner.map(reader, tiles, workers=on.workers, receive=receive)
    result.checksums += [(tile, checksums[number]) for number, tile in enumerate(tiles)]


def read_back(
    values: Values, moved: MovedDataset, path: str, *, on: CallWorkers, memory: int, advance: Advance
) -> None:
    """Compares a data set with the values moved into it. Raises CorruptFileError if they differ."""

    def compare(number: int, checksum: int, size: int) -> None:
        (start, stop, *_), expected = moved.checksums[number]
        if checksum != expected:
            raise CorruptFileError(
                f"{moved.path} does not hold what was written, rows {start} to {stop - 1}; "
                "the disk or the memory of this machine may be faulty",
                at=path,
                format="H5MD",
            )
        advance(size)

    tiles = [tile for tile, _ in moved.checksums]
    if len(tiles) > 1 and not on.is_local:
        n_workers, share, _ = shares(on, memory)
        reader = TileReader(
            values.dataset.file.filename,
            values.dataset.name,
            memory=share,
            threads=on.runner.threads_per_worker,
            checksums_alone=True,
        )

        def receive(number: int, found: EncodedTile) -> None:
            compare(number, found.checksum, found.size)

        on.runner.map(reader, tiles, workers=n_workers, receive=receive)
        return
    for number, tile in enumerate(tiles):
        part = read_tile(values, 0, None, tile)
        compare(number, zlib.crc32(part.data), part.nbytes)


def _tiles(storage: Storage, limit: int, source_chunks: tuple[int, ...] | None) -> Iterator[Tile]:
    """Tiles of whole chunks within `limit` bytes; with fewer columns only if one row of chunks exceeds the limit.

    If the limit allows, tiles are as long as the chunks of the source, so that each is decoded once; but a tile does
    not span very many of them.
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
        across = math.prod(-(-n // c) for n, c in zip(storage.shape[1:], source_chunks[1:], strict=True))
        rows = min(rows, max(1, _MOST_CHUNKS // across * source_chunks[0] // k) * k)
    width = n_columns
    if k > most and storage.chunks is not None and len(storage.chunks) > 1:
        column_bytes = max(1, k * storage.row_bytes // n_columns)
        width = storage.chunks[1] * max(1, limit // (column_bytes * storage.chunks[1]))
    for start in range(0, n_rows, rows):
        for first in range(0, n_columns, width):
            yield start, min(start + rows, n_rows), first, min(first + width, n_columns)


def _store(part: NDArray[Any], tile: Tile, target: Any, storage: Storage, filters: Any, workers: int) -> None:
    if not _is_encoded(target, storage):
        _store_values(part, tile, target)
        return
    assert storage.chunks is not None
    write_chunks(target.id, _corner(tile, len(storage.shape)), encode_chunks(part, storage.chunks, filters, workers))


def _corner(tile: Tile, n_axes: int) -> tuple[int, ...]:
    """The first index of a tile on each axis."""
    return (tile[0], tile[2], *(0,) * (n_axes - 2))[:n_axes]


def _store_values(part: NDArray[Any], tile: Tile, target: Any) -> None:
    """Lets libhdf5 encode and store a tile."""
    start, stop, first, last = tile
    target.write_direct(part, dest_sel=np.s_[start:stop, first:last] if part.ndim > 1 else np.s_[start:stop])


def _is_encoded(target: Any, storage: Storage) -> bool:
    """Whether Rust encodes the chunks of a data set; otherwise libhdf5 does."""
    return storage.chunks is not None and _as_in_memory(target) and encoded_by_core(target)


def _as_in_memory(target: Any) -> bool:
    """Whether a file's numbers have the same bytes as NumPy's: no precision or padding of their own."""
    return bool(h5py.h5t.py_create(target.dtype).equal(target.id.get_type()))

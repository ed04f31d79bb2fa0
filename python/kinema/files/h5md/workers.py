"""Work of a runner's workers for an edit: they read and encode tiles of data sets, and copy frames.

HDF5 files are written by the leading process. Frames of other formats are copied by the worker that gets the bytes.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import FileNotFound, TruncatedFileError
from kinema.base.input_files import open_regular
from kinema.files.h5md.dataset_values import Values
from kinema.formats.given_frames import EncodedChunk
from kinema.formats.hdf5.encoding import encode_chunks
from kinema.formats.splice import FrameRange
from kinema.parallel.placers import FilePlacer
from kinema.runners.workers import CallWorkers
from kinema.storage.hdf5.file import open_checked, reading
from kinema.storage.hdf5.filters import Filters
from kinema.storage.hdf5.rounding import Rounding
from kinema.storage.output_checks import is_stream
from kinema.storage.output_file import machine

Copy = Callable[[Sequence[FrameRange], IO[bytes]], None]

# rows [start, stop), columns [first, last); the columns are (0, 1) if rows are single numbers
Tile = tuple[int, int, int, int]

# bytes that a worker copies at a time
_COPIED = 16 << 20
# tiles per worker at a time: one is being made, two wait for the leading process
_TILES_OF_WORKER = 3
# least memory of a worker
_LEAST_OF_WORKER = 16 << 20


def shares(on: CallWorkers, memory: int) -> tuple[int, int, int]:
    """The number of workers that fit, the memory each reads in, and the most bytes of a tile."""
    workers = max(1, min(on.n_workers, memory // _LEAST_OF_WORKER))
    return workers, memory // (2 * workers), memory // (2 * (_TILES_OF_WORKER * workers + 1))


def copying(on: CallWorkers, path: str, advance: Callable[[int], None]) -> Copy | None:
    """A function that appends ranges to a file (`write_frames`); None if this process copies them itself."""
    if on.is_local or is_stream(path):
        return None

    def copied(ranges: Sequence[FrameRange], file: IO[bytes]) -> None:
        file.flush()
        at, pieces = file.tell(), []
        for one in ranges:
            for start in range(one.start, one.stop, _COPIED):
                stop = min(start + _COPIED, one.stop)
                pieces.append((os.path.abspath(one.path), start, stop, at))
                at += stop - start
        target = _CopyTo(os.path.abspath(file.name), machine())
        on.runner.map(target, pieces, workers=on.workers, receive=lambda _number, size: advance(size))

    return copied


class _CopyTo:
    """Copies bytes of a file to a place in another, on a worker."""

    unpickled_once = True

    def __init__(self, path: str, leader: tuple[str, str]) -> None:
        self._path, self._leader = path, leader

    def __call__(self, piece: tuple[str, int, int, int]) -> int:
        """Copies a piece; returns the number of bytes copied."""
        source, start, stop, offset = piece
        if not os.path.exists(self._path):
            raise FileNotFound(
                f"a worker on {machine()[0]} does not see the file that is written; workers must see the "
                "folder of the output under the same path",
                at=self._path,
            )
        with open_regular(source, "trajectory") as file:
            parts, at = [], start
            while at < stop:
                part = os.pread(file.fileno(), stop - at, at)
                if not part:
                    raise TruncatedFileError(f"ended at byte {at}, expected {stop}", at=source)
                parts.append(part)
                at += len(part)
        placer = FilePlacer(self._path, self._path)
        try:
            placer.write_at(offset, b"".join(parts) if len(parts) > 1 else parts[0])
            if machine() != self._leader:
                placer.sync()
        finally:
            placer.close()
        return stop - start


@dataclass(frozen=True, eq=False)
class EncodedTile:
    """A tile from a worker: its values, or encoded chunks with their places in the tile; checksum, size."""

    values: NDArray[Any] | None
    chunks: list[EncodedChunk]
    checksum: int
    change: float
    size: int


class TileReader:
    """Reads tiles of a data set on a worker, which opens the file once.

    `path`, `name`: the file that holds it, and its path in the file.
    `columns`: (n,) int64, or None for all.
    `chunks`: shape of the new data set's chunks; None: values are not encoded.
    `filters`: as for `encode_chunks`.
    `checksums_alone`: whether only checksums are returned.
    """

    unpickled_once = True

    def __init__(
        self,
        path: str,
        name: str,
        *,
        first_row: int = 0,
        columns: NDArray[np.int64] | None = None,
        rounding: Rounding | None = None,
        chunks: tuple[int, ...] | None = None,
        filters: Filters = (),
        memory: int = 0,
        threads: int = 1,
        checksums_alone: bool = False,
    ) -> None:
        self._path, self._name = os.path.abspath(path), name
        self._first_row, self._columns, self._rounding = first_row, columns, rounding
        self._chunks, self._filters = chunks, filters
        self._memory, self._threads, self._checksums_alone = memory, threads, checksums_alone
        self._lock: Any = None
        self._values: Values | None = None
        self._file: Any = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_lock": None, "_values": None, "_file": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def __call__(self, tile: Tile) -> EncodedTile:
        """Reads, rounds and encodes a tile."""
        part = read_tile(self._opened(), self._first_row, self._columns, tile)
        change = 0.0
        if self._rounding is not None:
            part, change = rounded(part, self._rounding)
        checksum = zlib.crc32(part.data)
        if self._checksums_alone:
            return EncodedTile(None, [], checksum, change, part.nbytes)
        if self._chunks is None:
            return EncodedTile(part, [], checksum, change, part.nbytes)
        chunks = list(encode_chunks(part, self._chunks, self._filters, self._threads))
        return EncodedTile(None, chunks, checksum, change, part.nbytes)

    def _opened(self) -> Values:
        with self._lock:
            if self._values is None:
                with reading(self._path):
                    self._file = open_checked(self._path)
                    self._values = Values(
                        self._file[self._name], self._path, workers=self._threads, memory=self._memory
                    )
            return self._values


def read_tile(values: Values, first_row: int, columns: NDArray[np.int64] | None, tile: Tile) -> NDArray[Any]:
    """The values of a tile, contiguous."""
    start, stop, first, last = tile
    n_columns = len(columns) if columns is not None else values.item[0] if values.item else 1
    chosen = columns
    if (first, last) != (0, n_columns):
        chosen = np.arange(first, last) if columns is None else columns[first:last]
    return np.ascontiguousarray(values.rows(first_row + start, first_row + stop, chosen))


def rounded(part: NDArray[Any], rounding: Rounding) -> tuple[NDArray[Any], float]:
    """The rounded values in the file's byte order, and the largest change."""
    made = part.astype(part.dtype.newbyteorder("="), copy=True)
    rounding.apply(made)
    with np.errstate(invalid="ignore"):
        change = np.abs(made - part)
    largest = float(np.fmax.reduce(change, axis=None, initial=0.0))
    return made.astype(part.dtype, copy=False), largest

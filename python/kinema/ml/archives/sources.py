"""The samples of sources as runs of rows: deflated members as a stream, all others in place, in any pieces."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.cache.node_cache import NodeCache
from kinema.ml.archives.checksums import MemberChecksum
from kinema.ml.processes import file_pool
from kinema.ml.samples import SampleDataset
from kinema.ml.stored.deflated import inflated
from kinema.ml.stored.samples import Deflated, SampleFile

# takes a number of bytes, returns an uninitialised array of that size
Room = Callable[[int], NDArray[np.uint8]]


class Conversion:
    """Converts rows of bytes, as stored in a source, to those of the archive: type and byte order.

    `largest_change`: largest change of a value by a type of fewer digits.
    """

    def __init__(self, one: SampleFile, dtype: np.dtype[Any]) -> None:
        self._name, self._path = one.name, one.path
        self._stored, self.dtype, self._shape = one.dtype, dtype, one.shape
        self.largest_change = 0.0
        self._lock = threading.Lock()

    @property
    def is_none(self) -> bool:
        """Whether bytes stay as they are."""
        return self._stored == self.dtype

    @property
    def rounds(self) -> bool:
        """Whether values may change; NumPy calls int64 to float64 safe, too."""
        return bool(self._stored.newbyteorder("=") != self.dtype)

    def __call__(self, raw: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Converts (rows, bytes of a sample). Raises ArgumentError for values that the type cannot hold."""
        if self.is_none or not len(raw):
            return raw
        values = np.ascontiguousarray(raw).view(self._stored).reshape(len(raw), -1)
        with np.errstate(over="ignore", invalid="ignore"):
            made = values.astype(self.dtype)
        if self.rounds:
            self._check(values, made)
        return made.view(np.uint8).reshape(len(raw), -1)

    def _check(self, values: NDArray[Any], made: NDArray[Any]) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            if self.dtype.kind in "iu":
                lost = made != values
            else:
                lost = np.isinf(made) & ~np.isinf(values)
            if lost.any():
                value = values[lost][0]
                raise ArgumentError(f"{self._path}: {self._name} has {value}, which dtype={self.dtype} cannot hold")
            # holds all digits of either
            wide = np.clongdouble if values.dtype.kind == "c" else np.longdouble
            change = np.abs(made.astype(wide) - values.astype(wide))
        largest = float(np.fmax.reduce(change, axis=None, initial=0.0))
        # several threads convert at a time
        with self._lock:
            self.largest_change = max(self.largest_change, largest)


@dataclass(frozen=True)
class ReadRows:
    """Consecutive rows of one array of one file, as bytes (rows, bytes of a sample) of the source."""

    first: int
    rows: NDArray[np.uint8]


class Sources:
    """Files of samples, and the conversion of their arrays to those of the archive.

    `dtypes`: types in the archive, by array.
    """

    def __init__(self, dataset: SampleDataset, dtypes: Mapping[str, np.dtype[Any]]) -> None:
        self.dataset = dataset
        self.fields = dataset.fields
        self.bounds = dataset.bounds
        self._files = {name: dataset.stored(name) for name in self.fields}
        self._checksums = {
            (name, number): MemberChecksum(one)
            for name, files in self._files.items()
            for number, one in enumerate(files)
            if one.member is not None and one.rows
        }
        self._in_place = {
            (name, number): RowsInPlace(one, dataset.node_cache)
            for name, files in self._files.items()
            for number, one in enumerate(files)
            if not isinstance(one.place, Deflated)
        }
        self.conversions = {name: Conversion(files[0], dtypes[name]) for name, files in self._files.items()}

    @property
    def n_files(self) -> int:
        """Number of files of samples."""
        return len(self.bounds) - 1

    def file(self, name: str, number: int) -> SampleFile:
        """How an array is stored in a file."""
        return self._files[name][number]

    def is_stream(self, name: str, number: int) -> bool:
        """Whether an array of a file can only be read from its beginning."""
        return isinstance(self.file(name, number).place, Deflated)

    def is_checked(self, name: str, number: int) -> bool:
        """Whether an array of a file has a checksum of all its rows: then all are read."""
        return self.is_stream(name, number) or (name, number) in self._checksums

    def run_length(self, name: str, number: int, n_bytes: int) -> int:
        """Rows of about `n_bytes`, in whole chunks."""
        one = self.file(name, number)
        chunk = 1 if self.is_stream(name, number) else one.chunk_rows
        length = max(1, n_bytes // one.row_bytes)
        return max(chunk, length - length % chunk)

    def runs(
        self, name: str, number: int, start: int, stop: int, n_bytes: int, room: Room, *, check: bool = True
    ) -> Iterator[ReadRows]:
        """Rows `start` to `stop` in runs of `run_length`. For a stream, `start` is 0 and the runs have any length.

        A run may be overwritten by the next one, if `room` returns the same memory again. Raises as
        `SampleDataset.read`; CorruptFileError if the checksum of a member does not fit once all its rows were read,
        each once, with `check`.
        """
        one, length = self.file(name, number), self.run_length(name, number, n_bytes)
        if isinstance(one.place, Deflated):
            yield from _inflated_runs(one, stop, room, self.dataset.node_cache)
            return
        reader, checksum = self._in_place[name, number], self._checksums.get((name, number)) if check else None
        at = start
        while at < stop:
            end = min(stop, at - at % length + length)
            run = ReadRows(at, reader.read(at, end, room))
            if checksum is not None:
                checksum.add(at, end - at, zlib.crc32(run.rows.data))
            yield run
            at = end


class RowsInPlace:
    """The rows of an array that is not a stream; several threads may read at a time."""

    def __init__(self, one: SampleFile, node_cache: NodeCache | None = None) -> None:
        self._one, self._node_cache = one, node_cache
        self._is_plain = isinstance(one.place, tuple) and one.place[1] == one.row_bytes
        self._rows: _core.Rows | None = None

    def read(self, start: int, stop: int, room: Room) -> NDArray[np.uint8]:
        """(stop - start, bytes of a sample). Raises as `SampleDataset.read`."""
        one, n = self._one, stop - start
        out = room(n * one.row_bytes)
        if self._is_plain:
            # all of them as one row
            assert isinstance(one.place, tuple)
            described = [(one.path, 1, (one.place[0] + start * one.row_bytes, len(out)))]
            _core.Rows(described, len(out), file_pool(self._node_cache)).read(np.zeros(1, np.int64), out, 1)
        else:
            if self._rows is None:
                self._rows = _core.Rows([(one.path, one.rows, one.place)], one.row_bytes, file_pool(self._node_cache))
            self._rows.read(np.arange(start, stop), out, 1)
        return out.reshape(n, one.row_bytes)


def _inflated_runs(one: SampleFile, stop: int, room: Room, node_cache: NodeCache | None) -> Iterator[ReadRows]:
    """Runs of the rows of a deflated member from the first on, in zlib's own memory.

    A row that lies in two of zlib's pieces is copied. The member is decompressed to its end, where its checksum is
    compared.
    """
    place, row_bytes = one.place, one.row_bytes
    assert isinstance(place, Deflated)
    before, left, first = place.header, stop * row_bytes, 0
    begun, filled = room(row_bytes), 0
    for piece in inflated(one, node_cache):
        values = np.frombuffer(piece, np.uint8)
        skipped = min(before, len(values))
        before -= skipped
        values = values[skipped : skipped + left]
        left -= len(values)
        if filled:
            n = min(len(values), row_bytes - filled)
            begun[filled : filled + n] = values[:n]
            values, filled = values[n:], filled + n
            if filled < row_bytes:
                continue
            yield ReadRows(first, begun.reshape(1, row_bytes))
            first, filled = first + 1, 0
        whole = len(values) // row_bytes
        if whole:
            yield ReadRows(first, values[: whole * row_bytes].reshape(whole, row_bytes))
            first += whole
        filled = len(values) - whole * row_bytes
        if filled:
            begun = room(row_bytes)
            begun[:filled] = values[whole * row_bytes :]

"""The file of a catalogue: entries, and tables to find each entry without the others.

A catalogue is one file, little-endian:

    bytes 0-7     "KINEMACT"
    bytes 8-15    version of this layout, 0; uint32 each
    bytes 16-39   number of entries, where the tables begin, their length; uint64 each
    bytes 40-55   BLAKE2b-128 of the tables
    bytes 56-63   BLAKE2b-64 of all before
    entries       bytes, each from a multiple of 8 on
    tables        seven columns of uint64, a number for each entry: where it begins, its length, BLAKE2b-64 of its
                  bytes, frames, atoms, where its name ends, the entries in the order of their names; then the names

Checksums find damage, but they do not say who made the file. Every size that is read is therefore compared with the
size of the file before memory is allocated for it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from hashlib import blake2b
from typing import IO, NamedTuple

import numpy as np

from kinema.base.errors import CorruptFileError, TruncatedFileError, os_errors
from kinema.base.input_files import open_regular
from kinema.base.resources import physical_memory
from kinema.storage.output_file import write_whole

_MAGIC = b"KINEMACT"
_VERSION = 2
_START = struct.Struct("<8sIIQQQ16s")
_HEAD = _START.size + 8
_COLUMNS = ("offsets", "lengths", "digests", "n_frames", "n_atoms", "name_ends", "by_name")
_WORD = np.dtype("<u8")


class TableRow(NamedTuple):
    """The values of an entry in the tables."""

    length: int
    digest: int
    n_frames: int
    n_atoms: int
    name: bytes


class CatalogueFile:
    """An open catalogue: its tables are in memory, entries are read on request.

    A pickle has the path and a digest of the tables; the other process opens the file again.

    Raises FileNotFound, FileAccessError, FileIOError, ArgumentError, TruncatedFileError, CorruptFileError.
    """

    def __init__(self, path: str | os.PathLike[str], expected: bytes | None = None) -> None:
        self.path = os.path.abspath(os.fspath(path))
        # as the user has given it, for messages
        self.name = os.fspath(path)
        self._file = open_regular(self.name, "catalogue")
        with os_errors("cannot read the catalogue", self.name):
            self._read_tables(os.fstat(self._file.fileno()).st_size)
        if expected is not None and expected != self.digest:
            raise CorruptFileError("the catalogue has been remade since it was opened", at=self.name)

    def __reduce__(self) -> tuple[type[CatalogueFile], tuple[str, bytes]]:
        return CatalogueFile, (self.path, self.digest)

    def _read_tables(self, size: int) -> None:
        head = self._read(0, min(_HEAD, size))
        if not head.startswith(_MAGIC[: len(head)]) or not head:
            raise CorruptFileError("is not a catalogue; make one with: kinema ml catalogue make", at=self.name)
        if size < _HEAD:
            raise self._ends_early(size, _HEAD)
        _, version, _, n, at, length, self.digest = _START.unpack_from(head)
        if version != _VERSION:
            raise CorruptFileError(
                f"is a catalogue of another version of Kinema, expected {_VERSION}, found {version}; make it again",
                at=self.name,
            )
        if blake2b(head[: _START.size], digest_size=8).digest() != head[_START.size :]:
            raise self.corrupt("the checksum of its first bytes is wrong")
        if at + length > size:
            raise self._ends_early(size, at + length)
        width = n * _WORD.itemsize * len(_COLUMNS)
        if at < _HEAD or width > length:
            raise self.corrupt(f"its tables have no room for {n} entries")
        tables = self._read(at, length)
        if blake2b(tables, digest_size=16).digest() != self.digest:
            raise self.corrupt("the checksum of its tables is wrong")
        columns = np.frombuffer(tables, _WORD, n * len(_COLUMNS)).reshape(len(_COLUMNS), n)
        self.offsets, self.lengths, self.digests, self.n_frames, self.n_atoms, ends, self._by_name = columns
        self._names = tables[width:]
        self._ends = ends
        beyond = (self.offsets < _HEAD) | (self.offsets > at) | (self.lengths > at - self.offsets)
        if beyond.any():
            raise self.corrupt(f"entry {int(beyond.argmax())} lies beyond its tables")
        begins = np.concatenate([[np.uint64(0)], ends])
        if (begins[1:] < begins[:-1]).any() or int(begins[-1]) != len(self._names):
            raise self.corrupt("its names do not follow each other")
        if n and (int(self._by_name.max()) >= n):
            raise self.corrupt("its order of names is none")

    def __len__(self) -> int:
        return len(self.offsets)

    def name_of(self, number: int) -> str:
        """The name of an entry."""
        return os.fsdecode(self._name(number))

    def _name(self, number: int) -> bytes:
        begin = int(self._ends[number - 1]) if number else 0
        return self._names[begin : int(self._ends[number])]

    def find(self, name: str) -> int | None:
        """Number of the entry with this name; None if there is none."""
        wanted = os.fsencode(name)
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._name(int(self._by_name[middle])) < wanted:
                low = middle + 1
            else:
                high = middle
        if low == len(self):
            return None
        found = int(self._by_name[low])
        return found if self._name(found) == wanted else None

    def containing(self, text: str, most: int) -> list[str]:
        """The first `most` names that contain a text."""
        wanted, at = os.fsencode(text), 0
        found: list[str] = []
        while wanted and len(found) < most:
            at = self._names.find(wanted, at)
            if at < 0:
                break
            number = int(np.searchsorted(self._ends, at, side="right"))
            at = int(self._ends[number])
            if wanted in (name := self._name(number)):
                found.append(os.fsdecode(name))
        return found

    def entry(self, number: int) -> bytes:
        """The bytes of an entry. Raises CorruptFileError if they are damaged."""
        with os_errors("cannot read the catalogue", self.name):
            data = self._read(int(self.offsets[number]), int(self.lengths[number]))
        if blake2b(data, digest_size=8).digest() != self.digests[number].tobytes():
            raise self.corrupt(f"the checksum of entry {self.name_of(number)} is wrong")
        return data

    def row(self, number: int) -> TableRow:
        """The values of an entry in the tables, for writing it again."""
        length, digest, n_frames, n_atoms = (
            int(column[number]) for column in (self.lengths, self.digests, self.n_frames, self.n_atoms)
        )
        return TableRow(length, digest, n_frames, n_atoms, self._name(number))

    def corrupt(self, what: str) -> CorruptFileError:
        """The error for a damaged catalogue, with the advice what to do."""
        return CorruptFileError(f"the catalogue is damaged: {what}; make it again", at=self.name)

    def _ends_early(self, size: int, expected: int) -> TruncatedFileError:
        return TruncatedFileError(
            f"the catalogue is cut off, expected {expected} bytes, found {size}; make it again", at=self.name
        )

    def _read(self, offset: int, length: int) -> bytes:
        memory = physical_memory()
        if memory is not None and length > memory // 4:
            # a sparse file may claim any number of bytes
            raise self.corrupt(f"it has {length} bytes in one piece, expected at most {memory // 4} on this machine")
        parts = []
        while length:
            part = os.pread(self._file.fileno(), min(length, 1 << 30), offset)
            if not part:
                raise self._ends_early(offset, offset + length)
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class CatalogueWriter:
    """Writes entries, one after the other, into a new file; `finish` writes the tables."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._at = _HEAD
        self._offsets: list[int] = []
        self._rows: list[TableRow] = []
        self._known: set[bytes] = set()
        file.write(bytes(_HEAD))

    def __contains__(self, name: str) -> bool:
        return os.fsencode(name) in self._known

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, name: str, n_frames: int, n_atoms: int, data: bytes) -> None:
        """Appends an entry; no other entry has its name."""
        digest = int.from_bytes(blake2b(data, digest_size=8).digest(), "little")
        self._begin(TableRow(len(data), digest, n_frames, n_atoms, os.fsencode(name)))
        self._put(data)

    def copy(self, other: CatalogueFile, number: int) -> None:
        """Appends an entry of another catalogue unchanged."""
        row = other.row(number)
        self._begin(row)
        self._put(other.entry(number))

    def finish(self) -> None:
        """Writes the tables and the head."""
        rows = self._rows
        names = b"".join(row.name for row in rows)
        columns = np.empty((len(_COLUMNS), len(rows)), _WORD)
        columns[0] = self._offsets
        for column, name in enumerate(TableRow._fields[:4], 1):
            columns[column] = [getattr(row, name) for row in rows]
        columns[5] = np.cumsum([len(row.name) for row in rows])
        columns[6] = sorted(range(len(rows)), key=lambda number: rows[number].name)
        tables = columns.tobytes() + names
        self._file.write(tables)
        digest = blake2b(tables, digest_size=16).digest()
        head = _START.pack(_MAGIC, _VERSION, 0, len(rows), self._at, len(tables), digest)
        self._file.seek(0)
        self._file.write(head + blake2b(head, digest_size=8).digest())

    def _begin(self, row: TableRow) -> None:
        assert row.name not in self._known, "a name stands for one entry"
        self._known.add(row.name)
        self._rows.append(row)
        self._offsets.append(self._at)

    def _put(self, data: bytes) -> None:
        padded = data + bytes(-len(data) % 8)
        self._file.write(padded)
        self._at += len(padded)


def write_catalogue(path: str | os.PathLike[str], fill: Callable[[CatalogueWriter], object]) -> None:
    """Makes a catalogue with the entries that `fill` adds; it appears as `path` when it is whole."""

    def write(file: IO[bytes]) -> None:
        writer = CatalogueWriter(file)
        fill(writer)
        writer.finish()

    write_whole(path, write)

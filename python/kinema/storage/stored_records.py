"""Records in the user's cache folder: text, numbers and arrays kept for a file, valid only for its exact state.

This is the only way for Python to keep data there: chunk maps, verdicts on frames, tables of atoms, selections.
Checksums of frames are records of this form beside the file. Each kind has its own folder (0700), which is used only if
it belongs to the user and is closed to others. A record is one file, little-endian; its content is never executed:

    bytes 0-7    "KINEMARC"
    bytes 8-15   version of this layout, length of the head, uint32 each
    the head     JSON: identity of the file, facts (subject of the record), values, types and lengths of arrays; padded
                 to 8 bytes
    arrays       one after the other, each padded to 8 bytes
    last 16      BLAKE2b-128 of all bytes before
"""

from __future__ import annotations

import json
import os
import stat
import struct
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import Error, FileNotFound
from kinema.base.frozen_dataclass import dataclass
from kinema.base.input_files import read_regular
from kinema.storage.output_file import write_index

_MAGIC = b"KINEMARC"
_VERSION = 1
_START = struct.Struct("<8sII")
_DIGEST = 16
_SUFFIX = ".record"
# seconds: older temporary files were left by killed runs
_WRITTEN_WITHIN = 3600
# number of stores of this process, by kind
_stores: Counter[str] = Counter()
# types of arrays; Kinema does not write others
_TYPES = frozenset({"<u1", "<u2", "<u4", "<u8", "<i8", "<f8"})
# exceptions from reading bytes that Kinema has not written
DAMAGE = (Error, OSError, ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError)


@dataclass(frozen=True, eq=False)
class Record:
    """Content of a record: `values` as in JSON, and one-dimensional `arrays` (unsigned, int64 or float64).

    `identity`: the file's identity at the time of storing, for a loaded record."""

    values: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    identity: _core.FileIdentity | None = None


class RecordFolder:
    """The records of one kind.

    `kind`: name of the folder within the cache folder, and in messages: "chunk-maps".
    `index`: {"auto", "rebuild", "memory"}; as in `kinema.open`: "auto" uses and stores records, "rebuild" only stores
        them, "memory" does neither.
    `most`, `most_of_all`: most bytes of a record, and of all records of this kind: those used longest ago are removed.
    `look_every`: all records are checked for that at every `look_every`-th store of this process, as there may be
        thousands of small ones.
    """

    def __init__(
        self, kind: str, index: str, *, most: int = 256 << 20, most_of_all: int = 1 << 30, look_every: int = 1
    ) -> None:
        folder = None if index == "memory" else _core.cache_folder()
        self._folder = None if folder is None else Path(folder) / kind
        self._kind, self._most, self._most_of_all = kind, most, most_of_all
        self._look_every = look_every
        self.uses_stored = index == "auto" and self._folder is not None
        self.stores = self._folder is not None

    def load(
        self, name: bytes, identity: _core.FileIdentity | None, facts: Mapping[str, Any]
    ) -> tuple[Record | None, str]:
        """The record of that name for the file's current state and these facts, or None; with the reason if the record
        is damaged.

        `name`: identifies the file and the kept data; there is one record for a name. `identity`: None if the caller
        itself compares the record's values with files. `facts`: JSON.
        """
        if not self.uses_stored:
            return None, ""
        place = self._place(name)
        try:
            self._check_folder()
            # the folder may be exchanged after its check, if its parent is another user's; the open file cannot
            data = read_regular(place, f"record in {self._kind}", self._most, own=True)
            found = decoded_record(data, identity, facts)
            if found is not None:
                with suppress(OSError):
                    os.utime(place)
        except (FileNotFound, FileNotFoundError):
            return None, ""
        except DAMAGE as error:
            return None, str(error) or type(error).__name__
        return found, ""

    def store(self, name: bytes, identity: _core.FileIdentity, facts: Mapping[str, Any], record: Record) -> str:
        """Stores a record, unless it is too large; returns why that failed, or a note, or ""."""
        if self._folder is None:
            return ""
        data = encoded_record(record, identity, facts)
        if len(data) > self._most:
            return ""
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            os.chmod(self._folder, 0o700)
            self._check_folder()
            noted = write_index(os.fspath(self._place(name)), data)
            _stores[self._kind] += 1
            if _stores[self._kind] % self._look_every == 1 % self._look_every:
                self._remove_old()
        except (OSError, Error, ValueError) as error:
            return str(error)
        return noted or ""

    def _place(self, name: bytes) -> Path:
        assert self._folder is not None, "there is no place without a folder"
        return self._folder / f"{_digest(name).hex()}{_SUFFIX}"

    def _check_folder(self) -> None:
        """Raises ValueError if others may have written into the folder, FileNotFoundError if it does not exist."""
        assert self._folder is not None, "there is no place without a folder"
        status = os.stat(self._folder)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise ValueError(f"{self._folder} is not this user's alone")

    def _remove_old(self) -> None:
        """Keeps the folder within its bounds; other processes may do the same at the same time."""
        assert self._folder is not None, "there is no place without a folder"
        records = []
        for place in self._folder.glob(f"*{_SUFFIX}"):
            with suppress(FileNotFoundError):
                status = place.stat()
                if ".part-" in place.name and time.time() - status.st_mtime < _WRITTEN_WITHIN:
                    continue
                records.append((status.st_mtime_ns, status.st_size, place))
        left = sum(size for _, size, _ in records)
        for _, size, place in sorted(records):
            if left <= self._most_of_all:
                break
            place.unlink(missing_ok=True)
            left -= size


def _plain(facts: Mapping[str, Any]) -> Any:
    """The facts as JSON reads them back: tuples become lists."""
    return json.loads(json.dumps(dict(facts)))


def _digest(data: bytes | memoryview) -> bytes:
    # importing it takes longer than everything else for a record
    from hashlib import blake2b

    return blake2b(data, digest_size=_DIGEST).digest()


def _padded(data: bytes) -> bytes:
    return data.ljust(-(-len(data) // 8) * 8, b"\0")


def encoded_record(record: Record, identity: _core.FileIdentity, facts: Mapping[str, Any]) -> bytes:
    """The bytes of a record for a file; `facts` as in `RecordFolder.store`."""
    columns = {}
    for name, values in record.arrays.items():
        plain = values.astype(values.dtype.newbyteorder("<"), copy=False)
        kind = plain.dtype.str.replace("|", "<")
        assert kind in _TYPES and plain.ndim == 1, f"{name} of type {kind} is not an array of a record"
        columns[name] = (kind, plain)
    head = json.dumps(
        {
            "identity": identity.to_bytes().hex(),
            "facts": _plain(facts),
            "values": record.values,
            "arrays": {name: [kind, len(values)] for name, (kind, values) in columns.items()},
        }
    ).encode()
    head = head.ljust(-(-len(head) // 8) * 8)
    arrays = (_padded(values.tobytes()) for _, values in columns.values())
    data = b"".join([_START.pack(_MAGIC, _VERSION, len(head)), head, *arrays])
    return data + _digest(data)


def decoded_record(data: bytes, identity: _core.FileIdentity | None, facts: Mapping[str, Any]) -> Record | None:
    """The record; None if it has another subject. Raises ValueError and others of `DAMAGE` if it is damaged."""
    if len(data) < _START.size + _DIGEST or not data.startswith(_MAGIC):
        raise ValueError("it is not a record")
    _, version, length = _START.unpack_from(data)
    if version != _VERSION:
        return None
    content = memoryview(data)[:-_DIGEST]
    if _digest(content) != data[-_DIGEST:]:
        raise ValueError("its checksum is wrong")
    head = json.loads(bytes(content[_START.size : _START.size + length]))
    if head["facts"] != _plain(facts):
        return None
    stored = _core.FileIdentity.from_bytes(bytes.fromhex(head["identity"]))
    if identity is not None and not stored.is_unchanged(identity):
        return None
    arrays: dict[str, NDArray[Any]] = {}
    at = _START.size + length
    for name, (kind, count) in head["arrays"].items():
        if kind not in _TYPES or type(count) is not int or count < 0:
            raise ValueError(f"it has {count} values of type {kind}")
        arrays[name] = np.frombuffer(content, kind, count, at)
        at += -(-arrays[name].nbytes // 8) * 8
    if at != len(content):
        raise ValueError("it has bytes left over, or lacks some")
    values = head["values"]
    if not isinstance(values, dict):
        raise ValueError("its values have no names")
    return Record(values, arrays, stored)

"""Stored chunk maps: where the chunks of large data sets lie, kept so that a file is not walked each time it is opened.

They are in the user's cache folder alone and never beside data: a chunk has no header by which it could be checked when
it is read. A map is used for the very file that it was made of, unchanged by its `FileIdentity`, and the same data set:
object address, shape, chunks, type, filters, and the place of its first chunk, which libhdf5 finds without a walk. (The
number of chunks it finds by a walk through all of them.) A copy of a file, and one that grows, are walked anew.

A map is one file, little-endian:

    bytes 0-7    "KINEMACM"
    bytes 8-15   version of this layout, length of the head, uint32 each
    the head     JSON: what the map is of, and how its columns are stored; padded to 8 bytes
    columns      addresses (uint64), sizes (uint64), filter masks (uint32), in the order of `StoredDataset`; sizes and
                 masks have one element where all are equal
    last 16      BLAKE2b-128 of all before
"""

from __future__ import annotations

import json
import math
import os
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.errors import Error, FileNotFound
from kinema.files import read_regular
from kinema.writing.output_file import write_index

__all__ = ["FEWEST_CHUNKS", "ChunkMap", "ChunkMaps"]

FEWEST_CHUNKS = 1 << 13
"""Data sets of fewer chunks are walked each time, and leave nothing in the folder. Opening a file of so many takes
11 ms with a walk and 3 ms without; storing takes 2 ms, and what the disk needs for a sync."""

_MAGIC = b"KINEMACM"
_VERSION = 1
_START = struct.Struct("<8sII")
_DIGEST = 16
# of one map: some ten million chunks; and of all: those used longest ago are removed
_MOST_BYTES = 256 << 20
_MOST_BYTES_OF_ALL = 1 << 30
# seconds: temporary files that are older were left by runs that were killed
_WRITTEN_WITHIN = 3600
_COLUMNS = ("addresses", "sizes", "masks")
_TYPES: dict[str, np.dtype[Any]] = {"addresses": np.dtype("<u8"), "sizes": np.dtype("<u8"), "masks": np.dtype("<u4")}


class ChunkMap(NamedTuple):
    """The chunks of a data set, as `StoredDataset` has them, and the rows that have storage."""

    rows: int
    addresses: NDArray[np.uint64]
    sizes: NDArray[np.uint64]
    masks: NDArray[np.uint32]


class ChunkMaps:
    """Maps for one opening of a file.

    `index` is that of `kinema.open`: with "auto" maps are used and stored, with "rebuild" stored, with "memory"
    neither. To be made before the file is opened.
    """

    def __init__(self, index: str = "memory") -> None:
        folder = None if index == "memory" else _core.cache_folder()
        self._folder = None if folder is None else Path(folder) / "chunk-maps"
        self._uses_stored = index == "auto"
        self._identities: dict[str, _core.FileIdentity] = {}
        self._confirmed: set[str] = set()
        # what is open already libhdf5 has read before, or is writing: it may be of another state than the disk
        self._open_before = set() if self._folder is None else _open_files()

    def watch(self, path: str) -> None:
        """To be called before a file is opened: what libhdf5 reads of it is then no older than its identity."""
        name = os.path.realpath(path)
        if self._folder is None or name in self._open_before or name in self._identities:
            return
        with suppress(Error):  # whoever opens it says what is wrong
            self._identities[name] = _core.FileIdentity.of(name, places=0)

    def load(self, dataset: Any, facts: Mapping[str, Any]) -> tuple[ChunkMap | None, str]:
        """The stored map of a data set; None where there is none of it as it is, with the reason if it is damaged.

        `facts`: what decides the map besides the file; "shape" and "chunks" are among them.
        """
        is_large = _n_chunks(facts["shape"], facts["chunks"]) >= FEWEST_CHUNKS
        key = self._key(dataset, facts) if self._uses_stored and is_large else None
        if key is None:
            return None, ""
        place = self._place(dataset)
        try:
            found = _decoded(read_regular(place, "chunk map", _MOST_BYTES), *key)
            if found is not None:
                with suppress(OSError):
                    os.utime(place)
        except (FileNotFound, FileNotFoundError):
            return None, ""
        except (Error, OSError, ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError) as error:
            return None, str(error) or type(error).__name__
        return found, ""

    def store(self, dataset: Any, facts: Mapping[str, Any], found: ChunkMap) -> str:
        """Stores a map where it is worth it; why that failed, or nothing."""
        if self._folder is None or len(found.addresses) < FEWEST_CHUNKS:
            return ""
        key = self._key(dataset, facts)
        if key is None:
            return ""
        data = _encoded(found, *key)
        if len(data) > _MOST_BYTES:
            return ""
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            os.chmod(self._folder, 0o700)
            noted = write_index(os.fspath(self._place(dataset)), data)
            self._remove_old()
        except (OSError, Error) as error:
            return str(error)
        return noted or ""

    def _key(self, dataset: Any, facts: Mapping[str, Any]) -> tuple[_core.FileIdentity, dict[str, Any]] | None:
        """Identity of the file and what a map is of; None where none is kept: a file that is being written, ..."""
        name = os.path.realpath(dataset.file.filename)
        identity = self._identities.get(name)
        if identity is None or dataset.file.swmr_mode or not hasattr(dataset.id, "get_chunk_info_by_coord"):
            return None
        if name not in self._confirmed:
            # else another file may have been opened under its name
            del self._identities[name]
            with suppress(Error):
                if identity.is_unchanged(_core.FileIdentity.of(name, places=0)):
                    self._identities[name] = identity
                    self._confirmed.add(name)
            if name not in self._confirmed:
                return None
        first = dataset.id.get_chunk_info_by_coord((0,) * dataset.ndim)
        if first.byte_offset is None:
            return None  # the first chunk is not stored
        return identity, json.loads(
            json.dumps(
                {
                    **facts,
                    "object": _address(dataset),
                    "first": [first.byte_offset, first.size, first.filter_mask],
                    "library": h5py.version.hdf5_version,
                    "version": _core.__version__,
                }
            )
        )

    def _place(self, dataset: Any) -> Path:
        assert self._folder is not None, "there is no place without a folder"
        name = os.fsencode(os.path.realpath(dataset.file.filename))
        name += repr(_address(dataset)).encode()
        return self._folder / f"{blake2b(name, digest_size=16).hexdigest()}.map"

    def _remove_old(self) -> None:
        """Keeps the folder within its bounds; others may do the same."""
        assert self._folder is not None, "there is no place without a folder"
        maps = []
        for place in self._folder.glob("*.map"):
            with suppress(FileNotFoundError):
                status = place.stat()
                if ".part-" in place.name and time.time() - status.st_mtime < _WRITTEN_WITHIN:
                    continue
                maps.append((status.st_mtime_ns, status.st_size, place))
        left = sum(size for _, size, _ in maps)
        for _, size, place in sorted(maps):
            if left <= _MOST_BYTES_OF_ALL:
                break
            place.unlink(missing_ok=True)
            left -= size


def _n_chunks(shape: Sequence[int], chunks: Sequence[int]) -> int:
    """Of the whole grid."""
    return math.prod(-(-n // c) for n, c in zip(shape, chunks, strict=True))


def _address(dataset: Any) -> list[int]:
    """Of the object in its file."""
    return [int(word) for word in h5py.h5g.get_objinfo(dataset.id).objno]


def _open_files() -> set[str]:
    """Real names of the HDF5 files that this process has open."""
    # another thread may close a file between the list and its name
    with h5py._objects.phil:
        names = [one.name for one in h5py.h5f.get_obj_ids(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE)]
    return {os.path.realpath(os.fsdecode(name)) for name in names}


def _encoded(found: ChunkMap, identity: _core.FileIdentity, facts: dict[str, Any]) -> bytes:
    columns = {}
    for name in _COLUMNS:
        values = getattr(found, name).astype(_TYPES[name], copy=False)
        # addresses are there one by one: their number is that of the chunks
        constant = name != "addresses" and bool((values == values[:1]).all())
        columns[name] = values[:1] if constant else values
    lengths = {name: len(values) for name, values in columns.items()}
    head = json.dumps({"identity": identity.to_bytes().hex(), "facts": facts, "rows": found.rows, "lengths": lengths})
    padded = head.encode().ljust(-(-len(head.encode()) // 8) * 8)
    data = b"".join([_START.pack(_MAGIC, _VERSION, len(padded)), padded, *(one.tobytes() for one in columns.values())])
    return data + blake2b(data, digest_size=_DIGEST).digest()


def _decoded(data: bytes, identity: _core.FileIdentity, facts: dict[str, Any]) -> ChunkMap | None:
    """None where it is a map of something else; ValueError where it is damaged."""
    if len(data) < _START.size + _DIGEST or not data.startswith(_MAGIC):
        raise ValueError("it is no chunk map")
    _, version, length = _START.unpack_from(data)
    if version != _VERSION:
        return None
    content = memoryview(data)[:-_DIGEST]
    if blake2b(content, digest_size=_DIGEST).digest() != data[-_DIGEST:]:
        raise ValueError("its checksum is wrong")
    head = json.loads(bytes(content[_START.size : _START.size + length]))
    if head["facts"] != facts:
        return None
    if not _core.FileIdentity.from_bytes(bytes.fromhex(head["identity"])).is_unchanged(identity):
        return None
    columns: dict[str, NDArray[Any]] = {}
    rows, at = head["rows"], _START.size + length
    shape, chunks = facts["shape"], facts["chunks"]
    if not 0 < rows <= shape[0]:
        raise ValueError(f"it has {rows} rows, the data set {shape[0]}")
    n_grid = _n_chunks((rows, *shape[1:]), chunks)
    for name in _COLUMNS:
        count: int = head["lengths"][name]
        if count != n_grid and (count != 1 or name == "addresses"):
            raise ValueError(f"it has {count} {name} for {n_grid} chunks")
        values = np.frombuffer(data, _TYPES[name], count, at)
        at += values.nbytes
        columns[name] = values if count == n_grid else np.full(n_grid, values[0])
    if at != len(content):
        raise ValueError("it has bytes left over")
    return ChunkMap(rows, columns["addresses"], columns["sizes"], columns["masks"])

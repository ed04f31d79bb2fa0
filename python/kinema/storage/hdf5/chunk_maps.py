"""Stored chunk maps: places of the chunks of large data sets, so that a file need not be walked at each opening.

Maps are only in the user's cache folder and never beside data: a chunk has no header by which a reader could check it.
A map is valid only for the file that it was made of, unchanged by its `FileIdentity`, and for the same data set: object
address, shape, chunks, type, filters, and the place of its first chunk, which libhdf5 finds without a walk. (libhdf5
finds the number of chunks only by a walk through all of them.) A copy of a file is walked again, and so is a file that
has grown.

A map is a record of `kinema.storage.stored_records`: addresses, sizes and filter masks in the order of `StoredDataset`;
sizes and masks have one element if all are equal.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import Error
from kinema.storage.stored_records import Record, RecordFolder

FEWEST_CHUNKS = 1 << 13
"""Data sets of fewer chunks are walked each time, and leave nothing in the folder. Opening a file of this many chunks
takes 11 ms with a walk and 3 ms without; storing takes 2 ms, plus the disk's time for a sync."""

# most bytes of one map (some ten million chunks), and of all: maps used longest ago are removed
_MOST_BYTES = 256 << 20
_MOST_BYTES_OF_ALL = 1 << 30
_COLUMNS = ("addresses", "sizes", "masks")
_TYPES: dict[str, np.dtype[Any]] = {"addresses": np.dtype("<u8"), "sizes": np.dtype("<u8"), "masks": np.dtype("<u4")}


class ChunkMap(NamedTuple):
    """The chunks of a data set, as in `StoredDataset`, and the rows that have storage."""

    rows: int
    addresses: NDArray[np.uint64]
    sizes: NDArray[np.uint64]
    masks: NDArray[np.uint32]


class ChunkMaps:
    """Maps for one opening of a file.

    `index` as in `kinema.open`: "auto" uses and stores maps, "rebuild" only stores them, "memory" does neither. The
    object must be made before the file is opened.
    """

    def __init__(self, index: str = "memory") -> None:
        self._records = RecordFolder("chunk-maps", index, most=_MOST_BYTES, most_of_all=_MOST_BYTES_OF_ALL)
        self._identities: dict[str, _core.FileIdentity] = {}
        self._confirmed: set[str] = set()
        # libhdf5 has read or is writing the files that are already open: their state may differ from the disk's
        self._open_before = _open_files() if self._records.stores else set()

    def watch(self, path: str) -> None:
        """Must be called before a file is opened: the state that libhdf5 reads is then no older than its identity."""
        name = os.path.realpath(path)
        if not self._records.stores or name in self._open_before or name in self._identities:
            return
        with suppress(Error):  # the code that opens the file reports the error
            self._identities[name] = _core.FileIdentity.of(name, places=0)

    def load(self, dataset: Any, facts: Mapping[str, Any]) -> tuple[ChunkMap | None, str]:
        """The stored map of a data set in its current state, or None; with the reason if a map is damaged.

        `facts`: properties that determine the map, besides the file; they include "shape" and "chunks".
        """
        is_large = _n_chunks(facts["shape"], facts["chunks"]) >= FEWEST_CHUNKS
        key = self._key(dataset, facts) if self._records.uses_stored and is_large else None
        if key is None:
            return None, ""
        record, why_not = self._records.load(_name(dataset), *key)
        if record is None:
            return None, why_not
        try:
            return _map_of(record, facts["shape"], facts["chunks"]), ""
        except (ValueError, KeyError, TypeError) as error:
            return None, str(error)

    def store(self, dataset: Any, facts: Mapping[str, Any], found: ChunkMap) -> str:
        """Stores a map if it is worth it; returns why that failed, or ""."""
        if not self._records.stores or len(found.addresses) < FEWEST_CHUNKS:
            return ""
        key = self._key(dataset, facts)
        return "" if key is None else self._records.store(_name(dataset), *key, _record_of(found))

    def _key(self, dataset: Any, facts: Mapping[str, Any]) -> tuple[_core.FileIdentity, dict[str, Any]] | None:
        """Identity of the file and facts of a map; None if no map is kept, as for a file that is being written."""
        name = os.path.realpath(dataset.file.filename)
        identity = self._identities.get(name)
        if identity is None or dataset.file.swmr_mode or not hasattr(dataset.id, "get_chunk_info_by_coord"):
            return None
        if name not in self._confirmed:
            # otherwise another file may have been opened under its name
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
        return identity, {
            **facts,
            "object": _address(dataset),
            "first": [first.byte_offset, first.size, first.filter_mask],
            "library": h5py.version.hdf5_version,
            "version": _core.__version__,
        }


def _name(dataset: Any) -> bytes:
    """Name of the record of a file and data set."""
    return os.fsencode(os.path.realpath(dataset.file.filename)) + repr(_address(dataset)).encode()


def _n_chunks(shape: Sequence[int], chunks: Sequence[int]) -> int:
    """Number of chunks of the whole grid."""
    return math.prod(-(-n // c) for n, c in zip(shape, chunks, strict=True))


def _address(dataset: Any) -> list[int]:
    """Address of the object in its file."""
    return [int(word) for word in h5py.h5g.get_objinfo(dataset.id).objno]


def _open_files() -> set[str]:
    """Real names of the HDF5 files that this process has open."""
    # another thread may close a file between the list and its name
    with h5py._objects.phil:
        names = [one.name for one in h5py.h5f.get_obj_ids(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE)]
    return {os.path.realpath(os.fsdecode(name)) for name in names}


def _record_of(found: ChunkMap) -> Record:
    columns = {}
    for name in _COLUMNS:
        values = getattr(found, name).astype(_TYPES[name], copy=False)
        # there is one address per chunk
        constant = name != "addresses" and bool((values == values[:1]).all())
        columns[name] = values[:1] if constant else values
    return Record({"rows": found.rows}, columns)


def _map_of(record: Record, shape: Sequence[int], chunks: Sequence[int]) -> ChunkMap:
    """The map in a record; raises ValueError if it does not fit the data set."""
    rows = record.values["rows"]
    if not 0 < rows <= shape[0]:
        raise ValueError(f"it has {rows} rows, the data set {shape[0]}")
    n_grid = _n_chunks((rows, *shape[1:]), chunks)
    columns: dict[str, NDArray[Any]] = {}
    for name in _COLUMNS:
        values = record.arrays[name]
        if values.dtype != _TYPES[name]:
            raise ValueError(f"it has {name} of type {values.dtype}")
        if len(values) != n_grid and (len(values) != 1 or name == "addresses"):
            raise ValueError(f"it has {len(values)} {name} for {n_grid} chunks")
        columns[name] = values if len(values) == n_grid else np.full(n_grid, values[0])
    return ChunkMap(rows, columns["addresses"], columns["sizes"], columns["masks"])

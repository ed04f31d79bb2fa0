"""`StoredDataset` of a numeric data set: from its chunk index, contiguous or compact storage.

A data set that Rust cannot read raises `NeedsLibrary`, and the caller reads it through h5py. A data set that nobody
should read raises an error.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
from array import array as native_array
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import CorruptFileError, TruncatedFileError, UnsupportedFormatError
from kinema.storage.hdf5.chunk_maps import ChunkMap
from kinema.storage.hdf5.file import OpenFile, check_claim, object_key, reading
from kinema.storage.hdf5.filters import filters_of
from kinema.storage.hdf5.stored_dataset import NOT_STORED, StoredDataset

_H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS = 2
# most elements of a chunk grid without storage that a file of few bytes may claim
_FREE_HOLES = 1 << 22
# libhdf5 reads series of fewer chunks, as fast as Rust
_FEWEST_CHUNKS = 256
# libhdf5 before 1.10.9 cannot list chunks: it looks up one at a time, and goes through all of them for each. This many
# chunks take some seconds, and ten times as many a hundred times as long.
_MOST_LOOKUPS = 1 << 14

ChunkList = tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint32]]


class NeedsLibrary(Exception):
    """A data set must be read through h5py; the message says why."""


def numeric_type(dataset: Any) -> np.dtype[Any] | None:
    """NumPy's type for a data set of integers or floats of any width and byte order; None for other contents."""
    dtype: np.dtype[Any] = dataset.dtype
    if dtype.kind in "iuf" and dtype.subdtype is None:
        return np.dtype(dtype.str)  # without h5py's notes about enumerations
    return None


def stored_array(opened: OpenFile, dataset: Any) -> StoredDataset:
    """Storage of a data set in its file, which differs from `opened` if a link leads to another file.

    The first dimension is cut to the rows that have storage: rows for which no chunk was ever written do not count.

    Raises NeedsLibrary with the reason, and UnsupportedFormatError for external storage.
    """
    dtype = numeric_type(dataset)
    if dtype is None:
        raise opened.corrupt(f"{dataset.name} holds no numbers but {dataset.dtype}")
    plist = dataset.id.get_create_plist()
    if plist.get_external_count() > 0:
        name = plist.get_external(0)[0].decode("utf-8", "replace")
        raise UnsupportedFormatError(
            f"{dataset.name} is kept in external storage ({name}), which is not read; h5repack copies it into the file",
            at=opened.path,
            format=opened.format,
        )
    _check_type(dataset, dtype)
    file = opened.number_of(dataset.file.filename)
    layout = plist.get_layout()
    fill = np.zeros((), dtype)
    if plist.fill_value_defined() != h5py.h5d.FILL_VALUE_UNDEFINED:
        plist.get_fill_value(fill)
    common = {"name": dataset.name, "file": file, "dtype": dtype.str, "fill": fill.tobytes()}
    if layout == h5py.h5d.COMPACT:
        return _unchunked(common, dataset.shape, None, np.ascontiguousarray(dataset[()]).tobytes())
    if layout == h5py.h5d.CONTIGUOUS:
        return _unchunked(common, dataset.shape, dataset.id.get_offset(), None)
    if layout != h5py.h5d.CHUNKED:
        raise NeedsLibrary("its storage layout is unknown")
    return _chunked(opened, dataset, plist, common)


def read_series(opened: OpenFile, dataset: Any) -> NDArray[Any]:
    """All elements of a one-dimensional data set, not writeable; read once for all hard links to it."""
    key = object_key(dataset)
    if key not in opened.series:
        check_claim(opened, dataset)
        found = _series_of_many_chunks(opened, dataset)
        opened.series[key] = _series_by_library(opened, dataset) if found is None else found
        opened.series[key].setflags(write=False)
    return opened.series[key]


def _series_by_library(opened: OpenFile, dataset: Any) -> NDArray[Any]:
    """Reads a whole series through libhdf5, whose errors name neither the data set nor the place."""
    try:
        values: NDArray[Any] = dataset[()]
    except OSError:
        with reading(opened.path, f"data set {dataset.name}{_damaged_rows(dataset)}"):
            raise
    return values


def _damaged_rows(dataset: Any) -> str:
    """Names rows and byte of the first chunk of a series that libhdf5 cannot decode; "" if the cause is not a chunk."""
    if dataset.chunks is None or dataset.is_virtual:
        return ""
    for row in range(0, dataset.shape[0], dataset.chunks[0]):
        stop = min(row + dataset.chunks[0], dataset.shape[0])
        try:
            dataset[row:stop]
        except OSError:
            at = dataset.id.get_chunk_info_by_coord((row,)).byte_offset
            rows = f"row {row}" if stop == row + 1 else f"rows {row} to {stop - 1}"
            return f", {rows} at byte {at},"
    return ""


def complete_rows(opened: OpenFile, array: StoredDataset) -> int:
    """Number of rows, from the first on, whose bytes all lie within the file: a file being written may claim more.

    0 for a data set without chunks that was never written to. Chunks in between may have no place in the file.
    """
    rows = array.shape[0] if array.shape else 1
    size = np.uint64(opened.size_of(array.file))
    if array.inline is not None or rows == 0:
        return rows
    if array.chunks is None:
        address = int(array.addresses[0])
        row_bytes = int(array.sizes[0]) // rows
        if address == NOT_STORED:
            return 0
        if row_bytes == 0:
            return rows
        return max(0, min(rows, (int(size) - address) // row_bytes))
    stored = array.addresses != np.uint64(NOT_STORED)
    # compared in this form because the sum of two damaged numbers may overflow
    beyond = stored & ((array.addresses > size) | (array.sizes > size - np.minimum(array.addresses, size)))
    if not beyond.any():
        return rows
    chunks_a_row = array.addresses.size // -(-rows // array.chunks[0])
    return int(np.flatnonzero(beyond)[0]) // chunks_a_row * array.chunks[0]


def take_rows(array: StoredDataset, start: int, stop: int) -> StoredDataset:
    """Rows [start, stop) of an array as another array; raises NeedsLibrary if a chunk would have to be cut."""
    if (start, stop) == (0, array.shape[0]):
        return array
    shape = (stop - start, *array.shape[1:])
    row_bytes = int(np.prod(array.shape[1:], dtype=np.int64)) * np.dtype(array.dtype).itemsize
    fields: dict[str, Any] = {name: getattr(array, name) for name in StoredDataset.__slots__} | {"shape": shape}
    if array.inline is not None:
        fields["inline"] = array.inline[start * row_bytes : stop * row_bytes]
    elif array.chunks is None:
        if int(array.addresses[0]) != NOT_STORED:
            fields["addresses"] = array.addresses + np.uint64(start * row_bytes)
        fields["sizes"] = np.array([(stop - start) * row_bytes], np.uint64)
    else:
        chunk = array.chunks[0]
        # if partial chunks are unfiltered, a cut would make whole chunks look partial
        if start % chunk or (stop != array.shape[0] and stop % chunk and array.partial_chunks_unfiltered):
            raise NeedsLibrary("a virtual data set takes rows from the middle of a chunk")
        chunk_rows = -(-array.shape[0] // chunk)
        first, last = start // chunk, -(-stop // chunk)
        for name in ("addresses", "sizes", "masks"):
            fields[name] = getattr(array, name).reshape(chunk_rows, -1)[first:last].reshape(-1)
    return StoredDataset(**fields)


def _series_of_many_chunks(opened: OpenFile, dataset: Any) -> NDArray[Any] | None:
    """Reads a whole series without libhdf5, which takes 5 us a chunk: GROMACS writes a chunk for each element.

    None if libhdf5 is as fast, or has to read the series.
    """
    dtype = numeric_type(dataset)
    if dtype is None or dataset.chunks is None or dataset.ndim != 1 or dataset.is_virtual:
        return None
    if dataset.shape[0] < _FEWEST_CHUNKS * dataset.chunks[0]:
        return None
    path = dataset.file.filename
    # the file that holds the series does not become one of the trajectory's files by that
    holder = dataclasses.replace(opened, path=path, size=os.path.getsize(path), other_files=[])
    try:
        array = stored_array(holder, dataset)
        if array.shape != dataset.shape or complete_rows(holder, array) < dataset.shape[0]:
            return None  # rows that are not stored, or a growing file
        return np.frombuffer(_core.read_series(path, array), dtype)
    except (NeedsLibrary, CorruptFileError, TruncatedFileError):
        return None  # libhdf5 reports where the data set is damaged


def _chunk_list(dataset: Any) -> ChunkList | None:
    """All stored chunks: element offsets (n, rank), addresses, stored sizes, filter masks; in the file's own order.

    None if this libhdf5 is too old to list them.
    """
    offsets, places = native_array("q"), native_array("Q")
    add_offset, add_place = offsets.extend, places.extend

    def add(info: Any) -> None:
        # offset, filter mask, address, size: called once a chunk, and a million times for a long trajectory
        add_offset(info[0])
        add_place(info[1:])

    if hasattr(dataset.id, "chunk_iter"):
        dataset.id.chunk_iter(add)
    else:
        n_chunks = dataset.id.get_num_chunks()
        # some of these versions count addresses from the end of the user block
        if n_chunks > _MOST_LOOKUPS or dataset.file.userblock_size:
            return None
        for number in range(n_chunks):
            add(dataset.id.get_chunk_info(number))
    masks, addresses, sizes = np.array(places, np.uint64).reshape(-1, 3).T
    return (
        np.array(offsets, np.int64).reshape(-1, max(dataset.ndim, 1)),
        addresses.copy(),
        sizes.copy(),
        masks.astype(np.uint32),
    )


def _check_type(dataset: Any, dtype: np.dtype[Any]) -> None:
    if dtype.kind == "f" and dtype.itemsize not in (2, 4, 8):
        raise NeedsLibrary(f"floats of {dtype.itemsize * 8} bits")
    if h5py.check_enum_dtype(dataset.dtype) is not None:
        return
    if not h5py.h5t.py_create(dtype).equal(dataset.id.get_type()):
        raise NeedsLibrary("its numbers are stored in a form of their own (precision, padding or exponent)")


def _unchunked(
    common: dict[str, Any], shape: tuple[int, ...], offset: int | None, inline: bytes | None
) -> StoredDataset:
    n_bytes = int(np.prod(shape, dtype=np.object_)) * np.dtype(common["dtype"]).itemsize
    count = 1 if inline is None else 0
    return StoredDataset(
        **common,
        shape=tuple(shape),
        chunks=None,
        addresses=np.full(count, NOT_STORED if offset is None else offset, np.uint64),
        sizes=np.full(count, 0 if offset is None else n_bytes, np.uint64),
        masks=np.zeros(count, np.uint32),
        filters=(),
        partial_chunks_unfiltered=False,
        inline=inline,
    )


def _chunked(opened: OpenFile, dataset: Any, plist: Any, common: dict[str, Any]) -> StoredDataset:
    filters = filters_of(dataset)
    chunks, shape = tuple(dataset.chunks), tuple(dataset.shape)
    element = np.dtype(common["dtype"]).itemsize
    why = _core.undecodable(filters, element, element * int(np.prod(chunks, dtype=np.object_))) if filters else None
    if why is not None:
        raise NeedsLibrary(why)
    facts = {"shape": shape, "chunks": chunks, "dtype": common["dtype"], "filters": filters}
    found, why_not = opened.maps.load(dataset, facts)
    if why_not:
        opened.warn(f"the stored map of the chunks of {dataset.name} was not used, and is made again: {why_not}")
    if found is None:
        found = _walked(opened, dataset, shape, chunks)
        why_not = opened.maps.store(dataset, facts, found)
        if why_not:
            opened.warn(f"the map of the chunks of {dataset.name} is not kept for the next opening: {why_not}")
    partial = any(n % c for n, c in zip(shape, chunks, strict=True))
    return StoredDataset(
        **common,
        shape=(found.rows, *shape[1:]),
        chunks=chunks,
        addresses=found.addresses,
        sizes=found.sizes,
        masks=found.masks,
        filters=filters,
        partial_chunks_unfiltered=bool(filters) and partial and _partial_chunks_unfiltered(plist),
        inline=None,
    )


def _walked(opened: OpenFile, dataset: Any, shape: tuple[int, ...], chunks: tuple[int, ...]) -> ChunkMap:
    """The chunks of a data set in the order of its grid, from a walk through its chunk index."""
    listed = _chunk_list(dataset)
    if listed is None:
        raise NeedsLibrary(f"HDF5 {h5py.version.hdf5_version} cannot list its chunks, 1.10.9 can")
    offsets, addresses, sizes, masks = listed
    inside = (offsets < np.array(shape)).all(axis=1)
    if not inside.all():  # chunks left from before the data set shrank
        offsets, addresses, sizes, masks = offsets[inside], addresses[inside], sizes[inside], masks[inside]
    rows = min(shape[0], int(offsets[:, 0].max()) + chunks[0]) if len(offsets) else 0
    extent = (rows, *shape[1:])
    grid = tuple(-(-n // c) for n, c in zip(extent, chunks, strict=True))
    n_grid = int(np.prod(grid, dtype=np.object_))
    if n_grid > len(addresses) * 64 + _FREE_HOLES:
        raise opened.corrupt(f"{dataset.name} claims {n_grid} chunks, but only {len(addresses)} are stored")
    places = np.ravel_multi_index((offsets // np.array(chunks)).T, grid) if len(offsets) else np.zeros(0, np.int64)
    whole = len(places) == n_grid and np.array_equal(places, np.arange(n_grid))
    if not whole and np.bincount(places, minlength=1).max() > 1:
        raise opened.corrupt(f"{dataset.name} has two chunks at one place")

    def spread(values: NDArray[Any], empty: int) -> NDArray[Any]:
        if whole:
            return values
        result = np.full(n_grid, empty, values.dtype)
        result[places] = values
        return result

    return ChunkMap(rows, spread(addresses, NOT_STORED), spread(sizes, 0), spread(masks, 0))


def _partial_chunks_unfiltered(plist: Any) -> bool:
    """The option of H5Pset_chunk_opts, which h5py does not expose: read from the libhdf5 that h5py has loaded."""
    try:
        ask = ctypes.CDLL(h5py.h5p.__file__).H5Pget_chunk_opts
    except (AttributeError, OSError):
        raise NeedsLibrary("libhdf5 does not say whether chunks at the edge are filtered") from None
    ask.argtypes = [ctypes.c_int64, ctypes.POINTER(ctypes.c_uint)]
    ask.restype = ctypes.c_int
    options = ctypes.c_uint(0)
    with h5py._objects.phil:
        if ask(plist.id, ctypes.byref(options)) < 0:
            raise NeedsLibrary("libhdf5 does not say whether chunks at the edge are filtered")
    return bool(options.value & _H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS)

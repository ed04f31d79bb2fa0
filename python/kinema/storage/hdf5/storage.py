"""Storage of new data sets: chunk shapes by name of a layout, filters, extent, and their creation.

`create_dataset` creates every data set that Kinema writes: of trajectories, results and archives of samples, in new
files, in growing files and in copies. The only exception is a copy with all properties of an object, which
`object_copies` makes.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.storage.hdf5.filters import GZIP, Compression, Filters, built_in_filters, encodable, filters_of, set_filters

CHUNK_BYTES = 1 << 20
# Chunks of layout "atoms" are filled frame by frame, so this many bytes of a field are held in memory.
TIME_SERIES_BYTES = 128 << 20
_TIME_SERIES_FRAMES = 4096
_SERIES_CHUNK_BYTES, _SERIES_CHUNK_ROWS = 32 << 10, 4096
# HDF5 stores the size of a chunk in 32 bits
_LARGEST_CHUNK = (1 << 32) - 1
# A compact data set lies within its object's header, whose messages have at most 64 KiB.
_COMPACT_BYTES = 60_000
# a data set with smaller chunks than this, and at least this number of them, is stored in larger chunks
_TINY_CHUNK_BYTES, _FEWEST_TINY_CHUNKS = 4096, 16
# bytes for each that is stored
_MOST_COMPRESSED = 1100
LAYOUTS = ("frames", "atoms", "contiguous")
KEEP = "keep"
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class VirtualBox:
    """A box of a virtual data set, whose values lie in a data set of another file.

    `file`, `dataset`: names as libhdf5 finds them from the folder of the virtual file.
    `start`, `source_start`: the first row, or row and column, of the box in the virtual data set and in the source.
    `size`: size of the box, with as many numbers as `start`. Along further dimensions the box is as large as both data
        sets. None for the rows: as many as the source has when a reader opens it.
    """

    file: str
    dataset: str
    source_shape: tuple[int, ...]
    start: tuple[int, ...]
    source_start: tuple[int, ...]
    size: tuple[int | None, ...]


@dataclass(frozen=True)
class Storage:
    """Extent, type, chunks and filters of a data set to be created."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...] | None = None
    """None: contiguous. With chunks the number of rows may grow."""
    filters: Filters = ()
    compact: bool = False
    """Within the object's header; without chunks only."""
    early: bool = False
    """The space of the data set, or of all chunks within its extent, has a place in the file from the beginning."""
    virtual: tuple[VirtualBox, ...] | None = None
    """The values lie in data sets of other files; without chunks only."""
    grows: bool = False
    """The number of rows may grow, as it always may with chunks."""

    @property
    def row_bytes(self) -> int:
        """Bytes of the values of a row, unfiltered."""
        return max(1, math.prod(self.shape[1:]) * self.dtype.itemsize)


@dataclass(frozen=True)
class Layout:
    """Requested storage of the fields of a file.

    Attributes
    ----------
    layout : a name out of `LAYOUTS`, "keep", or a chunk shape (frames, atoms, components)
    compression : Compression, filters, or "keep"
    chunk_bytes : approximate size of a chunk
    """

    layout: str | Sequence[int] = "frames"
    compression: Compression | Filters | str = KEEP
    chunk_bytes: int = CHUNK_BYTES

    def __post_init__(self) -> None:
        how = self.compression
        if self.contiguous and isinstance(how, Compression) and (how.name is not None or how.checksum):
            what = "compressed" if how.name is not None else "given checksums"
            raise ArgumentError(f"layout='contiguous' cannot be {what}, choose another layout")

    @property
    def contiguous(self) -> bool:
        """Whether fields have no chunks: then their number of frames is fixed."""
        return isinstance(self.layout, str) and self.layout == "contiguous"

    def new_field(self, n_atoms: int, dtype: np.dtype[Any], n_frames: int | None) -> Storage:
        """Storage of a field (frames, `n_atoms`, 3): without frames yet, or with all `n_frames` if contiguous.

        Raises ArgumentError for unknown layouts, and for chunks that HDF5 cannot store.
        """
        chunks = _chunk_shape(self.layout, n_atoms, dtype.itemsize, n_frames, self.chunk_bytes)
        rows = (n_frames or 0) if chunks is None else 0
        assert isinstance(self.compression, Compression)
        filters = () if chunks is None else self.compression.filters(dtype.itemsize)
        return Storage((rows, n_atoms, 3), dtype, chunks, filters)

    def existing_field(self, dataset: Any, shape: tuple[int, ...], memory: int) -> tuple[Storage, str]:
        """Storage of a copy of a data set with rows and columns, cut to `shape`; a note if it is not as requested."""
        chunks = self._chunks(dataset, shape, memory)
        if chunks is None:
            return Storage(shape, dataset.dtype), ""
        filters, note = self._filters(dataset)
        return Storage(shape, dataset.dtype, chunks, filters), note

    def _chunks(self, dataset: Any, shape: tuple[int, ...], memory: int) -> tuple[int, ...] | None:
        if 0 in shape:
            return tuple(max(1, n) for n in shape)
        if self.layout == KEEP:
            kept = None if dataset.is_virtual else dataset.chunks
            if kept is None and not dataset.is_virtual:
                return None
            if kept is not None:
                return (kept[0], *(min(c, n) for c, n in zip(kept[1:], shape[1:], strict=True)))
        layout = "frames" if self.layout == KEEP else self.layout
        if not isinstance(layout, str):
            layout = tuple(min(a, b) for a, b in zip(layout, (layout[0], shape[1], 3), strict=True))
        # bytes of a third of an atom's values: one number of a vector
        third = -(-math.prod(shape[2:]) * dataset.dtype.itemsize // 3)
        chunks = _chunk_shape(layout, shape[1], third, shape[0], self.chunk_bytes)
        if chunks is None:
            return None
        frames, atoms, components = chunks
        if layout == "atoms":  # a row of chunks is held in memory
            frames = max(1, min(frames, memory // (shape[1] * third * 3)))
            atoms = max(1, min(shape[1], self.chunk_bytes // (frames * 3 * third)))
        rest = tuple(min(components, n) if components < 3 else n for n in shape[2:])
        return (frames, atoms, *rest)

    def _filters(self, dataset: Any) -> tuple[Filters, str]:
        if isinstance(self.compression, Compression):
            return self.compression.filters(dataset.dtype.itemsize), ""
        if not isinstance(self.compression, str):
            return self.compression, ""
        stored = filters_of(dataset)
        kept = encodable(stored)
        if kept is not None:
            return kept, ""
        names = ", ".join(_core.filter_name(number) or f"filter {number}" for number, _ in stored)
        return GZIP, f"{dataset.name.strip('/')} was compressed with {names}, which Kinema does not write: gzip instead"


def _chunk_shape(
    layout: str | Sequence[int], n_atoms: int, itemsize: int, n_frames: int | None, chunk_bytes: int
) -> tuple[int, int, int] | None:
    """Chunk shape (frames, atoms, components) of a field with (frames, `n_atoms`, 3) values of `itemsize` bytes.

    ========== =======================================================================================================
    frames     whole frames, as many as fit in `chunk_bytes`, at least one: for reading frame by frame
    atoms      few atoms over many frames, about `chunk_bytes`: for time series of atoms
    contiguous no chunks (None): the fastest to read; needs the number of frames beforehand, cannot be compressed
    (k, a, c)  as given
    ========== =======================================================================================================

    `n_frames`, the length of the trajectory if known, limits the length of chunks.
    Raises ArgumentError for other layouts, and for chunks that HDF5 cannot store.
    """
    frame = n_atoms * 3 * itemsize
    most_frames = n_frames if n_frames else None
    if layout == "contiguous":
        return None
    if layout == "frames":
        k = max(1, chunk_bytes // frame)
        shape = (min(k, most_frames) if most_frames else k, n_atoms, 3)
    elif layout == "atoms":
        k = min(_TIME_SERIES_FRAMES, max(1, TIME_SERIES_BYTES // frame), most_frames or _TIME_SERIES_FRAMES)
        shape = (k, max(1, min(n_atoms, chunk_bytes // (k * 3 * itemsize))), 3)
    else:
        shape = _explicit(layout, n_atoms)
    if math.prod(shape) * itemsize > _LARGEST_CHUNK:
        raise ArgumentError(
            f"a chunk of shape {shape} has {math.prod(shape) * itemsize} bytes, more than HDF5's limit of "
            f"{_LARGEST_CHUNK}; give layout=(frames, atoms, 3)"
        )
    return shape


def _explicit(layout: str | Sequence[int], n_atoms: int) -> tuple[int, int, int]:
    expected = f"layout is one of {', '.join(LAYOUTS)} or a chunk shape (frames, atoms, components), found {layout!r}"
    if isinstance(layout, str) or not isinstance(layout, Sequence) or len(layout) != 3:
        raise ArgumentError(expected)
    if any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1 for n in layout):
        raise ArgumentError(expected)
    frames, atoms, components = (int(n) for n in layout)
    if atoms > n_atoms or components > 3:
        raise ArgumentError(f"chunk shape {(frames, atoms, components)} is larger than a frame, ({n_atoms}, 3)")
    return frames, atoms, components


def series_storage(dtype: np.dtype[Any], item: tuple[int, ...] = (), *, rows: int = 0) -> Storage:
    """Storage of a series of small items, such as steps, with `rows` rows: chunks of about 32 KiB, no filters."""
    row_bytes = max(1, math.prod(item) * dtype.itemsize)
    chunk_rows = max(1, min(_SERIES_CHUNK_ROWS, _SERIES_CHUNK_BYTES // row_bytes))
    return Storage((rows, *item), dtype, (chunk_rows, *(max(1, n) for n in item)))


def rechunked_series(dataset: Any, shape: tuple[int, ...]) -> Storage:
    """Storage of a copy of a series, cut to `shape`: the same compression if that needs no plugin, else gzip."""
    storage = series_storage(dataset.dtype, shape[1:], rows=shape[0])
    filters = built_in_filters(filters_of(dataset))
    return Storage(storage.shape, storage.dtype, storage.chunks, GZIP if filters is None else filters)


def has_tiny_chunks(dataset: Any) -> bool:
    """Whether a data set has many small chunks, which make reading slow."""
    if dataset.chunks is None or not dataset.size or dataset.dtype.kind not in "iufb":
        return False
    size = math.prod(dataset.chunks) * dataset.dtype.itemsize
    if dataset.nbytes > _MOST_COMPRESSED * dataset.id.get_storage_size():
        return False  # mostly never written
    return bool(size < _TINY_CHUNK_BYTES and dataset.size * dataset.dtype.itemsize >= _FEWEST_TINY_CHUNKS * size)


def create_dataset(parent: Any, name: str | None, storage: Storage, *, like: Any = None, fill: Any = None) -> Any:
    """Creates the empty data set in a group, and the groups that "folder/name" names; without a name if it is None.

    With `like`, a data set of `storage.dtype`, it gets the type in the file, fill value and order of attributes of
    `like`. Otherwise `fill` is the fill value; None: HDF5's default.
    """
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_obj_track_times(False)
    if storage.compact:
        plist.set_layout(h5py.h5d.COMPACT)
    elif storage.virtual is not None:
        _map_boxes(plist, storage, storage.virtual)
    elif storage.chunks is not None:
        plist.set_chunk(storage.chunks)
        set_filters(plist, storage.filters)
        if storage.early and not storage.filters and not storage.dtype.hasobject:
            # other code writes all values into existing space: HDF5 would first write zeros
            plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    elif not storage.dtype.hasobject:  # HDF5 must fill space that holds references to the heap
        plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    if storage.early:
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    if like is not None:
        old = like.id.get_create_plist()
        plist.set_attr_creation_order(old.get_attr_creation_order())
        if like.dtype.kind in "iufb" and old.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
            value = np.zeros((), like.dtype)
            old.get_fill_value(value)
            plist.set_fill_value(value)
    elif fill is not None:
        plist.set_fill_value(np.array(fill, storage.dtype))
    if not storage.shape:
        space = h5py.h5s.create(h5py.h5s.SCALAR)
    else:
        unlimited = storage.grows or storage.chunks is not None
        most = (h5py.h5s.UNLIMITED, *storage.shape[1:]) if unlimited else storage.shape
        space = h5py.h5s.create_simple(storage.shape, most)
    encoded, links = None if name is None else name.encode(), h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    return h5py.Dataset(h5py.h5d.create(parent.id, encoded, _type_in_file(storage, like), space, plist, links))


def replace_dataset(parent: Any, name: str, storage: Storage, *, fill: Any = None) -> Any:
    """Recreates a data set of a group, without its values, but with its attributes."""
    old = parent[name]
    attributes = [(key, old.attrs.get_id(key).dtype, old.attrs[key]) for key in old.attrs]
    del old, parent[name]
    made = create_dataset(parent, name, storage, fill=fill)
    for key, dtype, value in attributes:
        made.attrs.create(key, value, dtype=dtype)
    return made


def dataset_in_memory(storage: Storage) -> Any:
    """An empty data set in a file in memory, which has what HDF5 adds to its filters."""
    # numbers for names: libhdf5 takes files in memory of the same name for one file
    file = h5py.File(f"memory-{next(_NUMBERS)}", "w", driver="core", backing_store=False)
    return create_dataset(file, "rows", storage)


def write_dataset(
    parent: Any,
    name: str | None,
    values: NDArray[Any],
    *,
    dtype: np.dtype[Any] | None = None,
    like: Any = None,
    compact: bool = False,
    grows: bool = False,
) -> Any:
    """Creates a data set with these values, of fixed size unless `grows`.

    With `compact` it lies in the object's header if it is small enough.
    """
    kind = like.dtype if like is not None else values.dtype if dtype is None else dtype
    array = np.asarray(values, None if like is None else kind)
    small = compact and 0 < math.prod(array.shape) * kind.itemsize <= _COMPACT_BYTES
    fixed = Storage(array.shape, kind, compact=small)
    storage = series_storage(kind, array.shape[1:], rows=len(array)) if grows else fixed
    dataset = create_dataset(parent, name, storage, like=like)
    if array.size:
        dataset[...] = array
    return dataset


def write_results(
    target: Any, attributes: Mapping[str, Any], arrays: Mapping[str, tuple[Any, Mapping[str, Any]]], *, ordered: bool
) -> None:
    """Writes whole arrays, each with its attributes, as a file: a name, or a binary file; `ordered`: in this order."""
    with h5py.File(target, "w", track_order=ordered) as file:
        file.attrs.update(attributes)
        for name, (values, own) in arrays.items():
            array = np.asarray(values)
            text = h5py.string_dtype() if array.dtype.kind == "U" else None
            write_dataset(file, name, array if text is None else array.astype(object), dtype=text).attrs.update(own)


def write_chunks(dataset: Any, corner: tuple[int, ...], chunks: Iterable[tuple[tuple[int, ...], Any, int]]) -> None:
    """Writes stored bytes of chunks into a data set (low-level identifier), bypassing the filters of HDF5.

    `chunks`: offset from `corner`, bytes and filter mask of each.
    """
    for offset, stored, mask in chunks:
        dataset.write_direct_chunk(tuple(a + b for a, b in zip(corner, offset, strict=True)), stored, mask)


def encode_by_library(dataset: Any, rows: NDArray[Any]) -> Iterator[tuple[tuple[int, ...], bytes, int]]:
    """Offset, bytes and filter mask of each chunk of `rows`, encoded in memory by libhdf5's filters, as of `dataset`.

    This is for filters that Rust does not encode. Like all chunks these are written past libhdf5, so the rules for
    growing files hold for all filters. The mask marks the filters that libhdf5 skipped because they failed or saved
    nothing.
    """
    chunk = dataset.chunks
    plist, kind = dataset.id.get_create_plist(), dataset.id.get_type()
    space = h5py.h5s.create_simple(chunk)
    with h5py.File("chunks", "w", driver="core", backing_store=False) as file:
        starts = (range(0, n, k) for n, k in zip(rows.shape, chunk, strict=True))
        for offset in itertools.product(*starts):
            part = rows[tuple(slice(start, start + k) for start, k in zip(offset, chunk, strict=True))]
            whole = part if part.shape == chunk else padded(part, chunk)
            # one data set for each: libhdf5 keeps the mask of a chunk that is rewritten with another
            scratch = h5py.h5d.create(file.id, None, kind.copy(), space, plist)
            scratch.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(whole))
            mask, stored = scratch.read_direct_chunk((0,) * len(chunk))
            yield offset, stored, mask


def padded(part: NDArray[Any], chunk: tuple[int, ...]) -> NDArray[Any]:
    """A part of an array as a whole chunk, with zeros beyond the part."""
    whole = np.zeros(chunk, part.dtype)
    whole[tuple(slice(0, n) for n in part.shape)] = part
    return whole


def _type_in_file(storage: Storage, like: Any) -> Any:
    if like is None:
        return h5py.h5t.py_create(storage.dtype, logical=True)
    kind = like.id.get_type()
    # a named type belongs to its file
    return kind.copy() if kind.committed() else kind


def _map_boxes(plist: Any, storage: Storage, boxes: Sequence[VirtualBox]) -> None:
    plist.set_layout(h5py.h5d.VIRTUAL)
    for box in boxes:
        here = _selected(storage.shape, box.start, box.size)
        there = _selected(box.source_shape, box.source_start, box.size)
        plist.set_virtual(here, os.fsencode(box.file), box.dataset.encode(), there)


def _selected(shape: tuple[int, ...], start: tuple[int, ...], size: tuple[int | None, ...]) -> Any:
    """The selection of a box in a data set."""
    rest = shape[len(size) :]
    first, count, all_rows = (*start, *(0 for _ in rest)), [1] * len(shape), size[0] is None
    block = [1 if n is None else n for n in (*size, *rest)]
    if all_rows:
        count[0] = h5py.h5s.UNLIMITED
    space = h5py.h5s.create_simple(shape, (h5py.h5s.UNLIMITED, *shape[1:]) if all_rows else shape)
    space.select_hyperslab(first, tuple(count), (1,) * len(shape) if all_rows else None, tuple(block))
    return space

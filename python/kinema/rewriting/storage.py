"""How a data set shall lie in the file that is made, and its making: chunks, filters, extent.

It moves no values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import h5py
import numpy as np

from kinema import _core
from kinema.errors import ArgumentError
from kinema.h5md.chunks import filters_of
from kinema.h5md.creation_rounding import Rounding
from kinema.h5md.creation_storage import CHUNK_BYTES, Compression, chunk_shape, series_rows

__all__ = [
    "KEEP",
    "Filters",
    "Layout",
    "Storage",
    "create",
    "is_external",
    "is_in_crumbs",
    "series_storage",
    "with_rounding",
]

KEEP = "keep"

Filters = tuple[tuple[int, tuple[int, ...]], ...]

_DEFLATE, _SHUFFLE, _FLETCHER32 = 1, 2, 3
# filters that chunks are encoded with outside of libhdf5
_ENCODED = frozenset({_DEFLATE, _SHUFFLE, _FLETCHER32, 32004, 32008, 32015})
_GZIP: Filters = ((_SHUFFLE, ()), (_DEFLATE, (4,)))
# a data set of smaller chunks than this, and of at least so many, is stored in larger ones
_CRUMB_BYTES, _FEWEST_CRUMBS = 4096, 16


@dataclass(frozen=True)
class Storage:
    """One data set to be made."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...] | None
    filters: Filters = ()
    rounding: Rounding | None = None
    resizable: bool = True

    @property
    def row_bytes(self) -> int:
        """Of the values, unfiltered."""
        return max(1, math.prod(self.shape[1:]) * self.dtype.itemsize)


@dataclass(frozen=True)
class Layout:
    """What was asked for: a layout by name, chunk shape or "keep"; a compression, or "keep"; a size of chunks."""

    layout: str | tuple[int, ...] = "frames"
    compression: Compression | Filters | str = KEEP
    chunk_bytes: int = CHUNK_BYTES
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.layout == "contiguous" and isinstance(self.compression, Compression) and self.compression.name:
            raise ArgumentError("layout contiguous cannot be compressed, choose another layout")

    def storage(self, dataset: Any, shape: tuple[int, ...], memory: int) -> tuple[Storage, str]:
        """Of a data set with rows and columns, cut to `shape`; and a note where it is not as asked, else ""."""
        chunks = self._chunks(dataset, shape, memory)
        if chunks is None:
            return Storage(shape, dataset.dtype, None, resizable=False), ""
        filters, note = self._filters(dataset, chunks)
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
        if isinstance(layout, tuple):
            layout = tuple(min(a, b) for a, b in zip(layout, (layout[0], shape[1], 3), strict=True))
        # bytes of a third of an atom's values: those of one number of a vector
        third = -(-math.prod(shape[2:]) * dataset.dtype.itemsize // 3)
        found = chunk_shape(layout, shape[1], third, shape[0], self.chunk_bytes)
        if found is None:
            return None
        frames, atoms, components = found
        if layout == "atoms":  # a row of chunks is held in memory
            frames = max(1, min(frames, memory // (shape[1] * third * 3)))
            atoms = max(1, min(shape[1], self.chunk_bytes // (frames * 3 * third)))
        rest = tuple(min(components, n) if components < 3 else n for n in shape[2:])
        return (frames, atoms, *rest)

    def _filters(self, dataset: Any, chunks: tuple[int, ...]) -> tuple[Filters, str]:
        if isinstance(self.compression, Compression):
            return _named(self.compression, dataset.dtype, chunks), ""
        if not isinstance(self.compression, str):
            return self.compression, ""
        plist = dataset.id.get_create_plist()
        # a virtual data set has none, and is of several files, which may have different ones
        found = () if dataset.is_virtual else filters_of(plist)
        if all(number in _ENCODED for number, _ in found):
            return tuple((number, _parameters(number, values)) for number, values in found), ""
        names = ", ".join(_core.filter_name(number) or f"filter {number}" for number, _ in found)
        return (
            _GZIP,
            f"{dataset.name.strip('/')} was compressed with {names}, which Kinema does not write: gzip instead",
        )


def series_storage(dataset: Any, shape: tuple[int, ...]) -> Storage:
    """Of a small series such as `step`: pieces of about 32 KiB, compressed as it was, where that can be written."""
    row = max(1, math.prod(shape[1:]) * dataset.dtype.itemsize)
    filters = () if dataset.is_virtual or dataset.chunks is None else filters_of(dataset.id.get_create_plist())
    if not all(number in (_DEFLATE, _SHUFFLE, _FLETCHER32) for number, _ in filters):
        filters = _GZIP
    kept = tuple((number, _parameters(number, values)) for number, values in filters)
    return Storage(shape, dataset.dtype, (series_rows(row), *(max(1, n) for n in shape[1:])), kept)


def is_in_crumbs(dataset: Any) -> bool:
    """Whether a data set lies in so many and so small chunks that reading it takes long."""
    if dataset.chunks is None or not dataset.size or dataset.dtype.kind not in "iufb":
        return False
    size = math.prod(dataset.chunks) * dataset.dtype.itemsize
    return bool(size < _CRUMB_BYTES and dataset.size * dataset.dtype.itemsize >= _FEWEST_CRUMBS * size)


def is_external(dataset: Any) -> bool:
    """Whether its values are in files of their own, outside of HDF5."""
    return bool(dataset.id.get_create_plist().get_external_count() > 0)


def create(parent: Any, name: str, storage: Storage, like: Any) -> Any:
    """The empty data set, with the fill value of the one it is made after."""
    resizable = storage.resizable and storage.chunks is not None
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_obj_track_times(False)
    plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER if storage.chunks is None else h5py.h5d.FILL_TIME_IFSET)
    plist.set_attr_creation_order(like.id.get_create_plist().get_attr_creation_order())
    _set_fill(plist, like)
    if storage.chunks is not None:
        plist.set_chunk(storage.chunks)
        for number, values in storage.filters:
            _add_filter(plist, number, values)
    space = h5py.h5s.create_simple(
        storage.shape, (h5py.h5s.UNLIMITED, *storage.shape[1:]) if resizable else storage.shape
    )
    made = h5py.h5d.create(parent.id, name.encode(), _plain_type(like), space, plist)
    return h5py.Dataset(made)


def _plain_type(dataset: Any) -> Any:
    kind = dataset.id.get_type()
    # a named type belongs to its file
    return kind.copy() if kind.committed() else kind


def _set_fill(plist: Any, like: Any) -> None:
    old = like.id.get_create_plist()
    if like.dtype.kind in "iufb" and old.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
        value = np.zeros((), like.dtype)
        old.get_fill_value(value)
        plist.set_fill_value(value)


def _named(compression: Compression, dtype: np.dtype[Any], chunks: tuple[int, ...]) -> Filters:
    """The filters of a compression by name, as h5py would set them."""
    arguments = compression.creation_arguments()
    if not arguments:
        return ()
    options = arguments["compression_opts"]
    shuffle: Filters = ((_SHUFFLE, ()),) if arguments.get("shuffle") else ()
    if arguments["compression"] == "gzip":
        return (*shuffle, (_DEFLATE, (options,)))
    return (*shuffle, (arguments["compression"], tuple(options)))


def _parameters(number: int, values: Sequence[int]) -> tuple[int, ...]:
    """What was given when the filter was set, without what HDF5 and the filter themselves have added."""
    if number in (_SHUFFLE, _FLETCHER32):
        return ()
    if number == 32008:  # version, version, element size, and then block size, compression, level
        return tuple(values[3:])
    return tuple(values)


def _add_filter(plist: Any, number: int, values: tuple[int, ...]) -> None:
    if number == _SHUFFLE:
        plist.set_shuffle()
    elif number == _FLETCHER32:
        plist.set_fletcher32()
    elif number == _DEFLATE:
        plist.set_deflate(values[0])
    else:
        # registers the filters with HDF5
        import hdf5plugin  # noqa: F401

        plist.set_filter(number, h5py.h5z.FLAG_OPTIONAL, values)


def with_rounding(storage: Storage, rounding: Rounding | None) -> Storage:
    """The storage with values rounded; the same where there is nothing to round."""
    return storage if rounding is None else replace(storage, rounding=rounding)

"""Copies of single HDF5 objects: attributes, groups, named types, data sets with their stored chunks.

libhdf5 itself copies nothing here (H5Ocopy): it crashes on damaged object headers. Types, properties and values are
read, and written into a new object.

This module imports nothing of the package: the process that checks files beforehand (`trust/walk.py`) runs it by its
path, and makes the same calls as `copying`, which copies whole files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np

# classes of types whose numbers are bit fields; classes of types with values of another type
_OF_BITS = (h5py.h5t.INTEGER, h5py.h5t.FLOAT, h5py.h5t.BITFIELD)
_OF_ANOTHER = tuple(getattr(h5py.h5t, name) for name in ("ARRAY", "VLEN", "ENUM", "COMPLEX") if hasattr(h5py.h5t, name))
# bytes of values that are held at a time
_PIECE = 16 << 20
# assumed bytes of one value in the heap of a file; it may have more
_ON_HEAP = 1 << 12


def copy_group(source: Any, parent: Any, name: bytes) -> Any:
    """Makes an empty group like `source`, without its attributes; groups are identifiers (`h5g.GroupID`)."""
    # only the order is copied: with all properties of the old group libhdf5 (2.0) makes damaged groups
    options = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
    old = source.get_create_plist()
    if old.get_link_creation_order():
        options.set_link_creation_order(old.get_link_creation_order())
    if old.get_attr_creation_order():
        options.set_attr_creation_order(old.get_attr_creation_order())
    return h5py.h5g.create(parent, name, None, options)


def copy_type(source: Any, parent: Any, name: bytes) -> Any:
    """Makes a named type like `source`, without its attributes."""
    made = source.copy()
    made.commit(parent, name)
    return made


def copy_dataset(source: Any, parent: Any, name: bytes, *, values: bool = True) -> Any:
    """Makes a data set like `source`, without its attributes; with `values` it gets the stored values.

    References stay empty: they would lead to objects of the other file. Chunks are copied as stored, even if their
    filters are not available.
    """
    kind, space, options = source.get_type(), source.get_space(), _properties(source)
    made = h5py.h5d.create(parent, name, kind.copy() if kind.committed() else kind, space, options)
    if not values or space.get_simple_extent_type() == h5py.h5s.NULL or not source.get_storage_size():
        return made
    layout = options.get_layout()
    if not is_of_fixed_size(kind):
        if not refers(kind):
            _copy_values(source, made)
    elif layout == h5py.h5d.CHUNKED:
        _copy_chunks(source, made)
    elif layout != h5py.h5d.VIRTUAL:
        _copy_values(source, made)
    return made


def copy_attributes(source: Any, target: Any) -> None:
    """Copies all attributes from one identifier to another, in order, with their types; references stay empty."""
    for name in attribute_names(source):
        attribute = h5py.h5a.open(source, name)
        kind, space = attribute.get_type(), attribute.get_space()
        made = h5py.h5a.create(target, name, kind.copy() if kind.committed() else kind, space)
        if space.get_simple_extent_type() == h5py.h5s.NULL:
            continue
        if not refers(kind):
            memory_type, dtype = _memory_types(attribute)
            values = np.empty(attribute.shape, dtype)
            attribute.read(values, memory_type)
            made.write(values, memory_type)


def attribute_names(node: Any) -> list[bytes]:
    """Names of the attributes of an identifier, in their order."""
    tracked = node.get_create_plist().get_attr_creation_order() & h5py.h5p.CRT_ORDER_TRACKED
    order = h5py.h5.INDEX_CRT_ORDER if tracked else h5py.h5.INDEX_NAME
    names: list[bytes] = []
    # by number, libhdf5 would sort all attributes for each one
    h5py.h5a.iterate(node, lambda name, *_: names.append(name), index_type=order)
    return names


def refers(kind: Any) -> bool:
    """Whether values of a type (`h5t.TypeID`) are, or contain, references to objects."""
    return any(one.get_class() == h5py.h5t.REFERENCE for one in parts_of_type(kind))


def is_of_fixed_size(kind: Any) -> bool:
    """Whether values of a type are bytes with the same meaning in any file: no value in a heap, no reference."""
    h5t = h5py.h5t
    return not any(
        one.get_class() in (h5t.VLEN, h5t.REFERENCE) or (one.get_class() == h5t.STRING and one.is_variable_str())
        for one in parts_of_type(kind)
    )


def fault_of_type(kind: Any) -> str | None:
    """Describes the fault of a type whose parts do not fit into it: libhdf5 would convert values beyond their memory.

    None for all other types.
    """
    for one in parts_of_type(kind):
        which, size = one.get_class(), one.get_size()
        if which in _OF_BITS and not 0 < one.get_precision() <= 8 * size - one.get_offset():
            return f"{one.get_precision()} bits from {one.get_offset()} on in {size} bytes"
        if which == h5py.h5t.FLOAT:
            sign, exponent, exponent_size, mantissa, mantissa_size = one.get_fields()
            if max(sign + 1, exponent + exponent_size, mantissa + mantissa_size) > one.get_precision():
                return f"sign, exponent and mantissa beyond its {one.get_precision()} bits"
        if which == h5py.h5t.ARRAY and size != math.prod(one.get_array_dims()) * one.get_super().get_size():
            return f"an array of {one.get_array_dims()} in {size} bytes"
        if which == h5py.h5t.ENUM and size != one.get_super().get_size():
            return f"numbers of {one.get_super().get_size()} bytes in {size}"
        if which == h5py.h5t.COMPOUND:
            for number in range(one.get_nmembers()):
                if one.get_member_offset(number) + one.get_member_type(number).get_size() > size:
                    return f"a member that ends after its {size} bytes"
    return None


def parts_of_type(kind: Any) -> Iterator[Any]:
    """Yields a type and all its component types."""
    h5t = h5py.h5t
    waiting = [kind]
    while waiting:
        one = waiting.pop()
        yield one
        which = one.get_class()
        if which in _OF_ANOTHER:
            waiting.append(one.get_super())
        elif which == h5t.COMPOUND:
            waiting += [one.get_member_type(number) for number in range(one.get_nmembers())]


def _properties(source: Any) -> Any:
    """Creation properties of a data set like this one; space is allocated when there are values."""
    options = source.get_create_plist()
    layout = options.get_layout()
    if layout == h5py.h5d.CHUNKED:
        options.set_alloc_time(h5py.h5d.ALLOC_TIME_INCR)
    elif layout == h5py.h5d.CONTIGUOUS:
        options.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
    filters = [options.get_filter(number) for number in range(options.get_nfilters())]
    if not all(h5py.h5z.filter_avail(code) for code, *_ in filters):
        # a data set cannot be made with a mandatory filter that is not available
        for code, *_ in filters:
            options.remove_filter(code)
        for code, flags, parameters, _ in filters:
            known = h5py.h5z.filter_avail(code)
            options.set_filter(code, flags if known else h5py.h5z.FLAG_OPTIONAL, parameters)
    return options


def _copy_chunks(source: Any, target: Any) -> None:
    places: list[tuple[int, ...]] = []
    source.chunk_iter(lambda chunk: places.append(chunk.chunk_offset))
    for place in places:
        mask, stored = source.read_direct_chunk(place)
        target.write_direct_chunk(place, stored, mask)


def _memory_types(source: Any) -> tuple[Any, np.dtype[Any]]:
    """The type in memory of the values of a data set or attribute, as `h5t.TypeID` and as array type: bytes that stay
    as they are, or h5py's objects for values in the heap of a file."""
    kind = source.get_type()
    if is_of_fixed_size(kind):
        return kind, np.dtype(f"V{kind.get_size()}")
    # without a type h5py would take that of the elements for an array type
    return h5py.h5t.py_create(source.dtype), source.dtype


def _copy_values(source: Any, target: Any) -> None:
    """Copies values in pieces."""
    for *spaces, values, kind in _parts_read(source):
        target.write(*spaces, values, kind)


def parts_of(source: Any) -> Iterator[Any]:
    """The values of a data set of fixed size, in pieces, as arrays of bytes."""
    for _, _, values, _ in _parts_read(source):
        yield values


def _parts_read(source: Any) -> Iterator[tuple[Any, Any, Any, Any]]:
    (kind, dtype), space = _memory_types(source), source.get_space()
    parts = stored_parts(source) if dtype.hasobject else pieces(space.get_simple_extent_dims(), dtype.itemsize)
    for part in parts:
        count = tuple(one.stop - one.start for one in part)
        memory = h5py.h5s.create_simple(count) if count else h5py.h5s.create(h5py.h5s.SCALAR)
        if count:
            space.select_hyperslab(tuple(one.start for one in part), count)
        # values that are not written may stay as they are here
        values = np.zeros(count, dtype)
        source.read(memory, space, values, kind)
        yield memory, space, values, kind


def stored_parts(source: Any) -> Iterator[tuple[slice, ...]]:
    """Yields the stored parts of a data set whose values are in the file's heap, each small enough to hold.

    Chunks that were never written are skipped, at no cost for their number.
    """
    options, shape = source.get_create_plist(), source.get_space().get_simple_extent_dims()
    boxes, most = [((0,) * len(shape), shape)], _PIECE // _ON_HEAP
    if options.get_layout() == h5py.h5d.CHUNKED:
        places: list[tuple[int, ...]] = []
        source.chunk_iter(lambda chunk: places.append(chunk.chunk_offset))
        chunk = options.get_chunk()
        boxes = _joined(sorted(set(places)), chunk, shape)
        # each chunk is decoded a few times at most
        most = max(most, math.prod(chunk) // 8)
    for start, extent in boxes:
        for part in pieces(extent, most=most):
            yield tuple(slice(at + one.start, at + one.stop) for at, one in zip(start, part, strict=True))


def _joined(
    places: list[tuple[int, ...]], chunk: tuple[int, ...], shape: tuple[int, ...]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Chunks, given by their first elements in ascending order, as (start, extent); chunks that follow each other in
    one dimension are joined."""
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for place in places:
        extent = tuple(min(one, end - at) for at, one, end in zip(place, chunk, shape, strict=True))
        if min(extent) <= 0:
            continue  # beyond the extent
        if len(shape) == 1 and found and found[-1][0][0] + found[-1][1][0] == place[0]:
            start, before = found.pop()
            found.append((start, (before[0] + extent[0],)))
        else:
            found.append((place, extent))
    return found


def pieces(
    shape: tuple[int, ...], value_bytes: int | None = None, most: int | None = None
) -> Iterator[tuple[slice, ...]]:
    """Parts of an array to hold at a time, of at most `most` values; by default as many as take some MB.

    Values without a given size are in the heap of the file.
    """
    if most is None:
        most = max(1, _PIECE // (_ON_HEAP if value_bytes is None else value_bytes))
    axis, inner = len(shape), 1
    while axis and inner * shape[axis - 1] <= most:
        axis -= 1
        inner *= shape[axis]
    whole = tuple(slice(0, n) for n in shape[axis:])
    if not axis:
        yield whole
        return
    rows = max(1, most // inner)
    for outer in np.ndindex(*shape[: axis - 1]):
        for first in range(0, shape[axis - 1], rows):
            last = min(first + rows, shape[axis - 1])
            yield (*(slice(i, i + 1) for i in outer), slice(first, last), *whole)

"""Descriptions of HDF5 files as JSON and arrays, and back: where their chunks are, which row each frame has, units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from kinema.formats.h5md import FieldDescription, H5mdDescription, StoredDataset
from kinema.formats.h5md.description import FORBIDDEN
from kinema.ml.catalogue.packing import Packer, Unpacker

_FIELDS = ("positions", "velocities", "forces", "cell")
# types of the arrays of a data set
_TYPES = {"addresses": "<u8", "sizes": "<u8", "masks": "<u4"}
# rows that a data set may claim besides those that its bytes can hold, as in `storage.hdf5.file.check_claim`
_FREE_ROWS, _ROWS_A_BYTE = 1 << 24, 64


def can_be_kept(description: H5mdDescription) -> bool:
    """Whether all fields are read by their bytes; a field that is read through h5py is described when it is opened."""
    found = (getattr(description, name) for name in _FIELDS)
    return all(field is None or field.reader is None for field in found)


def pack_description(
    packer: Packer, description: H5mdDescription, most: int, relative: Callable[[str], str]
) -> dict[str, Any]:
    """The description without its path. `most`: elements of an array that may be stored as a line."""
    packed = {one.name: getattr(description, one.name) for one in fields(description)}
    del packed["path"]
    packed["other_files"] = [relative(path) for path in description.other_files]
    for name in ("steps", "times"):
        values = packed[name]
        dtype = "<i8" if name == "steps" else "<f8"
        packed[name] = None if values is None else packer.array(np.asarray(values, dtype), most)
    for name in _FIELDS:
        packed[name] = None if packed[name] is None else _pack_field(packer, packed[name], most)
    return packed


def unpack_description(
    unpacker: Unpacker, packed: dict[str, Any], path: str, most: int, absolute: Callable[[str], str]
) -> H5mdDescription:
    """The inverse of `pack_description`.

    Raises ValueError, KeyError or TypeError for other content, or if it claims more frames than the `most` bytes of its
    file can hold.
    """
    given = dict(packed)
    n_frames = given["n_frames"]
    if type(n_frames) is not int or not 0 <= n_frames <= _FREE_ROWS + _ROWS_A_BYTE * most:
        raise ValueError(f"it claims {n_frames!r} frames of a file of {most} bytes")
    given["other_files"] = tuple(absolute(path) for path in given["other_files"])
    for name, dtype in (("steps", "<i8"), ("times", "<f8")):
        given[name] = None if given[name] is None else unpacker.array(given[name], dtype, most)
    for name in _FIELDS:
        given[name] = None if given[name] is None else _unpack_field(unpacker, given[name], most)
    if not all(type(one) is bool for one in given["periodic"]):
        raise ValueError(f"periodic edges are {given['periodic']!r}")
    a, b, c = given["periodic"]
    given["periodic"] = (a, b, c)
    for name in ("remarks", "warnings"):
        given[name] = tuple(map(str, given[name]))
    return H5mdDescription(path=path, **given)


def _pack_field(packer: Packer, field: FieldDescription, most: int) -> dict[str, Any]:
    return {
        "pieces": [[first, _pack_dataset(packer, stored, most)] for first, stored in field.pieces],
        "rows": None if field.rows is None else packer.array(np.asarray(field.rows, "<i8"), most),
        "fixed": field.fixed,
        "scale": float(field.scale),
        "unit": field.unit,
    }


def _unpack_field(unpacker: Unpacker, packed: dict[str, Any], most: int) -> FieldDescription:
    rows = None if packed["rows"] is None else unpacker.array(packed["rows"], "<i8", most)
    if rows is not None and len(rows) and int(rows.min()) < FORBIDDEN:
        raise ValueError(f"a row is {rows.min()}")
    pieces = tuple((int(first), _unpack_dataset(unpacker, stored, most)) for first, stored in packed["pieces"])
    return FieldDescription(
        pieces=pieces,
        rows=rows,
        fixed=bool(packed["fixed"]),
        scale=float(packed["scale"]),
        unit=packed["unit"],
        reader=None,
        reason="",
    )


def _pack_dataset(packer: Packer, stored: StoredDataset, most: int) -> dict[str, Any]:
    packed = {one.name: getattr(stored, one.name) for one in fields(stored)}
    for name, dtype in _TYPES.items():
        packed[name] = packer.array(np.asarray(packed[name], dtype), most)
    packed["shape"] = [int(n) for n in stored.shape]
    packed["chunks"] = None if stored.chunks is None else [int(n) for n in stored.chunks]
    packed["filters"] = [[int(number), [int(value) for value in values]] for number, values in stored.filters]
    packed["fill"] = stored.fill.hex()
    packed["inline"] = None if stored.inline is None else packer.array(np.frombuffer(stored.inline, "|u1"))
    return packed


def _unpack_dataset(unpacker: Unpacker, packed: dict[str, Any], most: int) -> StoredDataset:
    given = dict(packed)
    for name, dtype in _TYPES.items():
        given[name] = unpacker.array(given[name], dtype, most)
    for name in ("shape", "chunks"):
        given[name] = None if given[name] is None else tuple(_dimension(n) for n in given[name])
    given["filters"] = tuple(
        (int(number), tuple(int(value) for value in values)) for number, values in given["filters"]
    )
    given["fill"] = bytes.fromhex(given["fill"])
    given["inline"] = None if given["inline"] is None else unpacker.array(given["inline"], "|u1").tobytes()
    return StoredDataset(**given)


def _dimension(value: Any) -> int:
    # products are checked when the data set is read; sums of this many values do not wrap
    if type(value) is not int or not 0 <= value < 1 << 48:
        raise ValueError(f"a dimension is {value!r}")
    return value

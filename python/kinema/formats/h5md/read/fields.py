"""`FieldDescription` of a vector field or a cell from its element, with units and the join to the frames.

Rust reads its bytes; if it cannot, a reader reads the rows through h5py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, Error
from kinema.formats.h5md.description import FieldDescription
from kinema.formats.h5md.file import H5mdFile
from kinema.formats.h5md.read.elements import Element, match_rows
from kinema.formats.h5md.read.row_readers import CellRows, Floats, StoredRows
from kinema.formats.h5md.units import Dimension, scale_to_kinema
from kinema.storage.hdf5.chunks import NeedsLibrary, complete_rows, numeric_type
from kinema.storage.hdf5.file import check_claim
from kinema.storage.hdf5.virtual import Pieces, check_row_claim, check_sources, pieces_of

T = TypeVar("T")


def unless_wrong(
    opened: H5mdFile,
    name: str,
    make: Callable[[], T],
    then: str = "it is left out",
    errors: tuple[type[Error], ...] = (Error,),
) -> T | None:
    """The result of `make`; None, with a note, if it raises an error.

    For data beside the positions that may make no sense. The note has the error, and `then`, the consequence.
    """
    try:
        return make()
    except errors as error:
        what = str(error).removeprefix(f"{opened.path}: ")
        name = name.strip("/")
        opened.warn(f"{what}; {then}" if what.strip("/").startswith(name) else f"{name}: {what}; {then}")
        return None


class LocatedElement:
    """An element and the place of its bytes, cut to the rows that exist."""

    def __init__(self, element: Element, pieces: Pieces, reason: str) -> None:
        self.element = element
        self.pieces = pieces
        """Empty if the values come through h5py."""
        self.reason = reason

    def cut(self, n_rows: int) -> LocatedElement:
        """The same with its first rows only."""
        return LocatedElement(self.element.cut(n_rows), self.pieces, self.reason)


def locate(opened: H5mdFile, element: Element) -> LocatedElement:
    """Finds the bytes of an element. Rows whose bytes are not in the file (yet) do not count.

    Raises CorruptFileError if it does not hold numbers, FileNotFound for a missing source of a virtual data set,
    UnsupportedFormatError for external storage.
    """
    if numeric_type(element.value) is None:
        raise opened.corrupt(f"{element.value.name} holds no numbers but {element.value.dtype}")
    check_claim(opened, element.value)
    row_shape = element.value.shape[0 if element.fixed else 1 :]
    check_row_claim(opened, element.value, math.prod(row_shape) * element.value.dtype.itemsize)
    try:
        pieces, rows = pieces_of(opened, element.value)
    except NeedsLibrary as needed:
        check_sources(opened, element.value)
        return LocatedElement(element, (), str(needed))
    if element.fixed:
        return LocatedElement(element, pieces, "")
    for first, array in pieces:
        complete = complete_rows(opened, array)
        if complete < array.shape[0]:
            rows = first + complete
            break
    if rows < element.n_rows:
        opened.warn(
            f"{element.value.name} has {element.n_rows} rows, of which the file holds the first {rows}: "
            "the others were not written, or not yet"
        )
        element = element.cut(rows)
    return LocatedElement(element, pieces, "")


def stored_rows(opened: H5mdFile, element: Element) -> StoredRows:
    """A reader of an element's rows through h5py, in the file's own numbers."""
    chunks = element.value.chunks
    chunk_bytes = 0 if chunks is None else int(np.prod(chunks, dtype=np.int64)) * element.value.dtype.itemsize
    return StoredRows(opened.path, element.value.name, fixed=element.fixed, chunk_bytes=chunk_bytes)


def field_of(
    opened: H5mdFile, located: LocatedElement, axis: Element, scale: float, unit: str | None
) -> FieldDescription:
    """The description of a field whose frames are those of `axis`; through h5py if its bytes cannot be read."""
    element = located.element
    field = FieldDescription(
        pieces=located.pieces,
        rows=match_rows(opened, axis, element),
        fixed=element.fixed,
        scale=scale,
        unit=unit,
        reader=None,
        reason="",
    )
    if located.pieces:
        return field
    rows = stored_rows(opened, element)
    shape = element.value.shape[0 if element.fixed else 1 :]
    if shape in ((3,), (3, 3)) and element.name.endswith("edges"):
        return through_library(opened, field, element, CellRows(rows), located.reason)
    n_atoms = int(np.prod(shape, dtype=np.int64)) // 3
    return through_library(opened, field, element, Floats(rows, (n_atoms, 3)), located.reason)


def through_library(
    opened: H5mdFile, field: FieldDescription, element: Element, reader: Any, reason: str
) -> FieldDescription:
    """The field with a reader in place of its bytes; a warning says so."""
    opened.warn(f"{element.name.strip('/')} is read through h5py: {reason}")
    return replace(field, pieces=(), reader=reader, reason=reason)


def is_wide(*located: LocatedElement | None) -> bool:
    """Whether one of them is stored in a type that float32 cannot hold."""
    for one in located:
        if one is not None:
            dtype: np.dtype[Any] = one.element.value.dtype
            if dtype.itemsize > (4 if dtype.kind == "f" else 2):
                return True
    return False


def scale_of(
    opened: H5mdFile,
    name: str,
    stored: str | None,
    dimension: Dimension,
    default: str | None = None,
    reason: str = "which its program always writes",
) -> tuple[float, str] | None:
    """Factor to Kinema's unit, and the unit as the file or the user states it; None if neither does.

    The user's unit overrides the file's, with a warning if they differ. If neither states one, `default` is used, with
    a warning that has the `reason`.
    """
    given = (opened.options.units or {}).get(dimension)
    if given is not None:
        scale = scale_to_kinema(given, dimension)
        if stored and not _agrees(stored, dimension, scale):
            opened.warn(f"{name}: unit {stored!r} of the file is replaced by the given {given!r}")
        return scale, given
    if stored:
        try:
            return scale_to_kinema(stored, dimension), stored
        except ArgumentError as error:
            raise ArgumentError(
                f'{name}: {error}; give one, as in units={{"{dimension}": "{_EXAMPLES[dimension]}"}}',
                at=opened.path,
                format=opened.format,
            ) from None
    if default is not None:
        opened.warn(f"{name} has no unit: taken as {default}, {reason}")
        return scale_to_kinema(default, dimension), default
    return None


_EXAMPLES: dict[str, str] = {
    "length": "nm", "time": "ps", "velocity": "nm ps-1", "force": "kJ mol-1 nm-1", "mass": "u", "charge": "e",
}  # fmt: skip


def _agrees(stored: str, dimension: Dimension, scale: float) -> bool:
    try:
        return scale_to_kinema(stored, dimension) == scale
    except ArgumentError:
        return False


def rows_of_rows(opened: H5mdFile, axis: Element, other: Element) -> NDArray[np.int64] | None:
    """The row of `other` for each row of `axis`; an error for any missing row, whatever the option `absent` says.

    For data without which a row makes no sense: images, ids, and the cell that they refer to.
    """
    rows = match_rows(replace(opened, options=replace(opened.options, absent="error")), axis, other)
    if rows is not None and (rows < 0).any():
        row = int(np.flatnonzero(rows < 0)[0])
        raise opened.corrupt(f"{other.name} has no values for row {row} of {axis.name}")
    return rows

"""`FieldDescription` of a vector field or a cell from its element: bytes that Rust reads, or a reader where it cannot.

It knows units and joins, and nothing of where elements are found.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.errors import ArgumentError, UnsupportedFormatError

from .chunks import NeedsLibrary, complete_rows, filters_of, numeric_type
from .description import FieldDescription
from .elements import Element, join
from .opening import OpenFile, check_claim
from .rearranged import CellRows, Floats, StoredRows
from .units import Dimension, scale_to_kinema
from .virtual import Pieces, check_sources, pieces_of

__all__ = ["Placed", "field_of", "is_wide", "place", "scale_of", "stored_rows"]


class Placed:
    """An element together with the place of its bytes, cut to the rows that are there."""

    def __init__(self, element: Element, pieces: Pieces, reason: str) -> None:
        self.element = element
        self.pieces = pieces
        """Empty where the values come through h5py."""
        self.reason = reason

    def cut(self, n_rows: int) -> Placed:
        """The same with its first rows only."""
        return Placed(self.element.cut(n_rows), self.pieces, self.reason)


def place(opened: OpenFile, element: Element) -> Placed:
    """Finds the bytes of an element. Rows whose bytes are not in the file (yet) do not count.

    Raises CorruptFileError where it holds no numbers, FileNotFound for a missing source of a virtual data set,
    UnsupportedFormatError for external storage.
    """
    if numeric_type(element.value) is None:
        raise opened.corrupt(f"{element.value.name} holds no numbers but {element.value.dtype}")
    check_claim(opened, element.value)
    try:
        pieces, rows = pieces_of(opened, element.value)
    except NeedsLibrary as needed:
        check_sources(opened, element.value)
        _check_filters(opened, element)
        return Placed(element, (), str(needed))
    if element.fixed:
        return Placed(element, pieces, "")
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
    return Placed(element, pieces, "")


def _check_filters(opened: OpenFile, element: Element) -> None:
    """Raises UnsupportedFormatError where not even h5py can decode the values."""
    if element.value.is_virtual:
        return
    wanted = [number for number, _ in filters_of(element.value.id.get_create_plist())]
    if all(h5py.h5z.filter_avail(number) for number in wanted):
        return
    with contextlib.suppress(ImportError):
        import hdf5plugin  # noqa: F401, which registers its filters
    missing = [number for number in wanted if not h5py.h5z.filter_avail(number)]
    if missing:
        names = ", ".join(f"{number} ({_core.filter_name(number) or 'unknown'})" for number in missing)
        raise UnsupportedFormatError(
            f"{opened.path}: {element.value.name} is compressed with HDF5 filter {names}, which is not installed",
            path=opened.path,
            format="H5MD",
        )


def stored_rows(opened: OpenFile, element: Element) -> StoredRows:
    """A reader of an element's rows through h5py, in the file's own numbers."""
    chunks = element.value.chunks
    chunk_bytes = 0 if chunks is None else int(np.prod(chunks, dtype=np.int64)) * element.value.dtype.itemsize
    return StoredRows(opened.path, element.value.name, fixed=element.fixed, chunk_bytes=chunk_bytes)


def field_of(opened: OpenFile, placed: Placed, axis: Element, scale: float, unit: str | None) -> FieldDescription:
    """The description of a field whose frames are those of `axis`; through h5py where its bytes cannot be read."""
    element = placed.element
    field = FieldDescription(
        pieces=placed.pieces,
        rows=join(opened, axis, element),
        fixed=element.fixed,
        scale=scale,
        unit=unit,
        reader=None,
        reason="",
    )
    if placed.pieces:
        return field
    rows = stored_rows(opened, element)
    shape = element.value.shape[0 if element.fixed else 1 :]
    if shape in ((3,), (3, 3)) and element.name.endswith("edges"):
        return through_library(opened, field, element, CellRows(rows), placed.reason)
    n_atoms = int(np.prod(shape, dtype=np.int64)) // 3
    return through_library(opened, field, element, Floats(rows, (n_atoms, 3)), placed.reason)


def through_library(
    opened: OpenFile, field: FieldDescription, element: Element, reader: Any, reason: str
) -> FieldDescription:
    """The field with a reader in place of its bytes, said aloud."""
    opened.warn(f"{element.name.strip('/')} is read through h5py: {reason}")
    return replace(field, pieces=(), reader=reader, reason=reason)


def is_wide(*placed: Placed | None) -> bool:
    """Whether one of them is stored in more than float32 holds."""
    for one in placed:
        if one is not None:
            dtype: np.dtype[Any] = one.element.value.dtype
            if dtype.itemsize > (4 if dtype.kind == "f" else 2):
                return True
    return False


def scale_of(
    opened: OpenFile,
    name: str,
    stored: str | None,
    dimension: Dimension,
    default: str | None = None,
    reason: str = "which its program always writes",
) -> tuple[float, str] | None:
    """Factor to Kinema's unit, and the unit as the file or the user says it; None where neither does.

    The user's word counts more than the file's, with a warning where they differ. `default` is taken, with a
    warning that tells the `reason`, where neither says one.
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
                f'{opened.path}: {name}: {error}; give one, as in units={{"{dimension}": "{_EXAMPLES[dimension]}"}}',
                path=opened.path,
                format="H5MD",
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


def rows_of_rows(opened: OpenFile, axis: Element, other: Element) -> NDArray[np.int64] | None:
    """The row of `other` for each row of `axis`; an error for any that is missing, whatever the option `absent` says.

    For what is needed to make sense of a row: images, ids, the cell they are counted in.
    """
    rows = join(replace(opened, options=replace(opened.options, absent="error")), axis, other)
    if rows is not None and (rows < 0).any():
        row = int(np.flatnonzero(rows < 0)[0])
        raise opened.corrupt(f"{other.name} has no values for row {row} of {axis.name}")
    return rows

"""One value for each particle, from elements that may change with time, in the order of the trajectory's atoms.

An atom has one mass, charge and species: if they change, the first value is taken, with a warning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.formats.h5md.file import H5mdFile
from kinema.formats.h5md.read.elements import Element, as_rows, find_element
from kinema.formats.h5md.read.fields import locate, stored_rows
from kinema.formats.h5md.read.id_order import fill_of, occurring
from kinema.storage.hdf5.virtual import values_of

# data sets up to this size are compared row by row; for larger ones only the first and the last row
_COMPARED = 16 << 20


@dataclass(frozen=True)
class Columns:
    """The atom of each column of a particles group."""

    n_columns: int
    ids: NDArray[np.int64] | None
    """(n_atoms,) ids of the atoms; None if the file has none."""
    moving: Element | None
    """The `id` element if columns change their particles: atoms are then in the order of `ids`."""

    @property
    def n_atoms(self) -> int:
        """Number of atoms of the trajectory."""
        return self.n_columns if self.ids is None else len(self.ids)


def columns_of(opened: H5mdFile, group: Any, n_columns: int) -> Columns:
    """The atoms of a group with `n_columns` particles; agrees with `kinema.formats.h5md.read.id_order`."""
    element = find_element(opened, group, "id")
    if element is None or element.value.dtype.kind not in "iu" or element.value.shape[-1:] != (n_columns,):
        return Columns(n_columns, None, None)
    element = as_rows(element, None, (n_columns,))
    if element.fixed:
        return Columns(n_columns, values_of(opened, element.value).astype(np.int64), None)
    element = locate(opened, element).element
    if element.n_rows == 0:
        return Columns(n_columns, None, None)
    rows = stored_rows(opened, element)
    try:
        ids, moves = occurring(opened, element, rows, fill_of(element.value))
    finally:
        rows.close()
    if moves:
        return Columns(n_columns, ids, element)
    return Columns(n_columns, values_of(opened, element.value, 0).astype(np.int64), None)


def particle_values(opened: H5mdFile, group: Any, name: str, columns: Columns) -> tuple[NDArray[Any] | None, Any]:
    """One value for each atom, and the data set that they come from; (None, None) if the group lacks the element."""
    element = find_element(opened, group, name)
    if element is None or element.value.dtype.kind not in "iufSO":
        return None, None
    element = as_rows(element, None, (columns.n_columns,))
    if element.value.shape[0 if element.fixed else 1 :] != (columns.n_columns,):
        opened.warn(f"{element.name} has shape {element.value.shape}, not a value for each of the particles: left out")
        return None, None
    if columns.moving is not None:
        return _order_by_id(opened, element, columns.moving, columns)
    if element.fixed:
        return values_of(opened, element.value), element.value
    first = values_of(opened, element.value, 0)
    if _changes(element, first):
        opened.warn(f"{element.name} changes with time: its first row is taken")
    return first, element.value


def _changes(element: Element, first: NDArray[Any]) -> bool:
    size = element.value.dtype.itemsize * len(first) * element.n_rows
    if size > _COMPARED:
        return not np.array_equal(element.value[element.n_rows - 1], first)
    return not (element.value[: element.n_rows] == first).all()


def _order_by_id(
    opened: H5mdFile, element: Element, moving: Element, columns: Columns
) -> tuple[NDArray[Any] | None, Any]:
    """Values in the order of the ids: for each particle that of the first row in which it is present."""
    assert columns.ids is not None
    if element.fixed or element.value.dtype.kind not in "iuf":
        opened.warn(f"{element.name} does not follow the particles as {moving.name} does: left out")
        return None, None
    result = np.zeros(len(columns.ids), element.value.dtype.newbyteorder("="))
    known = np.zeros(len(columns.ids), bool)
    fill = fill_of(moving.value)
    for row in range(min(element.n_rows, moving.n_rows)):
        ids, values = moving.value[row], element.value[row]
        there = np.ones(len(ids), bool) if fill is None else ids != fill
        places = np.searchsorted(columns.ids, ids[there])
        new = ~known[places]
        result[places[new]] = values[there][new]
        known[places] = True
        if known.all():
            return result, element.value
    opened.warn(f"{element.name} has no value for some particles: left out")
    return None, None


def table_of(group: Any, name: str) -> Any:
    """A data set of a group, or None."""
    node = group.get(name)
    return node if isinstance(node, h5py.Dataset) else None

"""Order of particles by `id`, and which of them are present in a frame.

Choices: if `id` changes with time, the atoms of the trajectory are all particles that ever occur, in ascending order of
their ids, so that a column is one particle in every frame. The first and the last row are compared; if they differ, or
lack particles, all rows are read at opening to find which occur. A particle that is absent (fill value in `id`) has NaN
positions, or is an error (`absent_particles="error"`). An `id` that never changes names the columns but does not move
them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.formats.h5md.description import FieldDescription
from kinema.formats.h5md.file import H5mdFile
from kinema.formats.h5md.read.elements import Element, as_rows, find_element
from kinema.formats.h5md.read.fields import (
    LocatedElement,
    locate,
    rows_of_rows,
    stored_rows,
    through_library,
    unless_wrong,
)
from kinema.formats.h5md.read.row_readers import Floats, IdOrder, StoredRows

# bytes of ids that are read at once; up to this size all rows are compared, to see whether a column changes its
# particle
_READ_AT_ONCE = 64 << 20


def ordered_by_id(
    opened: H5mdFile,
    group: Any,
    located: dict[str, LocatedElement],
    fields: dict[str, FieldDescription | None],
    n_atoms: int,
) -> int:
    """Puts the particles of all fields in the order of their ids if that may change; returns the number of atoms.

    Ids that are not whole numbers or do not fit the fields are left out, with a note: atoms are then the columns.
    """
    made = dict(fields)

    def ordered() -> int:
        return _ordered(opened, group, located, made, n_atoms)

    count = unless_wrong(opened, f"{group.name}/id", ordered, "atoms are the columns, whichever particles these are")
    if count is None:
        return n_atoms
    fields |= made
    return count


def _ordered(
    opened: H5mdFile,
    group: Any,
    located: dict[str, LocatedElement],
    fields: dict[str, FieldDescription | None],
    n_atoms: int,
) -> int:
    element = find_element(opened, group, "id")
    if element is None:
        return n_atoms
    moving = [one.element.n_rows for one in located.values() if not one.element.fixed]
    element = as_rows(element, moving[0] if moving else 1, (n_atoms,))
    if element.fixed:
        return n_atoms
    if element.value.dtype.kind not in "iu" or element.value.shape[1:] != (n_atoms,):
        raise opened.corrupt(
            f"{element.name} has {element.value.dtype} {element.value.shape}, expected frames x {n_atoms} ids"
        )
    element = locate(opened, element).element
    if element.n_rows == 0:
        return n_atoms
    rows, fill = stored_rows(opened, element), fill_of(element.value)
    try:
        ids, moves = occurring(opened, element, rows, fill)
    finally:
        rows.close()
    if not moves:
        return n_atoms
    for name, field in fields.items():
        if field is None:
            continue
        owner = located[name].element
        if owner.fixed:
            raise opened.corrupt(f"{owner.name} is time-independent, but {element.name} says that particles change")
        values = field.reader or Floats(stored_rows(opened, owner), (n_atoms, 3))
        reader = IdOrder(
            opened.path, element.name, values, rows, rows_of_rows(opened, owner, element), ids, fill,
            opened.options.absent_particles,
        )  # fmt: skip
        reason = "particles are put in the order of their ids"
        fields[name] = through_library(
            opened, field, owner, reader, f"{field.reason}; {reason}" if field.reason else reason
        )
    opened.remark(
        f"{len(ids)} particles occur in {element.name.strip('/')}; atom i is the one with the i-th smallest id"
    )
    return len(ids)


def fill_of(dataset: Any) -> int | None:
    """The id that marks absent particles: the fill value, if the data set's creator chose one."""
    import h5py

    plist = dataset.id.get_create_plist()
    if plist.fill_value_defined() != h5py.h5d.FILL_VALUE_USER_DEFINED:
        return None
    return int(dataset.fillvalue)


def occurring(opened: H5mdFile, element: Element, rows: StoredRows, fill: int | None) -> tuple[NDArray[np.int64], bool]:
    """All ids that occur, ascending, and whether a column ever changes to another particle, or to none."""
    row_bytes = max(1, element.value.shape[1] * element.value.dtype.itemsize)
    ends = _present(rows(np.array([0, element.n_rows - 1])), fill)
    small = row_bytes * element.n_rows <= _READ_AT_ONCE
    complete = all(len(one) == element.value.shape[1] for one in ends)
    if complete and not small and np.array_equal(np.sort(ends[0]), np.sort(ends[1])):
        return np.sort(ends[0]), True
    if not small:
        opened.warn(
            f"all {element.n_rows} rows of {element.name.strip('/')} were read at opening, to find all particles"
        )
    ids, constant = np.unique(np.concatenate(ends)), True
    step = max(1, _READ_AT_ONCE // row_bytes)
    for start in range(0, element.n_rows, step):
        block = rows(np.arange(start, min(start + step, element.n_rows)))
        constant &= bool((block == ends[0]).all()) if complete else False
        present = np.unique(block)
        ids = np.union1d(ids, present if fill is None else present[present != fill])
    return ids.astype(np.int64), not constant


def _present(block: NDArray[Any], fill: int | None) -> list[NDArray[Any]]:
    return [row if fill is None else row[row != fill] for row in block]

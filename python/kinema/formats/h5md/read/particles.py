"""Description of one particles group of an H5MD file: its vector fields, its cell, its frames.

Errors in other data do not keep the positions, or the field that defines the frames, from being read: velocities,
forces, times and ids that make no sense are left out, and a cell that makes none counts as unknown; a note says why.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from kinema.base.errors import ArgumentError
from kinema.formats.h5md.description import ABSENT, FieldDescription, H5mdDescription
from kinema.formats.h5md.file import H5mdFile
from kinema.formats.h5md.read.boxes import Box, find_box, not_three
from kinema.formats.h5md.read.elements import Element, find_element
from kinema.formats.h5md.read.fields import LocatedElement, field_of, is_wide, locate, scale_of, unless_wrong
from kinema.formats.h5md.read.groups import choose_group, creator_of, element_name, version_of
from kinema.formats.h5md.read.id_order import ordered_by_id
from kinema.formats.h5md.read.unwrapped import unwrapped
from kinema.formats.h5md.schema import DIMENSION, ELEMENTS, MODULES
from kinema.formats.h5md.units import Dimension

# GROMACS' units, by definition; its development versions of 2025 did not state them
_GROMACS_UNITS = {"length": "nm", "time": "ps", "velocity": "nm ps-1", "force": "kJ mol-1 nm-1"}
_DIMENSIONS: dict[str, Dimension] = {"positions": "length", "velocities": "velocity", "forces": "force"}


def describe_group(opened: H5mdFile, root: Any) -> H5mdDescription:
    """The description of the particles group that the options choose.

    Raises ArgumentError for an impossible choice or unknown units, CorruptFileError, UnsupportedFormatError.
    """
    group = choose_group(opened, root)
    located = vectors_of(opened, group)
    axis_name = _axis_name(opened, group, located)
    n_atoms = _n_atoms(opened, group, located, axis_name)
    box, cell = _box_and_cell(opened, group, located[axis_name].element)
    axis = _frames(opened, located[axis_name], cell)
    units = _Units(opened, root)
    fields = {name: _field(opened, units, one, name, axis) for name, one in located.items()}
    if opened.options.unwrap:
        fields["positions"] = unwrapped(opened, group, located, fields, cell)
    n_atoms = ordered_by_id(opened, group, located, fields, n_atoms)
    length_unit = units.length_unit(located.get("positions"))
    time = unless_wrong(opened, f"{axis.name}/time", lambda: units.time(axis))
    cell_field = None if cell is None else _cell_field(opened, cell, axis, length_unit)
    where = group.name.strip("/")
    written = f", written by {creator_of(root)}" if creator_of(root) else ""
    return H5mdDescription(
        path=opened.path,
        other_files=tuple(opened.other_files),
        group=where,
        n_atoms=n_atoms,
        n_frames=axis.n_rows,
        steps=axis.steps,
        times=None if time is None else axis.times,
        time_scale=1.0 if time is None else time,
        positions=fields.get("positions"),
        velocities=fields.get("velocities"),
        forces=fields.get("forces"),
        cell=_not_known(axis) if box is None or (cell is not None and cell_field is None) else cell_field,
        wide=is_wide(*located.values()),
        periodic=box.periodic if box is not None and cell is not None else (True, True, True),
        variant=f"H5MD {version_of(root)}, group {where.rsplit('/', 1)[-1]}{written}",
        remarks=tuple(opened.remarks),
        warnings=tuple(opened.warnings),
    )


def vectors_of(opened: H5mdFile, group: Any) -> dict[str, LocatedElement]:
    """All vector fields that have values, with the places of their bytes.

    Fields beside the positions that make no sense are left out, with a note.
    """
    vectors = {}
    for name, stored in ELEMENTS.items():
        member = element_name(group, stored) or stored
        needed = name == opened.options.axis or "positions" not in vectors
        find = partial(_vector, opened, group, member)
        one = find() if needed else unless_wrong(opened, f"{group.name}/{member}", find)
        if one is not None:
            vectors[name] = one
    return vectors


def _vector(opened: H5mdFile, group: Any, member: str) -> LocatedElement | None:
    element = find_element(opened, group, member)
    if element is None:
        return None
    shape = element.value.shape[0 if element.fixed else 1 :]
    if len(shape) != 2:
        raise opened.corrupt(f"{element.name} has shape {element.value.shape}, expected frames x atoms x 3")
    one = locate(opened, element)
    return one if one.element.n_rows > 0 else None


def _field(
    opened: H5mdFile, units: _Units, located: LocatedElement, name: str, axis: Element
) -> FieldDescription | None:
    """The description of a field; None, with a note, for a field that cannot be joined to the frames."""
    make = partial(units.field, located, name, axis)
    if name == "positions" or located.element.name == axis.name:
        return make()
    return unless_wrong(opened, located.element.name, make)


def _box_and_cell(opened: H5mdFile, group: Any, axis: Element) -> tuple[Box | None, LocatedElement | None]:
    """The box, None if it makes no sense, and the places of its edges, None without a cell."""
    if axis.value.shape[-1] != DIMENSION:
        raise not_three(opened, group, axis.value.shape[-1])

    def found() -> tuple[Box, LocatedElement | None]:
        box = find_box(opened, group, None if axis.fixed else axis.n_rows)
        cell = None if box.edges is None else locate(opened, box.edges)
        return box, None if cell is None or cell.element.n_rows == 0 else cell

    return unless_wrong(opened, f"{group.name}/box", found, "the cell is not known") or (None, None)


def _axis_name(opened: H5mdFile, group: Any, located: dict[str, LocatedElement]) -> str:
    """The quantity whose steps define the frames."""
    wanted = opened.options.axis
    if wanted is not None:
        if wanted not in located:
            raise ArgumentError(
                f"{group.name.strip('/')} has no {wanted} for axis=, only {', '.join(located) or 'nothing'}",
                at=opened.path,
                format="H5MD",
            )
        return wanted
    moving = [name for name, one in located.items() if not one.element.fixed]
    for name in (*moving, *located):
        return name
    raise ArgumentError(
        f"{group.name.strip('/')} holds no positions, velocities or forces", at=opened.path, format="H5MD"
    )


def _n_atoms(opened: H5mdFile, group: Any, located: dict[str, LocatedElement], axis_name: str) -> int:
    """Number of atoms of the field that defines the frames, and of the positions; others are left out, with a note."""
    counts = {name: int(one.element.value.shape[-2]) for name, one in located.items()}
    n_atoms = counts[axis_name]
    if counts.get("positions", n_atoms) != n_atoms:
        listed = ", ".join(f"{located[name].element.name} {count}" for name, count in counts.items())
        raise opened.corrupt(f"{group.name} has different numbers of particles: {listed}")
    for name, count in counts.items():
        if count != n_atoms:
            other = located.pop(name).element.name
            opened.warn(
                f"{other} has {count} particles, and {located[axis_name].element.name} {n_atoms}: it is left out"
            )
    return n_atoms


def _frames(opened: H5mdFile, located: LocatedElement, cell: LocatedElement | None) -> Element:
    """The element that defines the frames, without the last ones that a box of the same steps lacks."""
    axis = located.element
    if cell is None or cell.element.fixed or not axis.clock or cell.element.clock != axis.clock:
        return axis
    if 0 < cell.element.n_rows < axis.n_rows:
        opened.remark(
            f"{cell.element.name} has {cell.element.n_rows} rows for {axis.n_rows} of {axis.name}, whose steps it "
            "shares: the frames without a box are left out"
        )
        return axis.cut(cell.element.n_rows)
    return axis


def _cell_field(
    opened: H5mdFile, cell: LocatedElement, axis: Element, length_unit: str | None
) -> FieldDescription | None:
    """The cell, in the unit of its edges, or else of the positions.

    None, with a note, if it cannot be joined to the frames or its unit is unknown.
    """

    def made() -> FieldDescription:
        known = scale_of(opened, cell.element.name, cell.element.unit, "length", default=None) or (
            None if length_unit is None else scale_of(opened, cell.element.name, length_unit, "length")
        )
        if known is None:
            raise _no_unit(opened, cell.element.name, "length")
        return field_of(opened, cell, axis, *known)

    return unless_wrong(opened, cell.element.name, made, "the cell is not known")


def _not_known(axis: Element) -> FieldDescription:
    """A cell that no frame has: using it is an error."""
    rows = np.full(axis.n_rows, ABSENT, np.int64)
    return FieldDescription(pieces=(), rows=rows, fixed=False, scale=1.0, unit=None, reader=None, reason="")


class _Units:
    """Factors of the fields of a group: the file's units, the user's, or those that its program always writes."""

    def __init__(self, opened: H5mdFile, root: Any) -> None:
        self.opened = opened
        is_gromacs = creator_of(root).lower().startswith("gromacs")
        modules = root.get(MODULES)
        if modules is not None and any(name.startswith("gromacs") for name in modules):
            is_gromacs = True
        self.default = _GROMACS_UNITS if is_gromacs else {}

    def field(self, located: LocatedElement, name: str, axis: Element) -> FieldDescription | None:
        """The field; None, with a warning, for velocities and forces whose unit is unknown."""
        dimension = _DIMENSIONS[name]
        element = located.element
        default, reason = self._default(dimension)
        known = scale_of(self.opened, element.name, element.unit, dimension, default, reason)
        if known is not None:
            return field_of(self.opened, located, axis, *known)
        if name == "positions" or located.element.name == axis.name:
            raise _no_unit(self.opened, element.name, dimension)
        self.opened.warn(
            f"{element.name.strip('/')} has no unit and is left out; give one, as in "
            f'units={{"{dimension}": "{_GROMACS_UNITS[dimension]}"}}'
        )
        return None

    def length_unit(self, positions: LocatedElement | None) -> str | None:
        """The unit for lengths without one."""
        stored = None if positions is None else positions.element.unit
        return stored or (self.opened.options.units or {}).get("length") or self.default.get("length")

    def time(self, axis: Element) -> float | None:
        """Factor of the times to ps; None if there are no times, or their unit is unknown."""
        if axis.times is None:
            return None
        known = scale_of(self.opened, f"{axis.name}/time", axis.time_unit, "time", self.default.get("time"))
        if known is not None:
            return known[0]
        self.opened.warn(
            f'{axis.name.strip("/")}/time has no unit and is left out; give one, as in units={{"time": "ps"}}'
        )
        return None

    def _default(self, dimension: Dimension) -> tuple[str | None, str]:
        given = self.opened.options.units or {}
        if dimension == "velocity" and "length" in given and "time" in given:
            return f"({given['length']})/({given['time']})", "from the given units of length and time"
        return self.default.get(dimension), "which its program always writes"


def _no_unit(opened: H5mdFile, name: str, dimension: str) -> ArgumentError:
    more = ', "time": "ps"' if dimension == "length" else ""
    return ArgumentError(
        f'{name.strip("/")} has no unit; give one, as in units={{"{dimension}": "{_GROMACS_UNITS[dimension]}"{more}}}',
        at=opened.path,
        format="H5MD",
    )

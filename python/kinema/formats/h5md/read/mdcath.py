"""mdCATH: HDF5 files of protein domains with a group for each temperature and replica, forces among them.

Source: the data set's publication (mdCATH, Sci. Data 2024) and its files: `/{domain}` with `z` (atomic numbers) and
attribute `numProteinAtoms`; `/{domain}/{temperature}/{replica}` with `coords` and `forces`, (frames, atoms, 3), and
values a frame.
"""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

from kinema.base.errors import ArgumentError
from kinema.formats.h5md.description import FieldDescription, H5mdDescription
from kinema.formats.h5md.file import H5mdFile
from kinema.formats.h5md.read.elements import Element
from kinema.formats.h5md.read.fields import field_of, locate, scale_of
from kinema.formats.h5md.read.other_layouts import computed_cell, description_of, unit_of
from kinema.formats.h5md.units import scale_to_kinema
from kinema.storage.hdf5.chunks import numeric_type

_LISTED = 12
# units of the publication; files state them as well
_UNITS = {"coords": "angstrom", "forces": "kcal mol-1 angstrom-1"}
_SPELLINGS = {
    "kcal/mol/angstrom": "kcal mol-1 angstrom-1",
    "kcal/(mol*angstrom)": "kcal mol-1 angstrom-1",
    "kcal/mol/a": "kcal mol-1 angstrom-1",
}


def is_mdcath(file: Any) -> bool:
    """Whether a file has the structure of mdCATH."""
    return bool(domains(file))


def domains(file: Any) -> list[str]:
    """Names of the domains in a file; usually one."""
    groups = ((name, file.get(name)) for name in file)
    return [
        name
        for name, group in groups
        if isinstance(group, h5py.Group)
        and "numProteinAtoms" in group.attrs
        and isinstance(group.get("z"), h5py.Dataset)
    ]


def replicas(group: Any) -> list[tuple[str, str]]:
    """(Temperature, replica) of all trajectories of a domain, in the order of their numbers."""
    found = []
    for temperature, of_temperature in group.items():
        if isinstance(of_temperature, h5py.Group):
            for replica, node in of_temperature.items():
                if isinstance(node, h5py.Group) and isinstance(node.get("coords"), h5py.Dataset):
                    found.append((temperature, replica))

    def numbered(names: tuple[str, str]) -> list[tuple[int, str]]:
        return [(int(name) if name.isdigit() else -1, name) for name in names]

    return sorted(found, key=numbered)


def trajectory_group(opened: H5mdFile) -> Any:
    """The group that `particles=` names, "domain/temperature/replica" or without the domain, or the only one.

    Raises ArgumentError, listing the existing groups.
    """
    file = opened.file
    named = (opened.options.particles or "").strip("/")
    # as `domains` and `replicas` find it, but without visiting all of them
    whole = named.count("/") == 2 and isinstance(file.get(f"{named}/coords"), h5py.Dataset)
    if whole and named.partition("/")[0] in domains(file):
        return file[named]
    names = {
        f"{domain}/{temperature}/{replica}": file[domain][temperature][replica]
        for domain in domains(file)
        for temperature, replica in replicas(file[domain])
    }
    wanted = opened.options.particles
    if wanted is None and len(names) == 1:
        return next(iter(names.values()))
    short = "" if wanted is None else wanted.strip("/")
    fitting = [name for name in names if name == short or name.partition("/")[2] == short]
    if wanted is not None and len(fitting) == 1:
        return names[fitting[0]]
    listed = ", ".join(list(names)[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
    what = "there are several trajectories" if wanted is None else f"there is no trajectory {wanted!r}"
    raise ArgumentError(
        f"{what} in this mdCATH file ({listed or 'none'}); choose one with particles=", at=opened.path, format="H5MD"
    )


def describe_mdcath(opened: H5mdFile) -> H5mdDescription:
    """One trajectory of the file. Its frames have no times of their own: state `dt=` of `kinema.open`."""
    group = trajectory_group(opened)
    located = {}
    for field, name in (("positions", "coords"), ("forces", "forces")):
        node = group.get(name)
        if not isinstance(node, h5py.Dataset):
            continue
        if node.ndim != 3 or node.shape[2] != 3 or 0 in node.shape[1:] or numeric_type(node) is None:
            raise opened.corrupt(f"{node.name} has {node.dtype} {node.shape}, expected numbers of frames x atoms x 3")
        unit = _spelled(unit_of(node) or _UNITS[name])
        element = Element(node.name, node, False, int(node.shape[0]), None, None, unit, None, ("row",))
        located[field] = locate(opened, element)
    shapes = {one.element.value.shape for one in located.values()}
    if len(shapes) > 1:
        raise opened.corrupt(f"{group.name}: coords and forces have different shapes, {sorted(shapes)}")
    n_rows = min(one.element.n_rows for one in located.values())
    axis = located["positions"].element.cut(n_rows)
    fields: dict[str, FieldDescription | None] = {}
    for field, one in located.items():
        dimension = "length" if field == "positions" else "force"
        known = scale_of(opened, one.element.name, one.element.unit, dimension)  # type: ignore[arg-type]
        assert known is not None
        fields[field] = field_of(opened, one, axis, *known)
    fields["cell"] = _cell(opened, group, n_rows)
    name = group.name.strip("/")
    n_atoms = int(axis.value.shape[1])
    return description_of(opened, name, n_atoms, axis, fields, f"mdCATH, trajectory {name}", *located.values())


def _cell(opened: H5mdFile, group: Any, n_rows: int) -> FieldDescription | None:
    """The box, of all frames or of each; None, with a remark, if there is none, or its unit is not stated."""
    box = group.get("box")
    if not isinstance(box, h5py.Dataset) or box.shape not in ((3, 3), (n_rows, 3, 3)) or numeric_type(box) is None:
        return None
    unit = unit_of(box)
    if unit is None:
        opened.warn(f"{box.name} has no unit: frames have no cell")
        return None
    scaled = np.asarray(box[()], np.float64) * scale_to_kinema(_spelled(unit), "length")
    return computed_cell(scaled)


def _spelled(unit: str) -> str:
    """The unit as Kinema's parser takes it."""
    return _SPELLINGS.get(unit.lower().replace(" ", ""), unit)

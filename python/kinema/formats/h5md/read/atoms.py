"""`Atoms` of an HDF5 trajectory: names, masses, charges, residues and bonds that the file itself holds.

Nothing is guessed. Sources, in order of precedence: GROMACS' topology module, whose molecule blocks are expanded;
MDTraj's JSON; DL_POLY's variables in NetCDF-4; elements of the particles group (`mass`, `charge`, `species`, `id`, and
names as `kinema.formats.h5md.schema` lists them); the `connectivity` group.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.tracing.recording import span
from kinema.formats.h5md.description import H5mdOptions
from kinema.formats.h5md.file import H5mdFile, opened
from kinema.formats.h5md.read.groups import choose_group, creator_of, element_name, find_root
from kinema.formats.h5md.read.mdcath import is_mdcath, trajectory_group
from kinema.formats.h5md.read.molecules import from_mdtraj, from_module, symbols, text_column
from kinema.formats.h5md.read.netcdf4.atoms import atoms_of_variables, has_variables_of_atoms
from kinema.formats.h5md.read.other_layouts import is_mdtraj
from kinema.formats.h5md.read.particle_values import Columns, columns_of, particle_values
from kinema.formats.h5md.schema import (
    CONNECTIVITY,
    ELEMENTS,
    GROMACS_TOPOLOGY,
    GUESSED,
    NAMES,
    NUMBERS,
    PER_PARTICLE,
    SYMBOLS,
)
from kinema.formats.h5md.units import scale_to_kinema
from kinema.model.atom_table import TUPLES, Atoms
from kinema.storage.hdf5.file import is_link_broken
from kinema.storage.hdf5.text import as_text, attribute, text_array, text_attribute
from kinema.storage.hdf5.virtual import values_of

# programs whose `species` are atomic numbers; LAMMPS' are its atom types
_SPECIES_ARE_ELEMENTS = ("gromacs", "znh5md", "kinema")
# most tuples in a list; elastic networks of beads have some ten an atom
_FREE_TUPLES, _TUPLES_AN_ATOM = 1 << 20, 256


@dataclass(frozen=True)
class H5mdAtoms:
    """The table of a file's atoms, read when first needed; picklable."""

    path: str
    options: H5mdOptions

    def __reduce__(self) -> tuple[Any, ...]:
        # another process may have another working folder
        return H5mdAtoms, (os.path.abspath(self.path), self.options)

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path

    def read_atoms(self) -> Atoms:
        """The table; raises ArgumentError if the file has no data on its atoms."""
        atoms = read_atoms(self.path, self.options)
        if atoms is None:
            raise ArgumentError(
                f"{self.path} says nothing of its atoms; give a topology with topology=", path=self.path, format="H5MD"
            )
        return atoms


def read_atoms(path: str, options: H5mdOptions) -> Atoms | None:
    """The table of the atoms of the group that the options choose; None if the file has no data on them.

    Raises as `kinema.formats.h5md.describe`.
    """
    with span("structure", "reader", path), opened(path, options) as source:
        columns = _read(source)
        if columns is None:
            return None
        notes = [f"{path}: {text}" for text in source.warnings]
        return Atoms(columns.pop("n_atoms"), name=path, notes=notes, **columns)


def has_atoms(path: str, options: H5mdOptions) -> bool:
    """Whether `read_atoms` may find something. Reads no values."""
    with span("structure", "reader", path), opened(path, options) as source:
        if options.dataset is not None:
            return False
        root = find_root(source)
        if root is None and is_mdcath(source.file):
            return True
        if root is None:
            by_mdtraj = is_mdtraj(source.file) and "topology" in source.file
            return by_mdtraj or has_variables_of_atoms(source.file)
        group = choose_group(source, root)
        if GROMACS_TOPOLOGY in root or any(
            name in group for name in (*PER_PARTICLE, *NAMES.values(), *NUMBERS.values())
        ):
            return True
        return any(True for _ in _tuples_of(source, root, group))


def _read(source: H5mdFile) -> dict[str, Any] | None:
    """Arguments of `Atoms`; None if nothing is known."""
    if source.options.dataset is not None:
        return None
    root = find_root(source)
    if root is None and is_mdcath(source.file):
        return _domain_atoms(source)
    if root is None:
        return from_mdtraj(source) if is_mdtraj(source.file) else atoms_of_variables(source)
    group = choose_group(source, root)
    columns = columns_of(source, group, _n_columns(source, group))
    known = _group_atoms(source, root, group, columns)
    module = root.get(GROMACS_TOPOLOGY)
    if isinstance(module, h5py.Group):
        known |= from_module(source, module, columns.n_atoms) or {}
    guessed: set[str] = known.pop("guessed", set())
    is_gromacs = creator_of(root).lower().startswith("gromacs")
    known |= _connectivity(source, root, group, columns, is_gromacs, guessed)
    return {"n_atoms": columns.n_atoms, "guessed": guessed} | known if known else None


def _domain_atoms(source: H5mdFile) -> dict[str, Any]:
    """Arguments from mdCATH: atomic numbers, and residue names if the file has one for each atom."""
    group = trajectory_group(source)
    domain, n_atoms = group.parent.parent, int(group["coords"].shape[1])
    if domain["z"].shape != (n_atoms,):
        raise source.corrupt(f"{domain.name}/z has {domain['z'].shape} values, expected {n_atoms} as coords has atoms")
    known: dict[str, Any] = {"n_atoms": n_atoms, "elements": symbols(values_of(source, domain["z"]))}
    for column, name in (("resnames", "resname"), ("chainIDs", "chain")):
        node = domain.get(name)
        if isinstance(node, h5py.Dataset) and node.shape == (n_atoms,):
            known[column] = text_array(source, node.name, [as_text(item) or "" for item in values_of(source, node)])
    resids = domain.get("resid")
    if isinstance(resids, h5py.Dataset) and resids.shape == (n_atoms,) and resids.dtype.kind in "iu":
        known["resids"] = values_of(source, resids).astype(np.int64)
    return known


def _n_columns(source: H5mdFile, group: Any) -> int:
    for stored in ELEMENTS.values():
        member = element_name(group, stored)
        node = None if member is None else group[member]
        value = node.get("value") if isinstance(node, h5py.Group) else node
        if isinstance(value, h5py.Dataset) and value.ndim >= 2:
            return int(value.shape[-2])
    raise source.corrupt(f"{group.name} has no particles")


def _group_atoms(source: H5mdFile, root: Any, group: Any, columns: Columns) -> dict[str, Any]:
    """Arguments from the particles group itself."""
    known: dict[str, Any] = {}
    guessed = set()
    of_numbers = (("masses", "mass", "mass"), ("charges", "charge", "charge"), ("radii", "radius", "length"))
    for column, name, dimension in of_numbers:
        values, node = particle_values(source, group, name, columns)
        if values is not None and node is not None and values.dtype.kind in "iuf":
            known[column] = values.astype(np.float64) * _scale(source, node, dimension)
            guessed |= {column} if GUESSED in node.attrs else set()
    for column, name in NAMES.items():
        values = text_column(source, group, name, columns)
        if values is not None:
            known[column] = values
            guessed |= {column} if GUESSED in group[name].attrs else set()
    for column, name in NUMBERS.items():
        values, node = particle_values(source, group, name, columns)
        if values is not None and values.dtype.kind in "iu":
            known[column] = values.astype(np.int64)
            guessed |= {column} if GUESSED in node.attrs else set()
    values, node = particle_values(source, group, "species", columns)
    if values is not None and node is not None:
        are_elements = creator_of(root).lower().startswith(_SPECIES_ARE_ELEMENTS)
        species = _species(values, node, are_elements, has_types="types" in known)
        guessed |= species.keys() - known.keys() if GUESSED in node.attrs else set()
        known = species | known
    if columns.ids is not None:
        known["ids"] = columns.ids
        guessed |= {"ids"} if GUESSED in group["id"].attrs else set()
    return known | ({"guessed": guessed} if guessed else {})


def _scale(source: H5mdFile, node: Any, dimension: Any) -> float:
    unit = text_attribute(node, "unit")
    if unit is None:
        return 1.0
    try:
        return scale_to_kinema(unit, dimension)
    except ArgumentError as error:
        source.warn(f"{node.name}: {error}; its values are taken as they are")
        return 1.0


def _species(values: NDArray[Any], node: Any, are_elements: bool, has_types: bool) -> dict[str, Any]:
    """Types; elements if species are known to be atomic numbers or are named after elements.

    An enumeration of symbols with their atomic numbers gives elements. One with other numbers gives types; it gives
    elements too, unless the types are stored separately (`has_types`): species are then numbers of these.
    """
    names = h5py.check_enum_dtype(node.dtype)
    if names is not None:
        known = {int(value): str(name) for name, value in names.items()}
        types = np.array([known.get(int(value), str(int(value))) for value in values.tolist()], dtype=np.str_)
        if all(1 <= value <= len(SYMBOLS) and SYMBOLS[value - 1] == name for value, name in known.items()):
            return {"elements": types}
        found = {"types": types}
        if not has_types and all(name.capitalize() in SYMBOLS for name in known.values()):
            found["elements"] = np.array([name.capitalize() for name in types.tolist()], dtype=np.str_)
        return found
    if values.dtype.kind not in "iuf":
        return {}
    if are_elements and not has_types:
        return {"elements": symbols(values)}
    return {"types": np.array([f"{value:g}" for value in values.tolist()], dtype=np.str_)}


def _connectivity(
    source: H5mdFile, root: Any, group: Any, columns: Columns, is_gromacs: bool, guessed: set[str]
) -> dict[str, NDArray[np.int64]]:
    """All tuples of the group's particles, as atom indices, by the column of `Atoms` for their size.

    Columns whose tuples were guessed are added to `guessed`.
    """
    found: dict[str, list[NDArray[np.int64]]] = {}
    for name, node in _tuples_of(source, root, group):
        timed = isinstance(node, h5py.Group)
        value = node["value"] if timed else node
        column = _column_of(name, value.shape[-1])
        if column is None:
            continue
        if timed:
            source.warn(f"{node.name} changes with time: its first row is taken")
        tuples = tuples_in(source, value, columns.n_atoms, 0 if timed else None).astype(np.int64)
        found.setdefault(column, []).append(_as_indices(source, value, tuples, columns, is_gromacs))
        guessed |= {column} if GUESSED in node.attrs else set()
    return {column: np.concatenate(parts) for column, parts in found.items()}


def tuples_in(source: H5mdFile, value: Any, n_atoms: int, row: int | None = None) -> NDArray[Any]:
    """The tuples of a list of `connectivity`, all or those of one row.

    Raises CorruptFileError for more tuples than atoms can have: a few compressed kilobytes can claim gigabytes of them.
    """
    count, most = value.shape[-2], max(_FREE_TUPLES, _TUPLES_AN_ATOM * n_atoms)
    if count > most:
        raise source.corrupt(f"{value.name} has {count} tuples, expected at most {most} of {n_atoms} atoms")
    tuples: NDArray[Any] = values_of(source, value, row)
    return tuples


def _column_of(name: str, members: int) -> str | None:
    """The column for tuples of `members` atoms; if several fit, the one in `name`, or else the first."""
    fitting = [column for column, count in TUPLES.items() if count == members]
    return next((column for column in fitting if column[:-1] in name.lower()), fitting[0] if fitting else None)


def _tuples_of(source: H5mdFile, root: Any, group: Any) -> Iterator[tuple[str, Any]]:
    """The lists of tuples in `connectivity` that belong to this group, by name."""
    holder = root.get(CONNECTIVITY)
    for name in holder if isinstance(holder, h5py.Group) else ():
        if is_link_broken(holder, name):
            raise source.corrupt(f"{holder.name}/{name} is a link to something that is missing")
        node = holder[name]
        timed = isinstance(node, h5py.Group)
        value = node.get("value") if timed else node
        if not isinstance(value, h5py.Dataset) or value.dtype.kind not in "iu" or value.ndim != (3 if timed else 2):
            continue
        if (not timed or value.shape[0] > 0) and _concerns(root, group, node, value):
            yield name, node


def _concerns(root: Any, group: Any, node: Any, value: Any) -> bool:
    """Whether tuples belong to this group: their reference says so, or they have none, as GROMACS writes them."""
    for holder in (node, value):
        reference = attribute(holder, "particles_group")
        if isinstance(reference, h5py.Reference) and reference:
            return bool(root.file[reference] == group)
    return True


def _as_indices(
    source: H5mdFile, value: Any, tuples: NDArray[np.int64], columns: Columns, is_gromacs: bool
) -> NDArray[np.int64]:
    """Tuples as atom indices: they hold ids if the group has any, except GROMACS' tuples, which are always indices."""
    plist = value.id.get_create_plist()
    if plist.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
        tuples = tuples[(tuples != int(value.fillvalue)).all(axis=1)]
    if columns.ids is not None and not is_gromacs:
        order = np.argsort(columns.ids)
        places = np.minimum(np.searchsorted(columns.ids[order], tuples), len(order) - 1)
        indices = order[places]
        if not np.array_equal(columns.ids[indices], tuples):
            raise source.corrupt(f"{value.name} names particles that {len(order)} ids do not have")
        return indices
    if tuples.size and (tuples.min() < 0 or tuples.max() >= columns.n_atoms):
        raise source.corrupt(f"{value.name} names a particle beyond the {columns.n_atoms} of the group")
    return tuples

"""Names, masses, charges, residues and bonds that an HDF5 trajectory holds itself, and a Universe made of them.

Nothing is guessed but masses of known elements, by MDAnalysis. Sources, in the order in which they count: GROMACS'
topology module, whose molecule blocks are expanded; MDTraj's JSON; `mass`, `charge`, `species`, `id` and names of the
particles group; the `connectivity` group.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.errors import ArgumentError
from kinema.formats.h5md.description import H5mdOptions
from kinema.formats.h5md.file import H5mdFile, opened
from kinema.formats.h5md.read.groups import choose_group, creator_of, element_name, find_root
from kinema.formats.h5md.read.molecules import SYMBOLS, from_mdtraj, from_module, named, symbols
from kinema.formats.h5md.read.other_layouts import is_mdtraj
from kinema.formats.h5md.read.per_particle import Columns, columns_of, per_particle
from kinema.formats.h5md.schema import CONNECTIVITY, ELEMENTS, GROMACS_TOPOLOGY, PER_PARTICLE
from kinema.formats.h5md.units import scale_to_kinema
from kinema.formats.hdf5.file import is_link_broken
from kinema.formats.hdf5.text import attribute, text_attribute
from kinema.selection.universe import import_mdanalysis

__all__ = ["H5mdTopology", "TopologySource", "has_topology", "read_topology"]

# of programs whose `species` are atomic numbers; LAMMPS' are its atom types
_SPECIES_ARE_ELEMENTS = ("gromacs", "znh5md", "kinema")


@dataclass(frozen=True, eq=False)
class H5mdTopology:
    """Atoms of one particles group, in the order of the trajectory's atoms; None for what the file does not say."""

    name: str
    """The file."""
    n_atoms: int
    names: NDArray[np.str_] | None = None
    """(n_atoms,)."""
    types: NDArray[np.str_] | None = None
    """(n_atoms,): species as text."""
    elements: NDArray[np.str_] | None = None
    """(n_atoms,) symbols; "" for an atom without element."""
    masses: NDArray[np.float64] | None = None
    """(n_atoms,) in u."""
    charges: NDArray[np.float64] | None = None
    """(n_atoms,) in elementary charges."""
    ids: NDArray[np.int64] | None = None
    """(n_atoms,)."""
    residues: NDArray[np.int64] | None = None
    """(n_atoms,) index of the residue of each atom, from 0, ascending."""
    residue_names: NDArray[np.str_] | None = None
    """(residues,)."""
    residue_ids: NDArray[np.int64] | None = None
    """(residues,)."""
    molecules: NDArray[np.int64] | None = None
    """(n_atoms,) index of the molecule of each atom."""
    segments: NDArray[np.str_] | None = None
    """(residues,) name of the molecule type or chain that a residue belongs to."""
    connectivity: tuple[tuple[str, NDArray[np.int64]], ...] = ()
    """(Name, (n, members) atom indices) of bonds, angles, ..."""
    warnings: tuple[str, ...] = ()

    @property
    def bonds(self) -> NDArray[np.int64] | None:
        """(bonds, 2) atom indices of all connections of two atoms; None where there are none."""
        pairs = [indices for _, indices in self.connectivity if indices.shape[1] == 2]
        return np.concatenate(pairs) if pairs else None

    def to_universe(self) -> Any:
        """An MDAnalysis Universe with these atoms and no coordinates.

        Masses are guessed where only elements are known.
        """
        mda = import_mdanalysis()
        n_residues = 1 if self.residue_ids is None else len(self.residue_ids)
        segments, of_residue = np.unique(
            np.array(["SYSTEM"] * n_residues) if self.segments is None else self.segments, return_inverse=True
        )
        universe = mda.Universe.empty(
            self.n_atoms,
            n_residues=n_residues,
            n_segments=len(segments),
            atom_resindex=np.zeros(self.n_atoms, np.int64) if self.residues is None else self.residues,
            residue_segindex=of_residue,
        )
        universe.filename = self.name
        for attribute_name, values in (
            ("names", self.names),
            ("types", self.types if self.types is not None else self.elements),
            ("elements", self.elements),
            ("charges", self.charges),
            ("masses", self.masses),
            ("ids", self.ids),
            ("resnames", self.residue_names),
            ("resids", self.residue_ids),
            ("resnums", self.residue_ids),
            ("segids", segments),
        ):
            if values is not None:
                plain = values.astype(object) if values.dtype.kind == "U" else values
                universe.add_TopologyAttr(attribute_name, plain)
        if self.molecules is not None and self.residues is not None:
            first = np.unique(self.residues, return_index=True)[1]
            universe.add_TopologyAttr("molnums", self.molecules[first])
        for attribute_name, members in (("bonds", 2), ("angles", 3), ("dihedrals", 4)):
            tuples = [indices for _, indices in self.connectivity if indices.shape[1] == members]
            if tuples:
                universe.add_TopologyAttr(attribute_name, [tuple(row) for row in np.concatenate(tuples).tolist()])
        if self.masses is None and self.elements is not None:
            universe.guess_TopologyAttrs(to_guess=["masses"])
        return universe


@dataclass(frozen=True)
class TopologySource:
    """A topology that is read from its trajectory when it is first needed; picklable."""

    path: str
    options: H5mdOptions

    def __reduce__(self) -> tuple[Any, ...]:
        # another process may have another working folder
        return TopologySource, (os.path.abspath(self.path), self.options)

    @property
    def name(self) -> str:
        """The file."""
        return self.path

    def to_universe(self) -> Any:
        """An MDAnalysis Universe; ArgumentError where the file says nothing of its atoms."""
        topology = read_topology(self.path, self.options)
        if topology is None:
            raise ArgumentError(
                f"{self.path} holds no topology; give one with topology=", path=self.path, format="H5MD"
            )
        return topology.to_universe()


def read_topology(path: str, options: H5mdOptions) -> H5mdTopology | None:
    """What a file says of the atoms of the group that the options choose; None where it says nothing.

    Raises as `kinema.formats.h5md.describe`.
    """
    with opened(path, options) as source:
        topology = _read(source)
        return None if topology is None else replace(topology, warnings=tuple(source.warnings))


def has_topology(path: str, options: H5mdOptions) -> bool:
    """Whether `read_topology` would find names, elements or residues: something to select by. Reads no values."""
    with opened(path, options) as source:
        if options.dataset is not None:
            return False
        root = find_root(source)
        if root is None:
            return is_mdtraj(source.file) and "topology" in source.file
        group = choose_group(source, root)
        known = (*PER_PARTICLE, "particle_name")
        return GROMACS_TOPOLOGY in root or any(name in group for name in known)


def _read(source: H5mdFile) -> H5mdTopology | None:
    if source.options.dataset is not None:
        return None
    root = find_root(source)
    if root is None:
        fields = from_mdtraj(source) if is_mdtraj(source.file) else None
        return None if fields is None else H5mdTopology(source.path, **fields)
    group = choose_group(source, root)
    columns = columns_of(source, group, _n_columns(source, group))
    fields = _of_group(source, root, group, columns)
    module = root.get(GROMACS_TOPOLOGY)
    if isinstance(module, h5py.Group):
        fields |= from_module(source, module, columns.n_atoms) or {}
    connectivity = _connectivity(
        source, root, group, columns, is_gromacs=creator_of(root).lower().startswith("gromacs")
    )
    if connectivity:
        fields["connectivity"] = connectivity
    return H5mdTopology(source.path, columns.n_atoms, **fields) if fields else None


def _n_columns(source: H5mdFile, group: Any) -> int:
    for stored in ELEMENTS.values():
        member = element_name(group, stored)
        node = None if member is None else group[member]
        value = node.get("value") if isinstance(node, h5py.Group) else node
        if isinstance(value, h5py.Dataset) and value.ndim >= 2:
            return int(value.shape[-2])
    raise source.corrupt(f"{group.name} has no particles")


def _of_group(source: H5mdFile, root: Any, group: Any, columns: Columns) -> dict[str, Any]:
    """What the particles group itself says."""
    fields: dict[str, Any] = {}
    for name, key, dimension in (("mass", "masses", "mass"), ("charge", "charges", "charge")):
        values, node = per_particle(source, group, name, columns)
        if values is not None and node is not None and values.dtype.kind in "iuf":
            scale = _scale(source, node, dimension)
            fields[key] = values.astype(np.float64) * scale
    values, node = per_particle(source, group, "species", columns)
    if values is not None and node is not None:
        fields |= _species(values, node, creator_of(root).lower().startswith(_SPECIES_ARE_ELEMENTS))
    fields |= named(source, group, columns)
    if columns.ids is not None:
        fields["ids"] = columns.ids
    return fields


def _scale(source: H5mdFile, node: Any, dimension: Any) -> float:
    unit = text_attribute(node, "unit")
    if unit is None:
        return 1.0
    try:
        return scale_to_kinema(unit, dimension)
    except ArgumentError as error:
        source.warn(f"{node.name}: {error}; its values are taken as they are")
        return 1.0


def _species(values: NDArray[Any], node: Any, are_elements: bool) -> dict[str, Any]:
    """Types, and elements where species are known to be atomic numbers or are named after elements."""
    names = h5py.check_enum_dtype(node.dtype)
    if names is not None:
        known = {int(value): str(name) for name, value in names.items()}
        types = np.array([known.get(int(value), str(int(value))) for value in values])
        fields = {"types": types}
        if all(name.capitalize() in SYMBOLS for name in known.values()):
            fields["elements"] = np.array([name.capitalize() for name in types.tolist()])
        return fields
    if values.dtype.kind not in "iuf":
        return {}
    if are_elements:
        return {"elements": symbols(values)}
    return {"types": np.array([f"{value:g}" for value in values.tolist()])}


def _connectivity(
    source: H5mdFile, root: Any, group: Any, columns: Columns, is_gromacs: bool
) -> tuple[tuple[str, NDArray[np.int64]], ...]:
    """All tuples of the group's particles, as atom indices."""
    holder = root.get(CONNECTIVITY)
    result = []
    for name in holder if isinstance(holder, h5py.Group) else ():
        if is_link_broken(holder, name):
            raise source.corrupt(f"{holder.name}/{name} is a link to something that is missing")
        node = holder[name]
        timed = isinstance(node, h5py.Group)
        value = node.get("value") if timed else node
        if not isinstance(value, h5py.Dataset) or value.dtype.kind not in "iu" or value.ndim != (3 if timed else 2):
            continue
        if not _concerns(root, group, node, value) or 0 in value.shape:
            continue
        tuples = value[0] if timed else value[()]
        if timed:
            source.warn(f"{node.name} changes with time: its first row is taken")
        result.append((name, _as_indices(source, value, tuples.astype(np.int64), columns, is_gromacs)))
    return tuple(result)


def _concerns(root: Any, group: Any, node: Any, value: Any) -> bool:
    """Whether tuples are of this group: its reference says so, or there is none, as GROMACS writes."""
    for holder in (node, value):
        reference = attribute(holder, "particles_group")
        if isinstance(reference, h5py.Reference) and reference:
            return bool(root.file[reference] == group)
    return True


def _as_indices(
    source: H5mdFile, value: Any, tuples: NDArray[np.int64], columns: Columns, is_gromacs: bool
) -> NDArray[np.int64]:
    """Tuples as atom indices: they hold ids where the group has any, except GROMACS', which are indices always."""
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

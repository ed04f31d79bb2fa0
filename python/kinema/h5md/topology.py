"""Names, masses, charges, residues and bonds that an HDF5 trajectory holds itself, and a Universe made of them.

It guesses nothing but masses of known elements, which MDAnalysis does, and it reads no coordinates.

Sources, in the order in which they count: GROMACS' topology module, whose molecule blocks are expanded; MDTraj's JSON;
`mass`, `charge`, `species`, `id` and names of the particles group; the `connectivity` group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.errors import ArgumentError

from .description import H5mdOptions
from .foreign import is_mdtraj
from .groups import VECTORS, choose_group, creator_of, find_root, member_name
from .molecules import MODULE, SYMBOLS, from_mdtraj, from_module, named, symbols
from .opening import OpenFile, is_link_broken, opened
from .per_particle import Columns, columns_of, per_particle
from .text import attribute, text_attribute
from .units import scale_to_kinema

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
        import MDAnalysis

        n_residues = 1 if self.residue_ids is None else len(self.residue_ids)
        segments, of_residue = np.unique(
            np.array(["SYSTEM"] * n_residues) if self.segments is None else self.segments, return_inverse=True
        )
        universe = MDAnalysis.Universe.empty(
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
            found = [indices for _, indices in self.connectivity if indices.shape[1] == members]
            if found:
                universe.add_TopologyAttr(attribute_name, [tuple(row) for row in np.concatenate(found).tolist()])
        if self.masses is None and self.elements is not None:
            universe.guess_TopologyAttrs(to_guess=["masses"])
        return universe


@dataclass(frozen=True)
class TopologySource:
    """A topology that is read from its trajectory when it is first needed; picklable."""

    path: str
    options: H5mdOptions

    @property
    def name(self) -> str:
        """The file."""
        return self.path

    def to_universe(self) -> Any:
        """An MDAnalysis Universe; ArgumentError where the file says nothing of its atoms."""
        found = read_topology(self.path, self.options)
        if found is None:
            raise ArgumentError(
                f"{self.path} holds no topology; give one with topology=", path=self.path, format="H5MD"
            )
        return found.to_universe()


def read_topology(path: str, options: H5mdOptions) -> H5mdTopology | None:
    """What a file says of the atoms of the group that the options choose; None where it says nothing.

    Raises as `kinema.h5md.describe`.
    """
    with opened(path, options) as found:
        topology = _read(found)
        return None if topology is None else replace(topology, warnings=tuple(found.warnings))


def has_topology(path: str, options: H5mdOptions) -> bool:
    """Whether `read_topology` would find names, elements or residues: something to select by. Reads no values."""
    with opened(path, options) as found:
        if options.dataset is not None:
            return False
        root = find_root(found)
        if root is None:
            return is_mdtraj(found.file) and "topology" in found.file
        group = choose_group(found, root)
        known = ("mass", "charge", "species", "particle_name", "id")
        return f"h5md/modules/{MODULE}" in root or any(name in group for name in known)


def _read(found: OpenFile) -> H5mdTopology | None:
    if found.options.dataset is not None:
        return None
    root = find_root(found)
    if root is None:
        told = from_mdtraj(found) if is_mdtraj(found.file) else None
        return None if told is None else H5mdTopology(found.path, **told)
    group = choose_group(found, root)
    columns = columns_of(found, group, _n_columns(found, group))
    told = _of_group(found, root, group, columns)
    module = root.get(f"h5md/modules/{MODULE}")
    if isinstance(module, h5py.Group):
        told |= from_module(found, module, columns.n_atoms) or {}
    connectivity = _connectivity(found, root, group, columns, is_gromacs=creator_of(root).lower().startswith("gromacs"))
    if connectivity:
        told["connectivity"] = connectivity
    return H5mdTopology(found.path, columns.n_atoms, **told) if told else None


def _n_columns(found: OpenFile, group: Any) -> int:
    for stored in VECTORS.values():
        member = member_name(group, stored)
        node = None if member is None else group[member]
        value = node.get("value") if isinstance(node, h5py.Group) else node
        if isinstance(value, h5py.Dataset) and value.ndim >= 2:
            return int(value.shape[-2])
    raise found.corrupt(f"{group.name} has no particles")


def _of_group(found: OpenFile, root: Any, group: Any, columns: Columns) -> dict[str, Any]:
    """What the particles group itself says."""
    told: dict[str, Any] = {}
    for name, key, dimension in (("mass", "masses", "mass"), ("charge", "charges", "charge")):
        values, node = per_particle(found, group, name, columns)
        if values is not None and node is not None and values.dtype.kind in "iuf":
            scale = _scale(found, node, dimension)
            told[key] = values.astype(np.float64) * scale
    values, node = per_particle(found, group, "species", columns)
    if values is not None and node is not None:
        told |= _species(values, node, creator_of(root).lower().startswith(_SPECIES_ARE_ELEMENTS))
    told |= named(found, group, columns)
    if columns.ids is not None:
        told["ids"] = columns.ids
    return told


def _scale(found: OpenFile, node: Any, dimension: Any) -> float:
    unit = text_attribute(node, "unit")
    if unit is None:
        return 1.0
    try:
        return scale_to_kinema(unit, dimension)
    except ArgumentError as error:
        found.warn(f"{node.name}: {error}; its values are taken as they are")
        return 1.0


def _species(values: NDArray[Any], node: Any, are_elements: bool) -> dict[str, Any]:
    """Types, and elements where species are known to be atomic numbers or are named after elements."""
    names = h5py.check_enum_dtype(node.dtype)
    if names is not None:
        known = {int(value): str(name) for name, value in names.items()}
        types = np.array([known.get(int(value), str(int(value))) for value in values])
        told = {"types": types}
        if all(name.capitalize() in SYMBOLS for name in known.values()):
            told["elements"] = np.array([name.capitalize() for name in types.tolist()])
        return told
    if values.dtype.kind not in "iuf":
        return {}
    if are_elements:
        return {"elements": symbols(values)}
    return {"types": np.array([f"{value:g}" for value in values.tolist()])}


def _connectivity(
    found: OpenFile, root: Any, group: Any, columns: Columns, is_gromacs: bool
) -> tuple[tuple[str, NDArray[np.int64]], ...]:
    """All tuples of the group's particles, as atom indices."""
    holder = root.get("connectivity")
    result = []
    for name in holder if isinstance(holder, h5py.Group) else ():
        if is_link_broken(holder, name):
            raise found.corrupt(f"{holder.name}/{name} is a link to something that is missing")
        node = holder[name]
        timed = isinstance(node, h5py.Group)
        value = node.get("value") if timed else node
        if not isinstance(value, h5py.Dataset) or value.dtype.kind not in "iu" or value.ndim != (3 if timed else 2):
            continue
        if not _concerns(root, group, node, value) or 0 in value.shape:
            continue
        tuples = value[0] if timed else value[()]
        if timed:
            found.warn(f"{node.name} changes with time: its first row is taken")
        result.append((name, _as_indices(found, value, tuples.astype(np.int64), columns, is_gromacs)))
    return tuple(result)


def _concerns(root: Any, group: Any, node: Any, value: Any) -> bool:
    """Whether tuples are of this group: its reference says so, or there is none, as GROMACS writes."""
    for holder in (node, value):
        reference = attribute(holder, "particles_group")
        if isinstance(reference, h5py.Reference) and reference:
            return bool(root.file[reference] == group)
    return True


def _as_indices(
    found: OpenFile, value: Any, tuples: NDArray[np.int64], columns: Columns, is_gromacs: bool
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
            raise found.corrupt(f"{value.name} names particles that {len(order)} ids do not have")
        return indices
    if tuples.size and (tuples.min() < 0 or tuples.max() >= columns.n_atoms):
        raise found.corrupt(f"{value.name} names a particle beyond the {columns.n_atoms} of the group")
    return tuples

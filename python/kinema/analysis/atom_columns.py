"""Columns of tables that name atoms and residues: name, residue, resname and segment, as far as they are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.storage.tables import Column

if TYPE_CHECKING:
    from kinema.model.atom_table import Atoms
    from kinema.trajectory import Trajectory

_OF_ATOMS = {"name": "names", "residue": "resids", "resname": "resnames", "segment": "segids"}
_OF_RESIDUES = {"resname": "resnames", "segment": "segids"}


def columns_of_atoms(trajectory: Trajectory, indices: NDArray[Any], prefix: str = "") -> list[Column]:
    """Names, residues and segments of atoms, one row for each of `indices`; names of columns begin with `prefix`.

    Without a topology there are none.
    """
    topology = trajectory.topology
    return [] if topology is None else _named(topology.atoms, indices, _OF_ATOMS, prefix)


def columns_of_residues(trajectory: Trajectory, residues: NDArray[Any], prefix: str) -> list[Column]:
    """The number of each residue, as the topology has it, under the name `prefix`; its name and segment beside it.

    `residues` count from 0. Raises ArgumentError without residues.
    """
    heads = first_atoms(trajectory, "the table")[residues]
    atoms = _atoms_with_residues(trajectory, "the table")
    numbers = atoms.get("resids")
    shown = Column(prefix, residues + 1 if numbers is None else numbers[heads])
    return [shown, *_named(atoms, heads, _OF_RESIDUES, f"{prefix}_")]


def labels_of(trajectory: Trajectory, of: str, numbers: NDArray[Any]) -> list[str]:
    """A label for each atom or residue: "LEU12:CA" or "LEU12" by the topology, else its number from 1.

    `of` is "atom" or "residue"; `numbers` count from 0. Raises ArgumentError for residues without a topology.
    """
    found = columns_of_residues(trajectory, numbers, "residue") if of == "residue" else []
    columns = found or columns_of_atoms(trajectory, numbers)
    known = {one.name.removeprefix("residue_"): one.values for one in columns}
    counted = known["residue"] if of == "residue" else np.asarray(numbers, np.int64) + 1
    if "resname" not in known or "residue" not in known or (of == "atom" and "name" not in known):
        return [str(one) for one in counted]
    residue = np.char.add(known["resname"], known["residue"].astype(str))
    labels = residue if of == "residue" else np.char.add(np.char.add(residue, ":"), known["name"])
    return [str(one) for one in labels]


def residues_of(trajectory: Trajectory, what: str) -> NDArray[np.int64]:
    """(n_atoms,) residue of each atom, from 0. Raises ArgumentError, which says `what` needs them."""
    return np.asarray(_atoms_with_residues(trajectory, what).resindices)


def first_atoms(trajectory: Trajectory, what: str) -> NDArray[np.intp]:
    """First atom of each residue; 0 for numbers of residues that have no atom. Raises as `residues_of`."""
    found, first = np.unique(residues_of(trajectory, what), return_index=True)
    heads = np.zeros(int(found[-1]) + 1 if len(found) else 0, np.intp)
    heads[found] = first
    return heads


def _atoms_with_residues(trajectory: Trajectory, what: str) -> Atoms:
    topology = trajectory.topology
    if topology is None:
        raise ArgumentError(f"{what} needs residues: open the trajectory with topology=, or leave it out")
    if topology.atoms.get("resindices") is None:
        raise ArgumentError(f"{what} needs residues, {topology.name} has none; leave it out")
    return topology.atoms


def _named(atoms: Atoms, indices: NDArray[Any], names: dict[str, str], prefix: str) -> list[Column]:
    known = ((name, atoms.get(column)) for name, column in names.items())
    return [Column(f"{prefix}{name}", values[indices]) for name, values in known if values is not None]

"""Comparison of a reference structure's atoms with the trajectory's: by masses, names, or order only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.model.atom_table import Atoms
from kinema.model.topology import Topology


@dataclass(frozen=True, eq=False)
class AtomsOf:
    """Atoms of one structure.

    `indices`: (n,) numbers of the atoms in their file, from 0.
    `topology`: source of names and masses.
    `label`: name of the structure in messages.
    """

    indices: NDArray[np.integer[Any]]
    topology: Topology | None
    label: str

    def same_as(self, other: AtomsOf) -> bool:
        """Whether both are the same atoms of the same topology, which leaves nothing to compare."""
        if self.topology is None or other.topology is None or not self.topology.same_source(other.topology):
            return False
        return np.array_equal(self.indices, other.indices)

    @property
    def atoms(self) -> Atoms | None:
        """The table of these atoms; None without a topology."""
        return None if self.topology is None else self.topology.atoms[self.indices]

    def masses(self) -> NDArray[np.float64] | None:
        """(n,) in u, zero for an unknown mass; None if the atoms have no masses."""
        return None if self.atoms is None else self.atoms.get("masses")

    def names(self) -> list[NDArray[np.str_]] | None:
        """Atom names and, if there are any, residue names, (n,) each; None without atom names."""
        known = [] if self.atoms is None else [self.atoms.get("names"), self.atoms.get("resnames")]
        return None if not known or known[0] is None else [values for values in known if values is not None]

    def describe(self, position: int) -> str:
        """One of the atoms: number, name, residue, mass, file."""
        assert self.topology is not None, "atoms that differ have a topology"
        number = int(self.indices[position])
        one = self.topology.atoms[[number]]
        words = [str(values[0]) for values in map(one.get, ("names", "resnames", "resids")) if values is not None]
        masses = one.get("masses")
        words += [] if masses is None else [f"mass {masses[0]:.7g}"]
        return f"atom {number + 1} of {self.label} ({' '.join(words)})"


def compare_atoms(own: AtomsOf, reference: AtomsOf, match: str, tol_mass: float) -> Sequence[str]:
    """Compares atoms. Returns notes on how far the comparison went; raises ArgumentError for the first difference.

    Atoms are compared by masses if both structures have masses; an atom whose mass is zero in one of them is compared
    by names. If one structure has no masses, atoms are compared by names. If one has neither, only the number of atoms
    counts, which the caller has compared.
    """
    if match == "order" or own.same_as(reference):
        return ()
    names, reference_names = own.names(), reference.names()
    by_names = names is not None and reference_names is not None
    other_names = np.zeros(len(own.indices), dtype=bool)
    if names is not None and reference_names is not None:
        for ours, theirs in zip(names, reference_names, strict=False):
            other_names |= ours != theirs
    if match == "names":
        if not by_names:
            missing = own if names is None else reference
            raise ArgumentError(
                f"match='names' needs atom names, {missing.label} has none; give its topology, or match='order'"
            )
        _refuse(own, reference, other_names, match)
        return ()
    masses, reference_masses = own.masses(), reference.masses()
    if masses is None or reference_masses is None:
        if not by_names:
            lacking = [
                one.label
                for one, columns in ((reference, (reference_names, reference_masses)), (own, (names, masses)))
                if all(column is None for column in columns)
            ]
            why = f"{lacking[0]} has neither names nor masses" if lacking else "neither names nor masses are in both"
            return (f"of the reference {reference.label} only the number of atoms was compared: {why}",)
        _refuse(own, reference, other_names, match)
        missing = own if masses is None else reference
        return (f"atoms of the reference {reference.label} were compared by names: {missing.label} has no masses",)
    unknown = ~((masses > 0) & (reference_masses > 0))
    differ = np.where(unknown, other_names, np.abs(masses - reference_masses) > tol_mass)
    _refuse(own, reference, differ, match)
    notes = []
    for one in (own, reference):
        if one.atoms is not None:
            notes += [f"match by masses: {note}" for note in one.atoms.mass_notes()]
    if unknown.any():
        how = "by their names" if by_names else "not at all"
        notes.append(f"{int(unknown.sum())} atoms of the reference {reference.label} without mass were compared {how}")
    return notes


def places_by_name(atoms: Atoms, among: Atoms) -> NDArray[np.int64] | None:
    """For each of `atoms`, the place of the only atom in `among` that has its name and residue number.

    Residue names may differ: each program has its own convention. Returns None if names or numbers are not known, or if
    an atom has no counterpart or several.
    """
    keys = np.zeros(len(atoms) + len(among), np.int64)
    for column in ("resids", "names"):
        one, other = atoms.get(column), among.get(column)
        if one is None or other is None:
            return None
        # number the pairs of key so far and column value: keys stay below the number of atoms
        values = np.unique(np.concatenate([one, other]), return_inverse=True)[1]
        keys = np.unique(keys * (values.max() + 1) + values, return_inverse=True)[1]
    wanted, found = keys[: len(atoms)], keys[len(atoms) :]
    how_often = np.bincount(found, minlength=keys.max() + 1)
    if (how_often[wanted] != 1).any() or len(np.unique(wanted)) != len(wanted):
        return None
    place = np.zeros(keys.max() + 1, np.int64)
    place[found] = np.arange(len(found))
    return place[wanted]


def _refuse(own: AtomsOf, reference: AtomsOf, differ: NDArray[np.bool_], match: str) -> None:
    """Raises ArgumentError if any atom differs."""
    if not differ.any():
        return
    first = int(differ.argmax())
    others = "match='names' compares names alone, match='order'" if match == "masses" else "match='order'"
    raise ArgumentError(
        f"the reference has other atoms or another order: {own.describe(first)} is {reference.describe(first)}, the "
        f"first of {int(differ.sum())} that differ (counted from 1); give the same atoms in the same order, or compare "
        f"less: {others} takes them as they come"
    )

"""Groups of selected atoms: all of them, or each residue, segment, molecule or fragment, with labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.choices import COMPOUND, check_choice
from kinema.base.errors import ArgumentError
from kinema.model.selection.residue_dihedrals import residue_labels

if TYPE_CHECKING:
    from kinema.model.atom_table import Atoms
    from kinema.model.selection.atoms import Selection

_COLUMNS = {"residues": "resindices", "segments": "segids"}


@dataclass(frozen=True, eq=False)
class AtomsOfGroup:
    """`label` ("" for all atoms), `places` (n,) in the selection, `indices` (n,) uint32 in the trajectory."""

    label: str
    places: NDArray[np.intp]
    indices: NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class GroupedAtoms:
    """Groups of atoms as kernels take them.

    `atoms` (m,) uint32, the atoms of the first group, of the second, and so on; `ends` (n,) uint32, the end of each
    group in `atoms`; `labels` (n), such as "LEU12".
    """

    atoms: NDArray[np.uint32]
    ends: NDArray[np.uint32]
    labels: tuple[str, ...]

    @classmethod
    def from_groups(cls, groups: Sequence[AtomsOfGroup]) -> GroupedAtoms:
        """The groups, one after the other."""
        atoms = np.concatenate([one.indices for one in groups])
        ends = np.cumsum([len(one.indices) for one in groups])
        return cls(atoms.astype(np.uint32), ends.astype(np.uint32), tuple(one.label for one in groups))

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments `atoms` and `ends` of a kernel."""
        return {"atoms": self.atoms, "ends": self.ends}


def groups_of(selection: Selection, atoms: Atoms | None, compound: str) -> list[AtomsOfGroup]:
    """The groups of a selection, ordered by their first atoms in it; the atoms of each keep the selection's order.

    `compound` is "group" (all atoms form one group), "residues", "segments", "molecules" or "fragments", as in
    MDAnalysis; `atoms` may be None for "group". Raises ArgumentError for another word, and if the table lacks the
    column.
    """
    check_choice("compound", compound, COMPOUND)
    if compound == "group":
        return [AtomsOfGroup("", np.arange(selection.n_atoms), selection.indices)]
    values = marks_of(atoms, compound)
    places, sizes = divided(values[selection.indices])
    runs = np.split(places, np.cumsum(sizes)[:-1])
    heads = selection.indices[[run[0] for run in runs]]
    if compound == "residues":
        assert atoms is not None, "it has marks"
        labels = residue_labels(atoms, atoms.resindices[heads])
    elif compound == "segments":
        labels = [f"segment {value}" for value in values[heads]]
    else:
        # people count molecules from 1
        labels = [f"{compound[:-1]} {value + 1}" for value in values[heads]]
    return [AtomsOfGroup(label, run, selection.indices[run]) for label, run in zip(labels, runs, strict=True)]


def marks_of(atoms: Atoms | None, compound: str, argument: str = "compound") -> NDArray[Any]:
    """(n_atoms,) values that the atoms of one of the compounds share, and no others.

    `compound` is "residues", "segments", "molecules" (as the topology numbers them; else fragments) or "fragments"
    (atoms that bonds connect, `Atoms.fragindices`, with its notes). Raises ArgumentError, naming the argument, if the
    table does not have them.
    """
    if atoms is None:
        raise ArgumentError(f"{argument}={compound!r} needs a topology: open the trajectory with topology=")
    if compound in ("molecules", "fragments"):
        molecules = atoms.get("molnums") if compound == "molecules" else None
        if molecules is not None:
            return molecules
        if atoms.get("bonds") is None:
            raise ArgumentError(
                f"{atoms.name} has no bonds, which {argument}={compound!r} needs; give a topology that has them with "
                "topology= (-s), or the column itself with Atoms.replace(bonds=...)"
            )
        return atoms.fragindices()
    values = atoms.get(_COLUMNS[compound])
    if values is None and compound == "segments":
        values = atoms.get("chainIDs")
    if values is None:
        raise ArgumentError(f"{atoms.name} has no {_COLUMNS[compound]}, which {argument}={compound!r} needs")
    return values


def divided(marks: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Places of atoms, grouped by mark, in the order of the groups' first atoms; the size of each group."""
    _, first, of = np.unique(marks, return_index=True, return_inverse=True)
    # ranks of the groups by their first atoms
    rank = np.argsort(np.argsort(first))[of]
    return np.argsort(rank, kind="stable"), np.bincount(rank)

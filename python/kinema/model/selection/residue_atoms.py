"""The atoms of residues between which distances are taken, by a scheme: all, heavy, C-alpha, side chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kinema.base.choices import check_choice
from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.base.printable import counted
from kinema.model.selection.residue_dihedrals import residue_labels

if TYPE_CHECKING:
    from kinema.model.atom_table import Atoms

SCHEMES: tuple[str, ...] = ("closest-heavy", "closest", "ca", "sidechain-heavy")
"""Which atoms of a residue count, as MDTraj's `compute_contacts` names them."""

_HYDROGENS = ("H", "D", "T")
# heavy atoms of amino acids that are not of the side chain, with the names of ends of chains
_BACKBONE = ("N", "CA", "C", "O", "OXT", "OT1", "OT2", "OC1", "OC2", "O1", "O2")
_SHOWN = 6


@dataclass(frozen=True, eq=False)
class ResidueAtoms:
    """Residues and their atoms.

    `residues` (n,) int64 as `Atoms.resindices`, ascending; `atoms` (m,) uint32, first all of the first residue,
    then all of the second, and so on; `ends` (n,) uint32, the end of each residue in `atoms`; `labels`, "LEU12".
    """

    residues: NDArray[np.int64]
    atoms: NDArray[np.uint32]
    ends: NDArray[np.uint32]
    labels: list[str]


def residue_atoms(atoms: Atoms, within: NDArray[np.integer], scheme: str) -> ResidueAtoms:
    """The atoms of `within` that count by a scheme, by residue.

    Emits notes on residues without such an atom, which are left out, and on hydrogens known by their names alone.
    Raises ArgumentError for another scheme, if a column is missing, and if no residue has such an atom.
    """
    check_choice("scheme", scheme, SCHEMES)
    of, chosen = atoms.resindices, np.asarray(within)
    if scheme in ("closest-heavy", "sidechain-heavy"):
        kept = ~are_hydrogens(atoms)[chosen]
    else:
        kept = np.ones(len(chosen), bool)
    if scheme == "ca":
        kept &= (atoms.names[chosen] == "CA") & _amino_acids(atoms)[of[chosen]]
    elif scheme == "sidechain-heavy":
        kept &= ~np.isin(atoms.names[chosen], _BACKBONE) & _amino_acids(atoms)[of[chosen]]
    counting = chosen[kept]
    if not len(counting):
        raise ArgumentError(f"{atoms.name}: no residue of the selection has an atom for scheme {scheme!r}")
    counting = counting[np.argsort(of[counting], kind="stable")]
    residues, sizes = np.unique(of[counting], return_counts=True)
    _note_left_out(atoms, np.setdiff1d(of[chosen], residues), scheme)
    ends = np.cumsum(sizes).astype(np.uint32)
    return ResidueAtoms(residues.astype(np.int64), counting.astype(np.uint32), ends, residue_labels(atoms, residues))


def are_hydrogens(atoms: Atoms) -> NDArray[np.bool_]:
    """(n_atoms,) whether each atom is a hydrogen: by elements; without them by names, which is noted.

    Raises ArgumentError if the table has neither.
    """
    elements = atoms.get("elements")
    if elements is not None and (elements != "").all():
        return np.isin(np.char.upper(elements), _HYDROGENS)
    letters = np.char.lstrip(atoms.names, "0123456789'\"*")
    found: NDArray[np.bool_] = np.char.startswith(np.char.upper(letters), "H")
    resnames = atoms.get("resnames")
    if resnames is not None:
        # ions such as HG are named as their residues
        found &= atoms.names != resnames
    emit([f"{atoms.name}: no elements; the {counted(int(found.sum()), 'atom')} with names in H count as hydrogens"])
    return found


def _amino_acids(atoms: Atoms) -> NDArray[np.bool_]:
    """(residues,) whether each has N, CA and C, or is one CA of a coarse-grained model."""
    of, names = atoms.resindices, atoms.names
    sizes = np.bincount(of)
    has = {name: np.bincount(of[names == name], minlength=len(sizes)) > 0 for name in ("N", "CA", "C")}
    found: NDArray[np.bool_] = has["CA"] & ((has["N"] & has["C"]) | (sizes == 1))
    resnames = atoms.get("resnames")
    if resnames is not None:
        # calcium
        first = np.unique(of, return_index=True)[1]
        found &= ~np.isin(resnames[first], ("CA", "CAL", "CA2"))
    return found


def _note_left_out(atoms: Atoms, residues: NDArray[np.integer], scheme: str) -> None:
    if len(residues):
        labels = ", ".join(residue_labels(atoms, residues[:_SHOWN]))
        more = f" and {len(residues) - _SHOWN:,} more" if len(residues) > _SHOWN else ""
        emit([f"scheme {scheme!r} leaves out {counted(len(residues), 'residue')} without such atoms: {labels}{more}"])

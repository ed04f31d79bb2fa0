"""The backbone atoms of amino-acid residues, found by their names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.model.atom_table import Atoms
from kinema.model.selection.residue_dihedrals import residue_labels

# O of the last residue of a chain has another name in some force fields
_OXYGENS = ("O", "OT1", "OC1", "O1", "OXT")
_HYDROGENS = ("H", "HN")
# their N is in a ring
_WITHOUT_HYDROGEN = ("PRO", "DPR", "HYP")
_SHOWN = 6


@dataclass(frozen=True)
class Backbone:
    """Residues with a backbone, in the order of the table.

    `atoms` (n, 5) int64: N, CA, C, O and the hydrogen of N; N in its place if there is none. `residues` (n,) as
    `Atoms.resindices`. `is_proline` (n,) bool: N is in a ring and has no hydrogen.
    """

    atoms: NDArray[np.int64]
    residues: NDArray[np.int64]
    is_proline: NDArray[np.bool_]


def backbone_of(atoms: Atoms, within: NDArray[np.integer] | None = None) -> Backbone:
    """The backbone of the residues that have an atom of `within` (None: all).

    Amino acids are residues with N, CA and C. Raises ArgumentError if there is none, and if one has no O.
    """
    of, names = atoms.resindices, atoms.names
    n_residues = int(of.max(initial=-1)) + 1
    n, ca, c, o, h = (_places(names, of, n_residues, one) for one in (("N",), ("CA",), ("C",), _OXYGENS, _HYDROGENS))
    chosen = np.zeros(n_residues, bool)
    chosen[of if within is None else of[within]] = True
    chosen &= (n >= 0) & (ca >= 0) & (c >= 0)
    residues = np.flatnonzero(chosen)
    if not len(residues):
        raise ArgumentError(f"{atoms.name}: no residue of the selection has atoms N, CA and C; it is not a protein")
    without = residues[o[residues] < 0]
    if len(without):
        labels = ", ".join(residue_labels(atoms, without[:_SHOWN]))
        more = f" and {counted(len(without) - _SHOWN, 'residue')} more" if len(without) > _SHOWN else ""
        raise ArgumentError(f"{atoms.name}: no atom O in {labels}{more}; leave them out with select=")
    h = np.where(h >= 0, h, n)
    resnames = atoms.get("resnames")
    is_proline = (
        np.zeros(len(residues), bool) if resnames is None else np.isin(resnames[ca[residues]], _WITHOUT_HYDROGEN)
    )
    return Backbone(np.column_stack([n, ca, c, o, h])[residues], residues, is_proline)


def _places(
    names: NDArray[np.str_], residues: NDArray[np.integer], n_residues: int, wanted: tuple[str, ...]
) -> NDArray[np.int64]:
    """(residues,) the first atom of each residue with one of these names, the first name that there is; -1: none."""
    found = np.full(n_residues, -1, np.int64)
    for name in reversed(wanted):
        rows = np.flatnonzero(names == name)[::-1]
        found[residues[rows]] = rows
    return found

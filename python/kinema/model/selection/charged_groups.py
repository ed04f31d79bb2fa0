"""Charged groups of proteins: carboxylates, guanidinium and ammonium groups, and histidines with two protons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kinema.base.choices import check_choice
from kinema.base.notes import emit
from kinema.base.printable import counted
from kinema.model.selection.compounds import GroupedAtoms
from kinema.model.selection.residue_dihedrals import residue_labels

if TYPE_CHECKING:
    from kinema.model.atom_table import Atoms

ACIDIC, BASIC = "acidic", "basic"

# charged atoms by the residue's name; names of force fields: Amber, CHARMM, GROMOS, OPLS
_ATOMS: dict[str, dict[str, tuple[str, ...]]] = {
    ACIDIC: {
        **dict.fromkeys(("ASP", "ASPA", "ASPM"), ("OD1", "OD2")),
        **dict.fromkeys(("GLU", "GLUA", "GLUM"), ("OE1", "OE2")),
    },
    BASIC: {
        "ARG": ("NE", "NH1", "NH2"),
        **dict.fromkeys(("LYS", "LYSH", "LYP"), ("NZ",)),
        **dict.fromkeys(("HIP", "HSP", "HISH", "HIS", "HIS1", "HIS2", "HISA", "HISB"), ("ND1", "NE2")),
    },
}
# charged by name, whatever hydrogens are there
_CHARGED_HISTIDINES = ("HIP", "HSP", "HISH")
# hydrogens of neutral acids
_ACID_HYDROGENS = ("HD1", "HD2", "HE1", "HE2")
_LYSINES = ("LYS", "LYSH", "LYP")
_LYSINE_HYDROGENS = ("HZ1", "HZ2", "HZ3")
_HISTIDINE_HYDROGENS = ("HD1", "HE2")


def charged_groups(atoms: Atoms, kind: str) -> GroupedAtoms:
    """The charged atoms of a table, a group for each residue; `kind` is "acidic" or "basic".

    Residues are known by name, and left out if their hydrogens say that they are neutral: an acid with a hydrogen on
    its oxygens, a lysine with two hydrogens on NZ, a histidine without both HD1 and HE2. Emits notes on neutral acids
    and lysines, and on histidines without hydrogens. Raises ArgumentError if the table has no names or residues.
    """
    check_choice("kind", kind, tuple(_ATOMS))
    names, resnames, of = atoms.names, atoms.resnames, atoms.resindices
    charged = np.zeros(len(atoms), bool)
    for residue, charged_names in _ATOMS[kind].items():
        charged |= (resnames == residue) & np.isin(names, charged_names)
    neutral = _neutral(atoms, np.unique(of[charged]), kind)
    of_histidines = np.isin(neutral, of[np.char.startswith(resnames, "H")])
    # histidines have one proton more often than two
    unusual = neutral[~of_histidines]
    if len(unusual):
        emit([f"{_named(atoms, unusual)} without a charge, by hydrogens, left out of the {kind} groups"])
    unknown = np.setdiff1d(neutral[of_histidines], of[np.isin(names, _HISTIDINE_HYDROGENS)])
    if len(unknown):
        what = f"{_named(atoms, unknown)} without hydrogens"
        emit([f"{what}: whether they are charged is not known, and they are left out"])
    found = np.flatnonzero(charged & ~np.isin(of, neutral))
    found = found[np.argsort(of[found], kind="stable")]
    residues, sizes = np.unique(of[found], return_counts=True)
    labels_of = tuple(residue_labels(atoms, residues)) if len(residues) else ()
    return GroupedAtoms(found.astype(np.uint32), np.cumsum(sizes).astype(np.uint32), labels_of)


def _named(atoms: Atoms, residues: NDArray[np.integer]) -> str:
    """The number of residues and the first of them."""
    labels = ", ".join(residue_labels(atoms, residues[:6])) + (" and others" if len(residues) > 6 else "")
    return f"{counted(len(residues), 'residue')} ({labels})"


def _neutral(atoms: Atoms, residues: NDArray[np.integer], kind: str) -> NDArray[np.integer]:
    """The residues that their hydrogens show to be neutral."""
    if not len(residues):
        return residues
    names, of = atoms.names, atoms.resindices
    first = np.zeros(int(of.max()) + 1, np.intp)
    numbers, at = np.unique(of, return_index=True)
    first[numbers] = at
    of_residue = atoms.resnames[first[residues]]

    def count(hydrogens: tuple[str, ...]) -> NDArray[np.int64]:
        """(residues,) how many of these a residue has."""
        found = np.bincount(of[np.isin(names, hydrogens)], minlength=len(first))
        return np.asarray(found[residues])

    if kind == ACIDIC:
        # HD1 and HD2 are on oxygens in ASP, HE1 and HE2 in GLU: neither residue has them elsewhere
        of_oxygens = np.where(
            np.char.startswith(of_residue, "ASP"), count(_ACID_HYDROGENS[:2]), count(_ACID_HYDROGENS[2:])
        )
        return residues[of_oxygens > 0]
    is_lysine = np.isin(of_residue, _LYSINES)
    is_histidine = np.char.startswith(of_residue, "H") & ~np.isin(of_residue, _CHARGED_HISTIDINES)
    is_neutral = (is_lysine & (count(_LYSINE_HYDROGENS) == 2)) | (is_histidine & (count(_HISTIDINE_HYDROGENS) < 2))
    found: NDArray[np.integer] = residues[is_neutral]
    return found

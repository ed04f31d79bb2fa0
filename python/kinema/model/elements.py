"""Elements of atoms: as the topology has them, else by masses that it states, else by names, which is noted.

An atom whose element is not known is an error that names it.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.base.printable import counted
from kinema.model.atom_table import Atoms
from kinema.model.residue_names import NUCLEOTIDES, WATERS, amino_acid

# standard atomic weights, u, of elements in molecular simulations, and by how much a stated mass may differ
_WEIGHTS = {
    "H": 1.008, "D": 2.014, "He": 4.0026, "Li": 6.94, "C": 12.011, "N": 14.007, "O": 15.999, "F": 18.998, "Ne": 20.180,
    "Na": 22.990, "Mg": 24.305, "Al": 26.982, "Si": 28.085, "P": 30.974, "S": 32.06, "Cl": 35.45, "Ar": 39.95,
    "K": 39.098, "Ca": 40.078, "Ti": 47.867, "Mn": 54.938, "Fe": 55.845, "Co": 58.933, "Ni": 58.693, "Cu": 63.546,
    "Zn": 65.38, "Se": 78.971, "Br": 79.904, "Kr": 83.798, "Rb": 85.468, "I": 126.904, "Xe": 131.29, "Cs": 132.905,
}  # fmt: skip
_TOLERANCE = 0.015
_REMEDY = "give a topology that has elements, or the column itself with Atoms.replace(elements=...)"

# names of ions, as residues and atoms, without charges and other digits
_IONS = {
    "LI": "LI LIT", "NA": "NA SOD NAP", "K": "K POT KAP", "RB": "RB RUB", "CS": "CS CES", "MG": "MG", "CA": "CA CAL",
    "SR": "SR", "BA": "BA BAR", "ZN": "ZN", "CD": "CD CAD", "HG": "HG", "MN": "MN", "FE": "FE", "CO": "CO", "NI": "NI",
    "CU": "CU", "AG": "AG", "AL": "AL", "F": "F", "CL": "CL CLA", "BR": "BR", "I": "I IOD",
}  # fmt: skip
_ION_NAMES = {name: element for element, names in _IONS.items() for name in names.split()}
# of these two letters no organic compound has an atom that is of another element
_TWO_LETTERS = ("CL", "BR", "FE", "ZN", "MG", "MN")
_ONE_LETTER = "HCNOSPFI"
# the elements in residues whose names of atoms begin with them; hydrogens
_OF_CHAINS = "HDCNO"
_SULFURS = ("SD", "SG", "S")
# places of charges, and of lone pairs, in models of water
_SITES = ("M", "MW", "EP", "EPW", "LP", "OM", "LA", "LB")
_SHOWN = 6


def elements_of(atoms: Atoms, what: str) -> NDArray[np.str_]:
    """(n_atoms,) symbols of elements in capitals; "" for virtual sites, which are not atoms.

    The topology has them; else they are those of masses that it states, else of the names of atoms, with a note.
    Raises ArgumentError, which says `what` needs them, naming atoms whose element is not known.
    """
    given, masses, names = atoms.get("elements"), atoms.get("masses"), atoms.get("names")
    symbols = np.full(len(atoms), "", "U2") if given is None else np.char.upper(given).astype("U2")
    unknown = symbols == ""
    if masses is not None and "masses" not in atoms.guessed:
        unknown &= masses != 0
        by_mass = _by_mass(masses)
        # deuterium by mass alone may be a hydrogen that was made heavier
        by_mass[by_mass == "D"] = ""
        found = unknown & (by_mass != "")
        symbols[found] = by_mass[found]
        unknown &= ~found
    if unknown.any() and names is not None:
        named, is_site = _by_names(atoms)
        found = unknown & (named != "")
        symbols[found] = named[found]
        unknown &= ~found & ~is_site
        if found.any():
            emit([f"{atoms.name} has no elements: {_listed(symbols[found])} are guessed of their names"])
    if unknown.any():
        raise ArgumentError(
            f"{atoms.name}: the element of {named_atoms(atoms, unknown)} is not known, which {what} needs; {_REMEDY}"
        )
    return symbols


def symbols_of(atoms: Atoms, what: str) -> NDArray[np.str_]:
    """(n_atoms,) symbols of elements in capitals; "" for virtual sites, which have no mass.

    The topology has them; else they are those of the masses, with a note; names of atoms are not looked at.
    Raises ArgumentError, which says `what` needs them, if some atoms have neither.
    """
    given, masses = atoms.get("elements"), atoms.get("masses")
    symbols = np.full(len(atoms), "", "U2") if given is None else np.char.upper(given).astype("U2")
    unknown = symbols == ""
    if masses is not None:
        unknown &= masses != 0
    if not unknown.any():
        return symbols
    if masses is None:
        raise ArgumentError(f"{atoms.name} has no elements, which {what} needs; {_REMEDY}")
    found = _by_mass(masses[unknown])
    if (found == "").any():
        raise ArgumentError(
            f"{atoms.name} has no elements, which {what} needs, and a mass of {masses[unknown][found == ''][0]:g} u is "
            f"that of no element; {_REMEDY}"
        )
    emit([f"{atoms.name} has no elements: for {what} they are those with the masses of the atoms"])
    symbols[unknown] = found
    return symbols


def element_by_name(name: str, resname: str = "") -> str:
    """The element, in capitals, of an atom by its name and that of its residue; "" if it is not known."""
    letters = re.sub(r"^[^A-Za-z]+|[^A-Za-z].*$", "", name).upper()
    residue = re.sub(r"[^A-Za-z]", "", resname).upper()
    if not letters:
        return ""
    ion = _ION_NAMES.get(residue)
    if ion and _ION_NAMES.get(letters) == ion:
        return ion
    first = letters[0].replace("D", "H")
    known = resname.upper()
    if amino_acid(known):
        return first if letters[0] in _OF_CHAINS else "S" if letters in _SULFURS else ""
    if known in NUCLEOTIDES:
        return first if letters[0] in _OF_CHAINS + "P" else ""
    if letters[:2] in _TWO_LETTERS:
        return letters[:2]
    if letters in ("SE", "SI", "B"):
        return letters
    return first if letters[0] in _ONE_LETTER + "D" else ""


def named_atoms(atoms: Atoms, which: NDArray[np.bool_]) -> str:
    """Atoms in words, kinds that occur several times once: "3 atoms (SOL MW)"."""
    places = np.flatnonzero(which)
    columns = [column for column in (atoms.get("resnames"), atoms.get("names")) if column is not None]
    kinds = list(dict.fromkeys(" ".join(str(column[i]) for column in columns) for i in places.tolist()))
    shown = ", ".join(kinds[:_SHOWN]) + (f" and {len(kinds) - _SHOWN} more" if len(kinds) > _SHOWN else "")
    return counted(len(places), "atom") + (f" ({shown})" if columns else "")


def _by_mass(masses: NDArray[np.float64]) -> NDArray[np.str_]:
    """The element with each mass, in capitals; "" if none has it."""
    names, weights = np.char.upper(np.array(list(_WEIGHTS))), np.array(list(_WEIGHTS.values()))
    distinct, of = np.unique(masses, return_inverse=True)
    nearest = np.abs(distinct[:, None] - weights).argmin(axis=1)
    found = np.where(np.abs(distinct - weights[nearest]) <= _TOLERANCE, names[nearest], "")
    return found[of].astype("U2")


def _by_names(atoms: Atoms) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
    """The element of each atom by its name, and whether it is a virtual site of water."""
    names, resnames = atoms.names, atoms.get("resnames")
    if resnames is None:
        resnames = np.full(len(atoms), "")
    pairs, of = np.unique(np.stack([names, resnames], axis=1), axis=0, return_inverse=True)
    sites = np.array([resname in WATERS and name.rstrip("0123456789") in _SITES for name, resname in pairs])
    found = np.array([element_by_name(str(name), str(resname)) for name, resname in pairs], "U2")
    found[sites] = ""
    return found[of.reshape(-1)], sites[of.reshape(-1)]


def _listed(symbols: NDArray[np.str_]) -> str:
    """How many atoms of each element: "12 C and 30 H"."""
    distinct, counts = np.unique(symbols, return_counts=True)
    words = [f"{count:,} {symbol.capitalize()}" for symbol, count in zip(distinct.tolist(), counts, strict=True)]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))

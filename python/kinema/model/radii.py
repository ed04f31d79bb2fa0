"""Radii of atoms, angstrom: by element (Bondi), by residue and atom (ProtOr), from a file, or of the table of atoms."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.input_files import open_text
from kinema.base.notes import emit
from kinema.base.printable import counted
from kinema.model.atom_table import Atoms
from kinema.model.elements import elements_of, named_atoms
from kinema.model.residue_names import amino_acid

BONDI = {
    "H": 1.20, "D": 1.20, "HE": 1.40, "LI": 1.82, "C": 1.70, "N": 1.55, "O": 1.52, "F": 1.47, "NE": 1.54, "NA": 2.27,
    "MG": 1.73, "SI": 2.10, "P": 1.80, "S": 1.80, "CL": 1.75, "AR": 1.88, "K": 2.75, "NI": 1.63, "CU": 1.40,
    "ZN": 1.39, "GA": 1.87, "AS": 1.85, "SE": 1.90, "BR": 1.85, "KR": 2.02, "PD": 1.63, "AG": 1.72, "CD": 1.58,
    "IN": 1.93, "SN": 2.17, "TE": 2.06, "I": 1.98, "XE": 2.16, "AU": 1.66, "HG": 1.55, "TL": 1.96, "PB": 2.02,
}  # fmt: skip
"""Van der Waals radii of elements, angstrom: A. Bondi, J. Phys. Chem. 68, 441 (1964)."""

# radii of ProtOr by type: element, valence, number of hydrogens
_C3, _C3H, _C4, _N, _O1, _O2H, _S = 1.61, 1.76, 1.88, 1.64, 1.42, 1.46, 1.77
_BACKBONE = {"N": _N, "CA": _C4, "C": _C3, **dict.fromkeys(("O", "OXT", "OT1", "OT2", "OC1", "OC2", "O1", "O2"), _O1)}
_SIDE_CHAINS = {
    "ALA": {"CB": _C4},
    "ARG": {"CB CG CD": _C4, "NE NH1 NH2": _N, "CZ": _C3},
    "ASN": {"CB": _C4, "CG": _C3, "OD1": _O1, "ND2": _N},
    "ASP": {"CB": _C4, "CG": _C3, "OD1 OD2": _O1},
    "CYS": {"CB": _C4, "SG": _S},
    "GLN": {"CB CG": _C4, "CD": _C3, "OE1": _O1, "NE2": _N},
    "GLU": {"CB CG": _C4, "CD": _C3, "OE1 OE2": _O1},
    "GLY": {},
    "HIS": {"CB": _C4, "CG": _C3, "CD2 CE1": _C3H, "ND1 NE2": _N},
    "ILE": {"CB CG1 CG2 CD CD1": _C4},
    "LEU": {"CB CG CD1 CD2": _C4},
    "LYS": {"CB CG CD CE": _C4, "NZ": _N},
    "MET": {"CB CG CE": _C4, "SD": _S},
    "PHE": {"CB": _C4, "CG": _C3, "CD1 CD2 CE1 CE2 CZ": _C3H},
    "PRO": {"CB CG CD": _C4},
    "SER": {"CB": _C4, "OG": _O2H},
    "THR": {"CB CG2": _C4, "OG1": _O2H},
    "TRP": {"CB": _C4, "CG CD2 CE2": _C3, "CD1 CE3 CZ2 CZ3 CH2": _C3H, "NE1": _N},
    "TYR": {"CB": _C4, "CG CZ": _C3, "CD1 CD2 CE1 CE2": _C3H, "OH": _O2H},
    "VAL": {"CB CG1 CG2": _C4},
}
# groups that cap chains
_AMIDE = {"N NT": _N, "C CH3 CA CAT": _C4}
_CAPS = {
    "ACE": {"CH3 CA CAY": _C4, "C CY": _C3, "O OY": _O1},
    "NME": _AMIDE,
    "NMA": _AMIDE,
    "CT3": _AMIDE,
    "NH2": {"N": _N},
    "NHE": {"N": _N},
}
# hydroxyls of neutral acids
_ACIDS = {**dict.fromkeys(("ASH", "ASPP", "ASPH"), "OD2"), **dict.fromkeys(("GLH", "GLUP", "GLUH"), "OE2")}
# largest radius in angstrom: a larger one is a mistake, such as one in pm
_LARGEST = 10.0
_MOST_BYTES = 1 << 20
_ANY = "*"


def radii_of(atoms: Atoms, radii: Any, what: str) -> NDArray[np.float64]:
    """(n_atoms,) radii, angstrom; 0 for atoms that are left out: virtual sites, with "protor" also hydrogens.

    `radii` is "bondi", "protor", "column" (`Atoms.radii`), or a file. Its lines are `ELEMENT RADIUS` or
    `RESNAME NAME RADIUS`, in angstrom; * is any residue or any name; # begins a comment. A line of a residue and a name
    goes before one of a name alone, that before one of a residue alone, the last are elements. The radius 0 leaves an
    atom out.

    Emits notes on guessed elements and on what is left out. Raises ArgumentError, which says `what` needs radii, naming
    the atoms without one.
    """
    if not isinstance(radii, (str, os.PathLike)):
        raise ArgumentError(f"radii is 'bondi', 'protor', 'column' or a file, found {radii!r}")
    if radii == "bondi":
        return _by_element(atoms, BONDI, what, "Bondi radius")
    if radii == "protor":
        return _protor(atoms, what)
    if radii == "column":
        found = atoms.radii
        if not np.isfinite(found).all() or (found < 0).any() or (found > _LARGEST).any():
            raise ArgumentError(f"{atoms.name}: radii are from 0 to {_LARGEST:g} angstrom, found others")
        return found
    return _of_file(atoms, os.fspath(radii), what)


def _by_element(atoms: Atoms, known: dict[str, float], what: str, kind: str) -> NDArray[np.float64]:
    symbols = elements_of(atoms, what)
    distinct, of = np.unique(symbols, return_inverse=True)
    lacking = np.isin(symbols, [one for one in distinct.tolist() if one and one not in known])
    if lacking.any():
        raise ArgumentError(
            f"{atoms.name}: there is no {kind} for {named_atoms(atoms, lacking)}; leave these atoms out, or give "
            "a file with radii="
        )
    _note_sites(atoms, symbols == "")
    if "C" in distinct and not np.isin(distinct, ("H", "D")).any():
        emit([f"no hydrogens among the atoms: a {kind} is that of an atom alone; radii='protor' includes hydrogens"])
    return np.array([known.get(one, 0.0) for one in distinct.tolist()])[of]


def _protor(atoms: Atoms, what: str) -> NDArray[np.float64]:
    symbols = elements_of(atoms, what)
    is_hydrogen = np.isin(symbols, ("H", "D"))
    names, resnames = atoms.names, atoms.resnames
    pairs, of = np.unique(np.stack([names, np.char.upper(resnames)], axis=1), axis=0, return_inverse=True)
    found = np.array([_protor_radius(*pair) for pair in pairs.tolist()])[of.reshape(-1)]
    found[is_hydrogen | (symbols == "")] = 0.0
    lacking = np.isnan(found)
    if lacking.any():
        raise ArgumentError(
            f"{atoms.name}: ProtOr has radii of amino acids, none for {named_atoms(atoms, lacking)}; leave these "
            "atoms out (select=), or take other radii="
        )
    if is_hydrogen.any():
        emit([f"ProtOr radii include hydrogens: {counted(int(is_hydrogen.sum()), 'hydrogen')} are left out"])
    return found


def _protor_radius(name: str, resname: str) -> float:
    """NaN without one."""
    if resname in _CAPS:
        table = _CAPS[resname]
    else:
        residue = amino_acid(resname)
        if not residue:
            return np.nan
        if name == _ACIDS.get(resname):
            return _O2H
        if name in _BACKBONE:
            return _BACKBONE[name]
        table = _SIDE_CHAINS[residue]
    return next((radius for names, radius in table.items() if name in names.split()), np.nan)


def _note_sites(atoms: Atoms, sites: NDArray[np.bool_]) -> None:
    if sites.any():
        emit([f"{atoms.name}: {named_atoms(atoms, sites)} are sites without a radius, not atoms, and are left out"])


# -- files ------------------------------------------------------------------------------------------------------------


def _of_file(atoms: Atoms, path: str, what: str) -> NDArray[np.float64]:
    elements, named = _read(path)
    found = np.full(len(atoms), np.nan)
    for residue, name in ((True, True), (False, True), (True, False), (False, False)):
        known = {key: radius for key, radius in named.items() if (key[0] != _ANY, key[1] != _ANY) == (residue, name)}
        missing = np.flatnonzero(np.isnan(found))
        if not known or not len(missing):
            continue
        part = atoms[missing]
        resnames = np.char.upper(part.resnames) if residue else np.full(len(part), _ANY)
        names = part.names if name else np.full(len(part), _ANY)
        pairs, of = np.unique(np.stack([resnames, names], axis=1), axis=0, return_inverse=True)
        values = np.array([known.get((pair[0], pair[1]), np.nan) for pair in pairs.tolist()])
        found[missing] = values[of.reshape(-1)]
    missing = np.flatnonzero(np.isnan(found))
    if len(missing) and elements:
        symbols = elements_of(atoms[missing], what)
        found[missing] = [elements.get(one, np.nan) if one else 0.0 for one in symbols.tolist()]
    lacking = np.isnan(found)
    if lacking.any():
        raise ArgumentError(f"has no radius for {named_atoms(atoms, lacking)} of {atoms.name}", at=path)
    if (found == 0).any():
        emit([f"{path}: {named_atoms(atoms, found == 0)} have no radius, and are left out"])
    return found


def _read(path: str) -> tuple[dict[str, float], dict[tuple[str, str], float]]:
    """Radii by element in capitals, and by residue in capitals and name."""
    with open_text(path, "file of radii") as file:
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise ArgumentError(f"is too large for a file of radii, expected at most {_MOST_BYTES} bytes", at=path)
    elements: dict[str, float] = {}
    named: dict[tuple[str, str], float] = {}
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        radius = _number(words[-1])
        if len(words) not in (2, 3) or radius is None:
            raise ArgumentError(
                f"line {number}: expected ELEMENT RADIUS or RESNAME NAME RADIUS, the radius from 0 to {_LARGEST:g} "
                f"angstrom, found {line.strip()[:60]!r}",
                at=path,
            )
        before = (
            elements.setdefault(words[0].upper(), radius)
            if len(words) == 2
            else named.setdefault((words[0].upper(), words[1]), radius)
        )
        if before != radius:
            raise ArgumentError(f"line {number}: {' '.join(words[:-1])} has another radius in a line before", at=path)
    if not elements and not named:
        raise ArgumentError("has no radii", at=path)
    return elements, named


def _number(word: str) -> float | None:
    try:
        radius = float(word)
    except ValueError:
        return None
    return radius if 0 <= radius <= _LARGEST else None

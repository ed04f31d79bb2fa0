"""The atoms of dihedral angles of amino-acid residues (phi, psi, omega, chi1 to chi5), found by atom names.

Definitions: IUPAC-IUB Commission on Biochemical Nomenclature, "Abbreviations and symbols for the description of the
conformation of polypeptide chains" (1970), Biochemistry 9, 3471. Residue names do not matter, so D and modified
residues have their angles too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.base.printable import counted
from kinema.model.atom_table import Atoms

# backbone: the name of each atom, and its residue: this one (0), the one before (-1) or after (1)
_BACKBONE: Mapping[str, tuple[tuple[str, int], ...]] = {
    "phi": (("C", -1), ("N", 0), ("CA", 0), ("C", 0)),
    "psi": (("N", 0), ("CA", 0), ("C", 0), ("N", 1)),
    "omega": (("CA", 0), ("C", 0), ("N", 1), ("CA", 1)),
}
# side chains: the atom that follows another is the first of these that exists. ILE has CD1 or CD; MSE and SEC have SE.
_FOLLOWING: tuple[Mapping[str, tuple[str, ...]], ...] = (
    {"CB": ("CG", "CG1", "OG", "OG1", "SG", "SE")},
    {"CG": ("CD", "CD1", "OD1", "ND1", "SD", "SE"), "CG1": ("CD1", "CD")},
    {"CD": ("NE", "CE", "OE1"), "SD": ("CE",), "SE": ("CE",)},
    {"NE": ("CZ",), "CE": ("NZ",)},
    {"CZ": ("NH1",)},
)
_SIDE_CHAIN = tuple(f"chi{number}" for number in range(1, 1 + len(_FOLLOWING)))
DIHEDRALS: tuple[str, ...] = (*_BACKBONE, *_SIDE_CHAIN)
"""Names of the dihedral angles of a residue."""

# number of chi angles of a residue with this name, for notes on residues that lack atoms
_CHIS = {
    name: number
    for number, names in {
        1: "CYS CYX CYM SER THR VAL",
        2: "ASN ASP HIS HID HIE HIP HSD HSE HSP ILE LEU PHE PRO TRP TYR",
        3: "GLN GLU MET MSE",
        4: "LYS",
        5: "ARG",
    }.items()
    for name in names.split()
}
_SHOWN = 6


@dataclass(frozen=True)
class ResidueDihedrals:
    """Dihedral angles of one name: `atoms` (n, 4) int64; `residues` (n,) int64, from 0 as `Atoms.resindices`."""

    name: str
    atoms: NDArray[np.int64]
    residues: NDArray[np.int64]


def residue_dihedrals(
    atoms: Atoms, names: Iterable[str], within: NDArray[np.integer] | None = None
) -> list[ResidueDihedrals]:
    """The atoms of dihedral angles of each residue that has them, for each of `names` in the table's order of residues.

    Residues are those with an atom of `within` (None: all) that have N, CA and C; atoms before and after may be of
    others, such as caps. A residue follows another if its N is bonded to the C of that one, whatever their numbers. If
    the bonds of one of the two are not known, it follows if it is the next in the table, of the same segment and chain,
    with the same or the next number.

    Emits notes: residues that lack an angle which their kind has, and atoms that a residue has several times, such as
    alternate locations, of which the first is taken. Raises ArgumentError for other names, if the table has no names or
    residues, if no residue has N, CA and C, and for an angle that no residue has.
    """
    wanted = list(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in DIHEDRALS]
    if unknown or not wanted:
        raise ArgumentError(f"dihedrals of residues are {', '.join(DIHEDRALS)}, found {', '.join(unknown) or 'none'}")
    table = _Residues(atoms)
    chosen = np.zeros(table.n_residues, bool)
    chosen[atoms.resindices if within is None else atoms.resindices[within]] = True
    chosen &= table.amino_acids
    if not chosen.any():
        raise ArgumentError(f"{atoms.name}: no residue of the selection has atoms N, CA and C; it is not a protein")
    found = []
    for name in wanted:
        quadruples = table.backbone(_BACKBONE[name]) if name in _BACKBONE else table.side_chain(name)
        whole = chosen & (quadruples >= 0).all(axis=1)
        table.note_missing(name, quadruples, chosen & ~whole)
        if not whole.any():
            raise ArgumentError(f"{atoms.name}: no residue of the selection has the atoms of {name}")
        found.append(ResidueDihedrals(name, quadruples[whole], np.flatnonzero(whole)))
    table.note_repeated(np.unique(np.concatenate([one.atoms.ravel() for one in found])))
    return found


def residue_labels(atoms: Atoms, residues: NDArray[np.integer]) -> list[str]:
    """Short names of residues: "LEU12"; with several segments "A:LEU12"."""
    first = np.unique(atoms.resindices, return_index=True)[1]
    heads = atoms[first[residues]]
    numbers, names, insertions = heads.get("resids"), heads.get("resnames"), heads.get("icodes")
    parts = [np.asarray(residues) + 1 if numbers is None else numbers]
    parts = parts if names is None else [names, *parts]
    parts = parts if insertions is None else [*parts, insertions]
    segments = _segments(atoms)
    if segments is not None and len(np.unique(segments)) > 1:
        parts = [np.char.add(segments[first[residues]], ":"), *parts]
    return ["".join(map(str, words)) for words in zip(*parts, strict=True)]


def _segments(atoms: Atoms) -> NDArray[np.str_] | None:
    segments = atoms.get("segids")
    return atoms.get("chainIDs") if segments is None else segments


class _Residues:
    """The residues of a table, and the places of their atoms: -1 for a missing atom."""

    def __init__(self, atoms: Atoms) -> None:
        self.atoms = atoms
        self._names, self._of = atoms.names, atoms.resindices
        self.n_residues = int(self._of.max(initial=-1)) + 1
        self._places: dict[str, NDArray[np.int64]] = {}
        # atoms that are the first of several with the same residue and name
        self._repeated: list[NDArray[np.int64]] = []
        self.amino_acids = (np.column_stack([self.place(name) for name in ("N", "CA", "C")]) >= 0).all(axis=1)
        self._after = self._neighbours()
        self._before = np.full(self.n_residues, -1, np.int64)
        follows = self._after >= 0
        self._before[self._after[follows]] = np.flatnonzero(follows)

    def place(self, name: str) -> NDArray[np.int64]:
        """(residues,) the first atom of this name in each residue."""
        if name not in self._places:
            place = np.full(self.n_residues, -1, np.int64)
            rows = np.flatnonzero(self._names == name)[::-1]
            # the last write wins
            place[self._of[rows]] = rows
            self._repeated.append(np.unique(place[self._of[rows[place[self._of[rows]] != rows]]]))
            self._places[name] = place
        return self._places[name]

    def backbone(self, parts: Iterable[tuple[str, int]]) -> NDArray[np.int64]:
        """(residues, 4) atoms by their names and residues."""
        here = np.arange(self.n_residues)
        residues = {-1: self._before, 0: here, 1: self._after}
        return np.column_stack([_picked(self.place(name), residues[shift]) for name, shift in parts])

    def side_chain(self, name: str) -> NDArray[np.int64]:
        """(residues, 4) atoms of a chi, which begins at the second atom of the chi before it."""
        chain = [self.place("N"), self.place("CA"), self.place("CB")]
        last = np.full(self.n_residues, "CB", dtype="U3")
        for following in _FOLLOWING[: 1 + _SIDE_CHAIN.index(name)]:
            atom, names = np.full(self.n_residues, -1, np.int64), np.full(self.n_residues, "", dtype="U3")
            for parent, children in following.items():
                for child in children:
                    fits = (last == parent) & (atom < 0) & (self.place(child) >= 0)
                    atom[fits], names[fits] = self.place(child)[fits], child
            chain.append(atom)
            last = names
        return np.column_stack(chain[-4:])

    def _neighbours(self) -> NDArray[np.int64]:
        """(residues,) the residue that follows each; -1 if none does."""
        carbon, nitrogen, alpha = self.place("C"), self.place("N"), self.place("CA")
        after = np.full(self.n_residues, -1, np.int64)
        # residues with bonds of their own: a PDB file may list only a few bonds of others
        known = np.zeros(self.n_residues, bool)
        bonds = self.atoms.get("bonds")
        for one, other in () if bonds is None else (bonds.T, bonds.T[::-1]):
            of, of_other = self._of[one], self._of[other]
            known[of[(nitrogen[of] == one) & (alpha[of] == other)]] = True
            peptide = (one == carbon[of]) & (other == nitrogen[of_other]) & (of != of_other)
            after[of[peptide]] = of_other[peptide]
        first = np.unique(self._of, return_index=True)[1]
        joined = ~(known[1:] & known[:-1]) & (after[:-1] < 0) & ~np.isin(np.arange(1, self.n_residues), after)
        for column in ("segids", "chainIDs", "molnums"):
            values = self.atoms.get(column)
            if values is not None:
                joined &= values[first[1:]] == values[first[:-1]]
        numbers = self.atoms.get("resids")
        if numbers is not None:
            # the same number has another insertion code
            joined &= np.isin(np.diff(numbers[first]), (0, 1))
        after[:-1][joined] = 1 + np.flatnonzero(joined)
        return after

    def note_missing(self, name: str, quadruples: NDArray[np.int64], lacking: NDArray[np.bool_]) -> None:
        """A note on residues that should have an angle."""
        reasons = {}
        for residue in map(int, np.flatnonzero(lacking)):
            if name in _BACKBONE:
                missing = quadruples[residue].tolist().index(-1)
                atom, shift = _BACKBONE[name][missing]
                reasons[residue] = f"no {atom}{ {-1: ' before it', 0: '', 1: ' after it'}[shift] }"
            elif self._chis(residue) > _SIDE_CHAIN.index(name):
                reasons[residue] = "atoms are missing"
        if not reasons:
            return
        labels = residue_labels(self.atoms, np.array(list(reasons)))
        shown = [f"{label} ({reason})" for label, reason in zip(labels, reasons.values(), strict=True)]
        more = f" and {counted(len(shown) - _SHOWN, 'residue')} more" if len(shown) > _SHOWN else ""
        emit([f"{self.atoms.name}: there is no {name} of {', '.join(shown[:_SHOWN])}{more}"])

    def _chis(self, residue: int) -> int:
        """The number of chi angles of a residue with this name; 0 if the name is unknown."""
        names = self.atoms.get("resnames")
        return 0 if names is None else _CHIS.get(str(names[self.place("CA")[residue]]), 0)

    def note_repeated(self, used: NDArray[np.int64]) -> None:
        """A note on residues with several atoms of the same name, if one of these atoms is `used`."""
        residues = np.unique(self._of[used[np.isin(used, np.concatenate(self._repeated))]])
        if not len(residues):
            return
        labels = ", ".join(residue_labels(self.atoms, residues[:_SHOWN]))
        more = f" and {counted(len(residues) - _SHOWN, 'residue')} more" if len(residues) > _SHOWN else ""
        emit(
            [
                f"{self.atoms.name}: atoms of one name several times in {labels}{more}, such as alternate locations; "
                "dihedrals are of the first"
            ]
        )


def _picked(places: NDArray[np.int64], residues: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place in each of the residues; -1 without one."""
    return np.where(residues >= 0, places[residues], -1)

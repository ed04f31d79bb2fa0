"""Atoms of hydrogen bonds, guessed from a table of atoms: hydrogens, their donors, and acceptors.

By masses and charges as MDAnalysis guesses them; by elements if the table lacks charges or masses. Donors are what
hydrogens are bonded to; if the table has no bonds, atoms that are near a hydrogen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.notes import emit
from kinema.base.printable import counted
from kinema.model.atom_table import Atoms

# lightest and heaviest hydrogen, u, and its least charge; the charge below which an atom is an acceptor or a donor
_MIN_MASS, _MAX_MASS, _MIN_CHARGE = 0.9, 1.1, 0.3
_MAX_CHARGE = -0.5
# masses of elements, u, and by how much a stated one may differ
_MASSES = {"H": 1.008, "N": 14.007, "O": 15.999, "S": 32.06}
_TOLERANCE = 0.1


@dataclass(frozen=True, eq=False)
class BondingAtoms:
    """Atoms that can take part in hydrogen bonds, counted from 0 in the trajectory.

    `hydrogens`, `acceptors`: (n,) int64.
    `donors`: (n,) int64; atoms that are donors if a hydrogen is near; without `pairs`.
    `pairs`: (n, 2) int64 or None; donor and hydrogen, the same in all frames; None: those that are near each other.
    """

    hydrogens: NDArray[np.int64]
    acceptors: NDArray[np.int64]
    donors: NDArray[np.int64]
    pairs: NDArray[np.int64] | None


def bonding_atoms(
    atoms: Atoms,
    donors: NDArray[np.integer] | None = None,
    hydrogens: NDArray[np.integer] | None = None,
    acceptors: NDArray[np.integer] | None = None,
    *,
    sulfur: bool = False,
) -> BondingAtoms:
    """The given atoms; those that are None are guessed. Emits notes on what is guessed without charges or bonds.

    Raises ArgumentError if there are no hydrogens or no acceptors, naming the column or argument that helps.
    """
    without = [column for column in ("masses", "charges") if not _is_known(atoms, column)]
    notes: list[str] = []
    by_elements: list[str] = []
    if hydrogens is None:
        if without:
            by_elements.append("hydrogens")
            hydrogens = _of_elements(atoms, ("H",))
        else:
            hydrogens = np.flatnonzero(guess_hydrogens(atoms))
        if not len(hydrogens):
            raise ArgumentError(
                f"{atoms.name} has no hydrogens that can form hydrogen bonds ({_looked_for(without)}); united atoms "
                "have none. If they have other masses, names or charges, name them with hydrogens_sel="
            )
    if acceptors is None:
        if "charges" in without:
            by_elements.append("acceptors")
            acceptors = _of_elements(atoms, _polar(sulfur))
        else:
            acceptors = np.flatnonzero(guess_acceptors(atoms))
        if not len(acceptors):
            raise ArgumentError(
                f"{atoms.name} has no acceptors (atoms with a charge below {_MAX_CHARGE}, or without charges N and O); "
                "name them with acceptors_sel="
            )
    pairs = None
    if donors is None:
        pairs = _bonded(atoms, np.asarray(hydrogens), notes, _polar(sulfur), only_polar="hydrogens" in by_elements)
        if pairs is None:
            donors = _of_elements(atoms, _polar(sulfur))
            if not len(donors):
                raise ArgumentError(
                    f"{atoms.name} has no bonds, and no N or O that could be donors; give a topology that has bonds "
                    "with topology= (-s), or name the donors with donors_sel="
                )
    if by_elements:
        notes.insert(
            0,
            f"{atoms.name} has no {' and no '.join(without)}: {' and '.join(by_elements)} are by element "
            f"({', '.join(_polar(sulfur))})",
        )
    emit(notes)
    return BondingAtoms(
        np.asarray(hydrogens, np.int64),
        np.asarray(acceptors, np.int64),
        np.zeros(0, np.int64) if donors is None else np.asarray(donors, np.int64),
        pairs,
    )


def guess_hydrogens(
    atoms: Atoms,
    within: NDArray[np.integer] | None = None,
    max_mass: float = _MAX_MASS,
    min_charge: float = _MIN_CHARGE,
    min_mass: float = _MIN_MASS,
) -> NDArray[np.bool_]:
    """(n_atoms,) whether an atom is named as one with `min_mass < mass < max_mass` and a charge above `min_charge`.

    Atoms of the same residue name and name go together; `within` are those that are looked at, by default all.
    """
    masses, charges = atoms.masses, atoms.charges
    return _widened(atoms, (masses > min_mass) & (masses < max_mass) & (charges > min_charge), within)


def guess_donors(
    atoms: Atoms, within: NDArray[np.integer] | None = None, max_charge: float = _MAX_CHARGE
) -> NDArray[np.bool_]:
    """(n_atoms,) whether an atom is named as one with a charge below `max_charge`; see `guess_hydrogens`."""
    return _widened(atoms, atoms.charges < max_charge, within)


def guess_acceptors(
    atoms: Atoms, within: NDArray[np.integer] | None = None, max_charge: float = _MAX_CHARGE
) -> NDArray[np.bool_]:
    """(n_atoms,) whether an atom is named as one with a charge below `max_charge`; see `guess_hydrogens`."""
    return _widened(atoms, atoms.charges < max_charge, within)


def selection_of(atoms: Atoms, chosen: NDArray[np.bool_]) -> str:
    """A selection string of the residue names and names (without them, the types) of atoms; "" for none."""
    names, resnames = atoms.get("names"), atoms.get("resnames")
    rows = np.flatnonzero(chosen)
    if names is None or resnames is None:
        return " or ".join(f"type {kind}" for kind in np.unique(atoms.types[rows]))
    found = sorted(set(zip(resnames[rows].tolist(), names[rows].tolist(), strict=True)))
    return " or ".join(f"(resname {resname} and name {name})" for resname, name in found)


def _widened(atoms: Atoms, chosen: NDArray[np.bool_], within: NDArray[np.integer] | None) -> NDArray[np.bool_]:
    """Whether an atom has the residue name and name (without them, the type) of one that is chosen."""
    if within is not None:
        inside = np.zeros(len(atoms), bool)
        inside[within] = True
        chosen = chosen & inside
    names, resnames = atoms.get("names"), atoms.get("resnames")
    columns: Sequence[NDArray[np.str_]] = (resnames, names) if names is not None and resnames is not None else ()
    if not columns:
        kinds = atoms.get("types")
        if kinds is None:
            return chosen
        columns = (kinds,)
    key = np.zeros(len(atoms), np.int64)
    for column in columns:
        _, of = np.unique(column, return_inverse=True)
        key = key * (int(of.max(initial=0)) + 1) + of
    return np.isin(key, np.unique(key[chosen]))


def _bonded(
    atoms: Atoms, hydrogens: NDArray[np.integer], notes: list[str], polar: tuple[str, ...], *, only_polar: bool
) -> NDArray[np.int64] | None:
    """(n, 2) what hydrogens are bonded to, and these, if asked only for donors of `polar` elements.

    None without such bonds.
    """
    bonds = atoms.get("bonds")
    is_hydrogen = np.zeros(len(atoms), bool)
    is_hydrogen[hydrogens] = True
    pairs = np.zeros((0, 2), np.int64)
    if bonds is not None and len(bonds):
        both = np.concatenate([bonds, bonds[:, ::-1]])
        # rigid waters have bonds from hydrogen to hydrogen
        pairs = both[is_hydrogen[both[:, 1]] & ~is_hydrogen[both[:, 0]]]
        alone = len(hydrogens) - len(np.unique(pairs[:, 1]))
        if len(pairs) and alone:
            notes.append(f"{atoms.name}: {counted(alone, 'hydrogen')} of {len(hydrogens):,} have no bond and no donor")
        if only_polar:
            pairs = pairs[np.isin(pairs[:, 0], _of_elements(atoms, polar))]
    if not len(pairs):
        donors = f"{', '.join(polar[:-1])} and {polar[-1]}"
        notes.append(
            f"{atoms.name} has no bonds of hydrogens: {donors} are donors of the hydrogens that are within d_h_cutoff "
            "of them in a frame"
        )
        return None
    return np.unique(pairs, axis=0)


def _polar(sulfur: bool) -> tuple[str, ...]:
    return ("N", "O", "S") if sulfur else ("N", "O")


def _looked_for(without: Sequence[str]) -> str:
    if without:
        return f"of element H, as the table has no {' and no '.join(without)}"
    return f"{_MIN_MASS} < mass < {_MAX_MASS} u and charge > {_MIN_CHARGE}"


def _is_known(atoms: Atoms, column: str) -> bool:
    """Whether a column is there and says something: not all values are zero."""
    values = atoms.get(column)
    return values is not None and bool(np.any(values))


def _of_elements(atoms: Atoms, elements: Sequence[str]) -> NDArray[np.int64]:
    """The atoms of these elements: by the column of elements, else by mass, else by the first letter of the name."""
    symbols = atoms.get("elements")
    if symbols is not None and np.any(symbols != ""):
        return np.flatnonzero(np.isin(np.char.upper(symbols), elements))
    masses = atoms.get("masses")
    if masses is not None and np.any(masses):
        near = [np.abs(masses - _MASSES[element]) < _TOLERANCE for element in elements]
        return np.flatnonzero(np.any(near, axis=0))
    names = np.char.lstrip(atoms.names, "0123456789")
    return np.flatnonzero(np.isin(names.astype("U1"), elements))

"""`BondAnalysis`, the base of analyses of hydrogen bonds; criteria with their limits, atoms as arguments of kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from kinema.analysis.declaration import Option
from kinema.analysis.lists import ListAnalysis
from kinema.base.choices import positive_number
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.transforms.arguments import select_atoms

if TYPE_CHECKING:
    from kinema.model.selection.atoms import Selection
    from kinema.model.selection.hydrogen_bonds import BondingAtoms
    from kinema.trajectory import Trajectory

#: arguments that analyses of hydrogen bonds share
DonorsSelect = Annotated[Any, Option("--donors-sel", "Donors; by default guessed.", takes="atoms")]
HydrogensSelect = Annotated[Any, Option("--hydrogens-sel", "Hydrogens; by default guessed.", takes="atoms")]
AcceptorsSelect = Annotated[Any, Option("--acceptors-sel", "Acceptors; by default guessed.", takes="atoms")]
DonorHydrogenCutoff = Annotated[
    float,
    Option("--d-h-cutoff", "Distance of hydrogens from donors without known bonds.", unit="angstrom", least=0),
]
Sulfur = Annotated[bool, Option("--sulfur", "S is a donor and an acceptor too, if these are by element.")]

#: limits of each criterion: distance, angstrom, and angle, degrees; None: it has none
_LIMITS: Mapping[str, tuple[float, float | None]] = {
    "distance-angle": (3.0, 150.0),
    "gromacs": (3.5, 30.0),
    "baker-hubbard": (2.5, 120.0),
    "wernet-nilsson": (3.3, None),
    # of water bridges
    "hydrogen": (3.0, 120.0),
    "heavy": (3.0, 120.0),
}
#: first atoms that a message names
_SHOWN = 5


def criterion_arguments(
    criterion: str, distance: float | None, angle: float | None, names: tuple[str, str]
) -> dict[str, Any]:
    """The kernel's arguments of a criterion; limits that are None are those of its source.

    Raises ArgumentError for limits that it cannot have; `names` are those of the limits.
    """
    usual_distance, usual_angle = _LIMITS[criterion]
    distance = positive_number(names[0], usual_distance if distance is None else distance)
    if usual_angle is None:
        if angle is not None:
            raise ArgumentError(f"criterion={criterion!r} limits distances alone; leave out {names[1]}=")
        return {"criterion": criterion, "distance": distance, "angle": 0.0}
    angle = usual_angle if angle is None else angle
    if not _is_number(angle) or not 0 <= angle <= 180:
        raise ArgumentError(f"{names[1]} is an angle from 0 to 180 degrees, found {angle!r}")
    return {"criterion": criterion, "distance": distance, "angle": float(angle)}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def bonding_atoms_of(
    trajectory: Trajectory,
    donors_sel: Any,
    hydrogens_sel: Any,
    acceptors_sel: Any,
    *,
    sulfur: bool,
    may_change: bool = False,
) -> BondingAtoms:
    """The atoms that the arguments select; atoms of None are guessed from the topology.

    With `may_change` atoms may change with the frame; those that can be selected in any frame are given.

    Raises ArgumentError without a topology if something is to be guessed, and for atoms that are of two kinds.
    """
    from kinema.model.atom_table import Atoms
    from kinema.model.selection.hydrogen_bonds import bonding_atoms

    chosen = (donors_sel, hydrogens_sel, acceptors_sel)
    of = [None if one is None else select_atoms(trajectory, one, may_change=may_change) for one in chosen]
    given = [None if one is None else one.indices for one in of]
    if trajectory.topology is not None:
        atoms = trajectory.topology.atoms
    elif all(one is not None for one in given):
        atoms = Atoms(trajectory.n_atoms)
    else:
        raise ArgumentError(
            "hydrogen bonds need a topology, from which hydrogens, donors and acceptors come: give one with topology=, "
            "or name all three with donors_sel=, hydrogens_sel= and acceptors_sel="
        )
    donors, hydrogens, acceptors = given
    for name, others in (("donors_sel", donors), ("acceptors_sel", acceptors)):
        both = np.zeros(0) if others is None or hydrogens is None else np.intersect1d(others, hydrogens)
        if len(both):
            shown = ", ".join(str(one + 1) for one in both[:_SHOWN])
            raise ArgumentError(
                f"{name} and hydrogens_sel have {counted(len(both), 'atom')} in common (counted from 1: {shown}); an "
                "atom is either"
            )
    return bonding_atoms(atoms, donors, hydrogens, acceptors, sulfur=sulfur)


def only_among(atoms: BondingAtoms, groups: Sequence[Selection], named: str) -> BondingAtoms:
    """The atoms without the donors and acceptors that are in none of the groups.

    Raises ArgumentError if no donor or no acceptor is left; `named` is how arguments name the groups.
    """
    from dataclasses import replace

    members = np.unique(np.concatenate([group.indices for group in groups]))
    pairs = atoms.pairs
    left = replace(
        atoms,
        acceptors=atoms.acceptors[np.isin(atoms.acceptors, members)],
        donors=atoms.donors[np.isin(atoms.donors, members)],
        pairs=None if pairs is None else pairs[np.isin(pairs[:, 0], members)],
    )
    for name, found in (("acceptors", left.acceptors), ("donors", left.donors if pairs is None else left.pairs)):
        if found is None or not len(found):
            raise ArgumentError(f"the groups of {named} have no {name}, expected some in one of them")
    return left


class BondAnalysis(ListAnalysis):
    """An analysis of hydrogen bonds: nearest images count, whether molecules are whole or not."""

    notes_open_frames = True
    _minimum_image = True

    def _result(self, name: str) -> NDArray[Any]:
        """A result in memory. Raises ArgumentError before `run`."""
        if not self.results:
            raise ArgumentError(f"{type(self).__name__} has no results yet; call run() first")
        return np.asarray(self.results[name])


def atom_arguments(atoms: BondingAtoms, d_h_cutoff: float) -> dict[str, Any]:
    """The kernel's arguments of atoms."""
    found = {"acceptors": atoms.acceptors.astype(np.uint32)}
    if atoms.pairs is not None:
        return found | {"pairs": np.ascontiguousarray(atoms.pairs, np.uint32)}
    donors, hydrogens = atoms.donors.astype(np.uint32), atoms.hydrogens.astype(np.uint32)
    return found | {"donors": donors, "hydrogens": hydrogens, "d_h_cutoff": d_h_cutoff}

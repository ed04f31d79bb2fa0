"""`wrap`: puts atoms, residues or molecules into the unit cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.choices import UNIT_CELLS, check_choice
from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.model.selection.atoms import AtomChoice
from kinema.trajectory.bonds import bonds_of, first_atoms, is_of_any_atoms
from kinema.trajectory.transform import Transform, names_by_words, words_of
from kinema.transforms.arguments import describe
from kinema.transforms.periodic.order import check_order, check_unwrapped_together

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

COMPOUNDS = ("atoms", "residues", "molecules")
# label of atoms that do not move
NO_GROUP = np.uint32(0xFFFF_FFFF)


class Wrap(Transform):
    """See `wrap`."""

    name: ClassVar[str] = "wrap"

    def __init__(self, select: AtomChoice, compound: str, ur: str, weights: str | None, bonds: Any) -> None:
        check_choice("compound", compound, COMPOUNDS)
        check_choice("ur", ur, UNIT_CELLS)
        if weights is not None and weights != "mass":
            raise ArgumentError(f"weights is None or 'mass', found {weights!r}")
        self._select, self._compound, self._ur = select, compound, ur
        self._weights, self._bonds = weights, bonds

    @property
    def arguments(self) -> Mapping[str, str]:
        arguments = {} if self._select is None else {"select": describe(self._select)}
        arguments |= {"compound": describe(self._compound), "ur": describe(self._ur)}
        if self._compound != "atoms":
            arguments |= {"weights": describe(self._weights)}
        return arguments if self._bonds is None else arguments | {"bonds": describe(self._bonds)}

    def for_other_atoms(self, bound: _core.Transform) -> Wrap | None:
        """See `Transform`: the structure's own molecules are used."""
        if not names_by_words(self._select) or not is_of_any_atoms(self._bonds):
            return None
        return Wrap(words_of(self._select), self._compound, self._ur, self._weights, self._bonds)

    def bind(self, trajectory: Trajectory) -> _core.Transform:
        check_order(self.name, trajectory)
        labels = labels_of(trajectory, self._compound, self._bonds)
        if self._select is not None:
            chosen = np.isin(labels, labels[trajectory.select(self._select).indices])
            labels = np.where(chosen, labels, NO_GROUP)
        check_labels_unwrapped(self.name, trajectory, labels)
        masses = masses_of(trajectory) if self._weights == "mass" and self._compound != "atoms" else None
        every_atom = self._compound == "atoms" and self._select is None
        return _core.Transform(
            self.name,
            trajectory.n_atoms,
            label=self.label,
            labels=None if every_atom else labels,
            masses=masses,
            shape=self._ur,
        )


def labels_of(trajectory: Trajectory, compound: str, bonds: Any = None) -> NDArray[np.uint32]:
    """For each atom, the first atom of the compound that it moves with, (n_atoms,). Emits notes on bonds."""
    if compound == "atoms":
        return np.arange(trajectory.n_atoms, dtype=np.uint32)
    if compound == "molecules":
        known = bonds_of(trajectory, bonds)
        emit(known.notes)
        return first_atoms(trajectory.n_atoms, known.pairs)
    residues = trajectory.atoms.resindices
    _, first, number = np.unique(residues, return_index=True, return_inverse=True)
    return first[number].astype(np.uint32)


def check_labels_unwrapped(name: str, trajectory: Trajectory, labels: NDArray[np.uint32]) -> None:
    """As `check_unwrapped_together`, for atoms with labels of groups; `NO_GROUP` marks atoms in no group."""
    atoms = np.flatnonzero(labels != NO_GROUP).astype(np.uint32)
    check_unwrapped_together(name, trajectory, atoms, labels[atoms])


def masses_of(trajectory: Trajectory) -> NDArray[np.float64] | None:
    """The masses of all atoms in u; None, with a note, if they are not known."""
    atoms = None if trajectory.topology is None else trajectory.atoms
    masses = None if atoms is None else atoms.get("masses")
    if atoms is None or masses is None or not np.isfinite(masses).all() or (masses < 0).any():
        name = trajectory.paths[0] if atoms is None else atoms.name
        emit([f"{name} has no masses: centres of molecules and residues are of geometry"])
        return None
    if "masses" in atoms.guessed:
        # zero masses change no centre
        emit(atoms.mass_notes())
    return masses


def wrap(
    select: AtomChoice = None,
    *,
    compound: str = "atoms",
    ur: str = "rect",
    weights: str | None = "mass",
    bonds: Any = None,
) -> Wrap:
    """Puts atoms, or residues or molecules by their centres, into the unit cell.

    Parameters
    ----------
    select : as `Trajectory.select`
        Atoms to put there, with all of their residue or molecule; by default all.
    compound : {"atoms", "residues", "molecules"}
        Atoms that move together. Centres use positions as they are: apply `whole` first.
    ur : {"rect", "tric", "compact"}
        Shape of the unit cell, as in `gmx trjconv -ur`: a brick, the parallelepiped of the edges (as MDAnalysis'
        `wrap`), or the points nearest to its middle. In a cell with right angles they are the same, except that
        `compact` differs if edges are open.
    weights : {"mass", None}
        Centres of mass, or of geometry. If masses are not known, centres are of geometry, with a note.
    bonds : as in `whole`

    Returns
    -------
    Wrap
        For `Trajectory.with_transform`.
    """
    return Wrap(select, compound, ur, weights, bonds)

"""`whole`: makes molecules whole that are broken at the faces of the cell.

The first atom of a molecule stays; each further atom is put at the image nearest to an atom that it is bonded to. Atoms
move by whole edges of the cell only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kinema import _core
from kinema.base.notes import emit
from kinema.model.selection.atoms import AtomChoice
from kinema.trajectory.bonds import bonds_of, is_of_any_atoms
from kinema.trajectory.transform import Transform, names_by_words, words_of
from kinema.transforms.arguments import describe
from kinema.transforms.periodic.order import check_order

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

__all__ = ["Whole", "whole"]


class Whole(Transform):
    """See `whole`."""

    name: ClassVar[str] = "whole"

    def __init__(self, select: AtomChoice, bonds: Any) -> None:
        self._select, self._bonds = select, bonds

    @property
    def arguments(self) -> Mapping[str, str]:
        arguments = {} if self._select is None else {"select": describe(self._select)}
        return arguments if self._bonds is None else arguments | {"bonds": describe(self._bonds)}

    def for_other_atoms(self, bound: _core.Transform) -> Whole | None:
        """See `Transform`: bonds come from the structure, or are guessed in it."""
        by_words = names_by_words(self._select) and is_of_any_atoms(self._bonds)
        return Whole(words_of(self._select), self._bonds) if by_words else None

    def bind(self, trajectory: Trajectory) -> _core.Transform:
        check_order(self.name, trajectory)
        bonds = bonds_of(trajectory, self._bonds)
        emit(bonds.notes)
        atoms = None if self._select is None else trajectory.select(self._select).indices
        return _core.Transform(self.name, trajectory.n_atoms, label=self.label, bonds=bonds.pairs, atoms=atoms)


def whole(select: AtomChoice = None, *, bonds: Any = None) -> Whole:
    """Makes molecules whole that are broken at the faces of the periodic cell.

    Parameters
    ----------
    select : as `Trajectory.select`
        Atoms whose molecules are made whole; all by default. Atoms that nobody asks for are neither read nor moved.
    bonds : None, "guess", a file, or (n_bonds, 2) pairs of atoms
        None: the topology's bonds; virtual sites (no mass, no bond) move with the atom before them in their residue. If
        the topology has no bonds, or is a PDB file, each atom moves with the atom before it in its residue, with a
        note. "guess": by distances in the first frame, as MDAnalysis guesses them; in water from the first atom of
        each residue. A file: a topology of the same atoms with bonds.

    Returns
    -------
    Whole
        For `Trajectory.with_transform`. Errors that name the frame: a frame without a periodic cell, positions that are
        not finite, and molecules that are bonded to their own image (periodic polymers).

    Examples
    --------
    >>> rmsd = kn.analysis.RMSD(traj.with_transform(kn.transforms.whole("protein")), "name CA")
    """
    return Whole(select, bonds)

"""Pairs of atoms that are near each other, per frame.

    d(t) = |x_j(t) - x_i(t)| <= cutoff,   nearest images in the frame's cell

Angstrom. It finds the pairs among all atoms of one or two groups, exactly: as all distances in double precision.
Source: MDAnalysis' `capped_distance` and `self_capped_distance`; there, pairs of atoms that two groups share occur
twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from kinema import _core
from kinema.analysis.declaration import MinimumImage, Option, Quantity
from kinema.analysis.declared import group_arguments
from kinema.analysis.lists import ListAnalysis, RowKey
from kinema.base.choices import positive_number
from kinema.model.selection.bonded_pairs import pairs_by_bonds
from kinema.transforms.arguments import select_atoms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinema.model.selection.atoms import AtomChoice, Selection
    from kinema.trajectory import Trajectory

__all__ = ["Neighbors"]


class Neighbors(ListAnalysis):
    """Pairs of near atoms over time.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`, or atoms that change with the frame
        None: all atoms.
    other : as `select`, optional
        The second group; None: pairs within `select`. A pair occurs once, also if the groups share atoms.
    cutoff : float
        Largest distance of a pair, angstrom; a distance equal to it counts.
    exclude_bonds : int
        Leaves out pairs that at most this number of bonds connects; 0: none.
    minimum_image : bool
        Distances of the nearest images; False: use the positions as stored. Without a cell both are the same.

    After `run`
    -----------
    results.i, results.j : (rows,) uint32
        Atoms from 0, ascending: i of `select`, j of `other`; within one group i < j.
    results.distance : (rows,) float64, angstrom
    results.frames, results.time : (frames,)
    results.counts : (frames,) int64
        Number of pairs of each frame.
    results.first_row : (frames + 1,) int64
        Frame k has the rows first_row[k]:first_row[k + 1].

    Raises
    ------
    ArgumentError
        For a cutoff that is not above 0 or not finite; for exclude_bonds if the topology has no bonds.

    Examples
    --------
    >>> pairs = kn.analysis.Neighbors(traj, select="name CA", cutoff=5.0, exclude_bonds=3).run(step=50)
    >>> pairs.results.counts.shape
    (4,)
    """

    command_name = "neighbors"
    notes_open_frames = True
    takes_changing = True
    summary = "Pairs of atoms within a cutoff, in each frame."
    quantities = (Quantity("distance", "angstrom", "distance"),)
    reference = "MDAnalysis.lib.distances.capped_distance, self_capped_distance"
    row_name = "pair"
    keys = (RowKey("i"), RowKey("j"))

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        other: Annotated[
            Any, Option("--other", "Second group; without it, pairs within --select.", takes="atoms")
        ] = None,
        cutoff: Annotated[float, Option("--cutoff", "Largest distance of a pair.", unit="angstrom", least=0)] = 3.5,
        exclude_bonds: Annotated[
            int, Option("--exclude-bonds", "Leave out pairs that at most this number of bonds connects.", least=0)
        ] = 0,
        minimum_image: MinimumImage = True,
    ) -> None:
        self._other = None if other is None else select_atoms(trajectory, other, may_change=True)
        super().__init__(
            trajectory,
            select,
            other=self._other,
            cutoff=cutoff,
            exclude_bonds=exclude_bonds,
            minimum_image=minimum_image,
        )
        for group in self.selections:
            group.check_unique()
        self._cutoff, self._minimum_image = positive_number("cutoff", cutoff), bool(minimum_image)
        self._exclude_bonds = int(exclude_bonds)
        with self._noting():
            atoms = trajectory.atoms if exclude_bonds else None
            self._excluded = pairs_by_bonds(atoms, exclude_bonds, "exclude_bonds") if exclude_bonds else None

    @property
    def selections(self) -> Sequence[Selection]:
        """One group or two."""
        return (self.selection,) if self._other is None else (self.selection, self._other)

    @property
    def subject(self) -> str:
        of = self.selection.count(self.trajectory.n_atoms)
        other = "" if self._other is None else f" and {self._other.count(self.trajectory.n_atoms)}"
        return f"pairs of {of}{other}"

    def _kernel(self) -> _core.Kernel:
        return _core.Kernel(
            "neighbors",
            self.trajectory.n_atoms,
            **self._group_arguments(),
            **({} if self._other is None else group_arguments(self._other, "other", "other_group")),
            excluded=self._excluded,
            cutoff=self._cutoff,
            minimum_image=self._minimum_image,
        )

"""Distances of pairs of atoms per frame.

    d(t) = |x_2(t) - x_1(t)|,   nearest images in the frame's cell

Angstrom; exactly the nearest of all images, in any triclinic cell. Source: MDAnalysis' `AtomicDistances` and MDTraj's
`compute_distances`, which agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.tuples import TupleAnalysis, groups_or_tuples, tuples_of
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.transforms.arguments import select_atoms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinema.trajectory import Trajectory

__all__ = ["Distances"]

_GROUPS = ("ag1", "ag2")


class Distances(TupleAnalysis):
    """Distances of pairs of atoms over time.

    Parameters
    ----------
    trajectory : Trajectory
    pairs : (n, 2) array of atom numbers from 0, or n atom groups of two atoms
        An atom may be in several pairs.
    ag1, ag2 : as `Trajectory.select`, instead of pairs
        Groups of equal size: their first atoms form a pair, their second atoms, and so on.
    all_pairs : bool
        All pairs of an atom of ag1 and another atom of ag2, which may differ in size; without ag2, of two atoms of ag1.
        Each pair appears once, in the order of ag1 and then of ag2.
    minimum_image : bool
        Distances of the nearest images; False: use the positions as stored. Without a cell both are the same.

    After `run`
    -----------
    results.distances : (frames, n) float64, angstrom
    results.values : the same
    results.frames, results.time : (frames,)

    Examples
    --------
    >>> distances = kn.analysis.Distances(traj, pairs=[(0, 100), (5, 2000)]).run()
    >>> distances.results.distances.shape
    (196, 2)
    """

    command_name = "distances"
    summary = "Distances of pairs of atoms, for each frame."
    quantities = (Quantity("distances", "angstrom", "distance", "one for each pair"),)
    reference = "MDAnalysis.analysis.atomicdistances.AtomicDistances; mdtraj.compute_distances"
    kernel_name, kernel_tuples = "distances", "pairs"
    tuple_name = "pair"
    always_defined = True

    def __init__(
        self,
        trajectory: Trajectory,
        pairs: Annotated[
            Any, Option("--pairs", "File of pairs, two atom numbers from 1 a line.", takes="tuples", atoms_each=2)
        ] = None,
        ag1: Annotated[Any, Option("--ag1", "Instead: first atoms of the pairs.", takes="atoms")] = None,
        ag2: Annotated[Any, Option("--ag2", "Second atoms of the pairs, as many.", takes="atoms")] = None,
        all_pairs: Annotated[
            bool,
            Option("--all-pairs", "All pairs of an atom of --ag1 and one of --ag2, or of two atoms of --ag1 alone."),
        ] = False,
        minimum_image: Annotated[
            bool, Option("--minimum-image/--no-minimum-image", "Use the nearest images in the cell.")
        ] = True,
    ) -> None:
        given = {"pairs": pairs, "ag1": ag1, "ag2": ag2}
        if all_pairs:
            _check_all_pairs(given)
            first = select_atoms(trajectory, ag1).indices
            found = _all_pairs(first, first if ag2 is None else select_atoms(trajectory, ag2).indices)
            super().__init__(trajectory, found, minimum_image, **given, all_pairs=True)
            return
        found = tuples_of(trajectory, given, "pairs", 2, _GROUPS)
        super().__init__(trajectory, found, minimum_image, **given)
        alone = np.count_nonzero(found[:, 0] == found[:, 1])
        if alone:
            self._add_notes(
                [
                    f"{alone:,} of {counted(len(found), 'pair')} are of an atom with itself, at a distance of 0: the "
                    "n-th atom of one group goes with the n-th of the other; all_pairs=True takes all pairs"
                ]
            )

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        """See `DeclaredAnalysis`."""
        if given.get("all_pairs"):
            _check_all_pairs(given)
        else:
            groups_or_tuples(given, "pairs", _GROUPS)


def _check_all_pairs(given: Mapping[str, Any]) -> None:
    if given.get("ag1") is None or given.get("pairs") is not None:
        raise ArgumentError("all_pairs takes ag1, and ag2 unless pairs are of two atoms of ag1, but no pairs")


def _all_pairs(first: NDArray[np.uint32], second: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Each pair of different atoms once. Raises ArgumentError if there is none."""
    pairs = np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1).reshape(-1, 2)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    _, places = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True)
    if not len(places):
        raise ArgumentError("all_pairs: there are no two different atoms to make a pair of")
    return np.ascontiguousarray(pairs[np.sort(places)])

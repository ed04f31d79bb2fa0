"""Distances of pairs of atoms per frame.

    d(t) = |x_2(t) - x_1(t)|, of the nearest images in the frame's cell

angstrom; in any triclinic cell the nearest of all images is taken, exactly. Source: MDAnalysis' `AtomicDistances` and
MDTraj's `compute_distances`, which agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.of_tuples import TupleAnalysis, groups_or_tuples, tuples_of

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
        As many atoms each, of which the first make a pair, the second, and so on.
    minimum_image : bool
        Distances of the nearest images; False: as the atoms stand. Without a cell both are the same.

    After `run`
    -----------
    results.distances : (frames, n) float64, angstrom
    results.values : the same
    results.frames, results.time : (frames,)
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
        ag1: Annotated[Any, Option("--ag1", "First atoms of the pairs, instead.", takes="atoms")] = None,
        ag2: Annotated[Any, Option("--ag2", "Second atoms of the pairs, as many.", takes="atoms")] = None,
        minimum_image: Annotated[
            bool, Option("--minimum-image/--no-minimum-image", "Of the nearest images in the cell.")
        ] = True,
    ) -> None:
        given = {"pairs": pairs, "ag1": ag1, "ag2": ag2}
        super().__init__(trajectory, tuples_of(trajectory, given, "pairs", 2, _GROUPS), minimum_image, **given)

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        """See `DeclaredAnalysis`."""
        groups_or_tuples(given, "pairs", _GROUPS)

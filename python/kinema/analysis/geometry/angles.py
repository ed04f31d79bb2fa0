"""Angles of triples of atoms per frame.

    a(t) = atan2( |u x v|, u . v ),   u = x_1(t) - x_2(t), v = x_3(t) - x_2(t), nearest images in the frame's cell

Degrees from 0 to 180; nan if the second atom coincides with another. Source: MDAnalysis' `calc_angles` and MDTraj's
`compute_angles`, which give radians.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.tuples import TupleAnalysis, groups_or_tuples, tuples_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinema.trajectory import Trajectory

__all__ = ["Angles"]

_GROUPS = ("ag1", "ag2", "ag3")


class Angles(TupleAnalysis):
    """Angles of triples of atoms over time, at the second atom of each.

    Parameters
    ----------
    trajectory : Trajectory
    triples : (n, 3) array of atom numbers from 0, or n atom groups of three atoms
    ag1, ag2, ag3 : as `Trajectory.select`, instead of triples
        Groups of equal size: their first atoms form a triple, their second atoms, and so on.
    minimum_image : bool
        Use the nearest images for both bonds; False: use the positions as stored. Without a cell both are the same.

    After `run`
    -----------
    results.angles : (frames, n) float64, degrees
    results.values : the same
    results.frames, results.time : (frames,)
    """

    command_name = "angles"
    summary = "Angles of triples of atoms, for each frame."
    quantities = (Quantity("angles", "degree", "angle", "one for each triple"),)
    reference = "MDAnalysis.lib.distances.calc_angles; mdtraj.compute_angles"
    kernel_name, kernel_tuples = "angles", "triples"
    tuple_name = "triple"

    def __init__(
        self,
        trajectory: Trajectory,
        triples: Annotated[
            Any, Option("--triples", "File of triples, three atom numbers from 1 a line.", takes="tuples", atoms_each=3)
        ] = None,
        ag1: Annotated[Any, Option("--ag1", "Instead: first atoms of the triples.", takes="atoms")] = None,
        ag2: Annotated[Any, Option("--ag2", "Second atoms, at the angles, as many.", takes="atoms")] = None,
        ag3: Annotated[Any, Option("--ag3", "Third atoms of the triples, as many.", takes="atoms")] = None,
        minimum_image: Annotated[
            bool, Option("--minimum-image/--no-minimum-image", "Use the nearest images in the cell.")
        ] = True,
    ) -> None:
        given = {"triples": triples, "ag1": ag1, "ag2": ag2, "ag3": ag3}
        super().__init__(trajectory, tuples_of(trajectory, given, "triples", 3, _GROUPS), minimum_image, **given)

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        """See `DeclaredAnalysis`."""
        groups_or_tuples(given, "triples", _GROUPS)

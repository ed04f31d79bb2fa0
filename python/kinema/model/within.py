"""`within`: atoms near others as an object, for `select` of analyses whose atoms may change with the frame."""

from __future__ import annotations

from typing import Any

from kinema.base.choices import COMPOUND, check_choice, positive_number
from kinema.base.frozen_dataclass import dataclass


@dataclass(frozen=True, eq=False)
class Within:
    """Atoms near others; made by `within`, whose arguments it has."""

    cutoff: float
    of: Any
    among: Any = None
    whole: str | None = None


def within(cutoff: float, of: Any, among: Any = None, whole: str | None = None) -> Within:
    """Atoms within a distance of others in each frame, for `select` of an analysis.

    Parameters
    ----------
    cutoff : float
        Largest distance from the nearest atom of `of`, nearest images, angstrom; an equal distance counts.
    of : as `Trajectory.select`, or atoms that change
        The reference. Its own atoms are left out, as by `around`.
    among : as `Trajectory.select`, or atoms that change
        Atoms to choose from; None: all.
    whole : {"residues", "segments"}, optional
        Take all atoms of each residue or segment with such an atom, also atoms that are not `among`.

    Raises
    ------
    ArgumentError
        For a cutoff that is not above 0 and finite, and another word for `whole`.

    Examples
    --------
    >>> near = kn.within(6.0, of="resid 1", among="name CA")
    >>> kn.analysis.AtomCount(traj, select=near).run(stop=3).results.count
    array([11, 10, 10])
    """
    cutoff = positive_number("cutoff of within", cutoff)
    if whole is not None:
        check_choice("whole", whole, tuple(word for word in COMPOUND if word != "group"))
    return Within(cutoff, of, among, whole)

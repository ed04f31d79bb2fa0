"""The one order in which transforms of periodic systems follow each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinema.errors import ArgumentError

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

__all__ = ["ORDER", "check_order"]

ORDER = ("whole", "nojump", "displacement", "cluster", "center", "wrap", "superpose", "centers")
"""Names of transforms. Each undoes what a later one does, or needs what an earlier one has done."""


def check_order(name: str, trajectory: Trajectory) -> None:
    """ArgumentError where a transform would come behind one that belongs behind it."""
    place = ORDER.index(name)
    for earlier in trajectory.core.transforms:
        if earlier.name in ORDER and ORDER.index(earlier.name) > place:
            raise ArgumentError(
                f"{name} comes before {earlier.name}, found {earlier.name} first; the order is {', '.join(ORDER)}"
            )

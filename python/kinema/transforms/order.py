"""The one order in which transforms of periodic systems follow each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinema.errors import ArgumentError

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

__all__ = ["ORDER", "check_not_last", "check_order"]

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


def check_not_last(name: str, trajectory: Trajectory) -> None:
    """ArgumentError where a transform would come behind the one that has no atoms behind it."""
    if any(earlier.name == ORDER[-1] for earlier in trajectory.core.transforms):
        raise ArgumentError(
            f"{name} comes before {ORDER[-1]}, found {ORDER[-1]} first: of centres there are no atoms to be changed"
        )

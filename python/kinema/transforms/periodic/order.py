"""The fixed order of transforms of periodic systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.transforms.periodic.stored_images import reads_images

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

ORDER = ("whole", "nojump", "displacement", "cluster", "center", "wrap", "superpose", "rotate_cell", "centers")
"""Names of transforms. Each undoes what a later one does, or needs what an earlier one has done."""
_UNWRAPPING = ("nojump", "displacement")


def check_order(name: str, trajectory: Trajectory) -> None:
    """Raises ArgumentError if an earlier transform must follow this one."""
    place = ORDER.index(name)
    for earlier in trajectory.core.transforms:
        if earlier.name in ORDER and ORDER.index(earlier.name) > place:
            raise ArgumentError(
                f"{name} comes before {earlier.name}, found {earlier.name} first; the order is {', '.join(ORDER)}"
            )


def check_unwrapped_together(
    name: str, trajectory: Trajectory, atoms: NDArray[np.uint32], groups: NDArray[Any]
) -> None:
    """Raises ArgumentError if an earlier unwrapping moves only some atoms of a group: a centre would mix images.

    `groups` has a number for each of the atoms, equal within a group.
    """
    unwrapping = [one for one in trajectory.core.transforms if one.name in _UNWRAPPING]
    # images stored in files unwrap all atoms
    if not unwrapping or reads_images(trajectory):
        return
    for earlier in unwrapping:
        tracked = earlier.arguments.get("atoms")
        if tracked is None:
            continue
        _, group = np.unique(groups, return_inverse=True)
        moved, sizes = np.bincount(group, np.isin(atoms, tracked)), np.bincount(group)
        mixed = np.flatnonzero((moved > 0) & (moved < sizes))
        if mixed.size:
            first = mixed[0]
            raise ArgumentError(
                f"{name} takes centres of groups of atoms, and {earlier.label} moves {moved[first]:.0f} of the "
                f"{sizes[first]} atoms of the group of atom {atoms[group == first].min() + 1} (counted from 1): "
                f"{earlier.name} is to select all atoms of such groups"
            )

"""`rotate_cell`: rotates frames so that lengths and angles describe their cells, orientation included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from kinema import _core
from kinema.trajectory.transform import Transform
from kinema.transforms.periodic.order import check_order

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory


class RotateCell(Transform):
    """See `rotate_cell`."""

    name: ClassVar[str] = "rotate_cell"

    @property
    def arguments(self) -> Mapping[str, str]:
        return {}

    def for_other_atoms(self, bound: _core.Transform) -> RotateCell:
        """See `Transform`: it names no atoms."""
        return self

    def bind(self, trajectory: Trajectory) -> _core.Transform:
        check_order(self.name, trajectory)
        return _core.Transform(self.name, trajectory.n_atoms, label=self.label)


def rotate_cell() -> RotateCell:
    """Rotates each frame so that lengths and angles describe its cell: the first edge along x, the second in the xy
    plane, right-handed.

    A rotation keeps the handedness of the edges, and a reflection would make other molecules. So in a left-handed cell
    the third edge is reversed, which keeps the lattice and moves no atom. Positions, velocities and forces turn with
    the cell; distances, angles and chirality stay. Frames stay as they are if they have no cell, a cell in this
    orientation, or edges in one plane.

    Returns
    -------
    RotateCell
        For `Trajectory.with_transform`, as the last transform except `centers`.
    """
    return RotateCell()

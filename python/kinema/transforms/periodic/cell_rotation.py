"""`rotate_cell`: frames are rotated so that lengths and angles hold their cells as they lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from kinema import _core
from kinema.trajectory.transform import Transform
from kinema.transforms.periodic.order import check_order

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

__all__ = ["RotateCell", "rotate_cell"]


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
    """Rotates each frame so that its cell is what lengths and angles say: the first edge along x, the second in the xy
    plane, and right-handed.

    A rotation keeps the hand of the edges, and a reflection would make other molecules. So of a left-handed cell the
    third edge is reversed, which gives the same lattice, and moves no atom. Positions, velocities and forces turn with
    the cell; distances, angles and chirality stay. Frames without a cell, with one that lies so already, and with edges
    in one plane stay as they are.

    Returns
    -------
    RotateCell
        For `Trajectory.with_transform`, as the last but `centers`.
    """
    return RotateCell()

"""Cells of frames, as analyses ask for them before they begin: densities and reciprocal space need a volume."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kinema.base.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory

__all__ = ["check_volume", "check_volumes", "first_cell", "heights_of", "is_along_axes"]

_CONVERT = "convert the trajectory to a file that has cells"
# what edges may have along other axes, as a part of the longest
_ANGLE = 1e-6


def first_cell(
    trajectory: Trajectory, frames: FrameSelection, what: str, *, periodic: bool, remedy: str = _CONVERT
) -> NDArray[np.float64]:
    """(3, 3) edges of the cell of the first frame, angstrom.

    Raises ArgumentError, which says `what` needs it and what the remedy is, if that frame has no cell with a volume,
    or, with `periodic`, if not all of its edges are periodic.
    """
    read = trajectory.viewed_trajectory().read([frames[0]], np.zeros(1, np.uint32), fields=["positions"])
    cell: NDArray[np.float64] = np.asarray(read["cells"][0], np.float64)
    where = f"{trajectory.paths[0]}: frame {frames[0]}"
    lengths = np.linalg.norm(cell, axis=1)
    known = bool(read["present"]["cells"][0]) and np.isfinite(cell).all() and lengths.all()
    if not known or abs(np.linalg.det(cell)) < 1e-9 * lengths.max() ** 3:
        raise ArgumentError(f"{where} has no cell with a volume, which {what} needs; {remedy}")
    if periodic and not read["periodic"][0].all():
        raise ArgumentError(f"{where} is not periodic along all edges of its cell, which {what} needs")
    return cell


def check_volume(volume: float | str | None) -> float | None:
    """A volume that the caller gives. Raises ArgumentError for one that is not finite and above 0, and for words."""
    if isinstance(volume, str):
        raise ArgumentError(f"volume must be a number or 'mean', found {volume!r}")
    if volume is not None and not (np.isfinite(volume) and volume > 0):
        raise ArgumentError(f"volume must be finite and above 0, found {volume}")
    return volume


def check_volumes(
    trajectory: Trajectory, volumes: NDArray[np.float64], frames: NDArray[np.int64], what: str, remedy: str
) -> None:
    """Raises ArgumentError as `first_cell`, with the first of the frames whose volume is nan."""
    without = np.isnan(volumes)
    if without.any():
        where = f"{trajectory.paths[0]}: frame {frames[without.argmax()]}"
        raise ArgumentError(f"{where} has no cell with a volume, which {what} needs; {remedy}")


def heights_of(cell: NDArray[np.float64]) -> NDArray[np.float64]:
    """(3,) distances of opposite faces of a cell, angstrom: along the normals of b and c, of c and a, of a and b."""
    heights: NDArray[np.float64] = 1.0 / np.linalg.norm(np.linalg.inv(cell), axis=0)
    return heights


def is_along_axes(cell: NDArray[np.float64]) -> bool:
    """Whether the normals of the faces are x, y and z."""
    apart = np.abs(cell - np.diag(np.diag(cell))).max()
    return bool(apart < _ANGLE * np.abs(cell).max())

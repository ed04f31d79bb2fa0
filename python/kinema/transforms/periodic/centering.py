"""`center`: moves all atoms so that the centre of some is in the middle of the cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.model.selection.atoms import AtomChoice
from kinema.trajectory.transform import Transform, names_by_words, words_of
from kinema.transforms.arguments import describe, weights_of
from kinema.transforms.periodic.order import check_order

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

__all__ = ["Center", "center"]


class Center(Transform):
    """See `center`."""

    name: ClassVar[str] = "center"

    def __init__(self, select: AtomChoice, weights: Any, point: Sequence[float] | None) -> None:
        if point is not None:
            place = np.asarray(point, np.float64)
            if place.shape != (3,) or not np.isfinite(place).all():
                raise ArgumentError(f"point is x, y and z in angstrom, found {point!r}")
            point = tuple(place.tolist())
        self._select, self._weights, self._point = select, weights, point

    @property
    def arguments(self) -> Mapping[str, str]:
        arguments = {"select": describe(self._select)}
        if self._weights is not None:
            arguments |= {"weights": describe(self._weights)}
        return arguments if self._point is None else arguments | {"point": describe(self._point)}

    def for_other_atoms(self, bound: _core.Transform) -> Center | None:
        """See `Transform`."""
        return Center(words_of(self._select), self._weights, self._point) if names_by_words(self._select) else None

    def bind(self, trajectory: Trajectory) -> _core.Transform:
        check_order(self.name, trajectory)
        selection = trajectory.select(self._select)
        selection.check_unique()
        return _core.Transform(
            self.name,
            trajectory.n_atoms,
            label=self.label,
            atoms=selection.indices,
            masses=weights_of(self._weights, selection, trajectory),
            point=None if self._point is None else np.array(self._point),
        )


def center(select: AtomChoice = None, *, weights: Any = None, point: Sequence[float] | None = None) -> Center:
    """Moves all atoms so that the centre of some is in the middle of the cell, as MDAnalysis' `center_in_box`.

    Parameters
    ----------
    select : as `Trajectory.select`
    weights : None, "mass" or one number per atom
        The centre of geometry, of mass, or with other weights.
    point : x, y, z, optional
        Target of the centre, angstrom. By default half of the sum of the three edges of each frame's cell.

    Returns
    -------
    Center
        For `Trajectory.with_transform`. `gmx trjconv -center` uses the midpoint of the least and greatest coordinates
        instead of a centre.

    Examples
    --------
    >>> centred = traj.with_transform(kn.transforms.center("protein", point=(0, 0, 0)))
    """
    return Center(select, weights, point)

"""`superpose`: each frame is moved so that some atoms are nearest to a reference; `fit` is another name for it.

The best rotation is that of the least root-mean-square deviation (QCP: D. L. Theobald, 2005, "Rapid calculation of
RMSDs using a quaternion-based characteristic polynomial"). Velocities, forces and the cell turn with the positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kinema import _core
from kinema.analysis.arguments import describe, weights_of
from kinema.analysis.reference import Reference
from kinema.choices import check_choice
from kinema.selection.atoms import AtomChoice
from kinema.transforms.base import Transform

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

__all__ = ["MODES", "Superpose", "fit", "superpose"]

MODES = ("rot+trans", "trans")


class Superpose(Transform):
    """See `superpose`."""

    name: ClassVar[str] = "superpose"

    def __init__(
        self,
        select: AtomChoice,
        mode: str,
        ref_frame: int,
        reference: Any,
        weights: Any,
        match: str,
        tol_mass: float,
    ) -> None:
        check_choice("mode", mode, MODES)
        self._select, self._mode, self._weights = select, mode, weights
        self._reference = (ref_frame, reference, match, tol_mass)

    @property
    def arguments(self) -> Mapping[str, str]:
        ref_frame, reference, match, tol_mass = self._reference
        arguments = {"select": describe(self._select), "mode": describe(self._mode), "ref_frame": describe(ref_frame)}
        if reference is not None:
            arguments |= {"reference": describe(reference), "match": describe(match), "tol_mass": describe(tol_mass)}
        return arguments if self._weights is None else arguments | {"weights": describe(self._weights)}

    def bind(self, trajectory: Trajectory) -> _core.Transform:
        selection = trajectory.select(self._select)
        selection.check_unique()
        reference = Reference(trajectory, *self._reference)
        reference.check(selection)
        weights = weights_of(self._weights, selection, trajectory)
        return _core.Transform(
            "superpose",
            trajectory.n_atoms,
            label=self.label,
            atoms=selection.indices,
            reference=reference.positions(selection),
            weights=weights,
            mode=self._mode,
        )


def superpose(
    select: AtomChoice = None,
    *,
    mode: str = "rot+trans",
    ref_frame: int = 0,
    reference: Any = None,
    weights: Any = None,
    match: str = "masses",
    tol_mass: float = 0.1,
) -> Superpose:
    """Moves each frame by the best superposition of the selected atoms on a reference.

        aligned = traj.with_transform(kn.transforms.superpose("name CA"))

    Parameters
    ----------
    select : as `Trajectory.select`
        Atoms that are superposed; all atoms of the frame move.
    mode : {"rot+trans", "trans"}
        The least root-mean-square deviation by rotation and translation; or the centre of the atoms is brought to that
        of the reference, and nothing turns.
    ref_frame, reference, match, tol_mass : as in `kinema.analysis.RMSD`
        The reference; a frame of the trajectory is taken as transforms that come before have made it.
    weights : None, "mass" or one number an atom
        Of the deviations and of the centre.

    Returns
    -------
    Superpose
        For `Trajectory.with_transform`, which raises ArgumentError where the atoms and the reference do not fit.
    """
    return Superpose(select, mode, ref_frame, reference, weights, match, tol_mass)


def fit(select: AtomChoice = None, **arguments: Any) -> Superpose:
    """`superpose` by the name that GROMACS has for it."""
    return superpose(select, **arguments)

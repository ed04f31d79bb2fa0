"""`superpose`: moves each frame so that some atoms are nearest to a reference; `fit` is another name for it.

The best rotation has the least root-mean-square deviation (QCP: D. L. Theobald, 2005, "Rapid calculation of RMSDs using
a quaternion-based characteristic polynomial"). Velocities, forces and the cell turn with the positions.

To superpose each frame on the one before it, all frames are read once: workers find the rotations from frame to frame,
which are multiplied in the order of frames. The products are kept for every frame, or in long trajectories for every
n-th frame, the stations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kinema import _core
from kinema.base.choices import check_choice
from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.model.selection.atoms import AtomChoice
from kinema.trajectory.broken_molecules import broken_notes
from kinema.trajectory.transform import Transform, names_by_words, words_of
from kinema.transforms.arguments import describe, weights_of
from kinema.transforms.first_passes.kinds import Rotations
from kinema.transforms.first_passes.making import stations_of
from kinema.transforms.reference import Reference, note_free_rotation

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

__all__ = ["FIRST", "MODES", "PREVIOUS", "Superpose", "fit", "superpose"]

MODES = ("rot+trans", "trans")
# words for references
FIRST, PREVIOUS = "first", "previous"


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
        options: Mapping[str, Any],
    ) -> None:
        check_choice("mode", mode, MODES)
        if isinstance(reference, str) and reference in (FIRST, PREVIOUS) and ref_frame != 0:
            raise ArgumentError(f"reference={reference!r} begins with the first frame, found ref_frame={ref_frame!r}")
        follows = isinstance(reference, str) and reference == PREVIOUS
        if options and not follows:
            raise ArgumentError(f"{', '.join(options)} are of the pass of reference='previous', found {reference!r}")
        if isinstance(reference, str) and reference == FIRST:
            reference = None
        self._options = options
        # without rotation, the centre of the frame before equals the centre of the first frame
        self.sees_all_frames = follows and mode == "rot+trans"
        self._select, self._mode, self._weights = select, mode, weights
        self._reference = (ref_frame, reference, match, tol_mass)

    @property
    def arguments(self) -> Mapping[str, str]:
        ref_frame, reference, match, tol_mass = self._reference
        arguments = {"select": describe(self._select), "mode": describe(self._mode), "ref_frame": describe(ref_frame)}
        if reference is not None:
            arguments |= {"reference": describe(reference), "match": describe(match), "tol_mass": describe(tol_mass)}
        return arguments if self._weights is None else arguments | {"weights": describe(self._weights)}

    def for_other_atoms(self, bound: _core.Transform) -> Superpose | None:
        """See `Transform`: superposed on the same positions as the frames."""
        if not names_by_words(self._select) or self.sees_all_frames:
            return None
        positions, weights = bound.arguments["reference"], self._weights
        return Superpose(words_of(self._select), self._mode, 0, positions, weights, "order", 0.0, {})

    def bind(self, trajectory: Trajectory) -> _core.Transform:
        selection = trajectory.select(self._select)
        selection.check_unique()
        ref_frame, reference, match, tol_mass = self._reference
        follows = isinstance(reference, str) and reference == PREVIOUS
        # the first frame of the files, also of a view
        of_reference = trajectory.viewed_trajectory() if follows else trajectory
        found = Reference(of_reference, ref_frame, None if follows else reference, match, tol_mass)
        found.check(selection)
        emit(broken_notes(trajectory, selection, trajectory.choose()))
        fitted: dict[str, Any] = {
            "atoms": selection.indices,
            "reference": found.positions(selection),
            "weights": weights_of(self._weights, selection, trajectory),
        }
        if self._mode == "rot+trans":
            note_free_rotation(fitted["reference"], fitted["weights"])
        more: dict[str, Any] = {"mode": self._mode}
        if self.sees_all_frames:
            turns = stations_of(Rotations(of_reference, selection, fitted), self._options)
            more = {"rotations": np.ascontiguousarray(turns.sums).reshape(-1, 3), "every": turns.every}
        return _core.Transform(self.name, trajectory.n_atoms, label=self.label, **fitted, **more)


def superpose(
    select: AtomChoice = None,
    *,
    mode: str = "rot+trans",
    ref_frame: int = 0,
    reference: Any = None,
    weights: Any = None,
    match: str = "masses",
    tol_mass: float = 0.1,
    **options: Any,
) -> Superpose:
    """Moves each frame by the best superposition of the selected atoms on a reference.

    Parameters
    ----------
    select : as `Trajectory.select`
        Atoms to superpose; all atoms of the frame move.
    mode : {"rot+trans", "trans"}
        Rotation and translation to the least root-mean-square deviation; or translation only, which brings the centre
        of the atoms to the centre of the reference.
    ref_frame, reference, match, tol_mass : as in `kinema.analysis.RMSD`
        The reference; a frame of the trajectory is used as earlier transforms have left it. Also "first", and
        "previous": each frame is superposed on the superposed frame before it in the files, and the first frame stays
        (`gmx trjconv -fit progressive`). All frames of the files count, whatever frames are asked for: they are read
        once when the transform is applied to the trajectory, unless their rotations are known. Frames that are added
        later are refused.
    weights : None, "mass" or one number per atom
        Weights of the deviations and of the centre.
    **options
        Arguments of `kinema.run` for the pass of reference="previous": `runner`, `workers`, `memory`, `progress`,
        `checkpoint`, ... With MPI, all ranks must call `with_transform`.

    Returns
    -------
    Superpose
        For `Trajectory.with_transform`, which raises ArgumentError if the atoms and the reference do not fit.

    Examples
    --------
    >>> aligned = traj.with_transform(kn.transforms.superpose("name CA"))
    >>> slowly = traj.with_transform(kn.transforms.superpose("name CA", reference="previous"))
    """
    return Superpose(select, mode, ref_frame, reference, weights, match, tol_mass, options)


def fit(select: AtomChoice = None, **arguments: Any) -> Superpose:
    """`superpose`, by its GROMACS name."""
    return superpose(select, **arguments)

"""`superpose`: each frame is moved so that some atoms are nearest to a reference; `fit` is another name for it.

The best rotation is that of the least root-mean-square deviation (QCP: D. L. Theobald, 2005, "Rapid calculation of
RMSDs using a quaternion-based characteristic polynomial"). Velocities, forces and the cell turn with the positions.

Where each frame is superposed on the one before, all frames are read once: the rotations from frame to frame are found
on all workers and multiplied in the order of frames. Their products are kept for every frame, or of long trajectories
for every so many, the stations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.analysis.arguments import describe, weights_of
from kinema.analysis.reference import Reference
from kinema.choices import check_choice
from kinema.errors import ArgumentError
from kinema.execution.computation import Computation, Pass, Passes, Results
from kinema.runners.registry import runner_of
from kinema.selection.atoms import AtomChoice
from kinema.selection.frames import FrameSelection
from kinema.transforms.base import Transform

if TYPE_CHECKING:
    from kinema.selection.atoms import Selection
    from kinema.trajectory import Trajectory

__all__ = ["FIRST", "MODES", "PREVIOUS", "Superpose", "fit", "superpose"]

MODES = ("rot+trans", "trans")
# words for references
FIRST, PREVIOUS = "first", "previous"
# of the rotations at the stations
_STATION_BYTES = 16 << 20


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
        # where nothing turns, the centre of the frame before is that of the first one
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

    def bind(self, trajectory: Trajectory) -> _core.Transform:
        selection = trajectory.select(self._select)
        selection.check_unique()
        ref_frame, reference, match, tol_mass = self._reference
        follows = isinstance(reference, str) and reference == PREVIOUS
        # the first frame of the files, also of a view
        of_reference = trajectory.of_all_frames() if follows else trajectory
        found = Reference(of_reference, ref_frame, None if follows else reference, match, tol_mass)
        found.check(selection)
        fitted = {
            "atoms": selection.indices,
            "reference": found.positions(selection),
            "weights": weights_of(self._weights, selection, trajectory),
        }
        more = {"mode": self._mode}
        if self.sees_all_frames:
            more = _stations(of_reference, selection, fitted, self._options)
        return _core.Transform(self.name, trajectory.n_atoms, label=self.label, **fitted, **more)


class _Rotations(Computation):
    """Rotations of all frames of a trajectory, each by way of the frame before: (frames, 3, 3) float64."""

    def __init__(self, trajectory: Trajectory, selection: Selection, fitted: Mapping[str, Any]) -> None:
        super().__init__(trajectory, selection, {})
        self._fitted = fitted

    def _passes(self, frames: FrameSelection) -> Passes:
        return Results(**(yield Pass(_core.Kernel("rotations", self.trajectory.n_atoms, **self._fitted))))


def _stations(trajectory: Trajectory, selection: Selection, fitted: Mapping[str, Any], options: Any) -> dict[str, Any]:
    """Rotations of every so many frames, a power of two; all frames are read, with MPI by all ranks."""
    from kinema.execution.run import run

    runner, others = runner_of(options)
    found: NDArray[np.float64] = runner.on_root_for_all(
        lambda: run([_Rotations(trajectory, selection, fitted)], runner=runner, **others)[0].results.rotations
    )
    if len(found) != trajectory.n_frames:
        raise ArgumentError(
            f"{trajectory.paths[0]}: each frame is superposed on the one before, and some are damaged; leave "
            "skip_damaged out (--skip-damaged)"
        )
    every = 1
    while 72 * (len(found) // every) > _STATION_BYTES:
        every *= 2
    return {"rotations": np.ascontiguousarray(found[::every]).reshape(-1, 3), "every": every}


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

        aligned = traj.with_transform(kn.transforms.superpose("name CA"))
        slowly = traj.with_transform(kn.transforms.superpose("name CA", reference="previous"))

    Parameters
    ----------
    select : as `Trajectory.select`
        Atoms that are superposed; all atoms of the frame move.
    mode : {"rot+trans", "trans"}
        The least root-mean-square deviation by rotation and translation; or the centre of the atoms is brought to that
        of the reference, and nothing turns.
    ref_frame, reference, match, tol_mass : as in `kinema.analysis.RMSD`
        The reference; a frame of the trajectory is taken as transforms that come before have made it. Also "first", and
        "previous": each frame is superposed on the one before it in the files as that one was superposed, and the first
        one stays (`gmx trjconv -fit progressive`). All frames of the files count, whatever frames are asked for: they
        are read once when the transform is put in front of the trajectory. Frames that are added later are refused.
    weights : None, "mass" or one number an atom
        Of the deviations and of the centre.
    **options
        Arguments of `kinema.run` for the pass of reference="previous": `runner`, `workers`, `memory`, ... With MPI all
        ranks call `with_transform`.

    Returns
    -------
    Superpose
        For `Trajectory.with_transform`, which raises ArgumentError where the atoms and the reference do not fit.
    """
    return Superpose(select, mode, ref_frame, reference, weights, match, tol_mass, options)


def fit(select: AtomChoice = None, **arguments: Any) -> Superpose:
    """`superpose` by the name that GROMACS has for it."""
    return superpose(select, **arguments)

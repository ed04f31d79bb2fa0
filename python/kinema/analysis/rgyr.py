"""Radius of gyration per frame.

    Rg(t) = sqrt( sum_i m_i |x_i(t) - x_c(t)|^2 / sum_i m_i ),   x_c the centre of mass

and about each axis, with the two other coordinates alone: Rg_x = sqrt( sum_i m_i ((y-y_c)^2 + (z-z_c)^2) / sum_i m_i ),
angstrom. It does not superpose, which would change nothing but the axes. Source: the definitions of the MDAnalysis
user guide ("Writing your own trajectory analysis") and of `gmx gyrate`.
"""

from __future__ import annotations

from typing import Any

from kinema import _core
from kinema.analysis.arguments import describe, select_atoms, weights_of
from kinema.analysis.base import Analysis, Pass, Passes, results_per_frame
from kinema.errors import ArgumentError
from kinema.execution.results_file import ResultDataset
from kinema.notes import collected
from kinema.runners.base import Rows
from kinema.selection.atoms import AtomChoice
from kinema.selection.frames import FrameSelection
from kinema.trajectory import Trajectory
from kinema.writing.tables import Column, Table

__all__ = ["RadiusOfGyration"]


class RadiusOfGyration(Analysis):
    """Radius of gyration over time.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`
        None: all atoms.
    weights : "mass", None or (atoms,) array
        Masses of the topology by default; None: all atoms alike.
    axes : bool
        Also the radii about the x, y and z axis.

    After `run`
    -----------
    results.rgyr : (frames, 3) float64, with axes (frames, 6)
        Frame number, time (ps), radius, radii about x, y, z (angstrom).
    results.frames, results.time : (frames,)
    results.values : (frames, 1), with axes (frames, 4)
    """

    def __init__(
        self, trajectory: Trajectory, select: AtomChoice = None, weights: Any = "mass", axes: bool = False
    ) -> None:
        selection = select_atoms(trajectory, select)
        if isinstance(weights, str) and weights == "mass" and trajectory.topology_name is None:
            raise ArgumentError(
                "the radius of gyration needs masses: open the trajectory with topology=, or say weights=None for "
                "atoms that weigh alike"
            )
        arguments = {"select": describe(selection), "weights": describe(weights), "axes": describe(axes)}
        super().__init__(trajectory, selection, arguments)
        with collected() as notes:
            self._weights = weights_of(weights, selection, trajectory)
        self._add_notes(notes)
        self._axes = bool(axes)
        selection.check_unique()

    def _passes(self, frames: FrameSelection) -> Passes:
        atoms, masses = self.selection.indices, self._weights
        kernel = _core.Kernel("rgyr", self.trajectory.n_atoms, atoms=atoms, masses=masses, axes=self._axes)
        results = yield Pass(kernel, rows=Rows(4 if self._axes else 1))
        return results_per_frame("rgyr", frames, results)

    def _table(self) -> Table:
        columns = [Column(name, self.results.values[:, i], "angstrom") for i, name in enumerate(self._names())]
        return Table("Radius of gyration", (*self._frames_and_times(), *columns))

    def _per_frame(self, frames: FrameSelection) -> ResultDataset:
        return self._dataset("rgyr", "angstrom", self._names(), "Radius of gyration", frames)

    def _names(self) -> tuple[str, ...]:
        return ("rgyr", "rgyr_x", "rgyr_y", "rgyr_z") if self._axes else ("rgyr",)

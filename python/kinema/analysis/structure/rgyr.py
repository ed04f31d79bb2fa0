"""Radius of gyration per frame.

    Rg(t) = sqrt( sum_i m_i |x_i(t) - x_c(t)|^2 / sum_i m_i ),   x_c the centre of mass

and about each axis, with the two other coordinates alone: Rg_x = sqrt( sum_i m_i ((y-y_c)^2 + (z-z_c)^2) / sum_i m_i ),
angstrom. It does not superpose, which would change nothing but the axes. Source: the definitions of the MDAnalysis
user guide ("Writing your own trajectory analysis") and of `gmx gyrate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kinema import _core
from kinema.analysis.declaration import MassWeights, Option, Quantity
from kinema.analysis.declared import PerFrameAnalysis

if TYPE_CHECKING:
    from kinema.model.selection.atoms import AtomChoice
    from kinema.trajectory import Trajectory

__all__ = ["RadiusOfGyration"]


class RadiusOfGyration(PerFrameAnalysis):
    """Radius of gyration over time.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`, or atoms that change with the frame
        None: all atoms. Values of frames without atoms are nan.
    weights : "mass", None or (atoms,) array
        Masses of the topology by default; None: all atoms alike.
    axes : bool
        Also the radii about the x, y and z axis.

    After `run`
    -----------
    results.rgyr : (frames,) float64, angstrom
    results.rgyr_axes : (frames, 3) float64, angstrom, with axes
        About x, y and z.
    results.values : (frames, 1), with axes (frames, 4), all of these
    results.frames, results.time : (frames,)

    Examples
    --------
    >>> rgyr = kn.analysis.RadiusOfGyration(traj, select="protein").run()
    >>> print(f"{rgyr.results.rgyr.min():.1f} to {rgyr.results.rgyr.max():.1f} angstrom")
    16.7 to 19.6 angstrom
    """

    command_name = "rgyr"
    summary = "Radius of gyration of the atoms, for each frame."
    quantities = (
        Quantity("rgyr", "angstrom", "radius of gyration"),
        Quantity("rgyr_axes", "angstrom", "radii of gyration", "about x, y, z, with --axes"),
    )
    takes_changing = True
    reference = "definition of the MDAnalysis user guide and of gmx gyrate"

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        weights: MassWeights = "mass",
        axes: Annotated[bool, Option("--axes", "Also the radii about the x, y and z axis.")] = False,
    ) -> None:
        super().__init__(trajectory, select, weights=weights, axes=axes)
        with self._noting():
            self._weights = self._weights_of(weights)
        self._axes = bool(axes)
        self.selection.check_unique()

    def _kernel(self) -> _core.Kernel:
        atoms, masses = self._group_arguments(), self._weights
        return _core.Kernel("rgyr", self.trajectory.n_atoms, **atoms, masses=masses, axes=self._axes)

    def _columns(self) -> list[tuple[str, Quantity]]:
        radius, about = self.quantities
        return [("rgyr", radius), *((f"rgyr_{axis}", about) for axis in ("xyz" if self._axes else ""))]

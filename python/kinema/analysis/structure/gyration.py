"""Gyration tensor per frame, and the shape of the atoms.

    S(t) = sum_i m_i (x_i - x_c) (x_i - x_c)^T / sum_i m_i,   x_c the centre of mass

With its eigenvalues l_1 <= l_2 <= l_3, the principal moments: squared radius of gyration l_1 + l_2 + l_3, asphericity
b = l_3 - (l_1 + l_2) / 2, acylindricity c = l_2 - l_1, relative shape anisotropy (b^2 + 3/4 c^2) / (l_1 + l_2 + l_3)^2.
Source: D. N. Theodorou, U. W. Suter, Macromolecules 18, 1206 (1985), as in MDTraj. The relative shape anisotropy is the
quantity that MDAnalysis calls asphericity (R. I. Dima, D. Thirumalai, J. Phys. Chem. B 108, 6564, 2004).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kinema import _core
from kinema.analysis.declaration import MassWeights, Option, Quantity
from kinema.analysis.declared import PerFrameAnalysis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinema.model.selection.atoms import AtomChoice
    from kinema.trajectory import Trajectory

__all__ = ["Gyration"]

_SQUARE = "angstrom^2"


class Gyration(PerFrameAnalysis):
    """Gyration tensor and shape over time.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`, or atoms that change with the frame
        None: all atoms. Values of frames without atoms are nan. Positions are used as stored: molecules are not made
        whole.
    weights : "mass", None or (atoms,) array
        By default the topology's masses, as MDAnalysis; None: equal weights, as MDTraj.
    tensor : bool
        Also the elements of the tensor.

    After `run`
    -----------
    results.rgyr : (frames,) float64, angstrom
    results.gyration_moments : (frames, 3) float64, angstrom^2
        Least first.
    results.asphericity, results.acylindricity : (frames,) float64, angstrom^2
    results.relative_shape_anisotropy : (frames,) float64
        From 0 (a sphere) to 1 (a line); nan if all atoms coincide.
    results.tensor : (frames, 6) float64, angstrom^2, if asked for
        xx, xy, xz, yy, yz, zz.
    results.values : (frames, 7), with tensor (frames, 13), all of these
    results.frames, results.time : (frames,)
    """

    command_name = "gyration"
    summary = "Gyration tensor of the atoms: principal moments and shape, for each frame."
    quantities = (
        Quantity("rgyr", "angstrom", "radius of gyration"),
        Quantity("gyration_moments", _SQUARE, "principal moments", "three, the least first"),
        Quantity("asphericity", _SQUARE, "asphericity"),
        Quantity("acylindricity", _SQUARE, "acylindricity"),
        Quantity("relative_shape_anisotropy", "1", "relative shape anisotropy"),
        Quantity("tensor", _SQUARE, "gyration tensor", "xx, xy, xz, yy, yz, zz, with --tensor"),
    )
    takes_changing = True
    reference = "Theodorou and Suter, Macromolecules 18, 1206 (1985)"

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        weights: MassWeights = "mass",
        tensor: Annotated[bool, Option("--tensor", "Also the elements of the tensor.")] = False,
    ) -> None:
        super().__init__(trajectory, select, weights=weights, tensor=tensor)
        self.selection.check_unique()
        with self._noting():
            self._weights = self._weights_of(weights)
        self._tensor = bool(tensor)

    def _kernel(self) -> _core.Kernel:
        atoms, n_atoms = self._group_arguments(), self.trajectory.n_atoms
        return _core.Kernel("gyration", n_atoms, **atoms, masses=self._weights, tensor=self._tensor)

    def _columns(self) -> Sequence[tuple[str, Quantity]]:
        columns = []
        for one in self.quantities:
            names = [one.name]
            if one.name == "gyration_moments":
                names = [f"moment_{i}" for i in (1, 2, 3)]
            elif one.name == "tensor":
                names = ["xx", "xy", "xz", "yy", "yz", "zz"] if self._tensor else []
            columns += [(name, one) for name in names]
        return columns

    @property
    def _title(self) -> str:
        return "Gyration tensor"

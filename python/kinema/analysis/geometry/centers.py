"""Centres of atoms per frame: of mass or of geometry, of all atoms, or of each residue or segment.

    c(t) = sum_i m_i x_i(t) / sum_i m_i

Angstrom. Positions are used as stored: molecules are not made whole. Source: MDAnalysis' `center_of_mass` and
`center_of_geometry` of atom groups, whose `compound` is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from kinema import _core
from kinema.analysis.declaration import MassWeights, Option, Quantity
from kinema.analysis.declared import PerFrameAnalysis
from kinema.base.choices import COMPOUND
from kinema.base.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinema.analysis.base import KernelResults, Results
    from kinema.model.selection.atoms import AtomChoice
    from kinema.trajectory import Trajectory

__all__ = ["Centers"]


class Centers(PerFrameAnalysis):
    """Centres of atoms over time.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`, or atoms that change with the frame
        None: all atoms. Centres of frames without atoms are nan.
    weights : "mass", None or (atoms,) array
        By default the topology's masses: centres of mass; None: centres of geometry.
    compound : {"group", "residues", "segments", "molecules", "fragments"}
        Atoms that share a centre: all of them, or the selected atoms of each residue, segment, molecule (as the
        topology numbers them; else each fragment), or fragment (atoms that bonds connect).

    After `run`
    -----------
    results.centers : (frames, groups, 3) float64, angstrom
    results.positions : the same
    results.values : (frames, 3 * groups) float64
        x, y and z of the first group, of the second, and so on.
    results.frames, results.time : (frames,)

    Examples
    --------
    >>> centers = kn.analysis.Centers(traj, select="protein", compound="residues").run(stop=10)
    >>> centers.results.centers.shape
    (10, 214, 3)
    """

    command_name = "centers"
    summary = "Centres of mass or of geometry of the atoms, or of each residue, for each frame."
    quantities = (Quantity("centers", "angstrom", "coordinates of centres", "x, y and z of each group"),)
    reference = "MDAnalysis.core.groups.AtomGroup.center_of_mass, center_of_geometry"
    takes_changing = True
    summarised_column = None

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        weights: MassWeights = "mass",
        compound: Annotated[str, Option("--compound", "Atoms that share a centre.", choices=COMPOUND)] = "group",
    ) -> None:
        from kinema.model.selection.compounds import GroupedAtoms, groups_of

        super().__init__(trajectory, select, weights=weights, compound=compound)
        self.selection.check_unique()
        if self.selection.changes and compound != "group":
            raise ArgumentError(
                f"compound={compound!r} has columns for each of the {compound}, which must be the same in all frames; "
                f"{self.selection.description!r} changes with the frame"
            )
        with self._noting():
            masses = self._weights_of(weights)
            topology = None if compound == "group" else trajectory.topology
            groups = groups_of(self.selection, None if topology is None else topology.atoms, compound)
        self._groups = GroupedAtoms.from_groups(groups)
        self._masses = None if masses is None else masses[np.concatenate([one.places for one in groups])]
        self._labels = [f"{label} {axis}".strip() for label in self._groups.labels for axis in "xyz"]

    @property
    def summarised_over(self) -> str | None:
        """See `DeclaredAnalysis`: x, y and z are not alike."""
        return None

    def _kernel(self) -> _core.Kernel:
        if self.selection.changes:
            group = self.selection.expression
            return _core.Kernel("centers", self.trajectory.n_atoms, masses=self._masses, group=group)
        return _core.Kernel("centers", self.trajectory.n_atoms, masses=self._masses, **self._groups.arguments)

    def _columns(self) -> Sequence[tuple[str, Quantity]]:
        return [(label, self.quantities[0]) for label in self._labels]

    def _quantity_values(self, found: Results, kernel_results: KernelResults) -> dict[str, Any]:
        from kinema.execution.result_arrays import vectors_of

        vectors = vectors_of(found.values, 3)
        return {"centers": vectors, "positions": vectors}

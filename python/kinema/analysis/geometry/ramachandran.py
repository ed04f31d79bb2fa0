"""Phi and psi of residues per frame, side by side, and the Ramachandran plot: psi over phi.

    phi_i(t) = d( C_(i-1), N_i, CA_i, C_i ),   psi_i(t) = d( N_i, CA_i, C_i, N_(i+1) ),   d the dihedral angle

Degrees from -180 to 180. Source: G. N. Ramachandran, C. Ramakrishnan, V. Sasisekharan, J. Mol. Biol. 7, 95 (1963).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.tuples import TupleAnalysis, named_dihedrals
from kinema.base.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kinema.analysis.base import Passes
    from kinema.model.selection.atoms import AtomChoice
    from kinema.model.selection.frames import FrameSelection
    from kinema.storage.tables import Table
    from kinema.trajectory import Trajectory

__all__ = ["Ramachandran"]


class Ramachandran(TupleAnalysis):
    """Phi and psi of residues over time.

    Parameters
    ----------
    trajectory : Trajectory
        With a topology.
    select : as `Trajectory.select`
        Residues that have an atom in this selection, and both angles; None: all. A note names residues that lack one.
    minimum_image : bool
        Use the nearest images for the bonds; False: use the positions as stored. Without a cell both are the same.

    After `run`
    -----------
    results.values : (frames, 2 * residues) float64, degrees
        Phi and psi of the first residue, of the second, and so on.
    results.angles : (frames, residues, 2) float64
        The same.
    results.phi, results.psi : (frames, residues) float64
    results.frames, results.time : (frames,)

    Attributes
    ----------
    tuples : (2 * residues, 4) atoms of each angle

    Examples
    --------
    >>> angles = kn.analysis.Ramachandran(traj, select="resid 50-52").run()
    >>> angles.results.angles.shape  # phi and psi of three residues
    (196, 3, 2)
    """

    command_name = "ramachandran"
    summary = "Phi and psi of residues, for each frame; the picture is a Ramachandran plot."
    quantities = (
        Quantity("phi", "degree", "phi and psi", "one for each residue", period=360.0),
        Quantity("psi", "degree", "psi", "one for each residue", period=360.0),
    )
    reference = "Ramachandran et al., J. Mol. Biol. 7, 95 (1963); MDAnalysis.analysis.dihedrals.Ramachandran"
    kernel_name, kernel_tuples = "dihedrals", "quadruples"
    tuple_name = "residue"

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        minimum_image: Annotated[
            bool, Option("--minimum-image/--no-minimum-image", "Use the nearest images in the cell.")
        ] = True,
    ) -> None:
        tuples, labels, notes = named_dihedrals(trajectory, select, ("phi", "psi"))
        residues = {name: [label for of, label in labels if of == name] for name in ("phi", "psi")}
        both = [label for label in residues["phi"] if label in set(residues["psi"])]
        if not both:
            raise ArgumentError(f"{trajectory.atoms.name}: no residue of the selection has both phi and psi")
        places = {label: place for place, label in enumerate(labels)}
        chosen = [(name, label) for label in both for name in ("phi", "psi")]
        super().__init__(trajectory, tuples[[places[one] for one in chosen]], minimum_image, select=select)
        of = {one.name: one for one in self.quantities}
        self._labels = [(f"{name} {label}", of[name]) for name, label in chosen]
        self._add_notes(notes)

    @property
    def subject(self) -> str:
        """See `DeclaredAnalysis`."""
        residues = len(self.tuples) // 2
        return f"phi and psi of {residues} residue{'' if residues == 1 else 's'}"

    def _passes(self, frames: FrameSelection) -> Passes:
        from kinema.execution.result_arrays import vectors_of

        found = yield from super()._passes(frames)
        return found.and_more(angles=vectors_of(found.values, 2))

    def _figure(self, table: Table) -> Figure:
        from kinema.analysis.plotting import draw_plane

        columns = table.curves()[1]
        phi, psi = (np.stack([one.values for one in columns[first::2]]) for first in (0, 1))
        return draw_plane((phi, psi), ("phi (degree)", "psi (degree)"), "Ramachandran plot")

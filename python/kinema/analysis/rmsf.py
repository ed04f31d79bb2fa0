"""RMSF: how far each atom strays from its mean position.

    RMSF_i = sqrt( < |x_i(t) - <x_i>|^2 > )

over the frames, in angstrom, by sums that merge exactly in a fixed order (T. F. Chan, G. H. Golub, R. J. LeVeque,
1979, "Updating formulae and a pairwise algorithm for computing sample variances"). Without `align` frames are taken
as they are. It gives no B factors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.analysis.arguments import told, unique_order, weights_of
from kinema.analysis.base import Analysis, Results, Round, Rounds
from kinema.analysis.reference import Reference
from kinema.errors import ArgumentError
from kinema.frames import ResolvedFrames
from kinema.output import Column, Table
from kinema.selection import AtomChoice
from kinema.trajectory import Trajectory

__all__ = ["RMSF"]


class RMSF(Analysis):
    """Root-mean-square fluctuation of each atom.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`
        Atoms to take the RMSF of; None: all.
    align : None, "reference" or "average"
        What each frame is superposed on first: nothing, the reference, or the average structure. The average is
        taken in a first round, over frames superposed on the reference.
    align_select : as `select`, optional
        Atoms to superpose; by default `select`.
    ref_frame, reference :
        As in `RMSD`; only with `align`.
    align_weights : None, "mass" or array
        For the superposition.

    After `run`
    -----------
    results.rmsf : (atoms,) float64, angstrom, in the selection's order
    results.mean_positions : (atoms, 3) float64, angstrom
    results.indices : (atoms,) uint32
    results.values : the same as rmsf
    """

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        align: str | None = None,
        align_select: AtomChoice = None,
        ref_frame: int = 0,
        reference: Any = None,
        align_weights: Any = None,
    ) -> None:
        if align not in (None, "average", "reference"):
            raise ArgumentError(f"align must be None, 'average' or 'reference', found {align!r}")
        if align is None and (align_select is not None or reference is not None or align_weights is not None):
            raise ArgumentError("align_select, reference and align_weights need align='average' or 'reference'")
        selection = trajectory.select(select)
        arguments = {"select": told(selection), "align": told(align)}
        self.align_selection = selection if align_select is None else trajectory.select(align_select)
        if align is not None:
            arguments |= {"align_select": told(self.align_selection), "ref_frame": told(ref_frame)}
            arguments |= {"reference": told(reference), "align_weights": told(align_weights)}
        super().__init__(trajectory, selection, arguments)
        self.n_rounds = 2 if align == "average" else 1
        self._align = align
        self._reference = Reference(trajectory, ref_frame, reference)
        self._align_weights = weights_of(align_weights, self.align_selection, trajectory, "align_weights")
        unique_order(selection)
        unique_order(self.align_selection)

    def _rounds(self, frames: ResolvedFrames) -> Rounds:
        n_atoms = self.trajectory.n_atoms
        transforms: tuple[_core.Transform, ...] = ()
        if self._align is not None:
            order = unique_order(self.align_selection)
            atoms = self.align_selection.indices[order]
            weights = None if self._align_weights is None else self._align_weights[order]
            target = np.ascontiguousarray(self._reference.positions(self.align_selection)[order])
            transforms = (_core.Transform.superpose(n_atoms, atoms, target, weights),)
            if self._align == "average":
                average = yield Round(_core.Kernel.average(n_atoms, atoms), transforms)
                target = np.ascontiguousarray(average["mean_positions"])
                transforms = (_core.Transform.superpose(n_atoms, atoms, target, weights),)
        order = unique_order(self.selection)
        found = yield Round(_core.Kernel.rmsf(n_atoms, self.selection.indices[order]), transforms)
        # kernels take atoms in ascending order; back to the selection's
        rmsf, mean = np.empty_like(found["rmsf"]), np.empty_like(found["mean_positions"])
        rmsf[order], mean[order] = found["rmsf"], found["mean_positions"]
        return Results(rmsf=rmsf, mean_positions=mean, indices=self.selection.indices, values=rmsf)

    def _table(self) -> Table:
        indices = self.results.indices
        columns = [Column("atom", indices)]
        # names only where a topology has told them already; saving reads no topology
        if self.selection.names is not None and self.trajectory.topology is not None:
            columns += _named(self.trajectory, indices, self.selection.names)
        columns.append(Column("rmsf", self.results.rmsf, "angstrom"))
        return Table("RMSF", tuple(columns), x="atom")


def _named(trajectory: Trajectory, indices: NDArray[np.uint32], names: NDArray[np.str_]) -> list[Column]:
    topology = trajectory.topology
    if topology is None:
        return []
    found = [Column("name", names)]
    residues, residue_names = topology.residue_ids(indices), topology.residue_names(indices)
    found += [] if residues is None else [Column("residue", residues)]
    found += [] if residue_names is None else [Column("residue name", residue_names)]
    return found

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
from kinema.analysis.arguments import describe, select_atoms, weights_of
from kinema.analysis.base import Analysis, Pass, Passes, Results
from kinema.analysis.reference import Reference
from kinema.choices import BY, check_choice
from kinema.errors import ArgumentError
from kinema.notes import collected
from kinema.selection.atoms import AtomChoice
from kinema.selection.frames import FrameSelection
from kinema.trajectory import Trajectory
from kinema.writing.tables import Column, Table

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
        taken in a first pass, over frames superposed on the reference.
    align_select : as `select`, optional
        Atoms to superpose; by default `select`.
    ref_frame, reference :
        As in `RMSD`; only with `align`.
    align_weights : None, "mass" or array
        For the superposition.
    match, tol_mass :
        As in `RMSD`; only with `reference`.
    by : {"atom", "residue"}
        What the rows of tables and pictures are. A residue has the root of the mean square of its atoms' RMSF, those of
        `select` alone, all weighted alike. Results are by atom.

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
        match: str = "masses",
        tol_mass: float = 0.1,
        by: str = "atom",
    ) -> None:
        check_choice("by", by, BY)
        if align not in (None, "average", "reference"):
            raise ArgumentError(f"align must be None, 'average' or 'reference', found {align!r}")
        if align is None and (align_select is not None or reference is not None or align_weights is not None):
            raise ArgumentError("align_select, reference and align_weights need align='average' or 'reference'")
        selection = select_atoms(trajectory, select)
        arguments = {"select": describe(selection), "align": describe(align)}
        self.align_selection = selection if align_select is None else trajectory.select(align_select)
        if align is not None:
            arguments |= {"align_select": describe(self.align_selection), "ref_frame": describe(ref_frame)}
            arguments |= {"reference": describe(reference), "align_weights": describe(align_weights)}
        if reference is not None:
            arguments |= {"match": describe(match), "tol_mass": describe(tol_mass)}
        if by == "residue":
            arguments |= {"by": describe(by)}
        super().__init__(trajectory, selection, arguments)
        self._by_residue = self._residues() if by == "residue" else None
        self.n_passes = 2 if align == "average" else 1
        self._align = align
        selection.check_unique()
        self.align_selection.check_unique()
        with collected() as notes:
            self._reference = Reference(trajectory, ref_frame, reference, match, tol_mass)
            self._align_weights = weights_of(align_weights, self.align_selection, trajectory, "align_weights")
            self._reference.check(self.align_selection)
        if align is None:
            notes.append(
                "nothing was superposed before the RMSF: it holds the motion of the whole molecule as well; "
                "align='average' or align='reference' superposes"
            )
        self._add_notes(notes)

    @property
    def other_files(self) -> tuple[str, ...]:
        """See `Computation`."""
        return tuple(dict.fromkeys((*super().other_files, *self._reference.files)))

    def _passes(self, frames: FrameSelection) -> Passes:
        n_atoms = self.trajectory.n_atoms
        transforms: tuple[_core.Transform, ...] = ()
        if self._align is not None:
            atoms, weights = self.align_selection.indices, self._align_weights
            target = self._reference.positions(self.align_selection)

            def superposed(target: NDArray[np.float64]) -> tuple[_core.Transform]:
                made = {"atoms": atoms, "reference": target, "weights": weights, "mode": "rot+trans"}
                return (_core.Transform("superpose", n_atoms, label="superpose", **made),)

            transforms = superposed(target)
            if self._align == "average":
                average = yield Pass(_core.Kernel("average", n_atoms, atoms=atoms), transforms)
                target = np.ascontiguousarray(average["mean_positions"])
                transforms = superposed(target)
        results = yield Pass(_core.Kernel("rmsf", n_atoms, atoms=self.selection.indices), transforms)
        rmsf = results["rmsf"]
        mean = results["mean_positions"]
        return Results(rmsf=rmsf, mean_positions=mean, indices=self.selection.indices, values=rmsf)

    def _residues(self) -> tuple[NDArray[np.int64], tuple[Column, ...]]:
        """(atoms,) row of each atom, and columns that name the rows; ArgumentError without residues."""
        topology = self.trajectory.topology
        if topology is None:
            raise ArgumentError("by='residue' needs residues: open the trajectory with topology=, or leave it out")
        atoms = topology.atoms
        indices = self.selection.indices
        residues = atoms.get("resindices")
        if residues is None:
            raise ArgumentError(f"by='residue' needs residues, {topology.name} has none; leave it out")
        found, first, rows = np.unique(residues[indices], return_index=True, return_inverse=True)
        heads = atoms[indices[first]]
        numbers, names = heads.get("resids"), heads.get("resnames")
        columns = [Column("residue", found + 1 if numbers is None else numbers)]
        columns += [] if names is None else [Column("residue name", names)]
        segments = heads.get("segids")
        columns += [] if segments is None or len(set(segments)) == 1 else [Column("segment", segments)]
        return rows, (*columns, Column("atoms", np.bincount(rows)))

    def _table(self) -> Table:
        if self._by_residue is not None:
            rows, columns = self._by_residue
            mean_squares = np.bincount(rows, weights=self.results.rmsf**2) / np.bincount(rows)
            table = (*columns, Column("rmsf", np.sqrt(mean_squares), "angstrom"))
            return Table("RMSF", table, x="residue", names="residue name")
        return self._table_of_atoms()

    def _table_of_atoms(self) -> Table:
        indices = self.results.indices
        columns = [Column("atom", indices)]
        # names only where the topology is read already; saving reads none
        if self.selection.names is not None and self.trajectory.topology is not None:
            columns += _named(self.trajectory, indices, self.selection.names)
        columns.append(Column("rmsf", self.results.rmsf, "angstrom"))
        return Table("RMSF", tuple(columns), x="atom")


def _named(trajectory: Trajectory, indices: NDArray[np.uint32], names: NDArray[np.str_]) -> list[Column]:
    topology = trajectory.topology
    if topology is None:
        return []
    columns = [Column("name", names)]
    atoms = topology.atoms[indices]
    residues, residue_names = atoms.get("resids"), atoms.get("resnames")
    columns += [] if residues is None else [Column("residue", residues)]
    columns += [] if residue_names is None else [Column("residue name", residue_names)]
    return columns

"""Correlations of the motions of atoms or residues: dynamical cross-correlation maps.

    C_ij = <dx_i . dx_j> / sqrt(<dx_i . dx_i> <dx_j . dx_j>),   dx_i = x_i - <x_i>

From -1 to 1. Motions at right angles to each other give 0, however closely they are coupled. Source: T. Ichiye,
M. Karplus, Proteins 11, 205 (1991); Bio3D's `dccm` and cpptraj's `matrix correl` are these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np

from kinema import _core
from kinema.analysis.atom_columns import labels_of
from kinema.analysis.base import Pass, Passes, Results
from kinema.analysis.declaration import (
    MOST_PASSES,
    TOLERANCE,
    Align,
    AlignSelect,
    AlignWeights,
    Match,
    MostPasses,
    Option,
    Quantity,
    ReferenceFrame,
    ReferenceStructure,
    Tolerance,
)
from kinema.analysis.matrix import MatrixAnalysis
from kinema.analysis.structure.alignment import AlignedAnalysis, Alignment
from kinema.base.choices import BY, check_choice
from kinema.base.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinema.model.selection.atoms import AtomChoice
    from kinema.model.selection.compounds import AtomsOfGroup
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory

__all__ = ["CrossCorrelation"]

_NOT_SUPERPOSED = (
    "nothing was superposed before the correlations: the motion of the whole molecule makes all of them positive; "
    "align='average' or align='reference' superposes"
)


class CrossCorrelation(AlignedAnalysis, MatrixAnalysis):
    """Cross-correlations of the displacements of atoms or residues.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`
        None: all atoms. The sums take 4 bytes for each pair of atoms, for each worker.
    align : None, "reference", "average" or "iterative"
        Structure to superpose each frame on first, as in `RMSF`.
    by : {"atom", "residue"}
        Displacements of atoms, or of residues: of the centres of geometry of their selected atoms.
    align_select, ref_frame, reference, align_weights, match, tol_mass, tolerance, most_passes :
        As in `RMSF`; only with `align`.

    After `run`
    -----------
    results.correlation : (n, n) float64
        Symmetric, 1 on the diagonal; nan for what does not move.
    results.covariance : (n, n) float64, angstrom^2
        `<dx_i . dx_j>`, divided by frames - 1.
    results.mean_positions : (n, 3) float64, angstrom
    results.values : the correlation

    Raises
    ------
    ArgumentError for fewer than two frames, and with by="residue" without residues.

    Examples
    --------
    >>> dccm = kn.analysis.CrossCorrelation(traj, select="name CA", align="average").run()
    >>> dccm.results.correlation.shape
    (214, 214)
    """

    command_name = "dccm"
    summary = "Cross-correlations of the motions of atoms or residues."
    quantities = (
        Quantity("correlation", "1", "cross-correlation", "a row and a column for each atom or residue"),
        Quantity("covariance", "angstrom^2", "covariance of displacements", "a row and a column for each"),
    )
    reference = "Ichiye, Karplus, Proteins 11, 205 (1991)"
    limits = (-1.0, 1.0)

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        align: Align = None,
        align_select: AlignSelect = None,
        ref_frame: ReferenceFrame = 0,
        reference: ReferenceStructure = None,
        align_weights: AlignWeights = None,
        match: Match = "masses",
        tol_mass: float = 0.1,
        by: Annotated[
            str, Option("--by", "Displacements of atoms, or of the centres of residues.", choices=BY)
        ] = "atom",
        tolerance: Tolerance = TOLERANCE,
        most_passes: MostPasses = MOST_PASSES,
    ) -> None:
        from kinema.model.selection.compounds import groups_of
        from kinema.transforms.arguments import select_atoms

        check_choice("by", by, BY)
        selection = select_atoms(trajectory, select)
        self._alignment = Alignment(
            trajectory,
            selection,
            align,
            align_select,
            ref_frame,
            reference,
            align_weights,
            match,
            tol_mass,
            tolerance,
            most_passes,
        )
        super().__init__(trajectory, selection, **self._alignment.arguments, by=by)
        self.selection.check_unique()
        if not self.selection.ascending:
            raise ArgumentError(f"{selection.description}: atoms of correlations must be in the order of the file")
        self.n_passes = self._alignment.n_passes
        with self._noting():
            table = None if trajectory.topology is None else trajectory.topology.atoms
            self._residues = groups_of(selection, table, "residues") if by == "residue" else None
        self._read_reference(_NOT_SUPERPOSED)
        self.of = by

    def _passes(self, frames: FrameSelection) -> Passes:
        if len(frames) < 2:
            raise ArgumentError(f"correlations need at least two frames, found {len(frames)}")
        transforms = yield from self._alignment.passes()
        kernel = _core.Kernel("covariance", self.trajectory.n_atoms, atoms=self.selection.indices, of_atoms=True)
        found = yield Pass(kernel, transforms)
        covariance, mean = np.asarray(found["covariance"]), np.asarray(found["mean_positions"])
        if self._residues is not None:
            # the centre of a residue is linear in its atoms
            covariance = _means(_means(covariance, self._residues).T, self._residues)
            mean = _means(mean, self._residues)
        lengths = np.sqrt(np.diag(covariance))
        with np.errstate(invalid="ignore", divide="ignore"):
            correlation = covariance / np.outer(lengths, lengths)
        # without the rounding of the root
        np.fill_diagonal(correlation, np.where(lengths > 0, 1.0, np.nan))
        return Results(correlation=correlation, covariance=covariance, mean_positions=mean, values=correlation)

    def _matrix_bytes(self, frames: FrameSelection) -> tuple[int, int, int]:
        n_atoms = self.selection.n_atoms
        n = n_atoms if self._residues is None else len(self._residues)
        # the covariance of atoms as it is put together; the covariance, a product of lengths and the correlation
        return n, n, 8 * n_atoms**2 + 24 * n**2

    def _matrix(self) -> NDArray[np.floating]:
        matrix: NDArray[np.float64] = self.results.correlation
        return matrix

    def _labels(self) -> tuple[Sequence[str], Sequence[str]]:
        if self._residues is not None:
            labels = [one.label for one in self._residues]
        else:
            labels = labels_of(self.trajectory, "atom", self.selection.indices)
        return labels, labels


def _means(rows: NDArray[np.float64], groups: Sequence[AtomsOfGroup]) -> NDArray[np.float64]:
    """(groups, ...) means of the rows of each group."""
    return np.array([rows[one.places].mean(axis=0) for one in groups])

"""RMSF: root-mean-square deviation of each atom from its mean position.

    RMSF_i = sqrt( < |x_i(t) - <x_i>|^2 > )

over the frames, in angstrom, by sums that merge exactly in a fixed order (T. F. Chan, G. H. Golub, R. J. LeVeque,
1979, "Updating formulae and a pairwise algorithm for computing sample variances"). Without `align` frames are taken
as they are. A PDB file of it has B factors, `8 pi^2 / 3 RMSF^2`, angstrom^2 (B. T. M. Willis, A. W. Pryor, Thermal
Vibrations in Crystallography, 1975).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from kinema import _core
from kinema.analysis.atom_columns import columns_of_atoms
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
from kinema.analysis.structure.alignment import AlignedAnalysis, Alignment
from kinema.base.choices import BY, check_choice
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinema.model.selection.atoms import AtomChoice
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory
__all__ = ["RMSF"]

_NOT_SUPERPOSED = (
    "nothing was superposed before the RMSF: it holds the motion of the whole molecule as well; "
    "align='average' or align='reference' superposes"
)


class RMSF(AlignedAnalysis):
    """Root-mean-square fluctuation of each atom.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`
        Atoms to take the RMSF of; None: all.
    align : None, "reference", "average" or "iterative"
        Structure to superpose each frame on first: nothing, the reference, or the average structure. A first pass takes
        the average over frames superposed on the reference. "iterative": more passes follow, each over frames
        superposed on the previous average, until the average converges; then the reference does not matter.
    align_select : as `select`, optional
        Atoms to superpose; by default `select`.
    ref_frame, reference :
        As in `RMSD`; only with `align`.
    align_weights : None, "mass" or array
        Weights for the superposition.
    match, tol_mass :
        As in `RMSD`; only with `reference`.
    tolerance : float, angstrom
        With align="iterative": the average has converged if its RMSD from the previous average is at most this.
    most_passes : int
        With align="iterative": largest number of averages; a run that needs more raises ArgumentError.
    by : {"atom", "residue"}
        Rows of tables and pictures: atoms, counted from 1 there, or residues. The value of a residue is the root of the
        mean square of its selected atoms' RMSF, all weighted equally. Results are by atom.

    After `run`
    -----------
    results.rmsf : (atoms,) float64, angstrom, in the selection's order
    results.mean_positions : (atoms, 3) float64, angstrom
    results.indices : (atoms,) uint32
        Atoms from 0, as the column `index` of a .npy file.
    results.values : the same as rmsf

    `save` writes a .pdb file as well: the mean positions with B factors, angstrom^2.

    Examples
    --------
    >>> rmsf = kn.analysis.RMSF(traj, select="name CA", align="average").run()
    >>> rmsf.results.rmsf.shape
    (214,)
    """

    command_name = "rmsf"
    summary = "Root-mean-square fluctuation of each atom."
    quantities = (
        Quantity("rmsf", "angstrom", "RMSF", "one value for each atom"),
        Quantity("mean_positions", "angstrom", "mean positions", "x, y, z of each atom"),
    )
    reference = "T. F. Chan, G. H. Golub, R. J. LeVeque, 1979, Updating formulae and a pairwise algorithm"
    other_formats: ClassVar[Mapping[str, str]] = {".pdb": "mean positions with B factors"}

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
            str,
            Option(
                "--by",
                "Rows of values and picture: atoms, or residues by the mean square of their atoms.",
                choices=BY,
                panel="Output",
            ),
        ] = "atom",
        tolerance: Tolerance = TOLERANCE,
        most_passes: MostPasses = MOST_PASSES,
    ) -> None:
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
        arguments = self._alignment.arguments | ({"by": by} if by == "residue" else {})
        super().__init__(trajectory, selection, **arguments)
        self._by_residue = self._residues() if by == "residue" else None
        self.n_passes = self._alignment.n_passes
        self.selection.check_unique()
        self._read_reference(_NOT_SUPERPOSED)

    @property
    def summarised_over(self) -> str | None:
        return counted(self.selection.n_atoms, "atom")

    def _passes(self, frames: FrameSelection) -> Passes:
        transforms = yield from self._alignment.passes()
        results = yield Pass(_core.Kernel("rmsf", self.trajectory.n_atoms, atoms=self.selection.indices), transforms)
        rmsf = results["rmsf"]
        mean = results["mean_positions"]
        return Results(rmsf=rmsf, mean_positions=mean, indices=self.selection.indices, values=rmsf)

    @property
    def b_factors(self) -> NDArray[np.float64]:
        """(atoms,) `8 pi^2 / 3 RMSF^2`, angstrom^2, of results in memory."""
        factors: NDArray[np.float64] = 8 * np.pi**2 / 3 * np.asarray(self.results.rmsf) ** 2
        return factors

    def _write_other(self, path: str, name: str) -> None:
        from kinema.formats.external.structure import write_structure

        table = self.trajectory.atoms[self.selection.indices.astype(np.int64)]
        with self._noting():
            write_structure(path, table, self.results.mean_positions, b_factors=self.b_factors, name=name)

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
        columns += [] if names is None else [Column("resname", names)]
        segments = heads.get("segids")
        columns += [] if segments is None else [Column("segment", segments)]
        return rows, (*columns, Column("atoms", np.bincount(rows)))

    def _table(self) -> Table:
        if self._by_residue is not None:
            rows, columns = self._by_residue
            mean_squares = np.bincount(rows, weights=self.results.rmsf**2) / np.bincount(rows)
            table = (*columns, Column("rmsf", np.sqrt(mean_squares), "angstrom", digits=self._digits))
            return Table("RMSF", table, x="residue", names="resname")
        return self._table_of_atoms()

    def _table_of_atoms(self) -> Table:
        indices = self.results.indices
        columns = [Column("index", indices, from_one="atom")]
        # names only where the topology is read already; saving reads none
        if self.selection.names is not None and self.trajectory.topology is not None:
            columns += columns_of_atoms(self.trajectory, indices)
        columns.append(Column("rmsf", self.results.rmsf, "angstrom", digits=self._digits))
        return Table("RMSF", tuple(columns), x="index")

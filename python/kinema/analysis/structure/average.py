"""The average structure of the frames.

    <x_i> = sum_t x_i(t) / n

Angstrom, by sums that merge in a fixed order. Without `align` frames are taken as they are. Bonds of an average
structure are shorter than those of any frame where atoms turn. Source: MDAnalysis' `AverageStructure`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

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
    Quantity,
    ReferenceFrame,
    ReferenceStructure,
    Tolerance,
)
from kinema.analysis.structure.alignment import AlignedAnalysis, Alignment
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinema.model.selection.atoms import AtomChoice
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory

__all__ = ["AverageStructure"]

_NOT_SUPERPOSED = (
    "nothing was superposed before the average: if the molecule turns, atoms of the average lie too close together; "
    "align='average' or align='reference' superposes"
)


class AverageStructure(AlignedAnalysis):
    """Mean positions of atoms over the frames.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`
        None: all atoms.
    align : None, "reference", "average" or "iterative"
        Structure to superpose each frame on first, as in `RMSF`. MDAnalysis superposes on a reference.
    align_select, ref_frame, reference, align_weights, match, tol_mass, tolerance, most_passes :
        As in `RMSF`; only with `align`.

    After `run`
    -----------
    results.positions : (atoms, 3) float64, angstrom, in the selection's order
    results.indices : (atoms,) uint32
    results.values : the positions

    `save` writes .pdb and .gro files as well.

    Examples
    --------
    >>> average = kn.analysis.AverageStructure(traj, select="name CA", align="average").run()
    >>> average.results.positions.shape
    (214, 3)
    """

    command_name = "average"
    summary = "Average structure of the frames, as a table, PDB or GRO."
    quantities = (Quantity("positions", "angstrom", "mean positions", "x, y, z of each atom"),)
    reference = "MDAnalysis.analysis.align.AverageStructure"
    other_formats: ClassVar[Mapping[str, str]] = {".pdb": "a structure", ".gro": "a structure"}

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
        tolerance: Tolerance = TOLERANCE,
        most_passes: MostPasses = MOST_PASSES,
    ) -> None:
        from kinema.transforms.arguments import select_atoms

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
        super().__init__(trajectory, selection, **self._alignment.arguments)
        self.n_passes = self._alignment.n_passes
        self.selection.check_unique()
        self._read_reference(_NOT_SUPERPOSED)

    def _passes(self, frames: FrameSelection) -> Passes:
        transforms = yield from self._alignment.passes()
        found = yield Pass(_core.Kernel("average", self.trajectory.n_atoms, atoms=self.selection.indices), transforms)
        positions = found["mean_positions"]
        return Results(positions=positions, indices=self.selection.indices, values=positions)

    def _write_other(self, path: str, name: str) -> None:
        from kinema.formats.external.structure import write_structure

        table = self.trajectory.atoms[self.selection.indices.astype(np.int64)]
        with self._noting():
            write_structure(path, table, self.results.positions, name=name)

    def _table(self) -> Table:
        indices = self.results.indices
        columns = [Column("index", indices, from_one="atom")]
        if self.selection.names is not None and self.trajectory.topology is not None:
            columns += columns_of_atoms(self.trajectory, indices)
        positions = np.asarray(self.results.positions)
        columns += [Column(axis, positions[:, i], "angstrom", digits=self._digits) for i, axis in enumerate("xyz")]
        return Table(self._title, tuple(columns), x="index")

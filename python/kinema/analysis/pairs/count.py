"""Number of selected atoms, or of residues with a selected atom, per frame.

    n(t) = number of atoms i (or of residues with one of them) that the words select in frame t

It counts atoms that change with the frame, such as waters near a protein: `name OW and around 3.5 protein`. Atoms are
those of MDAnalysis' `select_atoms(..., updating=True)` in each frame, `n_atoms` and `n_residues` of which it gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from kinema import _core
from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.declared import PerFrameAnalysis
from kinema.runners.base import Rows

if TYPE_CHECKING:
    from kinema.model.selection.atoms import AtomChoice
    from kinema.trajectory import Trajectory

__all__ = ["AtomCount"]


class AtomCount(PerFrameAnalysis):
    """Number of selected atoms or residues over time.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`, or atoms that change with the frame
        None: all atoms. Distances are those of nearest images.
    by : {"atom", "residue"}
        Unit of the count: atoms, or residues with at least one of them.

    After `run`
    -----------
    results.count : (frames,) int64
        0 in frames without such atoms.
    results.values : (frames, 1), the same
    results.frames, results.time : (frames,)

    Examples
    --------
    >>> count = kn.analysis.AtomCount(traj, select="name CA and around 8 resid 1").run(stop=3)
    >>> count.results.count
    array([18, 18, 17])
    """

    command_name = "count"
    summary = "Number of selected atoms, which may change, for each frame."
    quantities = (Quantity("count", "1", "number of atoms or residues"),)
    reference = "MDAnalysis.core.groups.UpdatingAtomGroup, n_atoms and n_residues"
    takes_changing = True
    value_of_no_atoms = 0.0

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        by: Annotated[
            str, Option("--by", "Count atoms, or residues with one of them.", choices=("atom", "residue"))
        ] = "atom",
    ) -> None:
        from kinema.base.choices import check_choice
        from kinema.model.selection.compounds import marks_of

        super().__init__(trajectory, select, by=by)
        check_choice("by", by, ("atom", "residue"))
        self.selection.check_unique()
        self._labels = None
        if by == "residue":
            topology = trajectory.topology
            marks = marks_of(None if topology is None else topology.atoms, "residues", "by")
            self._labels = marks[self.selection.indices].astype(np.uint32)
        if not self.selection.changes:
            self._add_notes(
                [f"{self.selection.description!r} names the same atoms in all frames: the count does not change"]
            )

    @property
    def measures_whole_molecules(self) -> bool:
        """See `DeclaredAnalysis`: a count does not depend on which image an atom is."""
        return False

    @property
    def subject(self) -> str:
        what = "atoms" if self._labels is None else "residues with an atom"
        return f"number of {what} of {self.selection.description!r}"

    def _rows(self) -> Rows:
        return Rows(len(self._columns()), "int64")

    def _kernel(self) -> _core.Kernel:
        group = self._group_arguments()
        expression = group.get("group", ("atoms", self.selection.indices))
        return _core.Kernel("count", self.trajectory.n_atoms, group=expression, labels=self._labels)

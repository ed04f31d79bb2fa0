"""Number of waters in shells about a solute, per frame.

    n_s(t) = number of waters w with r_{s-1} <= min |x_j(t) - x_i(t)| < r_s,   i of the solute, j of w

A water is in a shell if the least distance of one of its atoms from an atom of the solute, nearest images, is below the
radius of the shell and not below that of the shell inside. Each shell is counted alone, and with all that are inside.
Source: `watershell` of cpptraj, with the same radii, whose count of the upper shell includes the lower one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.declared import PerFrameAnalysis, first_frame_of
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.runners.base import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinema.analysis.base import Results
    from kinema.model.selection.atoms import AtomChoice, Selection
    from kinema.trajectory import Trajectory

__all__ = ["WaterShell"]


class WaterShell(PerFrameAnalysis):
    """Number of waters in shells about a solute over time.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`
        The solute; None: all atoms that are not of the waters. Hydrogens count, if they are selected. The atoms may
        change with the frame.
    waters : as `Trajectory.select`
        Atoms of the waters; a residue is one water. By default those with the residue names that MDAnalysis knows.
        The atoms may change with the frame: an atom that can be of the waters in any frame is never of the solute.
    radii : list of float
        Radii of the shells, ascending, angstrom.

    After `run`
    -----------
    results.shells : (frames, radii) int64
        Number of waters in each shell alone.
    results.cumulative : (frames, radii) int64
        Number of waters in each shell and those inside it.
    results.values : (frames, 2 * radii), both
    results.frames, results.time : (frames,)
    """

    command_name = "shells"
    notes_open_frames = True
    _minimum_image = True
    summary = "Number of waters in shells about a solute, for each frame."
    quantities = (
        Quantity("shells", "1", "number of waters in a shell", "one for each shell"),
        Quantity("cumulative", "1", "number of waters within a radius", "one for each shell"),
    )
    reference = "watershell of cpptraj"
    summarised_column = None
    takes_changing = True

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        waters: Annotated[Any, Option("--waters", "Atoms of the waters.", takes="atoms")] = "water",
        radii: Annotated[
            Any,
            Option(
                "--radii", "Radius of a shell, ascending; repeated.", takes="list of numbers", least=0, unit="angstrom"
            ),
        ] = (3.4, 5.0),
    ) -> None:
        from kinema.model.selection.compounds import marks_of
        from kinema.transforms.arguments import select_atoms

        of_waters = select_atoms(trajectory, waters, may_change=True)
        given = np.unique(of_waters.indices)
        chosen = None if select is None else select_atoms(trajectory, select, may_change=True)
        of = np.arange(trajectory.n_atoms, dtype=np.uint32) if chosen is None else chosen.indices
        solute = np.setdiff1d(of, given)
        if not len(solute):
            raise ArgumentError("the solute has no atoms besides the waters, expected at least one")
        fixed = chosen is None or (len(solute) < len(of) and not chosen.changes)
        super().__init__(trajectory, solute if fixed else chosen)
        self.arguments = {"select": repr("all but waters" if chosen is None else chosen.description)}
        named = isinstance(waters, str) or of_waters.changes
        self.arguments |= {"waters": repr(of_waters.description) if named else counted(len(given), "atom")}
        self._radii = _checked(radii)
        self.arguments |= {"radii": repr(self._radii.tolist())}
        topology = trajectory.topology
        marks = marks_of(None if topology is None else topology.atoms, "residues", "waters")
        self._of_waters, self._waters, self._solute = of_waters, given, solute
        self._labels = np.unique(marks[given], return_inverse=True)[1].astype(np.uint32)
        if chosen is not None and len(solute) < len(of):
            n_left = len(of) - len(solute)
            self._add_notes([f"{counted(n_left, 'atom')} of {chosen.description!r} are of waters, not of the solute"])

    @property
    def selections(self) -> Sequence[Selection]:
        """The solute and the waters."""
        return (self.selection, self._of_waters)

    def _note_frames_without_atoms(self, found: Results) -> None:
        # the kernel counts waters alone: a solute without atoms has none
        frame = first_frame_of(found, -1, 0)
        if frame is not None:
            where = (
                f"no water is within {self._radii[-1]:g} angstrom of {self.selection.description!r} in frame {frame}"
            )
            self._add_notes([f"{where}, where it may have no atoms: the counts of such frames are 0"])

    @property
    def subject(self) -> str:
        return f"number of waters about {self.selection.count(self.trajectory.n_atoms)}"

    @property
    def summarised_over(self) -> str | None:
        """See `DeclaredAnalysis`: shells are not alike."""
        return None

    def _rows(self) -> Rows:
        return Rows(len(self._columns()), "int64")

    def _kernel(self) -> _core.Kernel:
        solute: dict[str, Any] = {"solute": self._solute}
        if self.selection.changes:
            solute = {"solute_group": ("and", ("atoms", self._solute), self.selection.expression)}
        changing = self._of_waters.changes
        waters = {"waters_group": self._of_waters.expression} if changing else {"waters": self._waters}
        return _core.Kernel(
            "shells", self.trajectory.n_atoms, **solute, **waters, labels=self._labels, radii=self._radii
        )

    def _columns(self) -> Sequence[tuple[str, Quantity]]:
        shells, cumulative = self.quantities
        edges = [f"{edge:g}" for edge in (0, *self._radii)]
        alone = [(f"{low}-{high}", shells) for low, high in pairwise(edges)]
        return [*alone, *((f"below_{radius}", cumulative) for radius in edges[1:])]


def _checked(radii: Any) -> NDArray[np.float64]:
    """Radii as an array. Raises ArgumentError unless they are ascending numbers above 0."""
    try:
        found = np.atleast_1d(np.asarray(radii, dtype=np.float64))
    except (TypeError, ValueError):
        found = np.empty(0)
    ascending = found.ndim == 1 and len(found) and np.isfinite(found).all() and (np.diff(found) > 0).all()
    if not ascending or found[0] <= 0:
        raise ArgumentError(f"radii are ascending numbers above 0, angstrom, found {radii!r}")
    return found

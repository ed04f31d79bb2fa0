"""Least distance of two groups of atoms, and how many pairs are near, per frame.

    d(t) = min |x_j(t) - x_i(t)|,   i of one group, j of the other, nearest images in the frame's cell

Angstrom. The groups are whole, or each is divided into residues, segments, molecules or fragments: then each part of
one with each part of the other. With `own_images` it is the least distance of a group and its own images in other
cells, which shows a cell that is too small. Source: `gmx mindist`, also `-pi`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from kinema import _core
from kinema.analysis.declaration import MinimumImage, Option, Quantity
from kinema.analysis.lists import ListAnalysis, RowKey
from kinema.base.choices import COMPOUND, positive_number
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.model.selection.compounds import GroupedAtoms, groups_of
from kinema.transforms.arguments import select_atoms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from kinema.analysis.base import KernelResults, Results
    from kinema.model.selection.atoms import AtomChoice, Selection
    from kinema.model.selection.frames import FrameSelection
    from kinema.storage.tables import Table
    from kinema.trajectory import Trajectory

__all__ = ["MinimumDistance"]


class MinimumDistance(ListAnalysis):
    """Least distance of two groups over time.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`, or atoms that change with the frame
        The first group; None or all atoms: those that are not in `other`.
    other : as `select`
        The second group, which can share no atom with the first.
    cutoff : float
        Pairs of atoms up to this distance are counted, angstrom.
    compound : {"group", "residues", "segments", "molecules", "fragments"}
        Parts of each group that distances are taken of; "group" for atoms that change with the frame.
    own_images : bool
        The group and its own images, instead of a second group. The cell must be known in all frames.
    minimum_image : bool
        Distances of the nearest images; False: use the positions as stored. Without a cell both are the same.

    After `run`
    -----------
    results.i, results.j : (rows,) uint32
        The nearest atoms, from 0. A frame has one row, or one for each pair of parts: the second varies fastest; none
        if a group is empty in that frame.
    results.distance : (rows,) float64, angstrom
    results.pairs, results.atoms : (rows,) uint32
        Number of pairs within the cutoff, and of atoms in them.
    results.frames, results.time : (frames,)
    results.counts : (frames,) int64
        Number of rows of each frame.
    results.first_row : (frames + 1,) int64
        Frame k has the rows first_row[k]:first_row[k + 1].

    Raises
    ------
    ArgumentError
        For a cutoff that is not above 0 or not finite, for groups that share atoms, without a second group.

    Examples
    --------
    >>> least = kn.analysis.MinimumDistance(traj, "resid 1:20", other="resid 100:120").run(step=50)
    >>> least.results.distance.shape
    (4,)
    """

    command_name = "mindist"
    notes_open_frames = True
    takes_changing = True
    summary = "Least distance of two groups, or of a group and its own images, in each frame."
    quantities = (Quantity("distance", "angstrom", "least distance"),)
    reference = "gmx mindist"
    row_name = "least distance"
    keys = (RowKey("i"), RowKey("j"), RowKey("pairs", "number"), RowKey("atoms", "number"))

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        other: Annotated[Any, Option("--other", "Second group.", takes="atoms", example="resid 6")] = None,
        cutoff: Annotated[
            float, Option("--cutoff", "Count pairs of atoms up to this distance.", unit="angstrom", least=0)
        ] = 4.5,
        compound: Annotated[
            str, Option("--compound", "Parts of each group that distances are taken of.", choices=COMPOUND)
        ] = "group",
        own_images: Annotated[
            bool, Option("--own-images", "The group and its own images, instead of --other.")
        ] = False,
        minimum_image: MinimumImage = True,
    ) -> None:
        given = {"other": other, "own_images": own_images or None}
        given |= {
            "compound": None if compound == "group" else compound,
            "minimum_image": None if minimum_image else False,
        }
        self.check_arguments({name: value for name, value in given.items() if value is not None})
        second = None if other is None else select_atoms(trajectory, other, may_change=True)
        first: AtomChoice = select_atoms(trajectory, select, may_change=True)
        if second is not None and not first.changes and first.n_atoms == trajectory.n_atoms:
            first = np.setdiff1d(np.arange(trajectory.n_atoms, dtype=np.uint32), second.indices)
        self._other = second
        super().__init__(
            trajectory,
            first,
            other=second,
            cutoff=cutoff,
            compound=compound,
            own_images=own_images,
            minimum_image=minimum_image,
        )
        self.selection.check_unique()
        with self._noting():
            self._first = self._grouped(self.selection, compound, ("atoms", "ends", "group"))
            self._second = (
                {} if second is None else self._grouped(second, compound, ("other", "other_ends", "other_group"))
            )
        if second is not None:
            second.check_unique()
            shared = np.intersect1d(self.selection.indices, second.indices)
            if len(shared):
                raise ArgumentError(
                    f"the two groups share {counted(len(shared), 'atom')}, the first is {shared[0] + 1}"
                )
        self._cutoff, self._minimum_image = positive_number("cutoff", cutoff), bool(minimum_image)

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        super().check_arguments(given, followed=followed)
        if ("other" in given) is ("own_images" in given):
            raise ArgumentError("least distances are those to other= or to own_images=True; give one of them")
        if "own_images" in given and ("compound" in given or "minimum_image" in given):
            raise ArgumentError(
                "own_images= is of the whole group with its images: neither compound= nor minimum_image="
            )

    def _grouped(self, selection: Selection, compound: str, names: tuple[str, str, str]) -> dict[str, Any]:
        """A group as arguments of the kernel; `names` are those of atoms and ends, or of a group that changes."""
        if selection.changes:
            if compound != "group":
                raise ArgumentError(
                    f"compound={compound!r} has a row for each of the {compound}, but the atoms of "
                    f"{selection.description!r} change with the frame; use compound='group'"
                )
            return {names[2]: selection.expression}
        atoms = None if compound == "group" else self.trajectory.atoms
        grouped = GroupedAtoms.from_groups(groups_of(selection, atoms, compound))
        return {names[0]: grouped.atoms, names[1]: grouped.ends}

    @property
    def selections(self) -> Sequence[Selection]:
        """One group or two."""
        return (self.selection,) if self._other is None else (self.selection, self._other)

    def _results_of(self, frames: FrameSelection, found: KernelResults) -> Results:
        results = super()._results_of(frames, found)
        empty = np.asarray(results.counts) == 0
        if empty.any():
            frame = np.asarray(results.frames)[int(empty.argmax())]
            self._add_notes([f"a group has no atoms in frame {frame}: such frames have no least distance and no row"])
        return results

    @property
    def measures_whole_molecules(self) -> bool:
        """See `DeclaredAnalysis`: nearest images are the same for broken molecules, own images are not."""
        return self._other is None or not self._minimum_image

    @property
    def subject(self) -> str:
        of = self.selection.count(self.trajectory.n_atoms)
        if self._other is None:
            return f"least distance of {of} and their images"
        if self._other.changes:
            return f"least distances of {of} and {self._other.count(self.trajectory.n_atoms)}"
        return f"least distances of {of} and {counted(self._other.n_atoms, 'atom')}"

    @property
    def summarised(self) -> tuple[Any, Quantity]:
        """See `DeclaredAnalysis`: the distances."""
        return np.asarray(self.results.distance)[:, None], self.quantities[0]

    def _figure(self, table: Table) -> Figure:
        if (np.asarray(self.results.counts) != 1).any():
            return super()._figure(table)
        from kinema.analysis.plotting import draw

        # one row a frame: the distance over time says more than the atoms that are nearest
        wanted = ("frame", "time", self.quantities[0].name)
        return draw(replace(table, columns=tuple(one for one in table.columns if one.name in wanted)))

    def _kernel(self) -> _core.Kernel:
        return _core.Kernel(
            "mindist",
            self.trajectory.n_atoms,
            **self._first,
            **self._second,
            cutoff=self._cutoff,
            minimum_image=self._minimum_image,
        )

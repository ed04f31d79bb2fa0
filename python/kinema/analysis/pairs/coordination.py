"""Coordination numbers: how many atoms of one group are near each atom of another, per frame.

    n_i(t) = sum_j s(|x_j(t) - x_i(t)|)

Either s is 1 up to a cutoff, or it falls smoothly from 1 to 0, the rational switch

    s(r) = (1 - x^6) / (1 - x^12) = 1 / (1 + x^6),   x = (r - d0) / r0,   s(r <= d0) = 1

which is 1/2 at d0 + r0. All images within the range count, also own images of an atom, but not the atom itself.
Source: M. Iannuzzi, A. Laio, M. Parrinello, Phys. Rev. Lett. 90, 238302 (2003); PLUMED has the same exponents and the
same end of the sum, x = 6.8, and by default a stretch, which is left out here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from kinema import _core
from kinema.analysis.atom_columns import labels_of
from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.declared import PerFrameAnalysis, group_arguments
from kinema.base.choices import check_choice, positive_number
from kinema.base.errors import ArgumentError
from kinema.execution.result_arrays import columns_of
from kinema.transforms.arguments import select_atoms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kinema.analysis.base import KernelResults, Results
    from kinema.model.selection.atoms import AtomChoice, Selection
    from kinema.trajectory import Trajectory

__all__ = ["Coordination"]

BY = ("group", "atom")
IMAGES = ("all", "none")
#: x of the switch where the sum ends: a pair there counts as 1e-5
_LAST = 6.8


class Coordination(PerFrameAnalysis):
    """Coordination number of atoms over time.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`, or atoms that change with the frame
        The atoms whose neighbours are counted; None: all atoms.
    other : as `select`, optional
        The atoms that are counted as neighbours; by default the atoms of `select`.
    cutoff : float, angstrom
        Distance up to which pairs count. With `r0` it may be left out: d0 + 6.8 r0, where a pair counts as 1e-5.
    r0 : float, optional, angstrom
        Count pairs by the rational switch, which is 1/2 at d0 + r0, in place of 1 each.
    d0 : float, angstrom
        Distance up to which the switch is 1.
    by : {"group", "atom"}
        The mean over the atoms of `select`, or a column for each atom.
    images : {"all", "none"}
        "all": all images within the range count; "none": positions as they stand.

    After `run`
    -----------
    results.coordination : (frames,) float64, or (frames, atoms) with by="atom"
        nan in frames without atoms.
    results.frames, results.time : (frames,)
    results.values : (frames, columns), the columns of the coordination number

    Raises
    ------
    ArgumentError without cutoff and r0, for a cutoff or r0 that is not above 0, for d0 below 0 or without r0, and for
    columns of atoms that change with the frame.

    Examples
    --------
    >>> near = kn.analysis.Coordination(traj, select="name CA", cutoff=8.0).run(stop=2)
    >>> near.results.coordination.round(1)
    array([9.3, 9.3])
    """

    command_name = "coordination"
    summary = "Coordination number: how many atoms of a group are near each atom of another."
    quantities = (Quantity("coordination", "1", "coordination number", "one for each atom with --by atom"),)
    short_run: ClassVar[Mapping[str, Any]] = {"cutoff": 4.0}
    reference = "Iannuzzi, Laio, Parrinello, Phys. Rev. Lett. 90, 238302 (2003)"
    takes_changing = True
    notes_open_frames = True

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        other: Annotated[
            Any, Option("--other", "Neighbours; without it, the atoms of --select.", takes="atoms")
        ] = None,
        cutoff: Annotated[
            float | None,
            Option("--cutoff", "Count pairs up to this distance.", takes="number", unit="angstrom", show_default=False),
        ] = None,
        r0: Annotated[
            float | None,
            Option(
                "--r0", "Count by a smooth switch of this length.", takes="number", unit="angstrom", show_default=False
            ),
        ] = None,
        d0: Annotated[float, Option("--d0", "Distance where the switch begins.", unit="angstrom", least=0)] = 0.0,
        by: Annotated[str, Option("--by", "Mean over all atoms, or a column for each.", choices=BY)] = "group",
        images: Annotated[str, Option("--images", "Periodic images that count.", choices=IMAGES)] = "all",
    ) -> None:
        # "none" on the command line is None
        images = "none" if images is None else images
        check_choice("by", by, BY)
        check_choice("images", images, IMAGES)
        self.check_arguments({"cutoff": cutoff} | ({} if r0 is None else {"r0": r0}) | ({"d0": d0} if d0 else {}))
        self._switch = {} if r0 is None else {"r0": positive_number("r0", r0), "d0": float(d0)}
        self._cutoff = float(d0) + _LAST * self._switch["r0"] if cutoff is None else positive_number("cutoff", cutoff)
        self._other: Selection | None = None if other is None else select_atoms(trajectory, other, may_change=True)
        super().__init__(trajectory, select, other=self._other, cutoff=self._cutoff, r0=r0, d0=d0, by=by, images=images)
        for one in self.selections:
            one.check_unique()
        if by == "atom" and self.selection.changes:
            raise ArgumentError(
                f"by='atom' has a column for each atom, but the atoms of {self.selection.description!r} change with "
                "the frame; use by='group'"
            )
        self._by, self._minimum_image = by, images == "all"

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        super().check_arguments(given, followed=followed)
        if given.get("cutoff") is None and given.get("r0") is None:
            raise ArgumentError("neighbours are counted up to cutoff= or by a switch of length r0=; give one of them")
        if given.get("d0") and given.get("r0") is None:
            raise ArgumentError("d0= is where the switch of r0= begins; give r0= as well")

    @property
    def selections(self) -> Sequence[Selection]:
        """One group or two."""
        return (self.selection,) if self._other is None else (self.selection, self._other)

    @property
    def subject(self) -> str:
        of = self.selection.count(self.trajectory.n_atoms)
        return f"coordination number of {of}" + (
            "" if self._other is None else f" by {self._other.count(self.trajectory.n_atoms)}"
        )

    def _columns(self) -> Sequence[tuple[str, Quantity]]:
        if self._by == "group":
            return super()._columns()
        return [(label, self.quantities[0]) for label in labels_of(self.trajectory, "atom", self.selection.indices)]

    def _quantity_values(self, found: Results, kernel_results: KernelResults) -> dict[str, Any]:
        return {"coordination": columns_of(found.values, 0) if self._by == "group" else found.values}

    def histogram(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The share of the atoms of all frames that have 0, 1, 2... neighbours, rounded to whole numbers.

        Returns
        -------
        numbers, shares : (n,) int64, (n,) float64

        Raises
        ------
        ArgumentError before `run`, and without by="atom".
        """
        if not self.results:
            raise ArgumentError(f"{type(self).__name__} has no results yet; call run() first")
        if self._by != "atom":
            raise ArgumentError("a histogram is of single atoms; give by='atom'")
        values = self.results.values
        counts = np.zeros(0, np.int64)
        for rows in values.chunks() if hasattr(values, "chunks") else [values]:
            found = np.bincount(np.rint(rows).astype(np.int64).ravel(), minlength=len(counts))
            found[: len(counts)] += counts
            counts = found
        return np.arange(len(counts)), counts / counts.sum()

    def _kernel(self) -> _core.Kernel:
        other = {} if self._other is None else group_arguments(self._other, "other", "other_group")
        return _core.Kernel(
            "coordination",
            self.trajectory.n_atoms,
            **self._group_arguments(),
            **other,
            **self._switch,
            cutoff=self._cutoff,
            each=self._by == "atom",
            images=self._minimum_image,
        )

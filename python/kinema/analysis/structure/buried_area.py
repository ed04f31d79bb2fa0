"""Surface area that two groups of atoms bury where they touch, per frame.

    A_buried = A_1 + A_2 - A_12

A_1 and A_2 are the solvent-accessible areas of each group alone, A_12 that of both together; angstrom^2. The area is
that of both sides; some programs print half of it. Groups keep the structure that they have together. Source: C.
Chothia, J. Janin, Nature 256, 705 (1975).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from kinema import _core
from kinema.analysis.declaration import Option, Quantity
from kinema.analysis.declared import PerFrameAnalysis
from kinema.analysis.structure.surface_atoms import AREA, BY, NPoints, Probe, Radii, SurfaceAtoms, groups_by
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from kinema.model.selection.atoms import AtomChoice
    from kinema.storage.tables import Table
    from kinema.trajectory import Trajectory

__all__ = ["BuriedArea"]

# as the kernel numbers them: on the surface of both groups, on that of the own group, and the difference
_BOTH, _ALONE, _BURIED = 0, 1, 2


class BuriedArea(PerFrameAnalysis):
    """Surface area that two groups bury, over time.

    Parameters
    ----------
    trajectory : Trajectory
        With a topology that has elements or names, unless `radii` is an array.
    select : as `Trajectory.select`
        The first group; None or all atoms: those that are not in `other`.
    other : as `select`
        The second group, which can share no atom with the first.
    radii, probe, n_points : as in `SASA`
    by : {"total", "residue", "atom"}
        Columns: the buried area of both groups and the areas that it is the difference of, or the buried area of each
        residue or atom of the first and then of the second group.

    After `run`
    -----------
    results.buried : (frames,) float64, angstrom^2; (frames, residues) or (frames, atoms) by "residue" and "atom"
        The area of both sides together.
    results.areas : (frames, 3) float64, angstrom^2, by "total"
        The first group alone, the second alone, both together.
    results.values : (frames, columns), all of these
    results.frames, results.time : (frames,)

    Raises
    ------
    ArgumentError for groups that share atoms; as `SASA` for atoms without a radius.

    Examples
    --------
    >>> buried = kn.analysis.BuriedArea(traj, "resid 1:29", other="resid 60:121").run(step=50)
    >>> buried.results.areas.shape
    (4, 3)
    """

    command_name = "buried-area"
    summary = "Surface area that two groups bury where they touch, for each frame."
    quantities = (
        Quantity("buried", AREA, "buried surface area", "one for each residue or atom, with --by"),
        Quantity("areas", AREA, "solvent-accessible surface area", "of each group alone and of both"),
    )
    reference = "Chothia and Janin, Nature 256, 705 (1975)"
    short_run = {"n_points": 40}  # noqa: RUF012
    # images count
    _minimum_image = True

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        other: Annotated[Any, Option("--other", "Second group.", takes="atoms", example="resid 80:84")] = None,
        radii: Radii = "bondi",
        probe: Probe = 1.4,
        n_points: NPoints = 960,
        by: Annotated[str, Option("--by", "Columns: the sum, or each residue or atom.", choices=BY)] = "total",
    ) -> None:
        from kinema.transforms.arguments import select_atoms

        self.check_arguments({} if other is None else {"other": other})
        first, second = select_atoms(trajectory, select), select_atoms(trajectory, other)
        if first.n_atoms == trajectory.n_atoms:
            first = trajectory.select(np.setdiff1d(first.indices, second.indices))
        super().__init__(trajectory, first, other=second, radii=radii, probe=probe, n_points=n_points, by=by)
        first.check_unique()
        shared = np.intersect1d(first.indices, second.indices)
        if len(shared):
            raise ArgumentError(f"select= and other= share {counted(len(shared), 'atom')}; each atom is in one group")
        self._other, self._by = second, by
        both = trajectory.select(np.concatenate([first.indices, second.indices]))
        with self._noting():
            self._surface = SurfaceAtoms(trajectory, both, radii, probe, n_points, "its surface")
            atoms = self._surface.atoms
            groups = [one.indices[np.isin(one.indices, atoms)] for one in (first, second)]
            for group, name in zip(groups, ("select", "other"), strict=True):
                if not len(group):
                    raise ArgumentError(f"no atom of {name}= has a radius above 0")
            if by == "total":
                together = np.concatenate(groups)
                self._kinds, columns = [_BURIED, _ALONE, _ALONE, _BOTH], [together, *groups, together]
                self.labels: list[str] = []
            else:
                found = [groups_by(trajectory, group, by) for group in groups]
                columns, self.labels = (
                    [one for made, _ in found for one in made],
                    [one for _, made in found for one in made],
                )
                self._kinds = [_BURIED] * len(columns)
        self._members = self._surface.members(columns)
        self._parts = np.isin(atoms, groups[1]).astype(np.uint32)

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        super().check_arguments(given, followed=followed)
        if "other" not in given:
            raise ArgumentError("an area is buried by two groups; give the second with other= (--other)")

    @property
    def selections(self) -> Sequence[Any]:
        """Both groups."""
        return (self.selection, self._other)

    @property
    def subject(self) -> str:
        return f"{self.quantities[0].description} of {self.selection.n_atoms} and {self._other.n_atoms} atoms"

    @property
    def summarised_over(self) -> str | None:
        return super().summarised_over if self._by == "total" else None

    def _kernel(self) -> _core.Kernel:
        kinds = np.array(self._kinds, np.uint32)
        arguments = {**self._surface.arguments, **self._members, "parts": self._parts, "kinds": kinds}
        return _core.Kernel("sasa", self.trajectory.n_atoms, **arguments)

    def _columns(self) -> Sequence[tuple[str, Quantity]]:
        buried, areas = self.quantities
        if self._by == "total":
            names = ("area of select", "area of other", "area of both")
            return [("buried", Quantity(buried.name, AREA, buried.description)), *((name, areas) for name in names)]
        return [(label, buried) for label in self.labels]

    def _figure(self, table: Table) -> Figure:
        from kinema.analysis.plotting import draw_functions

        if self._by != "total":
            return super()._figure(table)
        x = next(column for column in table.columns if column.name == "time")
        buried, *areas = table.columns[-4:]
        panels = [("buried", [buried]), ("accessible", areas)]
        return draw_functions(x, panels, self._title)

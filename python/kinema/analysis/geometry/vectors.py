"""Angles of axes per frame: of helices, of molecules, between centres; to a direction and to each other.

    angle(t) = arccos(|u(t) . v(t)|),   of the unit axis u and another, or a direction v; signed: arccos(u(t) . v(t))

The axis of a group is that of its least moment of inertia, in which the group is longest: the eigenvector of the
largest eigenvalue of its gyration tensor. Degrees. Positions are used as stored: molecules are not made whole. Source:
MDAnalysis' `principal_axes` (the last of them); `gmx bundle` and `gmx gangle` measure such angles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from kinema import _core
from kinema.analysis.declaration import MassWeights, Option, Quantity
from kinema.analysis.declared import PerFrameAnalysis
from kinema.base.choices import COMPOUND, check_choice
from kinema.base.errors import ArgumentError

if TYPE_CHECKING:
    from kinema.model.selection.atoms import AtomChoice, Selection
    from kinema.trajectory import Trajectory

__all__ = ["Vectors"]

#: directions: axes of space, and normals of the faces of the cell
DIRECTIONS = ("x", "y", "z", "bc", "ca", "ab")


class Vectors(PerFrameAnalysis):
    """Angles of axes to a direction and to each other over time.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`
        Atoms of an axis of its own, which is that of their least moment of inertia. None: all atoms. All atoms have no
        axis if `axes` or `ends` are given.
    compound : {"group", "residues", "segments", "molecules", "fragments"}
        Selected atoms that share an axis, as in `Centers`.
    axes : list, each as `Trajectory.select`, optional
        Atoms of further axes, one each.
    ends : list, each as `Trajectory.select`, optional
        Pairs of groups: an axis from the centre of the first to that of the second, from the third to the fourth, and
        so on.
    direction : {"x", "y", "z", "bc", "ca", "ab"}
        Direction with which each axis is compared: an axis of space, or the normal of a face of the cell, which
        is that of its two edges.
    weights : "mass", None or (atoms,) array
        Weights of moments of inertia and centres: by default the topology's masses; None: all equal. An array is
        for `select`; atoms of `axes` and `ends` then have equal weights.
    signed : bool
        Angles from 0 to 180 degrees. By default axes have no sign, and angles are from 0 to 90. With a sign, the axis
        of a group leads from its first to its last atom, an axis of `ends` to its second group.

    After `run`
    -----------
    results.angles : (frames, axes + pairs of axes) float64, degrees
        The angle of each axis to the direction, then the angle of each two axes: (1, 2), (1, 3), (2, 3), (1, 4), and so
        on. nan for a group that is longest in no single direction.
    results.values : the same
    results.frames, results.time : (frames,)

    Raises
    ------
    ArgumentError for a group of fewer than two atoms, for an odd number of `ends`, and in `run` for a frame whose cell
    does not have the face.

    Examples
    --------
    >>> helices = ["name CA and resid 13-24", "name CA and resid 115-120"]
    >>> tilt = kn.analysis.Vectors(traj, axes=helices, direction="z").run(stop=10)
    >>> tilt.results.angles.shape
    (10, 3)
    """

    command_name = "vectors"
    summary = "Angles of axes, such as those of helices, for each frame."
    quantities = (Quantity("angles", "degree", "angles of axes", "one for each axis and each pair of axes"),)
    reference = "MDAnalysis.core.groups.AtomGroup.principal_axes; gmx gangle"
    summarised_column = None

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        compound: Annotated[str, Option("--compound", "Atoms that share an axis.", choices=COMPOUND)] = "group",
        axes: Annotated[
            Sequence[Any] | None,
            Option("--axis", "Atoms of a further axis; may be repeated.", takes="list of atoms"),
        ] = None,
        ends: Annotated[
            Sequence[Any] | None,
            Option("--ends", "One end of an axis between two centres; given twice an axis.", takes="list of atoms"),
        ] = None,
        direction: Annotated[
            str,
            Option("--direction", "Direction to compare with: an axis, or the normal of a face.", choices=DIRECTIONS),
        ] = "z",
        weights: MassWeights = "mass",
        signed: Annotated[bool, Option("--signed", "Angles from 0 to 180 degrees, not to 90.")] = False,
    ) -> None:
        from kinema.transforms.arguments import select_atoms, selections_of

        check_choice("direction", direction, DIRECTIONS)
        self._axes = selections_of(trajectory, axes, "axes")
        self._ends = selections_of(trajectory, ends, "ends")
        if len(self._ends) % 2:
            raise ArgumentError(f"ends= takes two groups for each axis, found {len(self._ends)}; add or leave out one")
        others = (*self._axes, *self._ends)
        own = not others or select_atoms(trajectory, select).n_atoms < trajectory.n_atoms
        shown = select if own else others[0]
        described = {"compound": compound, "axes": self._axes, "ends": self._ends}
        super().__init__(trajectory, shown, **described, direction=direction, weights=weights, signed=signed)
        self._direction, self._signed = DIRECTIONS.index(direction), bool(signed)
        with self._noting():
            self._collect_groups(own, compound, weights)
        names = [f"{name} to {direction}" for name in self._names]
        pairs = [(i, j) for j in range(len(self._names)) for i in range(j)]
        names += [f"{self._names[i]} to {self._names[j]}" for i, j in pairs]
        self._labels = names

    def _collect_groups(self, own: bool, compound: str, weights: Any) -> None:
        """Groups of atoms with their weights, the axes as pairs of groups, and their names."""
        from kinema.model.selection.compounds import AtomsOfGroup, GroupedAtoms, groups_of

        def whole(one: Selection) -> AtomsOfGroup:
            return AtomsOfGroup(one.description, np.arange(one.n_atoms), one.indices)

        topology = None if compound == "group" else self.trajectory.topology
        table = None if topology is None else topology.atoms
        found = [(self.selection, one) for one in groups_of(self.selection, table, compound)] if own else []
        found += [(one, whole(one)) for one in (*self._axes, *self._ends)]
        n_own = len(found) - len(self._ends)
        short = [group.label or "the selection" for _, group in found[:n_own] if len(group.indices) < 2]
        if short:
            raise ArgumentError(f"an axis is of two atoms or more, found one in {short[0]}")
        for one, _ in found:
            one.check_unique()
        self._groups = GroupedAtoms.from_groups([group for _, group in found])
        if weights is None:
            self._masses = None
        else:
            # an array is of the first selection
            of_each = [weights if isinstance(weights, str) or one is self.selection else None for one, _ in found]
            masses = [self._weights_of(given, one) for given, (one, _) in zip(of_each, found, strict=True)]
            self._masses = np.concatenate(
                [
                    np.ones(len(group.indices)) if of is None else of[group.places]
                    for of, (_, group) in zip(masses, found, strict=True)
                ]
            )
        between = [(n_own + 2 * i, n_own + 2 * i + 1) for i in range(len(self._ends) // 2)]
        self._pairs = np.array([*((i, i) for i in range(n_own)), *between], np.uint32)
        labels = self._groups.labels
        self._names = [labels[i] or f"axis {i + 1}" for i in range(n_own)]
        self._names += [f"{labels[i]} - {labels[j]}" for i, j in between]

    @property
    def selections(self) -> tuple[Selection, ...]:
        return tuple(dict.fromkeys((self.selection, *self._axes, *self._ends)))

    @property
    def summarised_over(self) -> str | None:
        """See `DeclaredAnalysis`: several angles are not alike."""
        return super().summarised_over if len(self._labels) == 1 else None

    @property
    def subject(self) -> str:
        return f"angles of {len(self._names)} {'axis' if len(self._names) == 1 else 'axes'}"

    def _kernel(self) -> _core.Kernel:
        return _core.Kernel(
            "axis_angles",
            self.trajectory.n_atoms,
            axes=self._pairs,
            direction=self._direction,
            signed=self._signed,
            masses=self._masses,
            **self._groups.arguments,
        )

    def _columns(self) -> Sequence[tuple[str, Quantity]]:
        return [(label, self.quantities[0]) for label in self._labels]

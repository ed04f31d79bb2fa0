"""RMSD to a reference, per frame, after superposition.

    RMSD(t) = sqrt( sum_i w_i |R x_i(t) - x_i^ref|^2 / sum_i w_i )

with both structures moved to their (weighted) centres and R the rotation that makes it least; angstrom. It averages
nothing. Source: D. L. Theobald, Acta Cryst. A61 (2005) 478, doi:10.1107/S0108767305015266 (QCP); the columns are
those of MDAnalysis.analysis.rms.RMSD.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.analysis.arguments import told, unique_order, weights_of
from kinema.analysis.base import Analysis, Round, Rounds, results_per_frame
from kinema.analysis.reference import Reference
from kinema.errors import ArgumentError
from kinema.frames import ResolvedFrames
from kinema.output import Column, Table
from kinema.result_file import Quantity
from kinema.runners.base import Rows
from kinema.selection import AtomChoice, Selection
from kinema.topology import is_atom_group
from kinema.trajectory import Trajectory

__all__ = ["RMSD"]


class RMSD(Analysis):
    """Root-mean-square deviation from a reference structure over time.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`
        Atoms to superpose and to take the RMSD of; None: all.
    ref_frame : int
        Frame of the reference, of the trajectory itself or of `reference`.
    reference : Trajectory, Universe, AtomGroup, path or (atoms, 3) array in angstrom, optional
        By default the trajectory itself.
    groups : list of what `select` takes, optional
        More atoms to take the RMSD of, as they lie after the superposition on `select`; one column each.
    weights : None, "mass" or (atoms,) array
        For superposition and RMSD of `select`.
    group_weights : "same", None, "mass", or a list of these last two or arrays
        For the RMSD of each of `groups`; "same": "mass" where `weights` is "mass", otherwise None, as in MDAnalysis.
    superposition : bool
        False: positions are compared as they are, neither centred nor rotated.

    After `run`
    -----------
    results.rmsd : (frames, 3 + groups) float64
        Frame number, time (ps), RMSD, RMSD of each group (angstrom).
    results.frames, results.time : (frames,)
    results.values : (frames, 1 + groups)
    """

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        ref_frame: int = 0,
        reference: Any = None,
        groups: Sequence[AtomChoice] | None = None,
        weights: Any = None,
        group_weights: Any = "same",
        superposition: bool = True,
    ) -> None:
        selection = trajectory.select(select)
        if isinstance(group_weights, str) and group_weights == "same":
            group_weights = "mass" if isinstance(weights, str) else None
        self.groups = tuple(trajectory.select(group) for group in _listed(groups))
        arguments = {"select": told(selection), "ref_frame": told(ref_frame), "reference": told(reference)}
        arguments |= {"groups": told(self.groups), "weights": told(weights), "group_weights": told(group_weights)}
        arguments |= {"superposition": told(superposition)}
        super().__init__(trajectory, selection, arguments)
        self._reference = Reference(trajectory, ref_frame, reference)
        self._weights = weights_of(weights, selection, trajectory)
        self._group_weights = _each_weights(group_weights, self.groups, trajectory)
        self._superposition = bool(superposition)
        for one in (selection, *self.groups):
            unique_order(one)

    def _rounds(self, frames: ResolvedFrames) -> Rounds:
        atoms, reference, weights = self._arguments_of(self.selection, self._weights)
        groups = [self._arguments_of(*pair) for pair in zip(self.groups, self._group_weights, strict=True)]
        n_atoms = self.trajectory.n_atoms
        kernel = _core.Kernel.rmsd(n_atoms, atoms, reference, weights, groups, self._superposition)
        found = yield Round(kernel, rows=Rows(1 + len(groups)))
        return results_per_frame("rmsd", frames, found)

    def _arguments_of(
        self, selection: Selection, weights: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.uint32], NDArray[np.float64], NDArray[np.float64] | None]:
        """Atoms, reference and weights in the ascending order that kernels want; the RMSD does not depend on it."""
        order = unique_order(selection)
        reference = np.ascontiguousarray(self._reference.positions(selection)[order])
        return selection.indices[order], reference, None if weights is None else weights[order]

    def _table(self) -> Table:
        columns = [Column(name, self.results.values[:, i], "angstrom") for i, name in enumerate(self._names())]
        return Table("RMSD", (*self._frames_and_times(), *columns))

    def _per_frame(self, frames: ResolvedFrames) -> Quantity:
        return self._quantity("rmsd", "angstrom", self._names(), "RMSD", frames)

    def _names(self) -> list[str]:
        names = ["rmsd", *(f"rmsd of {group.description}" for group in self.groups)]
        # two groups of one description
        return [f"{name} #{i}" if names.count(name) > 1 else name for i, name in enumerate(names)]


def _listed(groups: Any) -> Sequence[AtomChoice]:
    if groups is None:
        return ()
    if isinstance(groups, (str, Selection)) or is_atom_group(groups):
        return (groups,)
    if not isinstance(groups, Sequence):
        raise ArgumentError(f"groups is a list of selections, found {type(groups).__name__}")
    return groups


def _each_weights(
    weights: Any, groups: tuple[Selection, ...], trajectory: Trajectory
) -> list[NDArray[np.float64] | None]:
    if weights is None or isinstance(weights, str):
        weights = [weights] * len(groups)
    if not isinstance(weights, Sequence) or len(weights) != len(groups):
        raise ArgumentError(f"group_weights is None, 'mass' or a list, one entry for each of {len(groups)} groups")
    return [weights_of(one, group, trajectory, "group_weights") for one, group in zip(weights, groups, strict=True)]

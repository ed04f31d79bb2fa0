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
from kinema.analysis.arguments import describe, select_atoms, weights_of
from kinema.analysis.base import Analysis, Pass, Passes, results_per_frame
from kinema.analysis.reference import Reference
from kinema.errors import ArgumentError
from kinema.execution.results_file import ResultDataset
from kinema.notes import collected
from kinema.runners.base import Rows
from kinema.selection.atoms import AtomChoice, Selection
from kinema.selection.frames import FrameSelection
from kinema.selection.topology import is_atom_group
from kinema.trajectory import Trajectory
from kinema.writing.tables import Column, Table

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
    match : {"masses", "names", "order"}
        What must agree between the atoms of a reference structure and those of the trajectory: masses, where both have
        them, and else names; atom and residue names; or nothing but the number. Frames of the trajectory itself and
        arrays are not compared.
    tol_mass : float
        Masses agree that differ by no more, u.

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
        match: str = "masses",
        tol_mass: float = 0.1,
    ) -> None:
        selection = select_atoms(trajectory, select)
        if isinstance(group_weights, str) and group_weights == "same":
            group_weights = "mass" if isinstance(weights, str) else None
        self.groups = tuple(trajectory.select(group) for group in _listed(groups))
        arguments = {"select": describe(selection), "ref_frame": describe(ref_frame), "reference": describe(reference)}
        arguments |= {
            "groups": describe(self.groups),
            "weights": describe(weights),
            "group_weights": describe(group_weights),
        }
        arguments |= {"superposition": describe(superposition)}
        if reference is not None:
            arguments |= {"match": describe(match), "tol_mass": describe(tol_mass)}
        super().__init__(trajectory, selection, arguments)
        self._superposition = bool(superposition)
        with collected() as notes:
            self._reference = Reference(trajectory, ref_frame, reference, match, tol_mass)
            self._weights = weights_of(weights, selection, trajectory)
            self._group_weights = _each_weights(group_weights, self.groups, trajectory)
            for one in self.selections:
                one.check_unique()
                self._reference.check(one)
        self._add_notes(notes)

    @property
    def selections(self) -> Sequence[Selection]:
        """The selection and the groups."""
        return (self.selection, *self.groups)

    @property
    def other_files(self) -> tuple[str, ...]:
        """See `Computation`."""
        return tuple(dict.fromkeys((*super().other_files, *self._reference.files)))

    def _passes(self, frames: FrameSelection) -> Passes:
        atoms, reference, weights = self._arguments_of(self.selection, self._weights)
        groups = [self._arguments_of(*pair) for pair in zip(self.groups, self._group_weights, strict=True)]
        n_atoms = self.trajectory.n_atoms
        fit = "superpose" if self._superposition else "none"
        kernel = _core.Kernel(
            "rmsd", n_atoms, atoms=atoms, reference=reference, weights=weights, groups=groups, fit=fit
        )
        results = yield Pass(kernel, rows=Rows(1 + len(groups)))
        return results_per_frame("rmsd", frames, results)

    def _arguments_of(
        self, selection: Selection, weights: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.uint32], NDArray[np.float64], NDArray[np.float64] | None]:
        """Atoms, reference and weights of a kernel, in the selection's order."""
        return selection.indices, self._reference.positions(selection), weights

    def _table(self) -> Table:
        columns = [Column(name, self.results.values[:, i], "angstrom") for i, name in enumerate(self._names())]
        return Table("RMSD", (*self._frames_and_times(), *columns))

    def _per_frame(self, frames: FrameSelection) -> ResultDataset:
        return self._dataset("rmsd", "angstrom", self._names(), "RMSD", frames)

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

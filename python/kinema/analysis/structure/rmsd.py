"""RMSD to a reference, per frame, after superposition.

    RMSD(t) = sqrt( sum_i w_i |R x_i(t) - x_i^ref|^2 / sum_i w_i )

with both structures moved to their (weighted) centres and R the rotation that makes it least; angstrom. It averages
nothing. Source: D. L. Theobald, Acta Cryst. A61 (2005) 478, doi:10.1107/S0108767305015266 (QCP); the columns are
those of MDAnalysis.analysis.rms.RMSD.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from kinema import _core
from kinema.analysis.base import KernelResults, Pass, Passes, Results
from kinema.analysis.declaration import Match, Option, Quantity, ReferenceFrame, Weights
from kinema.analysis.declared import PerFrameAnalysis
from kinema.base.choices import check_choice
from kinema.base.errors import ArgumentError
from kinema.execution.computation import SideBySide

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinema.model.selection.atoms import AtomChoice, Selection
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory

__all__ = ["RMSD"]

# a value of `reference`
AVERAGE = "average"
_BY = ("selection", "residue")


class RMSD(PerFrameAnalysis):
    """Root-mean-square deviation from a reference structure over time.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`
        Atoms to superpose and to take the RMSD of; None: all.
    ref_frame : int
        Frame of the reference, in the trajectory itself or in `reference`.
    reference : Trajectory, Universe, AtomGroup, path, (atoms, 3) array in angstrom, or "average", optional
        By default the trajectory itself. "average": the average structure of the analysed frames, which an extra first
        pass superposes on `ref_frame`.
    groups : list of selections, optional
        More atoms to take the RMSD of, after the superposition on `select`; one column per group.
    weights : None, "mass" or (atoms,) array
        Weights for superposition and RMSD of `select`.
    by : {"selection", "residue"}
        "residue": a column for each residue of `select`, before the columns of `groups`: the RMSD of its selected atoms
        after the superposition on all of them.
    group_weights : "same", None, "mass", or a list of these last two or arrays
        Weights for the RMSD of each of `groups`; "same": "mass" if `weights` is "mass", otherwise None, as in
        MDAnalysis.
    superposition : bool
        False: positions are compared as they are, neither centred nor rotated.
    match : {"masses", "names", "order"}
        Property that must agree between the atoms of a reference structure and of the trajectory: masses, or names if
        one of them has no masses; atom and residue names; or only the number of atoms. Frames of the trajectory itself
        and arrays are not compared.
    tol_mass : float
        Largest difference of masses that agree, u.

    After `run`
    -----------
    results.rmsd : (frames, 3 + groups) float64
        Frame number, time (ps), RMSD, RMSD of each group (angstrom).
    results.frames, results.time : (frames,)
    results.values : (frames, 1 + groups)

    Examples
    --------
    >>> rmsd = kn.analysis.RMSD(traj, select="name CA", groups=["backbone"]).run(step=50)
    >>> rmsd.results.rmsd.shape  # frame, time, RMSD, RMSD of the backbone
    (4, 4)
    """

    command_name = "rmsd"
    summary = "RMSD of the atoms to a reference frame or structure, for each frame."
    quantities = (Quantity("rmsd", "angstrom", "RMSD", "of the selection, and of each of the groups"),)
    reference = "D. L. Theobald, Acta Cryst. A61 (2005) 478, doi:10.1107/S0108767305015266"

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        ref_frame: ReferenceFrame = 0,
        reference: Annotated[
            Any,
            Option(
                "--reference",
                "Structure file to superpose on, instead of a frame; average: the average structure of the frames.",
                takes="file",
            ),
        ] = None,
        groups: Annotated[
            Sequence[Any] | None,
            Option(
                "--rmsd-select",
                "More atoms to take the RMSD of, after superposition on --select.",
                takes="list of atoms",
                by_group="--groups",
            ),
        ] = None,
        weights: Weights = None,
        group_weights: Any = "same",
        superposition: Annotated[
            bool, Option("--superposition/--no-superposition", "Superpose before the RMSD is taken.")
        ] = True,
        match: Match = "masses",
        tol_mass: float = 0.1,
        by: Annotated[
            str,
            Option("--by", "Also the RMSD of each residue, after superposition on --select.", choices=_BY),
        ] = "selection",
    ) -> None:
        from kinema.transforms.arguments import select_atoms, selections_of
        from kinema.transforms.reference import Reference

        selection = select_atoms(trajectory, select)
        if isinstance(group_weights, str) and group_weights == "same":
            group_weights = "mass" if isinstance(weights, str) else None
        check_choice("by", by, _BY)
        self.groups = given_groups = selections_of(trajectory, groups, "groups")
        if by == "residue":
            self.groups = (*_residues(selection, trajectory), *self.groups)
        self._superposition = bool(superposition)
        self._of_average = isinstance(reference, str) and reference == AVERAGE
        self.n_passes, structure = (2, None) if self._of_average else (1, reference)
        super().__init__(
            trajectory,
            selection,
            ref_frame=ref_frame,
            reference=reference,
            groups=given_groups,
            weights=weights,
            group_weights=group_weights,
            superposition=superposition,
            **({} if by == "selection" else {"by": by}),
            **({} if structure is None else {"match": match, "tol_mass": tol_mass}),
        )
        with self._noting():
            self._reference = Reference(trajectory, ref_frame, structure, match, tol_mass)
            self._positions = self._reference.positions
            self._weights = self._weights_of(weights)
            self._group_weights = self._each_weights(group_weights)
            for one in self.selections:
                one.check_unique()
                self._reference.check(one)

    @property
    def selections(self) -> Sequence[Selection]:
        """The selection and the groups."""
        return (self.selection, *self.groups)

    @property
    def other_files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*super().other_files, *self._reference.files)))

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        if given.get("reference") == AVERAGE:
            if followed:
                raise ArgumentError("reference='average' reads all frames twice, which --follow cannot")
            # the frame that others are superposed on before they are averaged
            given = {name: value for name, value in given.items() if name != "ref_frame"}
        super().check_arguments(given, followed=followed)

    def _passes(self, frames: FrameSelection) -> Passes:
        self._positions = self._reference.positions
        if self._of_average:
            n_atoms = self.trajectory.n_atoms
            atoms = np.unique(np.concatenate([one.indices for one in self.selections]))
            first = self._arguments_of(self.selection, self._weights)
            fitted = {**dict(zip(("atoms", "reference", "weights"), first, strict=True)), "mode": "rot+trans"}
            superposed = _core.Transform("superpose", n_atoms, label="superpose", **fitted)
            transforms = (superposed,) if self._superposition else ()
            found = yield Pass(_core.Kernel("average", n_atoms, atoms=atoms), transforms)
            mean = found["mean_positions"]
            self._positions = lambda selection: np.ascontiguousarray(mean[np.searchsorted(atoms, selection.indices)])
        return (yield from super()._passes(frames))

    def _kernel(self) -> _core.Kernel:
        atoms, reference, weights = self._arguments_of(self.selection, self._weights)
        groups = [self._arguments_of(*pair) for pair in zip(self.groups, self._group_weights, strict=True)]
        n_atoms = self.trajectory.n_atoms
        fit = "superpose" if self._superposition else "none"
        if self._superposition:
            from kinema.transforms.reference import note_free_rotation

            note_free_rotation(reference, weights)
        return _core.Kernel("rmsd", n_atoms, atoms=atoms, reference=reference, weights=weights, groups=groups, fit=fit)

    def _columns(self) -> list[tuple[str, Quantity]]:
        names = ["rmsd", *(f"rmsd of {group.description}" for group in self.groups)]
        # two groups of one description
        names = [f"{name} #{i}" if names.count(name) > 1 else name for i, name in enumerate(names)]
        return [(name, self.quantities[0]) for name in names]

    def _quantity_values(self, found: Results, kernel_results: KernelResults) -> dict[str, Any]:
        """As MDAnalysis: the table of frame, time and values."""
        table = kernel_results.get("table")
        return {"rmsd": SideBySide((found.frames, found.time, found.values)) if table is None else table}

    def _arguments_of(
        self, selection: Selection, weights: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.uint32], NDArray[np.float64], NDArray[np.float64] | None]:
        """Atoms, reference and weights of a kernel, in the selection's order."""
        return selection.indices, self._positions(selection), weights

    def _each_weights(self, weights: Any) -> list[NDArray[np.float64] | None]:
        n_groups = len(self.groups)
        if weights is None or isinstance(weights, str):
            weights = [weights] * n_groups
        if not isinstance(weights, Sequence) or len(weights) != n_groups:
            raise ArgumentError(f"group_weights is None, 'mass' or a list, one entry for each of {n_groups} groups")
        pairs = zip(weights, self.groups, strict=True)
        return [self._weights_of(one, group, "group_weights") for one, group in pairs]


def _residues(selection: Selection, trajectory: Trajectory) -> tuple[Selection, ...]:
    """The selected atoms of each residue. Raises ArgumentError without residues."""
    from kinema.model.selection.compounds import groups_of

    topology = trajectory.topology
    groups = groups_of(selection, None if topology is None else topology.atoms, "residues")
    return tuple(replace(trajectory.select(one.indices), description=one.label) for one in groups)

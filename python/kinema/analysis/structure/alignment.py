"""The superposition of frames before an analysis of motion, on a reference or on their average."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kinema import _core
from kinema.analysis.base import Pass
from kinema.analysis.declaration import MOST_PASSES, TOLERANCE
from kinema.analysis.declared import DeclaredAnalysis
from kinema.base.choices import ALIGN
from kinema.base.errors import ArgumentError
from kinema.base.notes import emit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinema.model.selection.atoms import Selection
    from kinema.trajectory import Trajectory


class Alignment:
    """How frames are superposed before an analysis; `passes` takes the averages that this needs.

    `arguments`: arguments that affect results, for provenance.
    `n_passes`: number of passes with the one that follows; None if it depends on the frames.
    `files`: files that the reference is read from, except the trajectory's own.
    """

    def __init__(
        self,
        trajectory: Trajectory,
        selection: Selection,
        align: str | None,
        align_select: Any = None,
        ref_frame: int = 0,
        reference: Any = None,
        align_weights: Any = None,
        match: str = "masses",
        tol_mass: float = 0.1,
        tolerance: float = TOLERANCE,
        most_passes: int = MOST_PASSES,
    ) -> None:
        """The arguments are those of `RMSF`. Raises ArgumentError for what does not fit together."""
        if align not in (None, *ALIGN[1:]):
            raise ArgumentError(f"align must be None, 'average', 'iterative' or 'reference', found {align!r}")
        if align != "iterative" and (tolerance, most_passes) != (TOLERANCE, MOST_PASSES):
            raise ArgumentError("tolerance and most_passes need align='iterative'")
        if not tolerance > 0 or most_passes < 1:
            raise ArgumentError(f"tolerance is above 0 and most_passes at least 1, found {tolerance}, {most_passes}")
        self.selection = selection if align_select is None else trajectory.select(align_select)
        self.arguments: dict[str, Any] = {"align": align}
        if align is not None:
            self.arguments |= {"align_select": self.selection, "ref_frame": ref_frame}
            self.arguments |= {"reference": reference, "align_weights": align_weights}
        elif align_select is not None or reference is not None or align_weights is not None:
            raise ArgumentError("align_select, reference and align_weights need align=")
        self.arguments |= {} if reference is None else {"match": match, "tol_mass": tol_mass}
        self.arguments |= {"tolerance": tolerance, "most_passes": most_passes} if align == "iterative" else {}
        self.n_passes = {"average": 2, "iterative": None}.get(str(align), 1)
        self._trajectory, self._align = trajectory, align
        self._given = (ref_frame, reference, match, tol_mass, align_weights)
        self._tolerance, self._most_passes = (tolerance, most_passes) if align == "iterative" else (np.inf, 1)
        self.files: tuple[str, ...] = ()

    @property
    def is_wanted(self) -> bool:
        """Whether frames are superposed."""
        return self._align is not None

    def read_reference(self) -> None:
        """Reads the reference and the weights; notes and errors of these are raised here."""
        from kinema.transforms.arguments import weights_of
        from kinema.transforms.reference import Reference

        ref_frame, reference, match, tol_mass, weights = self._given
        self.selection.check_unique()
        self._reference = Reference(self._trajectory, ref_frame, reference, match, tol_mass)
        self._weights = weights_of(weights, self.selection, self._trajectory, "align_weights")
        self._reference.check(self.selection)
        self.files = self._reference.files

    def passes(self) -> Generator[Pass, Any, tuple[_core.Transform, ...]]:
        """Takes the averages, and returns the transform that superposes frames: none without `align`."""
        from kinema.transforms.reference import note_free_rotation

        if self._align is None:
            return ()
        n_atoms = self._trajectory.n_atoms
        atoms = self.selection.indices
        target = self._reference.positions(self.selection)
        note_free_rotation(target, self._weights)
        transforms = self._superposed(target)
        moved, taken = np.inf, 0
        while self._align != "reference" and (moved > self._tolerance or not taken):
            if taken == self._most_passes:
                raise ArgumentError(
                    f"the average structure does not stand still after {self._most_passes} passes: the last one moved "
                    f"it by {moved:.3g} angstrom, expected at most {self._tolerance:g}; raise tolerance or most_passes"
                )
            state = f"the average moved by {moved:.2g} angstrom" if taken else ""
            average = yield Pass(_core.Kernel("average", n_atoms, atoms=atoms), transforms, state=state)
            before, target = target, np.ascontiguousarray(average["mean_positions"])
            # of frames superposed on the one before, which superposes their average on it as well
            moved, taken = float(np.sqrt(np.mean(np.sum((target - before) ** 2, axis=1)))), taken + 1
            transforms = self._superposed(target)
        return transforms

    def _superposed(self, target: NDArray[np.float64]) -> tuple[_core.Transform]:
        made = {"atoms": self.selection.indices, "reference": target, "weights": self._weights, "mode": "rot+trans"}
        return (_core.Transform("superpose", self._trajectory.n_atoms, label="superpose", **made),)


class AlignedAnalysis(DeclaredAnalysis):
    """An analysis that superposes frames first, if wanted; its constructor makes `_alignment`."""

    _alignment: Alignment

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        _check_alignment(given, followed=followed)
        super().check_arguments(given, followed=followed)

    @property
    def other_files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*super().other_files, *self._alignment.files)))

    def _read_reference(self, not_superposed: str) -> None:
        """Reads the reference, with its notes; notes `not_superposed` without `align`."""
        with self._noting():
            self._alignment.read_reference()
            if not self._alignment.is_wanted:
                emit([not_superposed])


def _check_alignment(given: Mapping[str, Any], *, followed: bool) -> None:
    """Raises ArgumentError for arguments of an alignment that exclude or need each other; see `check_arguments`."""
    if followed and given.get("align") in ("average", "iterative"):
        times = "twice" if given["align"] == "average" else "until the average stands still"
        raise ArgumentError(
            f"align={given['align']!r} reads all frames {times}, which --follow cannot; use align='reference', or "
            "run it when all frames are there"
        )
    if "align" not in given and {"align_select", "align_weights", "ref_frame", "reference", "match"} & {*given}:
        raise ArgumentError(
            "align_select=, align_weights=, ref_frame=, reference= and match= need align='average', 'iterative' or "
            "'reference'"
        )
    if given.get("align") != "iterative" and {"tolerance", "most_passes"} & {*given}:
        raise ArgumentError("tolerance= and most_passes= need align='iterative'")

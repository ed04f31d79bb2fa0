"""Least distances of pairs of residues per frame.

    d(t) = min |x_j(t) - x_i(t)|,   i of one residue, j of the other, nearest images in the frame's cell

Angstrom. The scheme says which atoms of a residue count: all, heavy atoms, C-alpha, or heavy atoms of the side chain.
It does not search: each pair has a column; `ResidueContacts` lists the pairs that are near. Source: MDTraj's
`compute_contacts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.analysis.declaration import MinimumImage, Option, Quantity
from kinema.analysis.declared import PerFrameAnalysis
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.model.selection.residue_atoms import SCHEMES, ResidueAtoms, residue_atoms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinema.model.atom_table import Atoms
    from kinema.model.selection.atoms import AtomChoice
    from kinema.trajectory import Trajectory

__all__ = ["ResidueDistances"]


class ResidueDistances(PerFrameAnalysis):
    """Least distances of pairs of residues over time.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`
        Atoms that count; None: all.
    pairs : (n, 2) array of residue numbers from 0 (`Atoms.resindices`), optional
        By default all pairs of residues of the selection that are `min_separation` apart, as MDTraj's contacts="all".
    scheme : {"closest-heavy", "closest", "ca", "sidechain-heavy"}
        Atoms of a residue that count. Without elements, hydrogens are known by names, which is noted.
    min_separation : int
        If `pairs` is not given: least number of places between residues of one chain.
    minimum_image : bool
        Distances of the nearest images; False: use the positions as stored. Without a cell both are the same.

    After `run`
    -----------
    results.distances : (frames, n) float64, angstrom
    results.values : the same
    results.frames, results.time : (frames,)

    Attributes
    ----------
    residue_pairs : (n, 2) int64
        Residues of each column, as `Atoms.resindices`.

    Examples
    --------
    >>> distances = kn.analysis.ResidueDistances(traj, pairs=[(10, 40), (11, 80)]).run()
    >>> distances.results.distances.shape
    (196, 2)
    """

    command_name = "residue-distances"
    summary = "Least distances of pairs of residues, for each frame."
    quantities = (Quantity("distances", "angstrom", "least distance", "one for each pair"),)
    reference = "mdtraj.compute_contacts"
    summarised_column = None

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        pairs: Annotated[
            Any,
            Option(
                "--pairs",
                "File of pairs, two residues a line, counted from 1.",
                takes="tuples",
                atoms_each=2,
            ),
        ] = None,
        scheme: Annotated[str, Option("--scheme", "Atoms of a residue that count.", choices=SCHEMES)] = "closest-heavy",
        min_separation: Annotated[
            int, Option("--min-separation", "Without --pairs: least distance of residues in a chain.", least=0)
        ] = 3,
        minimum_image: MinimumImage = True,
    ) -> None:
        super().__init__(
            trajectory, select, pairs=pairs, scheme=scheme, min_separation=min_separation, minimum_image=minimum_image
        )
        self.selection.check_unique()
        atoms = trajectory.atoms
        with self._noting():
            self._residues = residue_atoms(atoms, self.selection.indices, scheme)
        self._minimum_image = bool(minimum_image)
        if pairs is None:
            self._pairs = pairs_apart(atoms, self._residues, min_separation)
        else:
            self._pairs = _given(pairs, self._residues, scheme)
        #: residues of each column
        self.residue_pairs = self._residues.residues[self._pairs]

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        super().check_arguments(given, followed=followed)
        if "pairs" in given and "min_separation" in given:
            raise ArgumentError("min_separation= says which pairs there are if pairs= does not; give one of them")

    @property
    def subject(self) -> str:
        return f"least distance of {counted(len(self._pairs), 'pair')} of residues"

    @property
    def summarised_over(self) -> str | None:
        frames = super().summarised_over
        return frames if len(self._pairs) == 1 else f"all pairs and {frames}"

    def _kernel(self) -> _core.Kernel:
        return _core.Kernel(
            "residue_distances",
            self.trajectory.n_atoms,
            atoms=self._residues.atoms,
            ends=self._residues.ends,
            pairs=self._pairs,
            minimum_image=self._minimum_image,
        )

    def _columns(self) -> list[tuple[str, Quantity]]:
        labels = self._residues.labels
        return [(f"{labels[i]}-{labels[j]}", self.quantities[0]) for i, j in self._pairs]


def pairs_apart(atoms: Atoms, residues: ResidueAtoms, separation: int) -> NDArray[np.uint32]:
    """(n, 2) places of all pairs of residues of different chains, or `separation` apart.

    Raises ArgumentError if there is none.
    """
    from kinema.model.selection.chains import are_apart

    first, second = np.triu_indices(len(residues.residues), 1)
    apart = are_apart(atoms, residues.residues[first], residues.residues[second], separation)
    if not apart.any():
        raise ArgumentError(f"no two residues of the selection are min_separation={separation} apart")
    return np.column_stack([first, second])[apart].astype(np.uint32)


def _given(pairs: Any, residues: ResidueAtoms, scheme: str) -> NDArray[np.uint32]:
    """(n, 2) places of the given residues."""
    found = np.asarray(pairs)
    if found.ndim != 2 or found.shape[1] != 2 or not len(found) or found.dtype.kind not in "iu":
        raise ArgumentError(f"pairs are residue numbers of shape (n, 2), found {found.dtype} of shape {found.shape}")
    known = np.isin(found, residues.residues)
    if not known.all():
        row = int(np.argmin(known.all(axis=1)))
        raise ArgumentError(
            f"pairs: residue {found[row][~known[row]][0]} (counted from 0) of row {row} has no selected atom for "
            f"scheme {scheme!r}"
        )
    return np.searchsorted(residues.residues, found).astype(np.uint32)

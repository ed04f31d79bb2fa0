"""Contact maps: in which share of the frames two residues are in contact, and how far apart they are on average.

    d_ij(t) = min |x_l(t) - x_k(t)|,   k of residue i, l of residue j, nearest images in the frame's cell
    share_ij = number of frames with d_ij <= cutoff / number of frames

Angstrom. The scheme says which atoms of a residue count, as in MDTraj's `compute_contacts`, whose distances these are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from kinema import _core
from kinema.analysis.base import Pass, Passes, Results
from kinema.analysis.declaration import MinimumImage, Option, Quantity
from kinema.analysis.matrix import MatrixAnalysis
from kinema.analysis.pairs.residue_distances import pairs_apart
from kinema.base.choices import positive_number
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.model.selection.residue_atoms import SCHEMES, ResidueAtoms, residue_atoms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinema.model.selection.atoms import AtomChoice, Selection
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory

__all__ = ["ContactMap"]


class ContactMap(MatrixAnalysis):
    """Contacts of residues as a map.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`
        Atoms that count; None: all.
    other : as `Trajectory.select`, optional
        Residues of the columns; by default the residues of the rows.
    cutoff : float
        Largest distance of residues in contact, angstrom.
    scheme : {"closest-heavy", "closest", "ca", "sidechain-heavy"}
        Atoms of a residue that count. Without elements, hydrogens are known by names, which is noted.
    min_separation : int
        Least number of places between residues of one chain, which is a segment or has a chain identifier.
    distances : bool
        Mean distances too. Contacts alone of residues with one atom each take two thirds of the time.
    minimum_image : bool
        Distances of the nearest images; False: use the positions as stored. Without a cell both are the same.

    After `run`
    -----------
    results.share : (rows, columns) float64
        Share of the frames in which residues are in contact; nan for residues that are not `min_separation` apart.
    results.distance : (rows, columns) float64, angstrom
        Mean of the least distance; nan likewise. Not there with `distances=False`.
    results.contacts : (frames,) float64
        Number of pairs of residues in contact.
    results.residues, results.other_residues : (rows,), (columns,) int64
        Residues as `Atoms.resindices`.
    results.frames, results.time : (frames,)
    results.values : the share

    Examples
    --------
    >>> contacts = kn.analysis.ContactMap(traj, select="resid 1:60", scheme="ca", cutoff=8.0).run(step=50)
    >>> contacts.results.share.shape
    (60, 60)
    """

    command_name = "contact-map"
    notes_open_frames = True
    summary = "Share of the frames in which residues are in contact, and mean distances, as a map."
    quantities = (
        Quantity("share", "1", "share of the frames in contact", "a row and a column for each residue"),
        Quantity("distance", "angstrom", "mean least distance", "a row and a column for each residue"),
    )
    reference = "mdtraj.compute_contacts"
    limits: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    smaller: ClassVar[str] = "select fewer residues"
    of = "residue"

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        other: Annotated[
            Any, Option("--other", "Residues of the columns; by default the residues of --select.", takes="atoms")
        ] = None,
        cutoff: Annotated[
            float, Option("--cutoff", "Largest distance of residues in contact.", unit="angstrom", least=0)
        ] = 4.5,
        scheme: Annotated[str, Option("--scheme", "Atoms of a residue that count.", choices=SCHEMES)] = "closest-heavy",
        min_separation: Annotated[
            int, Option("--min-separation", "Least distance of residues in a chain, in residues.", least=0)
        ] = 3,
        distances: Annotated[bool, Option("--distances/--no-distances", "Mean distances too.")] = True,
        minimum_image: MinimumImage = True,
    ) -> None:
        self._other_selection = None if other is None else trajectory.select(other)
        given: dict[str, Any] = {} if other is None else {"other": self._other_selection}
        given |= {"cutoff": cutoff, "scheme": scheme, "min_separation": min_separation}
        given |= {"distances": distances, "minimum_image": minimum_image}
        super().__init__(trajectory, select, **given)
        self._cutoff, self._minimum_image = positive_number("cutoff", cutoff), bool(minimum_image)
        self._with_distances = bool(distances)
        atoms = trajectory.atoms
        for one in self.selections:
            one.check_unique()
        with self._noting():
            found = [residue_atoms(atoms, one.indices, scheme) for one in self.selections]
        self._of_rows, self._of_columns = found[0], found[-1]
        if other is None and len(self._of_rows.residues) < 2:
            raise ArgumentError(f"the selection has one residue for scheme {scheme!r}, expected at least two")
        self._pairs = (
            pairs_apart(atoms, self._of_rows, min_separation) if other is None else self._between(min_separation)
        )

    @property
    def selections(self) -> Sequence[Selection]:
        return (self.selection,) if self._other_selection is None else (self.selection, self._other_selection)

    @property
    def subject(self) -> str:
        return f"contacts of {counted(len(self._of_rows.residues), 'residue')}"

    def _between(self, separation: int) -> NDArray[np.uint32]:
        """(n, 2) places of all pairs of a row and a column that are apart."""
        from kinema.model.selection.chains import are_apart

        rows, columns = self._of_rows.residues, self._of_columns.residues
        first, second = (one.ravel() for one in np.indices((len(rows), len(columns))))
        apart = are_apart(self.trajectory.atoms, rows[first], columns[second], separation)
        apart &= rows[first] != columns[second]
        if not apart.any():
            raise ArgumentError(f"no two residues of the selections are min_separation={separation} apart")
        return np.column_stack([first, second])[apart].astype(np.uint32)

    def _matrix_bytes(self, frames: FrameSelection) -> tuple[int, int, int]:
        n, m = len(self._of_rows.residues), len(self._of_columns.residues)
        # both matrices and the sums of pairs
        return n, m, 2 * 8 * n * m + 3 * 8 * len(self._pairs)

    def _passes(self, frames: FrameSelection) -> Passes:
        n_rows = len(self._of_rows.residues)
        residues = self._all_residues()
        first, second = self._pairs[:, 0], self._pairs[:, 1]
        places = self._pairs if self._other_selection is None else np.column_stack([first, second + np.uint32(n_rows)])
        given: dict[str, Any] = {
            "atoms": residues.atoms,
            "ends": residues.ends,
            "pairs": np.ascontiguousarray(places, np.uint32),
        }
        given |= {"cutoff": self._cutoff, "minimum_image": self._minimum_image, "distances": self._with_distances}
        found = yield Pass(_core.Kernel("contact_map", self.trajectory.n_atoms, **given))
        share = self._as_matrix(np.asarray(found["counts"]) / len(frames))
        mean = {}
        if self._with_distances:
            mean = {"distance": self._as_matrix(np.asarray(found["distances"]) / len(frames))}
        return Results(
            share=share,
            **mean,
            contacts=np.asarray(found["values"])[:, 0],
            residues=self._of_rows.residues,
            other_residues=self._of_columns.residues,
            frames=frames.numbers().astype(np.int64),
            time=np.asarray(found["time"]),
            values=share,
        )

    def _all_residues(self) -> ResidueAtoms:
        """The residues of the rows, then the residues of other columns."""
        rows, columns = self._of_rows, self._of_columns
        if self._other_selection is None:
            return rows
        return ResidueAtoms(
            np.concatenate([rows.residues, columns.residues]),
            np.concatenate([rows.atoms, columns.atoms]),
            np.concatenate([rows.ends, columns.ends + np.uint32(len(rows.atoms))]),
            rows.labels + columns.labels,
        )

    def _as_matrix(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of pairs as a matrix; nan for other pairs."""
        matrix = np.full((len(self._of_rows.residues), len(self._of_columns.residues)), np.nan)
        matrix[self._pairs[:, 0], self._pairs[:, 1]] = values
        if self._other_selection is None:
            matrix[self._pairs[:, 1], self._pairs[:, 0]] = values
        return matrix

    def _matrix(self) -> NDArray[np.floating]:
        return np.asarray(self.results.share)

    def _datasets(self) -> dict[str, NDArray[Any]]:
        names = ("distance", "contacts", "frames", "time")
        return {name: np.asarray(self.results[name]) for name in names if name in self.results}

    def _labels(self) -> tuple[Sequence[str], Sequence[str]]:
        return self._of_rows.labels, self._of_columns.labels

"""RMSDs of all pairs of frames, each pair superposed.

    D_st = sqrt( sum_i w_i |R x_i(s) - x_i(t)|^2 / sum_i w_i )

with both structures moved to their (weighted) centres and R the rotation that makes it least for this pair; angstrom.
Source: D. L. Theobald, Acta Cryst. A61 (2005) 478, doi:10.1107/S0108767305015266 (QCP); `gmx rms -m` and MDTraj's
`rmsd` are these. MDAnalysis' DistanceMatrix compares frames as they stand by default: superposition=False.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from kinema import _core
from kinema.analysis.base import Pass, Passes, Results
from kinema.analysis.declaration import Option, Quantity, Weights
from kinema.analysis.matrix import MatrixAnalysis, Square, n_pairs
from kinema.base.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinema.model.selection.atoms import AtomChoice, Selection
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory

__all__ = ["AllPairs", "RMSDMatrix"]

Superposition = Annotated[
    bool,
    Option("--superposition/--no-superposition", "Superpose each pair of frames before its RMSD is taken."),
]


class AllPairs:
    """The passes over frames that give the RMSDs of all pairs of frames.

    The first pass reads the positions of the selected atoms, which the second one has as a whole. Its rows are the
    RMSDs of a frame from the next frames in a circle.
    """

    n_passes = 2

    def __init__(
        self, trajectory: Trajectory, selection: Selection, weights: NDArray[np.float64] | None, superposition: bool
    ) -> None:
        selection.check_unique()
        self._trajectory, self._selection = trajectory, selection
        self._weights, self._superposition = weights, superposition

    def bytes_of(self, frames: FrameSelection) -> int:
        """Bytes that positions and RMSDs take while both are there, and rows become a matrix."""
        n = len(frames)
        # in single and in double precision; rows and matrix
        return n * self._selection.n_atoms * 3 * (4 + 8) + 2 * 8 * n_pairs(n)

    def passes(self, frames: FrameSelection) -> Generator[Pass, Any, tuple[NDArray[np.float64], dict[str, Any]]]:
        """The condensed matrix, and what else is known: `positions` (frames, atoms, 3) float32, and `time`."""
        n_atoms = self._trajectory.n_atoms
        kernel = _core.Kernel("positions", n_atoms, atoms=self._selection.indices, n_frames=len(frames))
        read = yield Pass(kernel)
        positions = np.asarray(read["values"])
        self._check_rotations(positions[0])
        # a frame that is listed twice is compared once
        numbers, first, places = np.unique(frames.numbers(), return_index=True, return_inverse=True)
        given = {"structures": positions[first], "numbers": numbers.astype(np.float64), "weights": self._weights}
        found = yield Pass(_core.Kernel("frame_rmsds", n_atoms, superposed=self._superposition, **given))
        condensed = _condensed(np.asarray(found["values"])[first])
        if not np.array_equal(places, np.arange(len(places))):
            condensed = _rearranged(condensed, places, len(numbers))
        more = {"positions": positions.reshape(len(frames), -1, 3), "time": np.asarray(read["time"])}
        return condensed, more

    def _check_rotations(self, positions: NDArray[np.float32]) -> None:
        """Notes atoms, such as two or those on a line, that leave a rotation undetermined."""
        if self._superposition:
            from kinema.transforms.reference import note_free_rotation

            note_free_rotation(positions.reshape(-1, 3).astype(np.float64), self._weights)


def _condensed(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The condensed matrix of rows in a circle: column k of row i is the pair of i and i + k + 1, modulo `n`."""
    n, width = rows.shape
    condensed = np.empty(n_pairs(n))
    # pair (i, j > i) is at starts[i] + j
    starts = np.arange(n) * (2 * n - np.arange(n) - 3) // 2 - 1
    for i in range(n):
        of_row = width if n % 2 or i < n // 2 else width - 1
        onwards = min(of_row, n - 1 - i)
        condensed[starts[i] + i + 1 : starts[i] + i + 1 + onwards] = rows[i, :onwards]
        condensed[starts[: of_row - onwards] + i] = rows[i, onwards:of_row]
    return condensed


def _rearranged(condensed: NDArray[np.float64], places: NDArray[np.intp], n: int) -> NDArray[np.float64]:
    """The condensed matrix of the things at `places` among `n`, in any order and any number of times."""
    starts = np.arange(n) * (2 * n - np.arange(n) - 3) // 2 - 1
    rows = []
    for i, place in enumerate(places):
        low, high = np.minimum(place, places[i + 1 :]), np.maximum(place, places[i + 1 :])
        # a frame has no distance from itself, and no place
        pairs = np.where(low == high, 0, starts[low] + high)
        rows.append(np.where(low == high, 0.0, condensed[pairs] if len(condensed) else 0.0))
    return np.concatenate(rows)


class RMSDMatrix(MatrixAnalysis):
    """RMSDs of all pairs of frames.

    Parameters
    ----------
    trajectory : Trajectory
    select : as `Trajectory.select`
        Atoms to superpose and to take the RMSD of; None: all.
    weights : None, "mass" or (atoms,) array
        Weights for superposition and RMSD.
    superposition : bool
        False: positions are compared as they are, neither centred nor rotated: the default of MDAnalysis'
        DistanceMatrix.

    After `run`
    -----------
    results.dist_matrix : (frames, frames) float64, angstrom
        Symmetric, 0 on the diagonal; made from `condensed` on first access.
    results.condensed : (frames * (frames - 1) / 2,) float64, angstrom
        The values above the diagonal, row after row, as `scipy.spatial.distance.squareform` takes them.
    results.frames, results.time : (frames,)
    results.values : the condensed matrix

    Raises
    ------
    ArgumentError for fewer than two frames; MemoryLimitError, before the first frame, if the matrix does not fit into
    `memory`.

    Examples
    --------
    >>> pairs = kn.analysis.RMSDMatrix(traj, select="name CA").run(step=2)
    >>> pairs.results.dist_matrix.shape, pairs.results.condensed.shape
    ((98, 98), (4753,))
    """

    command_name = "rmsd-matrix"
    summary = "RMSDs of all pairs of frames, each pair superposed."
    quantities = (Quantity("dist_matrix", "angstrom", "RMSD of pairs of frames", "a row and a column for each frame"),)
    reference = "D. L. Theobald, Acta Cryst. A61 (2005) 478, doi:10.1107/S0108767305015266"
    smaller: ClassVar[str] = "take fewer frames (step=)"
    of = "frame"
    n_passes = AllPairs.n_passes

    def __init__(
        self,
        trajectory: Trajectory,
        select: AtomChoice = None,
        weights: Weights = None,
        superposition: Superposition = True,
    ) -> None:
        super().__init__(trajectory, select, weights=weights, superposition=superposition)
        with self._noting():
            self._pairs = AllPairs(trajectory, self.selection, self._weights_of(weights), bool(superposition))

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        if followed:
            raise ArgumentError("pairs of frames need all frames, and --follow cannot read them twice; leave it out")
        super().check_arguments(given, followed=followed)

    def _matrix_bytes(self, frames: FrameSelection) -> tuple[int, int, int]:
        return len(frames), len(frames), self._pairs.bytes_of(frames)

    def _passes(self, frames: FrameSelection) -> Passes:
        if len(frames) < 2:
            raise ArgumentError(f"pairs of frames need at least two frames, found {len(frames)}")
        condensed, more = yield from self._pairs.passes(frames)
        numbers = frames.numbers().astype(np.int64)
        square = Square(condensed, len(numbers))
        return Results(
            dist_matrix=square, condensed=condensed, frames=numbers, time=more["time"], values=condensed.reshape(-1, 1)
        )

    def _matrix(self) -> NDArray[np.floating]:
        matrix: NDArray[np.float64] = self.results.dist_matrix
        return matrix

    def _condensed(self) -> NDArray[np.floating]:
        condensed: NDArray[np.float64] = self.results.condensed
        return condensed

    def _datasets(self) -> Mapping[str, NDArray[Any]]:
        return {"frames": np.asarray(self.results.frames), "time": np.asarray(self.results.time)}

    def _labels(self) -> tuple[Sequence[str], Sequence[str]]:
        labels = [str(number) for number in self.results.frames]
        return labels, labels

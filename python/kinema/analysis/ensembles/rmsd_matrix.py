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
from kinema.analysis.base import Pass, Passes, Results, results_per_frame
from kinema.analysis.declaration import Option, Quantity, Weights
from kinema.analysis.matrix import MatrixAnalysis, Square, n_pairs
from kinema.base.choices import MATCH, positive_number
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from kinema.execution.results_file import ResultDataset
    from kinema.model.selection.atoms import AtomChoice, Selection
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory
    from kinema.transforms.reference import Reference

__all__ = ["AllPairs", "RMSDMatrix", "condensed_of_rows"]

Superposition = Annotated[
    bool,
    Option("--superposition/--no-superposition", "Superpose each pair of frames before its RMSD is taken."),
]


class AllPairs:
    """The passes over frames that give the RMSDs of all pairs of frames.

    The first pass reads the positions of the selected atoms, which the second one has as a whole. Its rows are the
    RMSDs of a frame from the next frames in a circle.

    Attributes
    ----------
    positions : (frames, atoms, 3) float32, angstrom
        Positions of the selected atoms, after the first pass.
    time : (frames,) float64, ps
        Their times.
    """

    n_passes = 2

    def __init__(
        self, trajectory: Trajectory, selection: Selection, weights: NDArray[np.float64] | None, superposition: bool
    ) -> None:
        selection.check_unique()
        self._trajectory, self._selection = trajectory, selection
        self._weights, self._superposition = weights, superposition
        self.positions: NDArray[np.float32] = np.empty((0, 0, 3), np.float32)
        self.time: NDArray[np.float64] = np.empty(0)

    def bytes_of_positions(self, n_frames: int) -> int:
        """Bytes of the positions, in single precision and in double."""
        return n_frames * self._selection.n_atoms * 3 * (4 + 8)

    def bytes_of(self, n_frames: int) -> int:
        """Bytes that positions and RMSDs take while both are there, and rows become a matrix."""
        return self.bytes_of_positions(n_frames) + 2 * 8 * n_pairs(n_frames)

    def read(self, frames: FrameSelection, transforms: Sequence[_core.Transform] = ()) -> Generator[Pass, Any, None]:
        """Reads `positions` and `time`."""
        indices = self._selection.indices
        kernel = _core.Kernel("positions", self._trajectory.n_atoms, atoms=indices, n_frames=len(frames))
        found = yield Pass(kernel, transforms)
        self.positions = np.asarray(found["values"]).reshape(len(frames), -1, 3)
        self.time = np.asarray(found["time"])

    def forget(self) -> None:
        """Gives back the memory of positions."""
        self.positions = self.positions[:0]

    def near(self, frames: FrameSelection, cutoff: float) -> Generator[Pass, Any, dict[str, NDArray[Any]]]:
        """Pairs of frames whose positions have been read, with an RMSD below `cutoff`: "first", "second", "distance".

        Frames are numbers in the trajectory, first < second, and pairs ascend. Raises ArgumentError for a frame that is
        listed twice.
        """
        self._note_rotation()
        numbers, order = np.unique(frames.numbers(), return_index=True)
        if len(numbers) < len(frames):
            raise ArgumentError("cutoff= lists pairs of different frames, but a frame is named twice; name each once")
        rows = self.positions.reshape(len(frames), -1)
        is_ascending = np.array_equal(order, np.arange(len(order)))
        given = self._given(rows if is_ascending else rows[order], numbers)
        found = yield Pass(_core.Kernel("near_frames", self._trajectory.n_atoms, cutoff=cutoff, **given))
        # rows come in the order of the frames of the run
        places = np.searchsorted(numbers, frames.numbers())
        first = np.repeat(places, np.diff(np.asarray(found["first_row"])))
        second = np.asarray(found["j"]).astype(np.int64)
        low, high = np.minimum(first, second), np.maximum(first, second)
        by_pair = np.lexsort((high, low))
        pairs = {"first": numbers[low], "second": numbers[high], "distance": np.asarray(found["distance"])}
        return {name: values[by_pair] for name, values in pairs.items()}

    def condensed(self, frames: FrameSelection) -> Generator[Pass, Any, NDArray[np.float64]]:
        """The condensed matrix of frames whose positions have been read."""
        self._note_rotation()
        # a frame that is listed twice is compared once
        numbers, first, places = np.unique(frames.numbers(), return_index=True, return_inverse=True)
        is_ascending = np.array_equal(places, np.arange(len(places)))
        rows = self.positions.reshape(len(frames), -1)
        given = self._given(rows if is_ascending else rows[first], numbers)
        found = yield Pass(_core.Kernel("frame_rmsds", self._trajectory.n_atoms, **given))
        values = np.asarray(found["values"])
        if is_ascending:
            return condensed_of_rows(values)
        return _rearranged(condensed_of_rows(values[first]), places, len(numbers))

    def _note_rotation(self) -> None:
        if self._superposition:
            from kinema.transforms.reference import note_free_rotation

            note_free_rotation(self.positions[0].astype(np.float64), self._weights)

    def _given(self, structures: NDArray[np.float32], numbers: NDArray[np.integer]) -> dict[str, Any]:
        """Arguments of the kernels that compare frames with each other; `numbers` ascend."""
        given: dict[str, Any] = {"structures": structures, "numbers": numbers.astype(np.float64)}
        return given | {"weights": self._weights, "superposed": self._superposition}


def condensed_of_rows(rows: NDArray[np.float64]) -> NDArray[np.float64]:
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
    other : Trajectory, Universe, path or (atoms, 3) array in angstrom, optional
        Each frame is compared with all frames of this trajectory, or with one structure, instead of pairs of frames.
        All of its frames are read; slice a Trajectory to have fewer. Its atoms and transforms are found as those of
        the reference of `RMSD`.
    cutoff : float, optional, angstrom
        List the pairs of frames with an RMSD below it, instead of a matrix, which 100,000 frames would not fit into.
        (MDAnalysis' `cutoff` is another: of a warning.)
    match : {"masses", "names", "order"}
        Property that must agree between the atoms of `other` and of the trajectory.
    tol_mass : float
        Largest difference of masses that agree, u.

    After `run`
    -----------
    results.dist_matrix : (frames, frames) float64, angstrom
        Symmetric, 0 on the diagonal; made from `condensed` on first access. With `other` (frames, frames of other).
    results.condensed : (frames * (frames - 1) / 2,) float64, angstrom, without `other`
        The values above the diagonal, row after row, as `scipy.spatial.distance.squareform` takes them.
    results.first, results.second, results.distance : (pairs,) int64, int64 and float64, angstrom, with `cutoff`
        Pairs of frames, numbers in the trajectory, first < second; and their RMSDs. Pairs ascend.
    results.neighbors : (frames,) int64, with `cutoff`
        Number of other frames below the cutoff.
    results.frames, results.time : (frames,)
    results.values : the condensed matrix; with `other` the matrix; with `cutoff` the RMSDs

    Raises
    ------
    ArgumentError for fewer than two frames, and for atoms of `other` that differ; MemoryLimitError, before the first
    frame, if the matrix does not fit into `memory`.

    Examples
    --------
    >>> pairs = kn.analysis.RMSDMatrix(traj, select="name CA").run(step=2)
    >>> pairs.results.dist_matrix.shape, pairs.results.condensed.shape
    ((98, 98), (4753,))
    """

    command_name = "rmsd-matrix"
    summary = "RMSDs of all pairs of frames, each pair superposed."
    quantities = (
        Quantity("dist_matrix", "angstrom", "RMSD of pairs of frames", "a row for each frame, and a column for each"),
    )
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
        other: Annotated[
            Any,
            Option("--other", "Trajectory or structure file to compare each frame with, frame by frame.", takes="file"),
        ] = None,
        match: Annotated[
            str,
            Option(
                "--match",
                "Property that must agree with the atoms of --other; by default masses, if both have them.",
                choices=MATCH,
                show_default=False,
            ),
        ] = "masses",
        tol_mass: float = 0.1,
        cutoff: Annotated[
            float | None,
            Option(
                "--cutoff",
                "List pairs of frames below this RMSD, instead of the matrix.",
                takes="number",
                unit="angstrom",
                least=0,
            ),
        ] = None,
    ) -> None:
        given: dict[str, Any] = {} if other is None else {"other": other, "match": match, "tol_mass": tol_mass}
        given |= {} if cutoff is None else {"cutoff": positive_number("cutoff", cutoff)}
        self.check_arguments(given)
        super().__init__(trajectory, select, weights=weights, superposition=superposition, **given)
        with self._noting():
            self._weights = self._weights_of(weights)
            self._pairs = AllPairs(trajectory, self.selection, self._weights, bool(superposition))
            self._superposition, self._cutoff = bool(superposition), cutoff
            self._other: Reference | None = None
            if other is not None:
                from kinema.transforms.reference import Reference

                self.n_passes = 1
                self._other = Reference(trajectory, 0, other, match, tol_mass)
                self._other.check(self.selection)

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        if followed:
            raise ArgumentError("pairs of frames need all frames, and --follow cannot read them twice; leave it out")
        if "cutoff" in given and "other" in given:
            raise ArgumentError("cutoff= lists pairs of frames of one trajectory; leave out cutoff= or other=")
        if "match" in given and "other" not in given:
            raise ArgumentError("match= says how atoms are compared with those of other=; name that file")
        super().check_arguments({name: one for name, one in given.items() if name != "match"}, followed=followed)

    @property
    def other_files(self) -> tuple[str, ...]:
        files = () if self._other is None else self._other.files
        return tuple(dict.fromkeys((*super().other_files, *files)))

    def _matrix_bytes(self, frames: FrameSelection) -> tuple[int, int, int]:
        n = len(frames)
        if self._cutoff is not None:
            # pairs count while they come
            return n, n, self._pairs.bytes_of_positions(n)
        if self._other is None:
            return n, n, self._pairs.bytes_of(n)
        n_others = self._other.n_frames
        return n, n_others, self._pairs.bytes_of_positions(n_others) + 8 * n * n_others

    def _passes(self, frames: FrameSelection) -> Passes:
        if self._other is not None:
            return (yield from self._between(frames, self._other))
        if len(frames) < 2:
            raise ArgumentError(f"pairs of frames need at least two frames, found {len(frames)}")
        yield from self._pairs.read(frames)
        if self._cutoff is not None:
            return (yield from self._near(frames, self._cutoff))
        condensed = yield from self._pairs.condensed(frames)
        numbers = frames.numbers().astype(np.int64)
        square = Square(condensed, len(numbers))
        found = Results(
            dist_matrix=square,
            condensed=condensed,
            frames=numbers,
            time=self._pairs.time,
            values=condensed.reshape(-1, 1),
        )
        self._pairs.forget()
        return found

    def _near(self, frames: FrameSelection, cutoff: float) -> Passes:
        """Pairs of frames below the cutoff."""
        pairs = yield from self._pairs.near(frames, cutoff)
        numbers, ordered = frames.numbers().astype(np.int64), np.sort(frames.numbers())
        both = np.searchsorted(ordered, np.concatenate([pairs["first"], pairs["second"]]))
        neighbors = np.bincount(both, minlength=len(ordered))[np.searchsorted(ordered, numbers)]
        found = Results(
            **pairs,
            neighbors=neighbors,
            frames=numbers,
            time=self._pairs.time,
            values=pairs["distance"].reshape(-1, 1),
        )
        self._pairs.forget()
        return found

    def _between(self, frames: FrameSelection, other: Reference) -> Passes:
        """The RMSD of each frame from each frame of another trajectory."""
        with self._noting():
            structures = other.positions_of_all_frames(self.selection)
        if self._superposition:
            from kinema.transforms.reference import note_free_rotation

            note_free_rotation(structures[0].astype(np.float64), self._weights)
        given = {"structures": np.ascontiguousarray(structures).reshape(len(structures), -1), "n_frames": len(frames)}
        given |= {"atoms": self.selection.indices, "weights": self._weights, "superposed": self._superposition}
        found = yield Pass(_core.Kernel("frame_rmsds", self.trajectory.n_atoms, **given))
        results = results_per_frame(frames, found)
        return Results(dist_matrix=results.values, **dict(results))

    @property
    def subject(self) -> str:
        """See `DeclaredAnalysis`: with `cutoff` the number of neighbours of a frame is summarised."""
        if self._cutoff is None:
            return super().subject
        return f"frames with an RMSD below {self._cutoff:g} angstrom from a frame"

    @property
    def summarised(self) -> tuple[Any, Quantity]:
        if self._cutoff is None:
            return super().summarised
        return self.results.neighbors[:, None], Quantity("neighbors", "a frame", "frames below the cutoff")

    @property
    def summarised_over(self) -> str | None:
        return super().summarised_over if self._cutoff is None else counted(len(self.results.frames), "frame")

    def _table(self) -> Table:
        if self._cutoff is None:
            return super()._table()
        found = self.results
        rmsd = Column("rmsd", found.distance, "angstrom", digits=self._digits)
        return Table(self._title, (Column("first", found.first), Column("second", found.second), rmsd), x="first")

    def _figure(self, table: Table) -> Figure:
        if self._cutoff is None:
            return super()._figure(table)
        from kinema.analysis.plotting import draw_pairs

        first, second, rmsd = table.columns
        of_run = self.results.frames
        return draw_pairs(first, second, rmsd, (int(of_run.min()), int(of_run.max())), self.of, self._title)

    def _matrix(self) -> NDArray[np.floating]:
        return np.asarray(self.results.dist_matrix)

    def _condensed(self) -> NDArray[np.floating] | None:
        if self._other is not None:
            return None
        condensed: NDArray[np.float64] = self.results.condensed
        return condensed

    def _main_dataset(self) -> tuple[str, NDArray[np.floating]]:
        return super()._main_dataset() if self._cutoff is None else ("distance", self.results.distance)

    def _datasets(self) -> Mapping[str, NDArray[Any]]:
        pairs = () if self._cutoff is None else ("first", "second", "neighbors")
        return {name: np.asarray(self.results[name]) for name in ("frames", "time", *pairs)}

    def _labels(self) -> tuple[Sequence[str], Sequence[str]]:
        labels = [str(number) for number in self.results.frames]
        return labels, labels if self._other is None else [str(number) for number in range(self._other.n_frames)]

    def _row_dataset(self, frames: FrameSelection) -> ResultDataset | None:
        if self._other is None:
            return None
        columns = [str(number) for number in range(self._other.n_frames)]
        return self._dataset("rmsd_matrix", "angstrom", columns, self._title, frames)

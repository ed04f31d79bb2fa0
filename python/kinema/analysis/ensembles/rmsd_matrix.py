"""RMSDs of all pairs of frames, each pair superposed; of features (`Features`) their Euclidean distances.

    D_st = sqrt( sum_i w_i |R x_i(s) - x_i(t)|^2 / sum_i w_i )

with both structures moved to their (weighted) centres and R the rotation that makes it least for this pair; angstrom.
Source: D. L. Theobald, Acta Cryst. A61 (2005) 478, doi:10.1107/S0108767305015266 (QCP); `gmx rms -m` and MDTraj's
`rmsd` are these. MDAnalysis' DistanceMatrix compares frames as they stand by default: superposition=False.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from kinema import _core
from kinema.analysis.base import Pass, Passes, Results, results_per_frame
from kinema.analysis.declaration import Option, Quantity, Weights
from kinema.analysis.ensembles.features import Features
from kinema.analysis.ensembles.frame_pairs import TakesFeatures, rmsds_kernel
from kinema.analysis.matrix import MatrixAnalysis, Square
from kinema.base.choices import DTYPE, MATCH, check_choice, positive_number
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from kinema.execution.results_file import ResultDataset
    from kinema.model.selection.atoms import AtomChoice
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory
    from kinema.transforms.reference import Reference

__all__ = ["RMSDMatrix"]

Superposition = Annotated[
    bool,
    Option("--superposition/--no-superposition", "Superpose each pair of frames before its RMSD is taken."),
]


class RMSDMatrix(TakesFeatures, MatrixAnalysis):
    """RMSDs of all pairs of frames, or distances of their features.

    Parameters
    ----------
    trajectory : Trajectory or Features
        Features take the place of positions, and their Euclidean distance that of the RMSD; select, weights,
        superposition and other are then left out.
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
    cutoff : float, optional, angstrom (of features: their unit)
        List the pairs of frames with an RMSD below it, instead of a matrix, which 100,000 frames would not fit into.
        (MDAnalysis' `cutoff` is another: of a warning.)
    match : {"masses", "names", "order"}
        Property that must agree between the atoms of `other` and of the trajectory.
    tol_mass : float
        Largest difference of masses that agree, u.
    dtype : {"float64", "float32"}
        Type of the matrix. Distances are computed in double precision and rounded once to float32, which takes half of
        the memory; .h5 has it too, .npy is float64. Distances of `cutoff` are always float64.

    After `run`
    -----------
    results.dist_matrix : (frames, frames) of `dtype`, angstrom
        Symmetric, 0 on the diagonal; made from `condensed` on first access. With `other` (frames, frames of other).
    results.condensed : (frames * (frames - 1) / 2,) of `dtype`, angstrom, without `other`
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

    def __init__(
        self,
        trajectory: Trajectory | Features,
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
        dtype: Annotated[
            str, Option("--dtype", "Type of the matrix; float32 takes half of the memory.", choices=DTYPE)
        ] = "float64",
    ) -> None:
        given: dict[str, Any] = {} if other is None else {"other": other, "match": match, "tol_mass": tol_mass}
        given |= {} if cutoff is None else {"cutoff": positive_number("cutoff", cutoff)}
        self._dtype = _checked_dtype(dtype)
        given |= {} if self._dtype == np.float64 else {"dtype": self._dtype.name}
        self.check_arguments(given)
        if isinstance(trajectory, Features):
            self._features = trajectory
            wrong = {"select": select is not None, "weights": weights is not None, "other": other is not None}
            self._refuse_with_features(wrong | {"superposition": not superposition})
            select, trajectory = trajectory.selection, trajectory.trajectory
            given |= self._features.arguments
        super().__init__(trajectory, select, weights=weights, superposition=superposition, **given)
        with self._noting():
            self._weights = self._weights_of(weights)
            self._superposition, self._cutoff = bool(superposition), cutoff
            self._pairs = self._frame_pairs(self._weights, self._superposition)
            self.n_passes = self._pairs.n_passes_to_read + self._pairs.n_passes
            self._other: Reference | None = None
            if other is not None:
                from kinema.transforms.reference import Reference

                self.n_passes = 1
                self._other = Reference(trajectory, 0, other, match, tol_mass)
                self._other.check(self.selection)
        self._take_notes()

    @property
    def _main_quantity(self) -> Quantity:
        if self._features is None:
            return super()._main_quantity
        return Quantity("dist_matrix", self._unit, "distance of features")

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
            return n, n, self._pairs.bytes_of_points(n)
        if self._other is None:
            return n, n, self._pairs.bytes_of_matrix(n, self._dtype)
        n_others = self._other.n_frames
        return n, n_others, self._pairs.bytes_of_points(n_others) + self._dtype.itemsize * n * n_others

    def check_memory(self, frames: FrameSelection, memory: int) -> None:
        super().check_memory(frames, memory)
        self._pairs.limit(memory, len(frames))

    def _passes(self, frames: FrameSelection) -> Passes:
        if self._other is not None:
            return (yield from self._between(frames, self._other))
        if len(frames) < 2:
            raise ArgumentError(f"pairs of frames need at least two frames, found {len(frames)}")
        yield from self._pairs.read(frames)
        self._take_notes()
        if self._cutoff is not None:
            return (yield from self._near(frames, self._cutoff))
        condensed = yield from self._pairs.condensed(frames, self._dtype)
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
        numbers = frames.numbers().astype(np.int64)
        if len(np.unique(numbers)) < len(numbers):
            raise ArgumentError("cutoff= lists pairs of different frames, but a frame is named twice; name each once")
        near = yield from self._pairs.near(frames, cutoff)
        first, second = numbers[near.first], numbers[near.second]
        first, second = np.minimum(first, second), np.maximum(first, second)
        order = np.lexsort((second, first))
        distance = near.distance[order]
        found = Results(
            first=first[order],
            second=second[order],
            distance=distance,
            neighbors=np.bincount(near.first, minlength=len(numbers))
            + np.bincount(near.second, minlength=len(numbers)),
            frames=numbers,
            time=self._pairs.time,
            values=distance.reshape(-1, 1),
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
        found = yield Pass(_core.Kernel(rmsds_kernel(self._dtype), self.trajectory.n_atoms, **given))
        results = results_per_frame(frames, found)
        return Results(dist_matrix=results.values, **dict(results))

    @property
    def subject(self) -> str:
        """See `DeclaredAnalysis`: with `cutoff` the number of neighbours of a frame is summarised."""
        if self._cutoff is None:
            return super().subject
        if self._features is not None:
            return f"frames with a distance below {self._cutoff:g} from a frame"
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
        name = "rmsd" if self._features is None else "distance"
        rmsd = Column(name, found.distance, self._unit, digits=self._digits)
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
        condensed: NDArray[np.floating] = self.results.condensed
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


def _checked_dtype(dtype: Any) -> np.dtype[Any]:
    """The type, given by name or as NumPy has it. Raises ArgumentError for others than single and double precision."""
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    check_choice("dtype", name, DTYPE)
    checked: np.dtype[Any] = np.dtype(name)
    return checked

"""Pairs of frames: RMSDs of positions or distances of features, all of them or those below a cutoff.

`PositionPairs` and `FeaturePairs` have the same passes: `read`, then `condensed`, `near` or `sums_within`. The last two
keep no matrix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kinema import _core
from kinema.analysis.base import Pass
from kinema.analysis.declared import DeclaredAnalysis
from kinema.analysis.matrix import n_pairs
from kinema.base.errors import ArgumentError, MemoryLimitError
from kinema.base.printable import counted

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from kinema.analysis.ensembles.features import Features
    from kinema.model.selection.atoms import Selection
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory

__all__ = ["FeaturePairs", "FramePairs", "NearFrames", "PositionPairs", "TakesFeatures", "condensed_of_rows"]

# distances of features that are computed at a time
_BLOCK = 1 << 20
# the most bytes that a pair below a cutoff takes, while lists become results
_BYTES_OF_NEAR = 72


@dataclass(frozen=True, eq=False)
class NearFrames:
    """Pairs of frames below a cutoff, in any order, each once; frames are places in the run."""

    first: NDArray[np.integer]
    second: NDArray[np.integer]
    distance: NDArray[np.float64]


class FramePairs(ABC):
    """The passes over frames that give distances of pairs of frames.

    Attributes
    ----------
    time : (frames,) float64, ps
        Times of the frames, after `read`.
    n_passes_to_read : int
        Passes of `read`.
    n_passes : int
        Passes of `condensed`, of `near` and of `sums_within`, each.
    """

    n_passes_to_read = 1
    n_passes = 1

    def __init__(self) -> None:
        self.time: NDArray[np.float64] = np.empty(0)
        self._memory: int | None = None

    @abstractmethod
    def bytes_of_points(self, n_frames: int) -> int:
        """Bytes of what is compared, for all frames."""

    @abstractmethod
    def read(self, frames: FrameSelection, transforms: Sequence[_core.Transform] = ()) -> Generator[Any, Any, None]:
        """Reads what is compared, and `time`."""

    @abstractmethod
    def forget(self) -> None:
        """Gives back the memory of what was read."""

    @abstractmethod
    def condensed(
        self, frames: FrameSelection, dtype: DTypeLike = np.float64
    ) -> Generator[Any, Any, NDArray[np.floating]]:
        """The condensed matrix of frames that have been read, in single or double precision."""

    @abstractmethod
    def near(self, frames: FrameSelection, cutoff: float) -> Generator[Any, Any, NearFrames]:
        """Pairs of frames that have been read, with a distance below `cutoff`.

        Raises MemoryLimitError if they do not fit into the memory that `limit` was given.
        """

    @abstractmethod
    def sums_within(
        self, frames: FrameSelection, labels: NDArray[np.int64]
    ) -> Generator[Any, Any, NDArray[np.float64]]:
        """(frames,) sum of distances of each frame from those with the same label; 0 for labels below 0."""

    def bytes_of_matrix(self, n_frames: int, dtype: DTypeLike = np.float64) -> int:
        """Bytes that points and distances take while both are there, and rows become a matrix."""
        return self.bytes_of_points(n_frames) + 2 * np.dtype(dtype).itemsize * n_pairs(n_frames)

    def limit(self, memory: int, n_frames: int) -> None:
        """Sets the memory that the pairs of `near` may take, beside the points of the frames."""
        self._memory = memory - self.bytes_of_points(n_frames)

    def _check_fits(self, n_near: int, cutoff: float) -> None:
        needed = _BYTES_OF_NEAR * n_near
        if self._memory is not None and needed > self._memory:
            raise MemoryLimitError(
                f"the memory limit is too small for {counted(n_near, 'pair')} of frames below cutoff={cutoff:g}, "
                f"expected at least {needed:,} bytes beside the frames, found {max(self._memory, 0):,}; lower cutoff=, "
                "take fewer frames (step=), or give memory="
            )


class PositionPairs(FramePairs):
    """RMSDs of pairs of frames: rows in a circle, each frame with the next ones.

    Attributes
    ----------
    positions : (frames, atoms, 3) float32, angstrom
        Positions of the selected atoms, after `read`.
    """

    def __init__(
        self, trajectory: Trajectory, selection: Selection, weights: NDArray[np.float64] | None, superposition: bool
    ) -> None:
        super().__init__()
        selection.check_unique()
        self._trajectory, self._selection = trajectory, selection
        self._weights, self._superposition = weights, superposition
        self.positions: NDArray[np.float32] = np.empty((0, 0, 3), np.float32)

    def bytes_of_points(self, n_frames: int) -> int:
        # in single precision and in double
        return n_frames * self._selection.n_atoms * 3 * (4 + 8)

    def read(self, frames: FrameSelection, transforms: Sequence[_core.Transform] = ()) -> Generator[Pass, Any, None]:
        indices = self._selection.indices
        kernel = _core.Kernel("positions", self._trajectory.n_atoms, atoms=indices, n_frames=len(frames))
        found = yield Pass(kernel, transforms)
        self.positions = np.asarray(found["values"]).reshape(len(frames), -1, 3)
        self.time = np.asarray(found["time"])

    def forget(self) -> None:
        self.positions = self.positions[:0]

    def condensed(
        self, frames: FrameSelection, dtype: DTypeLike = np.float64
    ) -> Generator[Pass, Any, NDArray[np.floating]]:
        self._note_rotation()
        # a frame that is listed twice is compared once
        numbers, first, places = np.unique(frames.numbers(), return_index=True, return_inverse=True)
        is_ascending = np.array_equal(places, np.arange(len(places)))
        given = self._given(self._rows() if is_ascending else self._rows()[first], numbers)
        found = yield Pass(_core.Kernel(rmsds_kernel(dtype), self._trajectory.n_atoms, **given))
        values = np.asarray(found["values"])
        if is_ascending:
            return condensed_of_rows(values)
        return _rearranged(condensed_of_rows(values[first]), places, len(numbers))

    def near(self, frames: FrameSelection, cutoff: float) -> Generator[Pass, Any, NearFrames]:
        self._note_rotation()
        numbers, first, things = np.unique(frames.numbers(), return_index=True, return_inverse=True)
        is_ascending = np.array_equal(things, np.arange(len(things)))
        given = self._given(self._rows() if is_ascending else self._rows()[first], numbers)
        found = yield Pass(_core.Kernel("near_frames", self._trajectory.n_atoms, cutoff=cutoff, **given))
        # rows come in the order of the frames of the run
        of_rows, distance = np.asarray(found["first_row"]), np.asarray(found["distance"])
        self._check_fits(len(distance), cutoff)
        places = np.repeat(np.arange(len(frames), dtype=np.uint32), np.diff(of_rows))
        others = np.asarray(found["j"])
        if len(numbers) == len(frames):
            return NearFrames(places, others if is_ascending else first.astype(np.uint32)[others], distance)
        is_first = (first[things] == np.arange(len(frames)))[places]
        return _repeated(things[places[is_first]], others[is_first], distance[is_first], things)

    def sums_within(
        self, frames: FrameSelection, labels: NDArray[np.int64]
    ) -> Generator[Pass, Any, NDArray[np.float64]]:
        kept = np.flatnonzero(labels >= 0)
        if not len(kept):
            return np.zeros(len(labels))
        order = kept[np.argsort(labels[kept], kind="stable")]
        given = self._given(self._rows()[order], frames.numbers()[order])
        given["sizes"] = np.bincount(labels[kept]).astype(np.float64)
        found = yield Pass(_core.Kernel("member_rmsds", self._trajectory.n_atoms, **given))
        return np.asarray(found["values"])[:, 0]

    def _rows(self) -> NDArray[np.float32]:
        return self.positions.reshape(len(self.positions), -1)

    def _note_rotation(self) -> None:
        if self._superposition:
            from kinema.transforms.reference import note_free_rotation

            note_free_rotation(self.positions[0].astype(np.float64), self._weights)

    def _given(self, structures: NDArray[np.float32], numbers: NDArray[np.integer]) -> dict[str, Any]:
        """Arguments of the kernels that compare frames with each other."""
        given: dict[str, Any] = {"structures": structures, "numbers": numbers.astype(np.float64)}
        return given | {"weights": self._weights, "superposed": self._superposition}


class FeaturePairs(FramePairs):
    """Euclidean distances of the features of pairs of frames.

    Attributes
    ----------
    points : (frames, features) float64
        The features, after `read`.
    """

    n_passes = 0

    def __init__(self, features: Features) -> None:
        super().__init__()
        self._features = features
        self.points: NDArray[np.float64] = np.empty((0, 0))

    def bytes_of_points(self, n_frames: int) -> int:
        # values of the analyses, which become features
        return 2 * 8 * n_frames * len(self._features.names)

    def bytes_of_matrix(self, n_frames: int, dtype: DTypeLike = np.float64) -> int:
        block = min(8 * n_frames**2, 2 * 8 * max(_BLOCK, n_frames))
        return self.bytes_of_points(n_frames) + block + np.dtype(dtype).itemsize * n_pairs(n_frames)

    def read(self, frames: FrameSelection, transforms: Sequence[_core.Transform] = ()) -> Generator[Any, Any, None]:
        found = yield from self._features._passes(frames)
        self.points, self.time = np.asarray(found.features), np.asarray(found.time)
        self._features.check_defined(self.points, found.frames)

    def forget(self) -> None:
        self.points = self.points[:0]

    def condensed(
        self, frames: FrameSelection, dtype: DTypeLike = np.float64
    ) -> Generator[Any, Any, NDArray[np.floating]]:
        yield from ()
        condensed = np.empty(n_pairs(len(frames)), dtype)
        at = 0
        for _, block in self._blocks():
            for row, distances in enumerate(block):
                condensed[at : at + len(distances) - row - 1] = distances[row + 1 :]
                at += len(distances) - row - 1
        return condensed

    def near(self, frames: FrameSelection, cutoff: float) -> Generator[Any, Any, NearFrames]:
        yield from ()
        found, n_near = [], 0
        for begin, block in self._blocks():
            first, second = np.nonzero(np.triu(block < cutoff, 1))
            n_near += len(first)
            self._check_fits(n_near, cutoff)
            found.append(((first + begin).astype(np.uint32), (second + begin).astype(np.uint32), block[first, second]))
        return NearFrames(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def sums_within(
        self, frames: FrameSelection, labels: NDArray[np.int64]
    ) -> Generator[Any, Any, NDArray[np.float64]]:
        from scipy.spatial.distance import cdist

        yield from ()
        sums = np.zeros(len(labels))
        for label in range(labels.max(initial=-1) + 1):
            members = np.flatnonzero(labels == label)
            points = self.points[members]
            n_rows = max(1, _BLOCK // len(members))
            for begin in range(0, len(members), n_rows):
                rows = slice(begin, begin + n_rows)
                sums[members[rows]] = cdist(points[rows], points).sum(axis=1)
        return sums

    def _blocks(self) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Distances of some frames from themselves and all later ones, with the place of the first."""
        from scipy.spatial.distance import cdist

        n = len(self.points)
        n_rows = max(1, _BLOCK // n)
        for begin in range(0, n, n_rows):
            yield begin, cdist(self.points[begin : begin + n_rows], self.points[begin:])


class TakesFeatures(DeclaredAnalysis):
    """An analysis of positions or, in their place, of features."""

    _features: Features | None = None

    @property
    def selections(self) -> Sequence[Selection]:
        return super().selections if self._features is None else self._features.selections

    @property
    def measures_whole_molecules(self) -> bool:
        return super().measures_whole_molecules if self._features is None else False

    def notes_before(self, frames: FrameSelection) -> Sequence[str]:
        return super().notes_before(frames) if self._features is None else self._features.notes_before(frames)

    def _frame_pairs(self, weights: NDArray[np.float64] | None, superposition: bool) -> FramePairs:
        """Pairs of the features or, without any, of the positions of the selected atoms."""
        if self._features is not None:
            return FeaturePairs(self._features)
        return PositionPairs(self.trajectory, self.selection, weights, superposition)

    def _take_notes(self) -> None:
        """Adds the notes of the features to those of the analysis."""
        if self._features is not None:
            self._notes = list(dict.fromkeys((*self._notes, *self._features._notes)))

    @property
    def _unit(self) -> str:
        """The unit of distances and coordinates: "1" if features have several."""
        units = {"angstrom"} if self._features is None else set(self._features.units)
        return units.pop() if len(units) == 1 else "1"

    def _refuse_with_features(self, given: dict[str, bool]) -> None:
        """Raises ArgumentError for arguments of positions that were given, by name."""
        wrong = [f"{name}=" for name, is_given in given.items() if is_given]
        if wrong:
            named = " and no ".join(wrong)
            raise ArgumentError(f"{type(self).__name__} of features has no {named}: these are of positions")


def rmsds_kernel(dtype: DTypeLike) -> str:
    """The kernel whose RMSDs are float64 or float32."""
    return "frame_rmsds_single" if np.dtype(dtype) == np.float32 else "frame_rmsds"


def condensed_of_rows(rows: NDArray[np.floating]) -> NDArray[np.floating]:
    """The condensed matrix of rows in a circle: column k of row i is the pair of i and i + k + 1, modulo `n`."""
    n, width = rows.shape
    condensed = np.empty(n_pairs(n), rows.dtype)
    # pair (i, j > i) is at starts[i] + j
    starts = np.arange(n) * (2 * n - np.arange(n) - 3) // 2 - 1
    for i in range(n):
        of_row = width if n % 2 or i < n // 2 else width - 1
        onwards = min(of_row, n - 1 - i)
        condensed[starts[i] + i + 1 : starts[i] + i + 1 + onwards] = rows[i, :onwards]
        condensed[starts[: of_row - onwards] + i] = rows[i, onwards:of_row]
    return condensed


def _rearranged(condensed: NDArray[np.floating], places: NDArray[np.intp], n: int) -> NDArray[np.floating]:
    """The condensed matrix of the things at `places` among `n`, in any order and any number of times."""
    starts = np.arange(n) * (2 * n - np.arange(n) - 3) // 2 - 1
    rows = []
    for i, place in enumerate(places):
        low, high = np.minimum(place, places[i + 1 :]), np.maximum(place, places[i + 1 :])
        # a frame has no distance from itself, and no place
        pairs = np.where(low == high, 0, starts[low] + high)
        rows.append(np.where(low == high, 0.0, condensed[pairs] if len(condensed) else 0.0))
    return np.concatenate(rows).astype(condensed.dtype, copy=False)


def _repeated(
    first: NDArray[np.integer], second: NDArray[np.integer], distance: NDArray[np.float64], things: NDArray[np.intp]
) -> NearFrames:
    """Pairs of places from pairs of things, which may have several places; places of one thing are at distance 0."""
    order, counts = np.argsort(things, kind="stable"), np.bincount(things)
    begins = np.cumsum(counts) - counts
    several = np.flatnonzero(counts > 1)
    first, second = np.concatenate([first, several]), np.concatenate([second, several])
    distance = np.concatenate([distance, np.zeros(len(several))])
    n_each = counts[first] * counts[second]
    pair = np.repeat(np.arange(len(first)), n_each)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(n_each) - n_each, n_each)
    of_second = counts[second[pair]]
    one = order[begins[first[pair]] + within // of_second]
    other = order[begins[second[pair]] + within % of_second]
    kept = (first[pair] != second[pair]) | (one < other)
    return NearFrames(one[kept].astype(np.uint32), other[kept].astype(np.uint32), distance[pair[kept]])

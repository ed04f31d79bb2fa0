"""Frames given to a writer, one or a block, as arrays with checked shapes and types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, UnsupportedFormatError
from kinema.model.frame import VECTOR_FIELDS, Block, Frame

# offset within its rows, bytes or an array of them, filter mask
EncodedChunk = tuple[tuple[int, ...], Any, int]


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Rows of a data set in HDF5 whose whole chunks another process has encoded.

    `first`, `n_rows`: number of the first row in the data set, and number of rows.
    `dtype`: type of the values before encoding.
    `head`, `tail`: (rows, ...); values, as given, of the rows before the first whole chunk and after the last one.
    `chunks`: list of (offset, bytes, filter mask); offsets count from the first row after `head`.
    """

    first: int
    n_rows: int
    dtype: np.dtype[Any]
    head: NDArray[Any]
    chunks: list[EncodedChunk]
    chunk_rows: int
    tail: NDArray[Any]


class AnnouncedRows:
    """`n_rows` rows of a field of type `dtype`, whose values or chunks a writer already has as `EncodedRows`."""

    def __init__(self, n_rows: int, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self._n_rows = n_rows

    def __len__(self) -> int:
        return self._n_rows

    def __getitem__(self, rows: slice) -> AnnouncedRows:
        return AnnouncedRows(len(range(*rows.indices(self._n_rows))), self.dtype)


@dataclass(frozen=True)
class FrameArrays:
    """Frames as they were given.

    `fields`: {"positions": (frames, atoms, 3), ...}, only those that were given.
    `cells`: (frames, 3, 3) or None; zeros: no box.
    `steps`: (frames,) int64 or None.
    `times`: (frames,) float64 in ps, or None; NaN: unknown.
    `absent`: {"velocities": (frames,) bool, ...}; frames of a `Block` that lack a field although others have it.
    `numbers`: (frames,) of a `Block`, their numbers in its trajectory; or None.
    """

    fields: dict[str, NDArray[Any]]
    cells: NDArray[Any] | None
    steps: NDArray[np.int64] | None
    times: NDArray[np.float64] | None
    absent: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    numbers: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.fields.values())))

    @property
    def first_not_finite(self) -> int | None:
        """The first of these frames with a position that is NaN or infinite."""
        positions = self.fields.get("positions")
        if not isinstance(positions, np.ndarray) or positions.dtype.kind != "f":
            return None
        # in two steps: a sum takes no memory, and is not finite if one of the numbers is not
        with np.errstate(over="ignore", invalid="ignore"):
            sums = positions.sum(axis=(1, 2))
        if len(sums) == 1 and math.isfinite(sums[0]):
            return None
        suspects = np.flatnonzero(~np.isfinite(sums)).tolist()
        return next((frame for frame in suspects if not np.isfinite(positions[frame]).all()), None)

    def __getitem__(self, rows: slice) -> FrameArrays:
        """Some of the frames, with views of their arrays."""
        return FrameArrays(
            {name: values[rows] for name, values in self.fields.items()},
            None if self.cells is None else self.cells[rows],
            None if self.steps is None else self.steps[rows],
            None if self.times is None else self.times[rows],
            {name: missing[rows] for name, missing in self.absent.items()},
            None if self.numbers is None else self.numbers[rows],
        )

    def check_present(self, names: Iterable[str]) -> None:
        """Raises ArgumentError, naming the frame, if a frame of a `Block` lacks one of these fields."""
        for name in names:
            missing = self.absent.get(name)
            if missing is not None and missing.any():
                row = int(np.argmax(missing))
                number = "" if self.numbers is None else f" (frame {int(self.numbers[row])} of its trajectory)"
                raise ArgumentError(f"frame {row} of the block{number} has no {name}, which each frame of the file has")

    def runs(self, names: Iterable[str]) -> Iterator[FrameArrays]:
        """Runs of frames that have the same of these fields, with those fields alone.

        Raises ArgumentError, naming the frame, before the first run if a frame has none of them.
        """
        kept = [name for name in names if name in self.fields]
        there = np.array([~self.absent.get(name, np.zeros(len(self), np.bool_)) for name in kept]).reshape(
            -1, len(self)
        )
        if not there.any(axis=0).all():
            row = int(np.argmin(there.any(axis=0)))
            number = "" if self.numbers is None else f" (frame {int(self.numbers[row])} of its trajectory)"
            raise ArgumentError(
                f"frame {row} of those given{number} has none of {', '.join(names)}, expected one at least"
            )
        ends = np.flatnonzero((there[:, 1:] != there[:, :-1]).any(axis=0)) + 1
        for begin, end in pairwise([0, *ends.tolist(), len(self)]):
            run = self[begin:end]
            held = {name: run.fields[name] for name, there_is in zip(kept, there, strict=True) if there_is[begin]}
            yield replace(run, fields=held, absent={})

    def check_series(self) -> None:
        """Raises ArgumentError unless steps rise, times do not fall, and all frames or none have cells and times."""
        if self.cells is not None:
            missing = ~self.cells.any(axis=(1, 2))
            if missing.any():
                raise ArgumentError(
                    f"cell of frame {int(np.argmax(missing))} of the block is zero, expected box vectors"
                )
        if self.steps is not None:
            check_rising("step", self.steps, None, strictly=True)
        if self.times is not None:
            if np.isnan(self.times).any():
                raise ArgumentError("time has values that are not finite numbers")
            check_rising("time", self.times, None, strictly=False)


class LastStamps:
    """Steps and times of the last two frames of a file.

    Frames without a step or time continue at the distance of these two. Steps start at 0 and rise by 1; times are NaN
    if nothing states them.
    """

    def __init__(self, steps: Sequence[int] = (), times: Sequence[float] = ()) -> None:
        self._steps, self._times = list(steps)[-2:], list(times)[-2:]

    def steps_of(self, given: NDArray[np.int64] | None, n_frames: int) -> NDArray[np.int64]:
        """Steps of the next frames, (n_frames,)."""
        if given is not None:
            return given
        if not self._steps:
            return np.arange(n_frames, dtype=np.int64)
        stride = self._steps[-1] - self._steps[0] if len(self._steps) == 2 else 1
        return counted_steps(self._steps[-1], max(stride, 1), n_frames)

    def times_of(self, given: NDArray[np.float64] | None, n_frames: int) -> NDArray[np.float64]:
        """Times of the next frames in ps, (n_frames,)."""
        if given is not None:
            return given
        if len(self._times) < 2:
            return np.full(n_frames, np.nan)
        return self._times[-1] + (self._times[-1] - self._times[0]) * np.arange(1, n_frames + 1, dtype=np.float64)

    def took(self, steps: NDArray[np.int64], times: NDArray[np.float64]) -> None:
        """Records the steps and times of frames that were taken."""
        self._steps = [*self._steps, *steps[-2:].tolist()][-2:]
        self._times = [*self._times, *times[-2:].tolist()][-2:]


def counted_steps(last: int, stride: int, n_frames: int) -> NDArray[np.int64]:
    """Steps of the frames after the one with step `last`, (n_frames,); raises ArgumentError beyond int64."""
    if last + stride * n_frames > np.iinfo(np.int64).max:
        raise ArgumentError(f"step is needed: counted on by {stride} from {last}, steps are beyond the range of int64")
    return np.array(range(last + stride, last + stride * n_frames + 1, stride), np.int64)


def check_cells_kept(given: NDArray[Any], found: NDArray[Any], *, first: int, share: float = 1e-6) -> None:
    """Raises UnsupportedFormatError for the first cell that a reader of the file would not give back.

    `given`: (frames, 3, 3), angstrom.
    `found`: (frames, 3, 3); the cells that a reader makes of what is written; NaN if it finds no cell.
    `first`: number of the first frame.
    `share`: relative tolerance for the rounding of lengths and cosines.
    """
    wrong = _core.first_cell_not_kept(_doubles(given), _doubles(found), share)
    if wrong is not None:
        row, what = wrong
        raise UnsupportedFormatError(f"frame {first + row}: {what}", frame=first + row)


def check_times_kept(times: NDArray[np.float64], found: NDArray[Any], *, first: int) -> None:
    """Raises UnsupportedFormatError for the first of times (frames,) that is finite but written as infinite."""
    lost = np.isfinite(times) & ~np.isfinite(found)
    if lost.any():
        row = int(np.argmax(lost))
        what = f"time of the frame: a number of ps that the file holds expected, found {times[row]:g}"
        raise UnsupportedFormatError(f"frame {first + row}: {what}", frame=first + row)


def check_numbers_kept(name: str, values: NDArray[Any], largest: float, *, first: int) -> None:
    """Raises UnsupportedFormatError for the first of vectors (frames, atoms, 3) that is finite and beyond `largest`."""
    if not values.size or (values.max() <= largest and values.min() >= -largest):
        return
    for row, frame in enumerate(values):
        beyond = np.isfinite(frame) & (np.abs(frame) > largest)
        if beyond.any():
            atom, axis = np.argwhere(beyond)[0].tolist()
            raise UnsupportedFormatError(
                f"frame {first + row}: {name} of atom {atom + 1} (counted from 1): numbers that the file holds, up to "
                f"{largest:.7g}, expected, found {frame[atom, axis]:g}",
                frame=first + row,
            )


def _doubles(cells: NDArray[Any]) -> NDArray[np.float64]:
    return np.ascontiguousarray(cells, np.float64)


def frames_of(
    n_atoms: int,
    values: dict[str, ArrayLike | Frame | Block | None],
    cell: ArrayLike | None,
    step: ArrayLike | None,
    time: ArrayLike | None,
) -> FrameArrays:
    """As `frame_arrays`, but `values["positions"]` may also be a `Frame` or a `Block` with all its fields."""
    whole = values["positions"]
    if not isinstance(whole, (Frame, Block)):
        return frame_arrays(n_atoms, values, cell, step, time)  # type: ignore[arg-type]
    if any(value is not None for value in (values["velocities"], values["forces"], cell, step, time)):
        raise ArgumentError(f"a {type(whole).__name__} is written with all it has, expected nothing beside it")
    vectors: dict[str, ArrayLike | None] = {name: getattr(whole, name) for name in VECTOR_FIELDS}
    if isinstance(whole, Frame):
        box, at = whole.cell if np.any(whole.cell) else None, None if np.isnan(whole.time) else whole.time
        return frame_arrays(n_atoms, vectors, box, whole.step, at)
    cells, times = whole.cells if np.any(whole.cells) else None, None if np.isnan(whole.times).all() else whole.times
    known = whole.present.dtype.names or ()
    absent = {name: ~whole.present[name] for name in VECTOR_FIELDS if vectors[name] is not None and name in known}
    frames = frame_arrays(n_atoms, vectors, cells, whole.steps, times)
    return replace(frames, absent=absent, numbers=whole.frames)


def frame_arrays(
    n_atoms: int,
    values: dict[str, ArrayLike | None],
    cell: ArrayLike | None,
    step: ArrayLike | None,
    time: ArrayLike | None,
) -> FrameArrays:
    """Frames from arrays (atoms, 3) or (frames, atoms, 3), cells (3,), (3, 3), (frames, 3) or (frames, 3, 3).

    Raises ArgumentError, naming the argument and the expected shape.
    """
    arrays = {name: real_array(name, value) for name, value in values.items() if value is not None}
    if not arrays:
        raise ArgumentError(f"no field is given, expected one of {', '.join(VECTOR_FIELDS)}")
    ranks = {array.ndim for array in arrays.values()}
    for name, array in arrays.items():
        if array.ndim not in (2, 3) or array.shape[-2:] != (n_atoms, 3):
            raise ArgumentError(
                f"{name} have shape {array.shape}, expected ({n_atoms}, 3) for a frame or (frames, {n_atoms}, 3) for a "
                "block"
            )
    if len(ranks) > 1:
        raise ArgumentError("some fields are one frame and others a block of frames, expected all of one kind")
    one = ranks == {2}
    fields = {name: array[None] if one else array for name, array in arrays.items()}
    n = len(next(iter(fields.values())))
    for name, array in fields.items():
        if len(array) != n:
            raise ArgumentError(f"{name} have {len(array)} frames, expected {n} as the other fields")
    return FrameArrays(fields, _cells(cell, n, one), _steps(step, n, one), _times(time, n, one))


def real_array(name: str, value: ArrayLike) -> NDArray[Any]:
    """`value` as an array of real numbers; raises ArgumentError for anything else, masked values too."""
    if np.ma.is_masked(value):
        raise ArgumentError(f"{name} have masked values, which no file holds; fill them, or leave out what has some")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ArgumentError(f"{name} cannot be made an array: {str(error).lower().rstrip('.')}") from None
    if array.dtype.kind not in "fiu":
        raise ArgumentError(f"{name} have type {array.dtype}, expected real numbers")
    return array


def check_fields(frames: FrameArrays, known: Iterable[str]) -> None:
    """Raises ArgumentError unless the frames have the fields of a file, all of them and no others."""
    have = list(known)
    for name in have:
        if name not in frames.fields:
            raise ArgumentError(f"{name} are missing, but the file has them for each frame")
    for name in frames.fields:
        if name not in have:
            listed = ", ".join(have)
            raise ArgumentError(f"the file has {listed} but not {name}; give fields= with all of them when making it")


def check_rising(name: str, values: NDArray[Any], last: float | None, *, strictly: bool) -> None:
    """Raises ArgumentError if values (n,) do not rise from one to the next, starting from `last`."""
    if len(values) == 1 and (last is None or values[0] > last):
        return
    if last is not None and len(values):
        values = np.concatenate([np.array([last], values.dtype), values])
    # compared, not subtracted: differences of int64 may overflow
    falls = values[1:] <= values[:-1] if strictly else values[1:] < values[:-1]
    if falls.any():
        at = int(np.argmax(falls))
        wanted = "more than" if strictly else "at least"
        raise ArgumentError(
            f"{name} must rise from frame to frame, expected {wanted} {values[at]}, found {values[at + 1]}"
        )


def _cells(cell: ArrayLike | None, n: int, one: bool) -> NDArray[Any] | None:
    if cell is None:
        return None
    array = real_array("cell", cell)
    array = array[None] if one else array
    if array.shape == (n, 3):
        matrices = np.zeros((n, 3, 3), array.dtype)
        matrices[:, range(3), range(3)] = array
        array = matrices
    if array.shape != (n, 3, 3):
        expected = "(3, 3) or (3,)" if one else f"({n}, 3, 3) or ({n}, 3)"
        raise ArgumentError(f"cell has shape {np.shape(cell)}, expected {expected}, box vectors as rows in angstrom")
    if not np.isfinite(array).all():
        raise ArgumentError("cell has elements that are not finite numbers")
    return array


def _steps(step: ArrayLike | None, n: int, one: bool) -> NDArray[np.int64] | None:
    if step is None:
        return None
    array = _row("step", step, n, one)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or (array != np.rint(array)).any() or (np.abs(array) >= 2.0**63).any():
            raise ArgumentError("step has values that are not whole numbers")
    elif array.dtype.kind == "u" and (array > np.iinfo(np.int64).max).any():
        raise ArgumentError("step has values beyond the range of int64")
    return array.astype(np.int64)


def _times(time: ArrayLike | None, n: int, one: bool) -> NDArray[np.float64] | None:
    if time is None:
        return None
    array = _row("time", time, n, one).astype(np.float64)
    if np.isinf(array).any():
        raise ArgumentError("time has values that are not finite numbers")
    return array


def _row(name: str, value: ArrayLike, n: int, one: bool) -> NDArray[Any]:
    array = real_array(name, value)
    if one and array.ndim == 0:
        array = array[None]
    if array.shape != (n,):
        expected = "a number" if one else f"({n},), one for each frame"
        raise ArgumentError(f"{name} has shape {array.shape}, expected {expected}")
    return array

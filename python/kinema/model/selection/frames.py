"""`FrameSelection`: the selected frames of a trajectory, a stride or a list of frame numbers.

`resolve` and `resolve_run` make one from what users write: slices, numbers, lists in any order and masks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, OutOfRangeError


class FrameSelection:
    """Immutable, ordered frames of a trajectory. A stride takes no memory, however many frames it has.

    Indexing is by position: an int gives a frame number, a slice gives a FrameSelection. NumPy takes it as the array of
    its numbers. A stride pickles to a few bytes.

    Parameters
    ----------
    frames : range, or (n,) array of uint64
        Frame numbers from 0, none negative; a list may repeat numbers and have them in any order.
    """

    __slots__ = ("_frames",)

    def __init__(self, frames: range | NDArray[np.uint64]) -> None:
        if isinstance(frames, range):
            self._frames: range | NDArray[np.uint64] = frames if frames else range(0)
        else:
            self._frames = np.array(frames, dtype=np.uint64)
            self._frames.flags.writeable = False

    @classmethod
    def from_ascending(cls, numbers: NDArray[np.integer[Any]]) -> FrameSelection:
        """The selection of strictly ascending frame numbers, (n,); a stride if they are evenly spaced."""
        if len(numbers) == 0:
            return cls(range(0))
        first, last = int(numbers[0]), int(numbers[-1])
        step = int(numbers[1]) - first if len(numbers) > 1 else 1
        evenly_spaced = bool((np.diff(numbers) == step).all())
        return cls(range(first, last + 1, step) if evenly_spaced else numbers.astype(np.uint64))

    @property
    def stride(self) -> tuple[int, int, int] | None:
        """(start, step, length) of a stride; None for a list."""
        frames = self._frames
        return (frames.start, frames.step, len(frames)) if isinstance(frames, range) else None

    def numbers(self) -> NDArray[np.uint64]:
        """(frames,) frame numbers in the selection's order."""
        frames = self._frames
        if isinstance(frames, range):
            return (frames.start + frames.step * np.arange(len(frames), dtype=np.int64)).astype(np.uint64)
        return frames

    def compose(self, positions: FrameSelection) -> FrameSelection:
        """The frames at these positions of this selection; a stride of a stride is a stride."""
        outer, inner = self._frames, positions._frames
        if not isinstance(outer, range):
            return FrameSelection(outer[positions.numbers()])
        if not isinstance(inner, range):
            return FrameSelection((outer.start + outer.step * inner.astype(np.int64)).astype(np.uint64))
        start, stop = (outer.start + outer.step * end for end in (inner.start, inner.stop))
        return FrameSelection(range(start, stop, outer.step * inner.step))

    def split(self, size: int) -> Iterator[FrameSelection]:
        """The same frames in runs of `size`; the last run is shorter if they do not divide evenly."""
        return (self[first : first + size] for first in range(0, len(self), size))

    def __len__(self) -> int:
        return len(self._frames)

    @overload
    def __getitem__(self, position: int) -> int: ...
    @overload
    def __getitem__(self, position: slice) -> FrameSelection: ...
    def __getitem__(self, position: int | slice) -> int | FrameSelection:
        if isinstance(position, slice):
            return FrameSelection(self._frames[position])
        return int(self._frames[position])

    def __iter__(self) -> Iterator[int]:
        return (int(number) for number in self._frames)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.numbers().astype(np.uint64 if dtype is None else dtype, copy=bool(copy))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FrameSelection):
            return NotImplemented
        if isinstance(self._frames, range) and isinstance(other._frames, range):
            return self._frames == other._frames
        return len(self) == len(other) and bool(np.array_equal(self.numbers(), other.numbers()))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return FrameSelection, (self._frames,)

    def __repr__(self) -> str:
        return f"<FrameSelection of {len(self)} frames: {self}>"

    def __str__(self) -> str:
        """A short text for provenance: "50 from 0, every 2", "3 chosen: 5, 1, 5"."""
        frames = self._frames
        if isinstance(frames, range):
            return f"{len(frames)} from {frames.start}" + (f", every {frames.step}" if frames.step != 1 else "")
        return f"{len(frames)} chosen: {', '.join(map(str, frames[:5]))}{', ...' if len(frames) > 5 else ''}"


# what users may write
FrameChoice: TypeAlias = FrameSelection | slice | range | int | Sequence[int] | Sequence[bool] | NDArray[Any] | None


def resolve(frames: FrameChoice, n_frames: int) -> FrameSelection:
    """The frames that a slice, range, number, list, array, boolean mask or FrameSelection names among `n_frames`.

    Slices follow Python (they are cut to the trajectory); numbers may be negative, in any order and repeated. Raises
    OutOfRangeError for a number beyond the trajectory, ArgumentError if `frames` does not name frames.
    """
    if frames is None:
        return FrameSelection(range(n_frames))
    if isinstance(frames, slice):
        try:
            return FrameSelection(range(*frames.indices(n_frames)))
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"frames: {str(error).lower()}, found {frames}") from None
    if isinstance(frames, (str, bytes)):
        raise ArgumentError(f"frames are whole numbers, a slice or a mask, found {type(frames).__name__}")
    if isinstance(frames, FrameSelection) and frames.stride is not None:
        start, step, length = frames.stride
        frames = range(start, start + step * length, step)
    if isinstance(frames, range):
        if not len(frames) or (0 <= min(frames[0], frames[-1]) and max(frames[0], frames[-1]) < n_frames):
            return FrameSelection(frames)
        frames = np.array(frames, dtype=np.int64)
    return _from_array(np.asarray(frames), n_frames)


def resolve_run(
    start: int | None, stop: int | None, step: int | None, frames: FrameChoice, n_frames: int
) -> FrameSelection:
    """`resolve` for the arguments of an analysis: a slice by start, stop and step, or `frames` in their place.

    Raises ArgumentError if both are given or no frames are selected, OutOfRangeError as `resolve`.
    """
    sliced = not (start is None and stop is None and step is None)
    if sliced and frames is not None:
        raise ArgumentError("start/stop/step cannot be combined with frames")
    if step == 0:
        raise ArgumentError("step must not be 0, found 0; 1 takes all frames, -1 all from the last to the first")
    selected = resolve(slice(start, stop, step) if sliced else frames, n_frames)
    if len(selected) == 0:
        if n_frames == 0:
            raise ArgumentError("the trajectory has no frames")
        asked = f"start={start}, stop={stop}, step={step}" if sliced else "frames"
        raise ArgumentError(f"{asked} names no frame; the trajectory has {n_frames} frames (0 to {n_frames - 1})")
    return selected


def _from_array(given: NDArray[Any], n_frames: int) -> FrameSelection:
    if given.ndim == 0:
        given = given.reshape(1)
    if given.ndim != 1:
        raise ArgumentError(f"frames must have one dimension, found {given.ndim}")
    if given.dtype == np.bool_:
        if len(given) != n_frames:
            raise ArgumentError(f"a mask needs one value a frame, expected {n_frames} values, found {len(given)}")
        return FrameSelection(np.flatnonzero(given).astype(np.uint64))
    if given.size == 0:
        return FrameSelection(range(0))
    if not np.issubdtype(given.dtype, np.integer):
        raise ArgumentError(f"frames are whole numbers, a slice or a mask, found values of type {given.dtype}")
    outside = (given >= n_frames) | (given < -n_frames)
    if outside.any():
        bad = int(given[outside.argmax()])
        there = f"{n_frames} frames (0 to {n_frames - 1})" if n_frames else "no frames"
        raise OutOfRangeError(f"frame {bad} is out of range, the trajectory has {there}", frame=bad)
    wrapped = given.astype(np.int64)
    return FrameSelection(np.where(wrapped < 0, wrapped + n_frames, wrapped).astype(np.uint64))

"""Which frames: slices, lists in any order and masks, resolved against a number of frames.

It reads nothing; a resolved choice is either a stride (start, step, count) or an array of frame numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.errors import ArgumentError, OutOfRangeError

__all__ = ["FrameChoice", "ResolvedFrames", "choose", "compose", "count", "numbers", "resolve", "split"]

# what users may write
FrameChoice = slice | range | int | Sequence[int] | Sequence[bool] | NDArray[Any] | None
# what the core takes: (start, step, count) or frame numbers
ResolvedFrames = tuple[int, int, int] | NDArray[np.uint64]


def resolve(frames: FrameChoice, n_frames: int) -> ResolvedFrames:
    """The frames that a slice, range, number, list, array or boolean mask names among `n_frames`.

    Slices follow Python (they are cut to the trajectory); numbers may be negative, in any order and repeated.
    Raises OutOfRangeError for a number beyond the trajectory, ArgumentError for what names no frames.
    """
    if frames is None:
        return 0, 1, n_frames
    if isinstance(frames, slice):
        try:
            found = range(*frames.indices(n_frames))
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"frames: {str(error).lower()}, found {frames}") from None
        return _stride(found)
    if isinstance(frames, (str, bytes)):
        raise ArgumentError(f"frames are whole numbers, a slice or a mask, found {type(frames).__name__}")
    if isinstance(frames, range):
        if len(frames) and 0 <= min(frames[0], frames[-1]) and max(frames[0], frames[-1]) < n_frames:
            return _stride(frames)
        frames = np.array(frames, dtype=np.int64)
    return _from_array(np.asarray(frames), n_frames)


def choose(start: int | None, stop: int | None, step: int | None, frames: FrameChoice, n_frames: int) -> ResolvedFrames:
    """`resolve` for the arguments of an analysis: a slice by start, stop and step, or `frames` in their place.

    Raises ArgumentError for both at once and for no frames at all, OutOfRangeError as `resolve`.
    """
    sliced = not (start is None and stop is None and step is None)
    if sliced and frames is not None:
        raise ArgumentError("start/stop/step cannot be combined with frames")
    chosen = resolve(slice(start, stop, step) if sliced else frames, n_frames)
    if count(chosen) == 0:
        if n_frames == 0:
            raise ArgumentError("the trajectory has no frames")
        said = f"start={start}, stop={stop}, step={step}" if sliced else "frames"
        raise ArgumentError(f"{said} names no frame; the trajectory has {n_frames} frames (0 to {n_frames - 1})")
    return chosen


def count(frames: ResolvedFrames) -> int:
    """How many frames are chosen."""
    return frames[2] if isinstance(frames, tuple) else len(frames)


def numbers(frames: ResolvedFrames) -> NDArray[np.uint64]:
    """The chosen frame numbers, (frames,), in the order chosen."""
    if isinstance(frames, tuple):
        start, step, length = frames
        return (start + step * np.arange(length, dtype=np.int64)).astype(np.uint64)
    return frames


def compose(outer: ResolvedFrames, inner: ResolvedFrames) -> ResolvedFrames:
    """The frames that `inner` chooses among those that `outer` has chosen already."""
    if not isinstance(outer, tuple):
        return outer[numbers(inner).astype(np.int64)]
    start, step, _ = outer
    if isinstance(inner, tuple):
        return start + step * inner[0], step * inner[1], inner[2]
    if (start, step) == (0, 1):
        return inner
    return (start + step * inner.astype(np.int64)).astype(np.uint64)


def split(frames: ResolvedFrames, size: int) -> Iterator[ResolvedFrames]:
    """The same frames in runs of `size`, the last one shorter where they do not divide."""
    for first in range(0, count(frames), size):
        if isinstance(frames, tuple):
            start, step, length = frames
            yield start + step * first, step, min(size, length - first)
        else:
            yield frames[first : first + size]


def _stride(found: range) -> ResolvedFrames:
    return (found.start, found.step, len(found)) if len(found) else (0, 1, 0)


def _from_array(given: NDArray[Any], n_frames: int) -> ResolvedFrames:
    if given.ndim == 0:
        given = given.reshape(1)
    if given.ndim != 1:
        raise ArgumentError(f"frames must have one dimension, found {given.ndim}")
    if given.dtype == np.bool_:
        if len(given) != n_frames:
            raise ArgumentError(f"a mask needs one value a frame, expected {n_frames} values, found {len(given)}")
        return np.flatnonzero(given).astype(np.uint64)
    if given.size == 0:
        return 0, 1, 0
    if not np.issubdtype(given.dtype, np.integer):
        raise ArgumentError(f"frames are whole numbers, a slice or a mask, found values of type {given.dtype}")
    beyond = (given >= n_frames) | (given < -n_frames)
    if beyond.any():
        bad = int(given[beyond.argmax()])
        there = f"{n_frames} frames (0 to {n_frames - 1})" if n_frames else "no frames"
        raise OutOfRangeError(f"frame {bad} is out of range, the trajectory has {there}", frame=bad)
    wrapped = given.astype(np.int64)
    return np.where(wrapped < 0, wrapped + n_frames, wrapped).astype(np.uint64)

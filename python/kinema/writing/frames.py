"""Arrays given to the writer, one frame or a block, with checked shapes and types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinema.errors import ArgumentError
from kinema.formats.h5md.schema import FIELDS

__all__ = ["FrameArrays", "check_rising", "frame_arrays", "real_array"]


@dataclass(frozen=True)
class FrameArrays:
    """Frames as they were given.

    Attributes
    ----------
    fields : {"positions": (frames, atoms, 3), ...}, only those that were given
    cells : (frames, 3, 3) or None
    steps : (frames,) int64 or None
    times : (frames,) float64 in ps, or None
    """

    fields: dict[str, NDArray[Any]]
    cells: NDArray[Any] | None
    steps: NDArray[np.int64] | None
    times: NDArray[np.float64] | None

    def __len__(self) -> int:
        return len(next(iter(self.fields.values())))

    @property
    def first_not_finite(self) -> int | None:
        """The first of these frames of which a position is NaN or infinite."""
        positions = self.fields.get("positions")
        if positions is None or positions.dtype.kind != "f":
            return None
        # in two steps: a sum takes no memory, and is not finite where one of the numbers is not
        with np.errstate(over="ignore", invalid="ignore"):
            sums = positions.sum(axis=(1, 2))
        suspects = np.flatnonzero(~np.isfinite(sums)).tolist()
        return next((frame for frame in suspects if not np.isfinite(positions[frame]).all()), None)


def frame_arrays(
    n_atoms: int,
    values: dict[str, ArrayLike | None],
    cell: ArrayLike | None,
    step: ArrayLike | None,
    time: ArrayLike | None,
) -> FrameArrays:
    """Frames from arrays (atoms, 3) or (frames, atoms, 3), cells (3,), (3, 3), (frames, 3) or (frames, 3, 3).

    Raises ArgumentError, which names the argument and the shape that was expected.
    """
    arrays = {name: real_array(name, value) for name, value in values.items() if value is not None}
    if not arrays:
        raise ArgumentError(f"no field is given, expected one of {', '.join(FIELDS)}")
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
    frames = FrameArrays(fields, _cells(cell, n, one), _steps(step, n, one), _times(time, n, one))
    if frames.steps is not None:
        check_rising("step", frames.steps, None, strictly=True)
    if frames.times is not None:
        check_rising("time", frames.times, None, strictly=False)
    return frames


def real_array(name: str, value: ArrayLike) -> NDArray[Any]:
    """`value` as an array of real numbers; ArgumentError for anything else."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ArgumentError(f"{name} cannot be made an array: {str(error).lower().rstrip('.')}") from None
    if array.dtype.kind not in "fiu":
        raise ArgumentError(f"{name} have type {array.dtype}, expected real numbers")
    return array


def check_rising(name: str, values: NDArray[Any], last: float | None, *, strictly: bool) -> None:
    """Raises ArgumentError where values (n,) do not rise from one to the next, from `last` on."""
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
    missing = ~array.any(axis=(1, 2))
    if missing.any():
        raise ArgumentError(f"cell of frame {int(np.argmax(missing))} of the block is zero, expected box vectors")
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
    if not np.isfinite(array).all():
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

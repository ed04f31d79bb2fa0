"""Numbers of samples as people give them: lists, slices, masks, and numbers that count from the end."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinema.base.errors import ArgumentError, OutOfRangeError


def sample_numbers(ids: ArrayLike | slice, n: int) -> NDArray[np.int64]:
    """(len(ids),) int64 from 0 up, for a list, a slice, or a mask of n samples; negative numbers count from the end.

    Raises ArgumentError for other arguments, OutOfRangeError for a sample that does not exist.
    """
    if isinstance(ids, slice):
        return np.arange(*ids.indices(n), dtype=np.int64)
    array = np.asarray(ids)
    if array.dtype.kind == "b":
        if array.shape != (n,):
            raise ArgumentError(f"a mask has a value for each of {n} samples, found shape {array.shape}")
        return np.flatnonzero(array).astype(np.int64)
    if array.size == 0 and array.ndim <= 1:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ArgumentError(
            "samples are chosen by a list of whole numbers, a slice or a mask, found "
            f"{array.dtype} of shape {array.shape}"
        )
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise OutOfRangeError(f"sample {array.max()} of {n} samples")
    numbers = array.astype(np.int64)
    wrong = (numbers < -n) | (numbers >= n)
    if wrong.any():
        raise OutOfRangeError(f"sample {numbers[wrong][0]} of {n} samples")
    numbers[numbers < 0] += n
    return numbers


def sample_number(index: Any, n: int) -> int:
    """One sample number, from 0 up. Raises as `sample_numbers`."""
    try:
        number = operator.index(index)
    except TypeError:
        raise ArgumentError(f"a sample is chosen by its number, found {type(index).__name__}") from None
    if not -n <= number < n:
        raise OutOfRangeError(f"sample {number} of {n} samples")
    return number % n

"""Shells about atoms: their bins and volumes, and the first shell of a radial distribution function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kinema.base.choices import whole_number
from kinema.base.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NO_COLUMN", "check_bins", "check_range", "first_shell", "shell_volumes"]

#: the column of pairs that the kernel leaves out
NO_COLUMN = np.uint32(2**32 - 1)
_MOST_BINS = 2**32


def first_shell(values: NDArray[np.float64]) -> int | None:
    """The bin of the first minimum after the first maximum, of values smoothed over three bins; None if there is none.

    A maximum is above 1, the value of pairs that are spread evenly.
    """
    if len(values) < 5 or not np.isfinite(values).all():
        return None
    smooth = np.convolve(values, np.ones(3) / 3, mode="valid")
    rises, falls = np.diff(smooth) > 0, np.diff(smooth) < 0
    peaks = np.flatnonzero(rises[:-1] & falls[1:] & (smooth[1:-1] > 1)) + 1
    if not len(peaks):
        return None
    after = np.flatnonzero(~rises[:-1] & rises[1:]) + 1
    after = after[after > peaks[0]]
    return int(after[0]) + 1 if len(after) else None


def shell_volumes(edges: NDArray[np.float64], *, plane: bool = False) -> NDArray[np.float64]:
    """(bins,) volumes of the shells between edges, or areas of rings in a plane."""
    return np.asarray(np.pi * np.diff(edges**2) if plane else 4 / 3 * np.pi * np.diff(edges**3))


def check_bins(given: Any) -> int:
    """The number of bins; raises ArgumentError for none, and for 2^32 and more."""
    number = whole_number("nbins", given)
    if number >= _MOST_BINS:
        raise ArgumentError(f"nbins must be below 2^32, found {number}")
    return number


def check_range(given: Any) -> tuple[float, float]:
    """The edges; raises ArgumentError for a range that is empty, negative or not finite."""
    numbers = np.asarray(given, np.float64)
    if numbers.shape != (2,) or not np.isfinite(numbers).all() or not 0 <= numbers[0] < numbers[1]:
        raise ArgumentError(f"range must be two finite distances, the first below the second, found {given}")
    return float(numbers[0]), float(numbers[1])

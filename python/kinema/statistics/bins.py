"""Bins of two quantities: checks of their numbers, ranges and periods, and the frames in each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from kinema.base.choices import positive_number, whole_number
from kinema.base.errors import ArgumentError, MemoryLimitError
from kinema.base.resources import default_memory
from kinema.statistics.series import FrameSeries

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_BINS = 1 << 32
# arrays of the bins that exist at a time
_ARRAYS = 6


def numbers_of_bins(bins: Any) -> tuple[int, int]:
    """The numbers of bins along x and y. Raises ArgumentError or MemoryLimitError for numbers that cannot be."""
    pair = tuple(bins) if isinstance(bins, (tuple, list, np.ndarray)) else (bins, bins)
    if len(pair) != 2:
        raise ArgumentError(f"bins is a number, or one for x and one for y, found {bins!r}")
    first, second = (whole_number("bins", one) for one in pair)
    if first * second > _MOST_BINS:
        raise ArgumentError(f"bins: {first:,} x {second:,} bins, expected at most 2^32 = {_MOST_BINS:,}")
    needed, most = first * second * 8 * _ARRAYS, default_memory()
    if needed > most:
        raise MemoryLimitError(
            f"{first:,} x {second:,} bins need {needed >> 20:,} MiB, expected at most {most >> 20:,} MiB; take fewer"
        )
    return first, second


def range_of(name: str, given: Any) -> tuple[float, float] | None:
    """The first and last edge that the argument `name` gives; None for None. Raises ArgumentError."""
    if given is None:
        return None
    ends = (
        [float(one) for one in given if isinstance(one, Real)] if isinstance(given, (tuple, list, np.ndarray)) else []
    )
    if len(ends) != 2 or not math.isfinite(ends[1] - ends[0]) or not ends[0] < ends[1]:
        raise ArgumentError(f"{name} is two finite numbers, the first below the second, found {given!r}")
    return ends[0], ends[1]


def periods_of(periodic: Any) -> tuple[float | None, float | None]:
    """The periods of x and y; None: as the quantity says. Raises ArgumentError for other than numbers from 0 on."""
    pair = tuple(periodic) if isinstance(periodic, (tuple, list)) else (periodic, periodic)
    if len(pair) != 2:
        raise ArgumentError(f"periodic is a period, or one for x and one for y, found {periodic!r}")
    for one in pair:
        if one is not None and one != 0:
            positive_number("periodic", one)
    return pair


def refuse_not_finite(series: FrameSeries) -> None:
    """Raises ArgumentError, with the frame, for a value that is not finite."""
    place = series.first_not_finite()
    if place is not None:
        raise ArgumentError(
            f"{series.title}, {series.where(place)}: expected a finite number, found {series.values[place]:g}"
        )


def filled_range(
    axis: str, values: NDArray[np.float64], given: tuple[float, float] | None, period: float
) -> tuple[float, float]:
    """The range of an axis, as given or by default."""
    if given is not None:
        if period and given[1] - given[0] > period * (1 + 1e-12):
            raise ArgumentError(
                f"{axis}_range is wider than the period {period:g}, found {given[0]:g} to {given[1]:g}; "
                f"narrow it, or say that the values are not periodic: periodic=0"
            )
        return given
    if period:
        return -period / 2, period / 2
    least, most = float(values.min()), float(values.max())
    if not math.isfinite(most - least):
        raise ArgumentError(f"{axis}: values from {least:g} to {most:g} have no finite width; give {axis}_range=")
    # as numpy.histogram
    return (least - 0.5, most + 0.5) if least == most else (least, most)


def moved_into_range(series: FrameSeries, period: float, ends: tuple[float, float] | None) -> FrameSeries:
    """Periodic values moved by whole periods to the first edge or after it, by less than a period."""
    if not period or ends is None:
        return series
    values = series.values - np.floor((series.values - ends[0]) / period) * period
    # by rounding, a value just below the first edge would be a whole period after it
    values = np.where((values >= ends[0] + period) | (values < ends[0]), ends[0], values)
    return FrameSeries(
        series.name, values, series.unit, period, series.frames, series.time, series.source, series.inputs
    )


def _bins_of(values: NDArray[np.float64], edges: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(frames,) bin of each value among equal bins, and whether it is in one."""
    first, last, number = edges[0], edges[-1], len(edges) - 1
    inside = (values >= first) & (values <= last)
    if (last - first) / number < 8.0 * np.spacing(max(abs(first), abs(last))):
        # edges are hardly distinct
        found = np.searchsorted(edges, values, side="right") - 1
        return np.clip(found, 0, number - 1), inside
    # rounding may miss the bin by one
    found = np.clip((values - first) * (number / (last - first)), 0, number - 1).astype(np.int64)
    found -= (found > 0) & (values < edges[found])
    found += (found < number - 1) & (values >= edges[found + 1])
    return found, inside


def count_frames(
    joined: Sequence[FrameSeries], edges: Sequence[NDArray[np.float64]]
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
    """Frames and sums of weights in each bin, and the number of frames outside."""
    n_x, n_y = (len(along) - 1 for along in edges)
    (x, x_inside), (y, y_inside) = (_bins_of(one.values, along) for one, along in zip(joined, edges, strict=False))
    inside = x_inside & y_inside
    flat = (x * n_y + y)[inside]
    counts = np.bincount(flat, minlength=n_x * n_y).astype(np.int64).reshape(n_x, n_y)
    n_outside = int(np.sum(~inside))
    if len(joined) == 2:
        return counts, counts.astype(np.float64), n_outside
    weights = joined[2]
    below = np.flatnonzero(weights.values < 0)
    if len(below):
        raise ArgumentError(
            f"weights: {weights.title}, {weights.where(int(below[0]))}: expected a number from 0 on, found "
            f"{weights.values[below[0]]:g}"
        )
    sums = np.bincount(flat, weights=weights.values[inside], minlength=n_x * n_y).reshape(n_x, n_y)
    return counts, sums.astype(np.float64), n_outside

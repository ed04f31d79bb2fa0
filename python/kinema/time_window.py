"""Frames by their time, as GROMACS' -b, -e and -dt choose them.

It reads no coordinates: times come from the index, or from the frames' headers where the index has none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinema.errors import ArgumentError, OutOfRangeError
from kinema.trajectory import Trajectory

__all__ = ["frames_between"]

# Times are stored as float32 in most formats: one part in 2^23, some two of them from different roundings.
_RELATIVE_ERROR = 4.0 * 2.0**-23


def frames_between(
    trajectory: Trajectory, begin: float | None = None, end: float | None = None, every: float | None = None
) -> NDArray[np.uint64]:
    """Numbers of the frames whose time is in [begin, end] and a multiple of `every` after the first of these.

    Parameters
    ----------
    begin, end : float, ps
        First and last time, both inclusive; None: no limit.
    every : float, ps
        Time between the frames chosen; None: all frames.

    Returns
    -------
    (n,) uint64, rising. Times are compared within the rounding of float32.

    Raises
    ------
    ArgumentError
        For `every` not above zero, or an end before the beginning.
    OutOfRangeError
        Where no frame is in the window; the message says which times there are.
    """
    if every is not None and not every > 0:
        raise ArgumentError(f"the time between frames must be above 0 ps, found {every:g}")
    if begin is not None and end is not None and end < begin:
        raise ArgumentError(f"the last time is before the first, found {begin:g} to {end:g} ps")
    times = trajectory.times
    tolerance = _RELATIVE_ERROR * np.maximum(np.abs(times), 1.0)
    wanted = np.ones(len(times), dtype=bool)
    if begin is not None:
        wanted &= times >= begin - tolerance
    if end is not None:
        wanted &= times <= end + tolerance
    chosen = np.flatnonzero(wanted)
    if chosen.size == 0:
        there = f"its times are {times.min():g} to {times.max():g} ps" if len(times) else "it has no frames"
        asked = f"{_limit(begin, '-')} to {_limit(end, '')}"
        raise OutOfRangeError(f"{trajectory.paths[0]}: no frame between {asked} ps, {there}")
    if every is not None:
        since = times[chosen] - times[chosen[0]]
        off = np.abs(since - np.round(since / every) * every)
        chosen = chosen[off <= tolerance[chosen] + tolerance[chosen[0]]]
    return chosen.astype(np.uint64)


def _limit(time: float | None, sign: str) -> str:
    return f"{sign}inf" if time is None else f"{time:g}"

"""Pairs of frames with a lag in time: within runs of frames at equal distances, never across an interruption."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.trajectory import Trajectory

# times are float32 in many formats: a distance counts as equal within this share of itself, and of the time
_TOLERANCE, _ROUNDING = 1e-3, 4e-7


def lagged_positions(trajectory: Trajectory, lag: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions, (pairs,) each, of the first and second frames of all pairs that are `lag` ps apart, ascending.

    Raises ArgumentError if the lag is not above 0, or is not a multiple of the time between frames.
    """
    if not (math.isfinite(lag) and lag > 0):
        raise ArgumentError(f"lag must be a time above 0 ps, found {lag:g}")
    times = np.asarray(trajectory.times, np.float64)
    if np.isnan(times).any():
        raise ArgumentError(f"{trajectory.paths[0]}: frames have no times for lag=; open it with dt= (--timestep)")
    firsts, seconds = [], []
    for start, stop in equal_runs(times, _interruptions(trajectory)):
        if stop - start < 2:
            continue
        distance = (times[stop - 1] - times[start]) / (stop - 1 - start)
        steps = lag / distance
        whole = round(steps)
        slack = _TOLERANCE + _ROUNDING * abs(times[stop - 1]) / distance
        if whole < 1 or abs(steps - whole) > slack:
            raise ArgumentError(
                f"{trajectory.paths[0]}: lag must be a multiple of the {distance:g} ps between frames, found {lag:g}"
            )
        first = np.arange(start, max(start, stop - whole), dtype=np.int64)
        firsts.append(first)
        seconds.append(first + whole)
    none = np.zeros(0, np.int64)
    return (np.concatenate(firsts), np.concatenate(seconds)) if firsts else (none, none)


def equal_runs(times: NDArray[np.float64], interruptions: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Runs [start, stop) of frames at equal distances in time, in which no interruption begins.

    `interruptions`: positions that begin a run. A run also begins at a frame that is earlier than the one before, or
    whose distance to it differs from the usual one, which is the median between two interruptions.
    """
    n = len(times)
    if n == 0:
        return []
    edges = [0, *(int(at) for at in np.unique(interruptions) if 0 < at < n), n]
    runs = []
    for start, stop in pairwise(edges):
        ahead = np.diff(times[start:stop])
        forward = ahead[ahead > 0]
        usual = float(np.median(forward)) if len(forward) else 0.0
        slack = _TOLERANCE * usual + _ROUNDING * np.abs(times[start + 1 : stop])
        odd = ~((np.abs(ahead - usual) <= slack) & (ahead > 0))
        runs += list(pairwise([start, *(int(at) + start + 1 for at in np.flatnonzero(odd)), stop]))
    return runs


def _interruptions(trajectory: Trajectory) -> NDArray[np.int64]:
    """Positions at which a part or the frames after a gap begin; in a view, at which its frames pass such a point."""
    numbers = trajectory.frame_numbers.astype(np.int64)
    begins = [part.first_frame for part in trajectory.parts if part.kept[1] > part.kept[0]]
    begins += [gap.frame for gap in trajectory.gaps]
    # the segment of each frame of the view, whose frames may be in any order
    segment = np.searchsorted(np.unique(np.array(begins, np.int64)), numbers, side="right")
    return (np.flatnonzero(np.diff(segment)) + 1).astype(np.int64)

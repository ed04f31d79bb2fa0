"""`LastStamps`: steps and times of frames that are given without them, which go on from the last ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["LastStamps"]


class LastStamps:
    """Steps and times of the last two frames of a file.

    Frames without a step or time go on at the distance of these two; a step begins at 0 and goes on by 1, and a time
    that nothing says is NaN.
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
        return self._steps[-1] + max(stride, 1) * np.arange(1, n_frames + 1, dtype=np.int64)

    def times_of(self, given: NDArray[np.float64] | None, n_frames: int) -> NDArray[np.float64]:
        """Times of the next frames in ps, (n_frames,)."""
        if given is not None:
            return given
        if len(self._times) < 2:
            return np.full(n_frames, np.nan)
        return self._times[-1] + (self._times[-1] - self._times[0]) * np.arange(1, n_frames + 1, dtype=np.float64)

    def took(self, steps: NDArray[np.int64], times: NDArray[np.float64]) -> None:
        """These frames were taken."""
        self._steps = [*self._steps, *steps[-2:].tolist()][-2:]
        self._times = [*self._times, *times[-2:].tolist()][-2:]

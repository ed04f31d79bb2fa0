"""`FollowEnd`: the end of an iteration over frames that are still being written, as a number of frames or a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError

# as in `time_range`: most formats store times as float32
_RELATIVE_ERROR = 4.0 * 2.0**-23


@dataclass(frozen=True)
class FollowEnd:
    """The end is where the first of both is reached; without either there is no end."""

    frames: int | None = None
    time: float | None = None

    @classmethod
    def parse(cls, given: int | str | None) -> FollowEnd:
        """Parses a number of frames, or a time with its unit, "100 ns". Raises ArgumentError for anything else."""
        if given is None:
            return cls()
        if isinstance(given, str) and given.strip().isdigit():
            given = int(given)
        if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
            if given < 1:
                raise ArgumentError(f"until must be at least 1 frame, found {given}")
            return cls(frames=int(given))
        if isinstance(given, str):
            return cls(time=_picoseconds(given))
        raise ArgumentError(f'until is a number of frames or a time with its unit, "100 ns", found {given!r}')

    def count_before(self, first: int, times: NDArray[np.float64]) -> tuple[int, bool]:
        """Counts the frames from number `first` on, at these times, up to the end; also whether the end is reached.

        Raises ArgumentError for frames without a time if the end is a time.
        """
        n, reached = len(times), False
        if self.frames is not None and first + n >= self.frames:
            n, reached = max(0, self.frames - first), True
        if self.time is not None:
            shown = times[:n]
            if np.isnan(shown).any():
                frame = first + int(np.isnan(shown).argmax())
                raise ArgumentError(f"frame {frame} has no time; give until= as a number of frames")
            tolerance = _RELATIVE_ERROR * max(abs(self.time), 1.0)
            at_end = shown >= self.time - tolerance
            if at_end.any():
                at = int(at_end.argmax())
                # a frame at exactly this time is the last; a later frame is not included
                n, reached = (at + 1 if shown[at] <= self.time + tolerance else at), True
        return n, reached

    def __str__(self) -> str:
        if self.frames is not None:
            return f"{self.frames} frames"
        return "" if self.time is None else f"{self.time:g} ps"


def _picoseconds(text: str) -> float:
    from kinema.formats.h5md.units import scale_to_kinema

    number, _, unit = text.strip().partition(" ")
    if not unit:
        number = text.strip().rstrip("abcdefghijklmnopqrstuvwxyz")
        unit = text.strip()[len(number) :]
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not unit or not math.isfinite(value):
        raise ArgumentError(f'until is a number of frames or a time with its unit, "100 ns", found {text!r}')
    try:
        return value * scale_to_kinema(unit.strip(), "time")
    except ArgumentError as error:
        raise ArgumentError(
            f'until is a number of frames or a time with its unit, "100 ns", found {text!r}: {error}'
        ) from None

"""Step, time and cell of each frame of a file of records, and the losses of frames in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinema.base.notes import emit
from kinema.formats.given_frames import LastStamps
from kinema.parallel.rank_file import FileState
from kinema.parallel.rank_frames import RankFrame

Columns = tuple[list[int], list[float]]


@dataclass(frozen=True)
class Stamp:
    """Number, step, time (ps) and cell (3, 3) of a frame; zeros: no cell, NaN: no time."""

    number: int
    step: int
    time: float
    cell: NDArray[np.float64]


class FrameStamps:
    """Gives each frame its step and time; if it has none, they follow from the frames before it.

    `first`, `last`: steps and times (ps) of the first and the last two frames of the file, if there are any.
    """

    def __init__(self, first: Columns, last: Columns) -> None:
        self._first, self._last = list(zip(*first, strict=True)), LastStamps(*last)

    def next(self, frame: RankFrame, number: int) -> Stamp:
        """The stamp of the next frame."""
        step = None if frame.step is None else np.array([frame.step], np.int64)
        time = None if frame.time is None else np.array([frame.time], np.float64)
        cell = np.zeros((3, 3)) if frame.cell is None else frame.cell
        return Stamp(number, int(self._last.steps_of(step, 1)[0]), float(self._last.times_of(time, 1)[0]), cell)

    def first_two(self, stamp: Stamp) -> Columns:
        """Steps and times of the first two frames, one of which is this frame."""
        first = self._with(stamp)
        return [step for step, _ in first], [time for _, time in first]

    def took(self, stamp: Stamp) -> None:
        """Records that the frame was taken."""
        if stamp.number < 2:
            self._first = self._with(stamp)
        self._last.took(np.array([stamp.step]), np.array([stamp.time]))

    def _with(self, stamp: Stamp) -> list[tuple[int, float]]:
        return [*self._first[: stamp.number], (stamp.step, stamp.time)][:2]


class NotedLosses:
    """Notes each loss once, in the same way on all ranks.

    `path`: losses begin with it.
    `state`: keeps notes and losses.
    """

    def __init__(self, path: str, state: FileState) -> None:
        self._path, self._state = path, state
        # a loss of the first frame is noted with the second frame, or at the end: times need both
        self._first: tuple[Stamp, Callable[[Stamp], Iterable[str]]] | None = None

    def note(self, notes: Iterable[str]) -> None:
        """Adds notes that already begin with the path."""
        added = list(notes)
        self._state.notes += added
        emit(added)

    def lose(self, losses: Iterable[str]) -> None:
        """Adds losses that are new, and notes them."""
        named = [f"{self._path}: {loss}" for loss in losses]
        new = [loss for loss in named if loss not in self._state.losses]
        self._state.losses += tuple(new)
        self.note(new)

    def of_stamp(self, stamp: Stamp, losses: Callable[[Stamp], Iterable[str]]) -> None:
        """Notes the losses of a frame's step, time and cell."""
        if stamp.number == 0:
            self._first = stamp, losses
            return
        if self._first is not None:
            self._first = self._first[0], losses
            self.of_first_stamp()
        self._lose_at(stamp, losses)

    def of_first_stamp(self) -> None:
        """Notes the same losses of the first frame, if they were not noted yet."""
        if self._first is not None:
            self._lose_at(*self._first)
            self._first = None

    def _lose_at(self, stamp: Stamp, losses: Callable[[Stamp], Iterable[str]]) -> None:
        for what in losses(stamp):
            if not any(f": {what}; frame " in loss for loss in self._state.losses):
                self.lose([f"{what}; frame {stamp.number} is the first"])

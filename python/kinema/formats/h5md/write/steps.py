"""Steps and times of one or several elements: as scalars if both have a constant stride, else row by row.

Elements that share them are linked to one pair of data sets. H5MD's fixed storage has s(i) = i * step + offset, and the
same for times. It is chosen only if it gives back each step and time bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.formats.hdf5.encoding import Preparation
from kinema.formats.hdf5.series import Series
from kinema.storage.hdf5.storage import create_dataset, series_storage, write_dataset

Text = Callable[[Any, str, str], None]


@dataclass(frozen=True)
class Stride:
    """A constant stride: step and time of the first row, and their increments; times are None without times."""

    first_step: int
    step: int
    first_time: float | None
    time: float | None

    def steps(self, start: int, stop: int) -> NDArray[np.int64]:
        """Steps of rows `start` to `stop`."""
        return np.arange(start, stop, dtype=np.int64) * self.step + self.first_step

    def times(self, start: int, stop: int) -> NDArray[np.float64] | None:
        """Times of rows `start` to `stop`, as H5MD's formula gives them in float64."""
        if self.time is None or self.first_time is None:
            return None
        return np.arange(start, stop, dtype=np.float64) * self.time + self.first_time

    def gives(self, start: int, steps: NDArray[np.int64], times: NDArray[np.float64] | None) -> bool:
        """Whether the stride gives these rows from `start` on, bit for bit."""
        if len(steps) == 1:
            return self._gives_one(start, int(steps[0]), None if times is None else float(times[0]))
        stop = start + len(steps)
        if not np.array_equal(self.steps(start, stop), steps):
            return False
        mine = self.times(start, stop)
        return times is None if mine is None else times is not None and np.array_equal(mine, times)

    def _gives_one(self, row: int, step: int, time: float | None) -> bool:
        """`gives` for one row, in a fraction of the time."""
        if step != row * self.step + self.first_step:
            return False
        if self.time is None or self.first_time is None:
            return time is None
        return time == float(row) * self.time + self.first_time

    @classmethod
    def from_two_rows(cls, steps: NDArray[np.int64], times: NDArray[np.float64] | None) -> Stride | None:
        """The stride from the first row to the second; None if it is beyond int64, or times stand still."""
        first, second = int(steps[0]), int(steps[1])
        if second - first > np.iinfo(np.int64).max:
            return None
        if times is None:
            return cls(first, second - first, None, None)
        exact = float(times[1]) - float(times[0])
        if not exact > 0.0:
            return None  # readers accept no interval of zero
        # 0.3 - 0.2 is not 0.1: use the short number if it gives the same times
        short = float(f"{exact:.12g}")
        time = short if float(times[0]) + short == float(times[1]) else exact
        return cls(first, second - first, float(times[0]), time)


class StepAxis:
    """Steps and times that grow with the rows of the elements (groups of the file) that share them.

    With `explicit` they are data sets from the beginning; otherwise `finish` decides, or the first row that leaves the
    stride.
    """

    def __init__(
        self,
        elements: list[h5py.Group],
        *,
        explicit: bool,
        with_times: bool,
        time_size: float,
        mark_time: Callable[[h5py.Dataset], None],
    ) -> None:
        """`time_size`: the file's unit of time in ps; `mark_time` gives a data set of times its unit."""
        self._elements, self._mark_time = elements, mark_time
        self.with_times, self.time_size = with_times, time_size
        self._stride: Stride | None = None
        self.rows = 0
        self._head: tuple[list[NDArray[np.int64]], list[NDArray[np.float64]]] = ([], [])
        self._steps: Series | None = None
        self._times: Series | None = None
        if explicit:
            self._make_data_sets()

    @classmethod
    def existing(cls, steps: Series, times: Series | None, time_size: float) -> StepAxis:
        """The axis whose data sets are already in the file."""
        axis = cls([], explicit=False, with_times=times is not None, time_size=time_size, mark_time=lambda _: None)
        axis._steps, axis._times, axis.rows = steps, times, steps.rows
        return axis

    def extend(self, steps: NDArray[np.int64], times: NDArray[np.float64] | None) -> None:
        """Takes steps (n,) and times (n,) in ps, None without times."""
        if times is not None and self.time_size != 1.0:
            times = times / self.time_size
        if self._steps is None and not self._follows(steps, times):
            self._make_data_sets()
        if self._steps is not None:
            self._steps.extend(steps)
            if self._times is not None and times is not None:
                self._times.extend(times)
        self.rows += len(steps)

    def flush(self) -> None:
        """Writes all so far, as explicit steps and times; more may follow."""
        if self._steps is None:
            self._make_data_sets()
        for series in (self._times, self._steps):
            if series is not None:
                series.flush()

    def finish(self) -> None:
        """Writes all; no more may follow."""
        if self._steps is None and self.rows < 2:
            self._make_data_sets()
        if self._steps is None:
            self._make_scalars()
        for series in (self._times, self._steps):
            if series is not None:
                series.finish()

    def _follows(self, steps: NDArray[np.int64], times: NDArray[np.float64] | None) -> bool:
        """Whether the rows follow the stride; without one yet, takes it from the first two."""
        if self._stride is not None:
            return self._stride.gives(self.rows, steps, times)
        head_steps, head_times = self._head
        head_steps.append(steps)
        if times is not None:
            head_times.append(times)
        if self.rows + len(steps) < 2:
            return True
        all_steps = np.concatenate(head_steps)
        all_times = np.concatenate(head_times) if head_times else None
        stride = Stride.from_two_rows(all_steps, all_times)
        if stride is not None and stride.gives(0, all_steps, all_times):
            self._stride = stride
            return True
        # the caller stores the new rows; they are not part of the head
        head_steps.pop()
        if times is not None:
            head_times.pop()
        return False

    def _make_data_sets(self) -> None:
        """Makes explicit storage, with the rows taken so far."""
        first = self._elements[0]
        step = create_dataset(first, "step", series_storage(np.dtype("<i8")))
        self._steps = Series(step)
        if self.with_times:
            time = create_dataset(first, "time", series_storage(np.dtype("<f8")))
            self._mark_time(time)
            self._times = Series(time, preparation=Preparation(time.dtype))
        self._link()
        for start in range(0, self.rows, 1 << 16):
            stop = min(start + (1 << 16), self.rows)
            if self._stride is not None:
                steps, times = self._stride.steps(start, stop), self._stride.times(start, stop)
            else:
                steps = np.concatenate(self._head[0])
                times = np.concatenate(self._head[1]) if self._head[1] else None
            self._steps.extend(steps)
            if self._times is not None and times is not None:
                self._times.extend(times)

    def _make_scalars(self) -> None:
        """Makes fixed storage."""
        assert self._stride is not None
        first = self._elements[0]
        step = write_dataset(first, "step", np.asarray(self._stride.step, np.int64))
        step.attrs.create("offset", np.int64(self._stride.first_step))
        if self._stride.time is not None:
            time = write_dataset(first, "time", np.asarray(self._stride.time, np.float64))
            time.attrs.create("offset", np.float64(self._stride.first_time))
            self._mark_time(time)
        self._link()

    def _link(self) -> None:
        first, *others = self._elements
        for element in others:
            element["step"] = first["step"]
            if self.with_times:
                element["time"] = first["time"]


def make_explicit(
    elements: list[h5py.Group],
    stride: Stride,
    rows: int,
    mark_time: Callable[[h5py.Dataset], None],
    commit: Callable[[], None],
) -> None:
    """Replaces the scalar step (and time) of elements by data sets with a row for each frame, in two commits.

    The new ones are complete before the first element is linked to them; elements are linked one by one, and each
    has the same steps before and after.
    """
    file = elements[0].file
    new: dict[str, h5py.Dataset] = {"step": write_dataset(file, None, stride.steps(0, rows), grows=True)}
    times = stride.times(0, rows)
    if times is not None:
        new["time"] = write_dataset(file, None, times, grows=True)
        mark_time(new["time"])
    file.flush()
    commit()
    for element in elements:
        for name, dataset in new.items():
            del element[name]
            element[name] = dataset
    file.flush()
    commit()

"""Writing of observables: quantities beside the particles, of any shape and with steps of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kinema.base.errors import ArgumentError
from kinema.formats.given_frames import real_array
from kinema.formats.h5md.schema import OBSERVABLES
from kinema.formats.h5md.write.metadata import Dialect, text_of
from kinema.formats.h5md.write.steps import StepAxis
from kinema.formats.h5md.write.units import FileUnits
from kinema.formats.hdf5.series import Series
from kinema.storage.hdf5.storage import series_storage


class ObservableWriter:
    """A time-dependent observable. The axis is made with the first row, which shows whether there are times."""

    def __init__(
        self,
        name: str,
        element: h5py.Group,
        series: Series,
        axis: StepAxis | None,
        make_axis: Callable[[bool], StepAxis],
    ) -> None:
        self.name = name
        self.shape: tuple[int, ...] = series.dataset.shape[1:]
        self.unit: str | None = text_of(series.dataset.attrs.get("unit"))
        self._series, self._axis, self._make_axis = series, axis, make_axis
        self._last: int | None = None
        if axis is not None and axis.rows:
            self._last = int(element["step"][axis.rows - 1])

    def frame_arrays(
        self, value: ArrayLike, step: ArrayLike, time: ArrayLike | None
    ) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.float64] | None]:
        """Rows (n, ...), steps and times, checked; raises ArgumentError for other shapes and steps that do not rise."""
        values = real_array(f"values of {self.name}", value)
        steps = real_array("step", step)
        one = steps.ndim == 0
        values, steps = (values[None], steps[None]) if one else (values, steps)
        if steps.ndim != 1 or steps.dtype.kind not in "iu":
            raise ArgumentError(f"step of {self.name} is a whole number or a row of them")
        if values.shape != (len(steps), *self.shape):
            rows = "" if one else f"{len(steps)} rows of "
            raise ArgumentError(f"{self.name} has values of shape {values.shape[one:]}, expected {rows}{self.shape}")
        steps = steps.astype(np.int64)
        before = steps if self._last is None else np.concatenate([[self._last], steps])
        if (before[1:] <= before[:-1]).any():
            raise ArgumentError(f"step of {self.name} must rise from row to row")
        if time is None:
            times = None
        else:
            times = real_array("time", time).astype(np.float64)
            times = times[None] if one else times
            if times.shape != steps.shape or not np.isfinite(times).all():
                raise ArgumentError(
                    f"time of {self.name} has shape {times.shape}, expected a finite number for each step"
                )
        if self._axis is not None and self._axis.with_times != (times is not None):
            raise ArgumentError(f"{self.name} has times for all of its rows or for none")
        return values, steps, times

    def extend(self, values: NDArray[Any], steps: NDArray[np.int64], times: NDArray[np.float64] | None) -> None:
        """Takes the result of `frame_arrays`."""
        if not len(steps):
            return
        self._series.extend(values)
        self._known_axis(times is not None).extend(steps, times)
        self._last = int(steps[-1])

    def flush(self) -> None:
        """Writes all rows; more may follow."""
        if self._axis is not None:
            self._series.flush()
            self._axis.flush()

    def finish(self) -> None:
        """Writes all rows; no more may follow."""
        self._series.finish()
        self._known_axis(False).finish()

    def _known_axis(self, with_times: bool) -> StepAxis:
        if self._axis is None:
            self._axis = self._make_axis(with_times)
        return self._axis


def open_observable(
    root: h5py.Group,
    name: str,
    shape: tuple[int, ...],
    dtype: DTypeLike | None,
    unit: str | None,
    *,
    dialect: Dialect,
    units: FileUnits,
    explicit: bool,
) -> ObservableWriter:
    """Makes the observable `name`, or continues the one in the file, which must have the same shape and unit."""
    observables = _observables(root, dialect)

    def mark_time(dataset: h5py.Dataset) -> None:
        dialect.write_attributes(dataset, {"unit": units.text("times")})

    def make_axis(element: h5py.Group, with_times: bool) -> StepAxis:
        return StepAxis(
            [element],
            explicit=explicit or dialect.always_explicit,
            with_times=with_times,
            time_size=units.divisor("times"),
            mark_time=mark_time,
        )

    _check_name(observables, name)
    if name in observables:
        element = _existing(observables, name, shape, unit)
        axis = None
        rows = 0
        if "step" in element:
            datasets = [element[part] for part in ("step", "time", "value") if part in element]
            rows = min(len(dataset) for dataset in datasets)
            steps, times = Series(element["step"], rows=rows), None
            if "time" in element:
                times = Series(element["time"], rows=rows)
            axis = StepAxis.existing(steps, times, units.divisor("times"))
        series = Series(element["value"], rows=rows)
    else:
        kind = np.dtype(np.float64 if dtype is None else dtype)
        if any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1 for n in shape):
            raise ArgumentError(f"shape of observable {name} has whole numbers from 1 on, found {shape!r}")
        if kind.kind not in "fiu":
            raise ArgumentError(f"observable {name} has type {kind}, expected real numbers")
        element = dialect.make_group(observables, name)
        value = dialect.make_dataset(element, "value", series_storage(kind, shape), {"unit": unit})
        series, axis = Series(value), None
    return ObservableWriter(name, element, series, axis, lambda with_times: make_axis(element, with_times))


def create_fixed_observable(root: h5py.Group, name: str, value: ArrayLike, unit: str | None, dialect: Dialect) -> None:
    """Makes an observable that does not depend on time."""
    observables = _observables(root, dialect)
    _check_name(observables, name)
    if name in observables:
        raise ArgumentError(f"observable {name} is in the file already")
    dialect.write_values(observables, name, real_array(name, value), {"unit": unit})


def _observables(root: h5py.Group, dialect: Dialect) -> h5py.Group:
    """The group of observables, which is made if there is none."""
    return root[OBSERVABLES] if OBSERVABLES in root else dialect.make_group(root, OBSERVABLES)


def _check_name(observables: h5py.Group, name: str) -> None:
    """Raises ArgumentError if a part of the name is an observable, or the name is a group of observables."""
    parts = name.split("/")
    for n in range(1, len(parts) + 1):
        above = "/".join(parts[:n])
        item = observables.get(above)
        is_observable = isinstance(item, h5py.Dataset) or (isinstance(item, h5py.Group) and "value" in item)
        if item is not None and is_observable != (n == len(parts)):
            kind = "an observable" if is_observable else "a group of observables"
            raise ArgumentError(f"observable {name} cannot be made: {above} is {kind}")


def _existing(observables: h5py.Group, name: str, shape: tuple[int, ...], unit: str | None) -> h5py.Group:
    element = observables[name]
    value = element.get("value") if isinstance(element, h5py.Group) else None
    if not isinstance(value, h5py.Dataset) or ("step" in element and element["step"].ndim != 1):
        raise ArgumentError(f"observable {name} of the file has no steps row by row and cannot be continued")
    if value.shape[1:] != tuple(shape):
        raise ArgumentError(f"observable {name} of the file has shape {value.shape[1:]}, expected {tuple(shape)}")
    known = text_of(value.attrs.get("unit"))
    if known != unit:
        raise ArgumentError(f"observable {name} of the file has unit {known}, expected {unit}")
    return element

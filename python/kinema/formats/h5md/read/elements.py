"""Elements of H5MD: data with or without steps and times, stored in full, at fixed intervals, or once for all time.

Elements are joined by step, never by row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.formats.h5md.description import ABSENT, FORBIDDEN
from kinema.formats.h5md.file import H5mdFile
from kinema.storage.hdf5.chunks import read_series
from kinema.storage.hdf5.file import check_claim, is_link_broken, numbers, object_key
from kinema.storage.hdf5.text import attribute, text_attribute
from kinema.storage.hdf5.virtual import check_sources


@dataclass(frozen=True)
class Element:
    """One quantity of a file with its steps and times."""

    name: str
    """Path in the file."""
    value: Any
    """`h5py.Dataset`."""
    fixed: bool
    """Time-independent: no dimension of frames."""
    n_rows: int
    """Number of rows for which value, step and time are all present; 1 if fixed."""
    steps: NDArray[np.int64] | None
    """(n_rows,)."""
    times: NDArray[np.float64] | None
    """(n_rows,), in `time_unit`."""
    unit: str | None
    time_unit: str | None
    clock: tuple[Any, ...]
    """Equal for elements that share step by hard links or by equal intervals."""

    def cut(self, n_rows: int) -> Element:
        """The element with its first rows only."""
        steps = None if self.steps is None else self.steps[:n_rows]
        times = None if self.times is None else self.times[:n_rows]
        return Element(self.name, self.value, self.fixed, n_rows, steps, times, self.unit, self.time_unit, self.clock)


def find_element(opened: H5mdFile, group: Any, name: str) -> Element | None:
    """An element of a group; None if it does not exist, or nothing was ever written to it.

    Raises CorruptFileError for a group without `value`, a dangling link, and steps that decrease.
    """
    if is_link_broken(group, name):
        raise opened.corrupt(f"{group.name.rstrip('/')}/{name} is a link to something that is missing")
    node = group.get(name)
    if node is None:
        return None
    if isinstance(node, h5py.Dataset):
        if node.shape is None or 0 in node.shape:
            return None
        check_claim(opened, node)
        return Element(node.name, node, True, 1, None, None, text_attribute(node, "unit"), None, ())
    if not isinstance(node, h5py.Group):
        raise opened.corrupt(f"{group.name.rstrip('/')}/{name} is neither a group nor a data set")
    value = node.get("value")
    if value is None and not is_link_broken(node, "value"):
        opened.warn(f"{node.name} has no data set value and is left out")
        return None
    if not isinstance(value, h5py.Dataset) or not value.shape:
        raise opened.corrupt(f"{node.name}/value is not a data set with a dimension of frames")
    if 0 in value.shape[1:]:
        return None
    check_claim(opened, value)
    return _timed(opened, node, value)


def as_rows(element: Element, n_rows: int | None, row_shape: tuple[int, ...]) -> Element:
    """The element with one row of `row_shape` for each of `n_rows` frames (None: any number).

    This applies if it is stored so without `step`; otherwise it is returned unchanged.
    """
    shape = element.value.shape
    if not element.fixed or shape[1:] != row_shape or (n_rows is not None and shape[0] != n_rows):
        return element
    return replace(element, fixed=False, n_rows=int(shape[0]))


def as_fixed(element: Element) -> Element:
    """An element whose `value` has no dimension of frames, as it is."""
    return replace(element, fixed=True, n_rows=1, steps=None, times=None, clock=())


def _timed(opened: H5mdFile, node: Any, value: Any) -> Element | None:
    n_rows = int(value.shape[0])
    lengths = {"value": n_rows}
    steps, step_key = _axis(opened, node, "step", n_rows, lengths)
    times, _ = _axis(opened, node, "time", n_rows, lengths)
    n_rows = min(lengths.values())
    if n_rows == 0:
        if value.is_virtual:
            # source files may be missing
            check_sources(opened, value)
        # GROMACS creates groups for all that it might write, before it writes anything
        return None
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        opened.remark(f"{node.name} has arrays of different length ({listed}): the first {n_rows} rows are used")
    whole_steps = None if steps is None else _whole(opened, f"{node.name}/step", steps[:n_rows])
    if whole_steps is not None:
        _check_order(opened, f"{node.name}/step", whole_steps)
    unit = text_attribute(value, "unit") or text_attribute(node, "unit")
    time = node.get("time")
    time_unit = None if time is None else text_attribute(time, "unit")
    real_times = None if times is None else np.asarray(times[:n_rows], np.float64)
    return Element(node.name, value, False, n_rows, whole_steps, real_times, unit, time_unit, step_key)


def _axis(
    opened: H5mdFile, node: Any, name: Literal["step", "time"], n_rows: int, lengths: dict[str, int]
) -> tuple[NDArray[Any] | None, tuple[Any, ...]]:
    """Step or time of every row, and a key shared by elements with the same axis."""
    if is_link_broken(node, name):
        raise opened.corrupt(f"{node.name}/{name} is a link to something that is missing")
    axis = node.get(name)
    if axis is None:
        return None, ()
    if not isinstance(axis, h5py.Dataset) or axis.dtype.kind not in "iuf" or axis.ndim > 1:
        raise opened.corrupt(f"{node.name}/{name} is not a scalar or a list of numbers")
    if axis.shape == ():
        if axis[()] == 0 and n_rows > 1:
            opened.warn(f"{axis.name} is 0 for all rows, which does not separate them: there are no {name}s")
            return None, ()
        return _regular(opened, axis, name, n_rows)
    lengths[name] = int(axis.shape[0])
    return read_series(opened, axis), object_key(axis)


def _regular(opened: H5mdFile, axis: Any, name: str, n_rows: int) -> tuple[NDArray[Any], tuple[Any, ...]]:
    """Fixed storage: row i has step `i * step + offset`."""
    stride, offset = axis[()].item(), numbers(attribute(axis, "offset"))
    start = 0 if offset is None or offset.size != 1 else offset.reshape(-1)[0].item()
    if n_rows > 1 and not stride > 0:
        raise opened.corrupt(f"{axis.name} is the interval between rows, expected more than zero, found {stride}")
    last = start + stride * (max(n_rows, 1) - 1)
    if name == "step" and not (-(2**63) <= start <= last < 2**63 and stride < 2**63):
        raise opened.corrupt(f"{axis.name} makes steps that no 64-bit integer holds")
    count = np.arange(n_rows, dtype=np.int64)
    if name == "step" and float(stride).is_integer() and float(start).is_integer():
        return count * int(stride) + int(start), ("regular", int(stride), int(start))
    return count * float(stride) + float(start), ("regular", float(stride), float(start))


def _whole(opened: H5mdFile, name: str, steps: NDArray[Any]) -> NDArray[np.int64]:
    """Steps as int64; raises CorruptFileError if they are not whole numbers or exceed 64 bits."""
    if steps.dtype.kind == "f":
        wrong = ~(np.isfinite(steps) & (steps == np.floor(steps)) & (np.abs(steps) < 2.0**63))
    elif steps.dtype.kind == "u" and steps.dtype.itemsize == 8:
        wrong = steps > np.uint64(2**63 - 1)
    else:
        return np.asarray(steps, np.int64)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise opened.corrupt(f"{name} has an invalid step at row {row}: {steps[row].item()}")
    return np.asarray(steps, np.int64)


def _check_order(opened: H5mdFile, name: str, steps: NDArray[np.int64]) -> None:
    wrong = np.flatnonzero(steps[1:] < steps[:-1])
    if len(wrong):
        row = int(wrong[0]) + 1
        raise opened.corrupt(
            f"{name} decreases at row {row}: {steps[row]} after {steps[row - 1]}; "
            "to read the values row by row all the same, give their data set as dataset="
        )


def match_rows(opened: H5mdFile, axis: Element, other: Element) -> NDArray[np.int64] | None:
    """The row of `other` for each frame of `axis`, by step; None if frame i is row i.

    Missing rows become `ABSENT`, `FORBIDDEN` or, to hold values, the row before, as the options say; held values begin
    with the first row of `other`: frames before it are `ABSENT`. Raises ArgumentError if steps repeat, or only one of
    the two has steps, so that rows cannot be matched.
    """
    if other.fixed:
        return None
    n = axis.n_rows
    same_clock = bool(axis.clock) and axis.clock == other.clock
    mine: NDArray[Any] | None = axis.steps
    theirs: NDArray[Any] | None = other.steps
    if mine is None or theirs is None:
        mine, theirs = _joining_times(opened, axis, other)
    if not same_clock and mine is not None and theirs is not None:
        same_clock = np.array_equal(mine[: len(theirs)], theirs[: len(mine)])
    if same_clock or mine is None or theirs is None:
        if other.n_rows >= n:
            return None
        before = np.minimum(np.arange(n), other.n_rows - 1)
        return _with_policy(opened, before, np.arange(n) < other.n_rows)
    for element, keys in ((axis, mine), (other, theirs)):
        if (keys[1:] <= keys[:-1]).any():
            raise ArgumentError(
                f"{element.name} has two rows of the same step, so that {axis.name} and {other.name} cannot be joined",
                at=opened.path,
                format=opened.format,
            )
    before = np.searchsorted(theirs, mine, side="right") - 1
    return _with_policy(opened, before, (before >= 0) & (theirs[np.maximum(before, 0)] == mine))


def _joining_times(
    opened: H5mdFile, axis: Element, other: Element
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Times in place of steps, if a file has none; both None if rows match by their number alone."""
    if axis.times is not None and other.times is not None and axis.time_unit == other.time_unit:
        return axis.times, other.times
    if axis.n_rows == other.n_rows and (axis.steps is None or other.steps is None):
        if (axis.steps is None) != (other.steps is None):
            lacking = other if other.steps is None else axis
            names = f"{axis.name.strip('/')} and {other.name.strip('/')}"
            opened.warn(f"{lacking.name} has no step: {names}, of {axis.n_rows} rows each, are joined row by row")
        return None, None
    raise ArgumentError(
        f"{axis.name} and {other.name} cannot be joined: step is missing", at=opened.path, format=opened.format
    )


def _with_policy(opened: H5mdFile, before: NDArray[Any], is_there: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Existing rows; for missing ones the value that the option `absent` selects.

    `before` is -1, which is `ABSENT`, before the first row.
    """
    rows = before.astype(np.int64)
    if opened.options.absent == "hold":
        return rows
    return np.where(is_there, rows, ABSENT if opened.options.absent == "nan" else FORBIDDEN)

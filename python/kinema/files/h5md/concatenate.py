"""Concatenation of H5MD files: selects the rows of each, and plans a file that refers to them.

No frames are copied: a data set with a column per atom becomes a virtual data set. Steps, times, boxes and observables
are written into the new file if they are small.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.files.h5md.dataset_values import item_bytes
from kinema.files.h5md.elements import Contents, TimedElement, steps_of
from kinema.files.h5md.tasks import CreateDataset, Task, Tasks, WriteDataset
from kinema.files.h5md.window import FrameWindow
from kinema.formats.h5md.file import H5mdFile
from kinema.formats.h5md.schema import PER_PARTICLE
from kinema.storage.hdf5.file import object_key
from kinema.storage.hdf5.storage import Storage, VirtualBox
from kinema.storage.hdf5.text import text_attribute
from kinema.storage.hdf5.virtual import values_of

__all__ = ["JoinedPart", "join_tasks"]

# largest series, in bytes, that is copied
_SMALL = 64 << 20


@dataclass(frozen=True)
class JoinedPart:
    """One file, with the frames of it that are used."""

    opened: H5mdFile
    contents: Contents
    window: FrameWindow
    is_first: bool
    is_last: bool

    def rows_of(self, element: TimedElement, until: float | None) -> tuple[int, int]:
        """Rows [start, stop) of an element that are used: those from the first frame on, or from the start in the first
        part, and before the step `until`, where the next part begins."""
        n_rows = int(element.value.shape[0])
        steps = _clock(self.opened, element)
        if self.has_a_row_per_frame(element) or (steps is None and n_rows == self.window.axis.value.shape[0]):
            start, stop = self.window.first, n_rows if self.is_last else self.window.stop
            return start, max(start, min(stop, n_rows))
        if steps is None or self.first_step is None:
            return 0, n_rows
        start = 0 if self.is_first else int(np.searchsorted(steps, self.first_step, side="left"))
        stop = n_rows if until is None else int(np.searchsorted(steps[:n_rows], until, side="left"))
        return start, max(start, stop)

    def has_a_row_per_frame(self, element: TimedElement) -> bool:
        """Whether row i of the element is frame i: both share their steps, or have equal ones."""
        if self.window.is_by_row(element):
            return True
        mine, theirs = _clock(self.opened, self.window.axis), _clock(self.opened, element)
        return mine is not None and theirs is not None and np.array_equal(mine, theirs)

    @property
    def first_step(self) -> float | None:
        """Step of its first used frame; time if there are no steps."""
        steps = _clock(self.opened, self.window.axis)
        return None if steps is None else float(steps[self.window.first])


def _clock(opened: H5mdFile, element: TimedElement) -> NDArray[Any] | None:
    steps = steps_of(opened, element)
    return steps_of(opened, element, "time") if steps is None else steps


def join_tasks(parts: Sequence[JoinedPart], folder: str, *, renumber: bool = False) -> Tasks:
    """Tasks for the data sets of the first part in the concatenated file, which will be in `folder`.

    `renumber`: steps and times of each part continue from those of the previous one.

    Raises ArgumentError if parts differ in elements, atoms, types or units, if steps decrease without `renumber`, and
    with it if an element is not sampled with the frames.
    """
    tasks = Tasks()
    first = parts[0]
    for element in first.contents.elements:
        others = [_same_element(first, part, element) for part in parts]
        if renumber:
            _check_by_row(parts, others)
        rows = [
            part.rows_of(other, None if i + 1 == len(parts) else parts[i + 1].first_step)
            for i, (part, other) in enumerate(zip(parts, others, strict=True))
        ]
        tasks.by_key[object_key(element.value)] = _concatenated_value(others, rows, folder)
        for what in ("step", "time"):
            axis = getattr(element, what)
            if axis is not None and object_key(axis) not in tasks.by_key:
                tasks.by_key[object_key(axis)] = _concatenated_axis(parts, others, rows, what, renumber)
    for part in parts[1:]:
        _check_nothing_lost(first, part)
        _check_constant(first, part)
    return tasks


def _same_element(first: JoinedPart, part: JoinedPart, element: TimedElement) -> TimedElement:
    """The element of another part that continues one of the first part."""
    path = part.opened.path
    other = next((one for one in part.contents.elements if one.path == element.path), None)
    if other is None:
        raise _misfit(path, f"has no {element.path.strip('/')}, which {first.opened.path} has")
    for what, mine, theirs in (
        ("shape of a row", element.value.shape[1:], other.value.shape[1:]),
        ("type", element.value.dtype, other.value.dtype),
        ("unit", *(text_attribute(one.value, "unit") for one in (element, other))),
        ("unit of time", *(None if one.time is None else text_attribute(one.time, "unit") for one in (element, other))),
        ("steps", element.step is not None, other.step is not None),
        ("times", element.time is not None, other.time is not None),
    ):
        if mine != theirs:
            raise _misfit(
                path,
                f"{element.path.strip('/')} has another {what} than in {first.opened.path}, expected {mine}, "
                f"found {theirs}",
            )
    return other


def _concatenated_value(elements: Sequence[TimedElement], rows: Sequence[tuple[int, int]], folder: str) -> Task:
    value = elements[0].value
    n_rows = sum(stop - start for start, stop in rows)
    if elements[0].n_columns is None and (n_rows * item_bytes(value) <= _SMALL or value.dtype.hasobject):
        return WriteDataset(value, np.concatenate([one.value[a:b] for one, (a, b) in zip(elements, rows, strict=True)]))
    boxes, at = [], 0
    for element, (start, stop) in zip(elements, rows, strict=True):
        if stop > start:
            one, size = element.value, (stop - start,)
            name = os.path.relpath(os.path.realpath(one.file.filename), os.path.realpath(folder))
            boxes.append(VirtualBox(name, one.name, one.shape, (at,), (start,), size))
            at += stop - start
    storage = Storage((n_rows, *value.shape[1:]), value.dtype, virtual=tuple(boxes), grows=True)
    defined = value.id.get_create_plist().fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED
    return CreateDataset(value, storage, value.fillvalue if defined else None)


def _check_by_row(parts: Sequence[JoinedPart], elements: Sequence[TimedElement]) -> None:
    for part, element in zip(parts, elements, strict=True):
        if not part.has_a_row_per_frame(element):
            raise ArgumentError(
                f"{part.opened.path}: {element.path.strip('/')} has steps of its own, and only steps of frames can be "
                "renumbered",
                path=part.opened.path,
                format="H5MD",
            )


def _concatenated_axis(
    parts: Sequence[JoinedPart],
    elements: Sequence[TimedElement],
    rows: Sequence[tuple[int, int]],
    what: str,
    renumber: bool,
) -> Task:
    """Steps or times of all rows; fixed storage is kept if the first part's stride reproduces all of them."""
    axis = getattr(elements[0], what)
    kept = []
    for part, element, (start, stop) in zip(parts, elements, rows, strict=True):
        values = steps_of(part.opened, element, what)
        assert values is not None
        kept.append(values[start:stop])
    if renumber:
        kept = _renumbered(kept)
    whole = np.concatenate(kept)
    falls = np.flatnonzero(whole[1:] < whole[:-1])
    if len(falls):
        row = int(falls[0])
        raise ArgumentError(
            f"{elements[0].path.strip('/')}: joined, {what} {whole[row]} is followed by {whole[row + 1]}, and H5MD's "
            "may not fall; choose the overlap 'last' or 'first', give the parts in the order of time, or renumber them",
            path=parts[0].opened.path,
            format="H5MD",
        )
    if axis.shape == ():
        all_rows = np.arange(len(whole), dtype=np.int64)
        start = kept[0][0].item() if len(kept[0]) else 0
        if np.array_equal(all_rows * axis[()].item() + start, whole):
            return WriteDataset(axis, axis[()])
        return WriteDataset(axis, whole.astype(axis.dtype, copy=False), {"offset": None})
    return WriteDataset(axis, whole.astype(axis.dtype, copy=False))


def _renumbered(parts: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Steps or times of parts, moved so that each part begins an interval after the last row of the previous one. The
    interval is that of the part's first two rows, or of the previous part's, or 1."""
    moved: list[NDArray[Any]] = []
    interval, end = 1, None
    for values in parts:
        if len(values) > 1:
            interval = values[1] - values[0]
        if end is not None and len(values):
            values = values + (end + interval - values[0])
        if len(values):
            end = values[-1]
        moved.append(values)
    return moved


def _check_nothing_lost(first: JoinedPart, part: JoinedPart) -> None:
    known = {element.path for element in first.contents.elements}
    for element in part.contents.elements:
        if element.path not in known and element.value.shape[0]:
            raise _misfit(part.opened.path, f"has {element.path.strip('/')}, which {first.opened.path} has not")


def _check_constant(first: JoinedPart, part: JoinedPart) -> None:
    for group in first.contents.groups:
        for name in PER_PARTICLE:
            mine, theirs = (one.opened.file[group.path].get(name) for one in (first, part))
            if not isinstance(mine, h5py.Dataset) and not isinstance(theirs, h5py.Dataset):
                continue
            alike = isinstance(mine, h5py.Dataset) and isinstance(theirs, h5py.Dataset)
            if (
                not alike
                or mine.shape != theirs.shape
                or not np.array_equal(values_of(first.opened, mine), values_of(part.opened, theirs))
            ):
                raise _misfit(
                    part.opened.path, f"{group.path.strip('/')}/{name} differs from that of {first.opened.path}"
                )


def _misfit(path: str, what: str) -> ArgumentError:
    return ArgumentError(f"{path}: {what}: the parts are not of one trajectory", path=path, format="H5MD")

"""Tasks to rewrite an H5MD file: data sets are moved to other storage, written, created or dropped; others are copied.

Planning reads only steps and small data sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.files.h5md.elements import Contents, TimedElement, steps_of
from kinema.files.h5md.transfer import TILES_IN_MEMORY
from kinema.files.h5md.window import FrameWindow
from kinema.formats.h5md.file import H5mdFile
from kinema.formats.h5md.read.elements import Element
from kinema.formats.h5md.read.fields import locate
from kinema.storage.hdf5.chunks import numeric_type
from kinema.storage.hdf5.file import numbers, object_key, objects_below
from kinema.storage.hdf5.rounding import NOT_COMPRESSED, Rounding
from kinema.storage.hdf5.storage import KEEP, Layout, Storage, has_tiny_chunks, rechunked_series
from kinema.storage.hdf5.text import attribute
from kinema.storage.hdf5.virtual import check_values_claim, check_virtual_claim


@dataclass(frozen=True)
class MoveDataset:
    """Rows and columns of a data set, moved into a data set of other storage."""

    dataset: Any
    first_row: int
    columns: NDArray[np.int64] | None
    storage: Storage
    rounding: Rounding | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Attributes to set after the original's attributes are copied; None removes one."""


@dataclass(frozen=True)
class WriteDataset:
    """An array of a given type, written in place of a data set."""

    dataset: Any
    values: NDArray[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CreateDataset:
    """A data set without values of its own: its values lie in other files."""

    dataset: Any
    storage: Storage
    fill: Any = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


Task = MoveDataset | WriteDataset | CreateDataset | None
"""None: the object is dropped."""


@dataclass(frozen=True)
class Changes:
    """Requested changes of the new file."""

    layout: Layout
    groups: frozenset[str] | None = None
    """Paths of the particles groups to be changed; None: all."""
    columns: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    """Atoms to keep, by path of the particles group."""
    roundings: Mapping[str, tuple[Any, Mapping[str, Any]]] = field(default_factory=dict)
    """By path of the particles group: the rounding of positions, and the attributes that record it."""
    window: FrameWindow | None = None
    """Frames to keep; None: all."""
    memory: int = 1 << 29


@dataclass
class Tasks:
    """Tasks by object key of the data set."""

    by_key: dict[Any, Task] = field(default_factory=dict)
    followed: set[Any] = field(default_factory=set)
    """Keys of groups and data sets of other files that become part of the new one."""
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Notes something unexpected."""
        if text and text not in self.notes:
            self.notes.append(text)


def plan(opened: H5mdFile, contents: Contents, changes: Changes) -> Tasks:
    """The tasks for elements, their steps and times, and for other data sets that need better storage."""
    tasks = Tasks()
    for element in contents.elements:
        _plan_element(opened, element, changes, tasks)
        _follow(opened, element, tasks)
    _plan_others(opened, contents, tasks)
    return tasks


def _plan_element(opened: H5mdFile, element: TimedElement, changes: Changes, tasks: Tasks) -> None:
    window = changes.window
    n_rows = _written_rows(opened, element.value, tasks)
    start, stop = 0, n_rows
    if window is not None:
        start, stop = window.rows_of(opened, element)
        _plan_axes(opened, element, (start, stop), tasks)
    start, stop = min(start, n_rows), min(stop, n_rows)
    chosen = changes.groups is None or element.particles in changes.groups
    columns = changes.columns.get(element.particles or "") if element.n_columns is not None else None
    value = element.value
    shape = (stop - start, *value.shape[1:]) if columns is None else (stop - start, len(columns), *value.shape[2:])
    if element.n_columns is not None and chosen and value.dtype.kind in "iufb":
        if not value.is_virtual:
            check_values_claim(opened, value, value.nbytes // max(1, value.shape[0]))
        storage, note = changes.layout.existing_field(value, shape, changes.memory // TILES_IN_MEMORY)
        rounding, attributes = changes.roundings.get(element.particles or "", (None, {}))
        if not element.is_position:
            rounding, attributes = None, {}
        tasks.note(note)
        if rounding is not None and not storage.filters:
            tasks.note(NOT_COMPRESSED)
        tasks.by_key[object_key(value)] = MoveDataset(value, start, columns, storage, rounding, attributes)
    elif (has_tiny_chunks(value) and element.n_columns is None) or (start, stop) != (0, value.shape[0]):
        tasks.by_key[object_key(value)] = _moved_series(value, start, shape)


def _follow(opened: H5mdFile, element: TimedElement, tasks: Tasks) -> None:
    """Makes a changed element, and the groups that lead to it, part of the new file even if they were in another."""
    nodes = [element.value, element.step, element.time]
    changed = [object_key(node) for node in nodes if node is not None and object_key(node) in tasks.by_key]
    if not changed:
        return
    tasks.followed.update(changed)
    path = element.path
    while path.strip("/"):
        tasks.followed.add(object_key(opened.file[path]))
        path = path.rsplit("/", 1)[0]


def _written_rows(opened: H5mdFile, value: Any, tasks: Tasks) -> int:
    """Number of rows, from the first on, that were ever written and whose bytes are in the file."""
    n_rows = int(value.shape[0])
    if numeric_type(value) is None or n_rows == 0:
        return n_rows
    written = locate(opened, Element(value.name, value, False, n_rows, None, None, None, None, ())).element.n_rows
    if written < n_rows:
        tasks.note(
            f"{value.name.strip('/')} has {n_rows} rows, of which {written} were written: the others are left out"
        )
    return written


def _moved_series(dataset: Any, start: int, shape: tuple[int, ...]) -> Task:
    if dataset.dtype.kind not in "iufb":
        return WriteDataset(dataset, dataset[start : start + shape[0]])
    storage = rechunked_series(dataset, shape)
    if len(shape) > 1 and not has_tiny_chunks(dataset) and not dataset.is_virtual:
        storage, _ = Layout(KEEP).existing_field(dataset, shape, 1 << 30)
    return MoveDataset(dataset, start, None, storage)


def _plan_axes(opened: H5mdFile, element: TimedElement, rows: tuple[int, int], tasks: Tasks) -> None:
    """Tasks for the step and time of the kept rows."""
    start, stop = rows
    for what in ("step", "time"):
        axis = getattr(element, what)
        if axis is None or object_key(axis) in tasks.by_key:
            continue
        if axis.shape != ():
            stop_here = min(stop, axis.shape[0])
            if (start, stop_here) != (0, axis.shape[0]):
                tasks.by_key[object_key(axis)] = _moved_series(axis, start, (max(0, stop_here - start),))
            continue
        if start == 0:
            continue
        values = steps_of(opened, element, what)
        assert values is not None
        tasks.by_key[object_key(axis)] = _scalar_axis(axis, start, values)


def _scalar_axis(axis: Any, start: int, values: NDArray[Any]) -> WriteDataset:
    """Fixed storage that begins later; explicit storage if no offset reproduces the numbers bit for bit."""
    kept = values[start:]
    old = numbers(attribute(axis, "offset"))
    offset = kept[0] if len(kept) else np.asarray(0 if old is None else old).reshape(-1)[0]
    again = np.arange(len(kept), dtype=np.int64) * axis[()].item() + offset.item()
    if np.array_equal(again, kept):
        return WriteDataset(
            axis, axis[()], {"offset": np.asarray(offset, axis.dtype if kept.dtype.kind == "f" else kept.dtype)}
        )
    return WriteDataset(axis, kept, {"offset": None})


def _plan_others(opened: H5mdFile, contents: Contents, tasks: Tasks) -> None:
    """Tasks for virtual data sets, and for data sets in tiny chunks."""
    columns = {object_key(element.value) for element in contents.elements if element.n_columns is not None}

    for _, node in objects_below(contents.root.file):
        if not isinstance(node, h5py.Dataset) or object_key(node) in tasks.by_key or node.shape is None:
            continue
        if node.is_virtual:
            check_virtual_claim(opened, node)
            tasks.by_key[object_key(node)] = WriteDataset(node, node[()])
        elif has_tiny_chunks(node) and node.ndim and object_key(node) not in columns:
            tasks.by_key[object_key(node)] = MoveDataset(node, 0, None, rechunked_series(node, node.shape))

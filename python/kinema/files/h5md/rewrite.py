"""Rewriting of an H5MD file: copies the structure, carries out tasks for data sets, reads all back and compares.

The tasks come from `kinema.files.h5md.tasks`. The file appears complete or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from kinema.base.errors import CorruptFileError
from kinema.base.progress import Report
from kinema.files.h5md.dataset_values import Values
from kinema.files.h5md.tasks import CreateDataset, MoveDataset, Tasks, WriteDataset
from kinema.files.h5md.transfer import MovedDataset, move, read_back
from kinema.formats.h5md.file import H5mdFile
from kinema.runners.workers import CallWorkers
from kinema.storage.hdf5.copying import DROPPED, copy_structure
from kinema.storage.hdf5.file import object_key, open_checked, reading
from kinema.storage.hdf5.filters import filters_of
from kinema.storage.hdf5.object_copies import copy_attributes, is_of_fixed_size, parts_of
from kinema.storage.hdf5.output import NewFile, hdf5_errors
from kinema.storage.hdf5.storage import create_dataset, write_dataset
from kinema.storage.output_checks import check_not_input

# copied objects may use all that their file's version of HDF5 allows; new objects are of version 1.8
_LIBVER = ("v108", "latest")

Finish = Callable[[Any], None]


@dataclass(frozen=True)
class Written:
    """Result of writing: size in bytes, whether the file was read back, largest change of a position by rounding."""

    size: int
    verified: bool
    largest_change: float
    notes: tuple[str, ...]


def total_bytes(tasks: Tasks, *, verify: bool) -> int:
    """Bytes to be moved and read back."""
    moves = [task for task in tasks.by_key.values() if isinstance(task, MoveDataset)]
    return sum(task.storage.shape[0] * task.storage.row_bytes for task in moves) * (2 if verify else 1)


def write(
    opened: H5mdFile,
    tasks: Tasks,
    path: str,
    *,
    overwrite: bool,
    verify: bool,
    on: CallWorkers,
    memory: int,
    advance: Callable[[int], None],
    align: int | None = None,
    finish: Finish | None = None,
) -> Written:
    """Makes the file at `path`. `finish` is called with the open file (`h5py.File`) before it is closed."""
    check_not_input(path, opened.path)
    new = NewFile(path, overwrite=overwrite, align=align, libver=_LIBVER)

    def checked(n: int) -> None:
        new.check()
        advance(n)

    try:
        job = _Rewriter(opened, tasks, on, memory, checked)
        with hdf5_errors(path):
            folder = os.path.dirname(os.path.realpath(path))
            copy_structure(opened.file, new.h5, job.make, tasks.followed, folder=folder)
            if finish is not None:
                finish(new.h5)
        new.close()
        if verify:
            job.compare(new.temporary, path)
        new.finish()
    except BaseException:
        new.discard()
        raise
    notes = (*tasks.notes, *job.notes)
    return Written(os.path.getsize(path), verify, job.largest_change, notes)


class _Rewriter:
    """Carries out the tasks of one file, and records what is to be compared."""

    def __init__(
        self, opened: H5mdFile, tasks: Tasks, on: CallWorkers, memory: int, advance: Callable[[int], None]
    ) -> None:
        self.opened, self.tasks, self.on, self.memory, self.advance = opened, tasks, on, memory, advance
        self.moved: list[tuple[MovedDataset, MoveDataset]] = []
        self.written: list[tuple[str, WriteDataset]] = []
        self.copied: list[tuple[str, str]] = []
        self.notes: list[str] = []

    @property
    def largest_change(self) -> float:
        return max((moved.largest_change for moved, _ in self.moved), default=0.0)

    def make(self, node: Any, parent: Any, name: str) -> Any:
        """The data set that the task of `node` makes; None if there is no task."""
        key = object_key(node)
        if key not in self.tasks.by_key:
            if isinstance(node, h5py.Dataset):
                self.copied.append((node.name, f"{parent.name.rstrip('/')}/{name}"))
            return None
        task = self.tasks.by_key[key]
        if task is None:
            return DROPPED
        if isinstance(task, WriteDataset):
            made = write_dataset(parent, name, task.values, like=task.dataset)
            self.written.append((made.name, task))
        elif isinstance(task, CreateDataset):
            made = create_dataset(parent, name, task.storage, fill=task.fill)
        else:
            made = create_dataset(parent, name, task.storage, like=task.dataset)
        copy_attributes(task.dataset.id, made.id)
        if isinstance(task, MoveDataset):
            self._move(task, made)
        for attribute, value in task.attributes.items():
            if value is None:
                made.attrs.pop(attribute, None)
            else:
                made.attrs.create(attribute, value)
        return made

    def _move(self, task: MoveDataset, made: Any) -> None:
        values = self._values(task.dataset, task.dataset.file.filename)
        moved = move(
            values,
            task.first_row,
            task.columns,
            made,
            task.storage,
            rounding=task.rounding,
            memory=self.memory,
            on=self.on,
            advance=self.advance,
        )
        self.moved.append((moved, task))
        self.notes += [text for text in values.warnings if text not in self.notes]

    def _values(self, dataset: Any, path: str) -> Values:
        return Values(dataset, path, workers=self.on.threads, memory=self.memory // 4)

    def compare(self, temporary: str, path: str) -> None:
        """Reads everything back from the finished file, which still has its temporary name."""
        with reading(path), closing(open_checked(temporary)) as file:
            for moved, _ in self.moved:
                values = self._values(file[moved.path], temporary)
                read_back(values, moved, path, on=self.on, memory=self.memory, advance=self.advance)
            for name, task in self.written:
                if not _same(file[name][()], task.values):
                    raise _differs(path, name)
            for name, copy in self.copied:
                _compare_copies(self.opened.file[name], file[copy], path)


def _compare_copies(source: Any, copy: Any, path: str) -> None:
    kind = source.id.get_type()
    if source.shape != copy.shape or not kind.equal(copy.id.get_type()):
        raise _differs(path, copy.name)
    if source.shape is None or not is_of_fixed_size(kind):
        return  # empty, or text and references, whose bytes depend on the file
    if source.chunks is not None and not source.is_virtual and _same_chunks(source, copy):
        return
    if source.id.get_storage_size() == copy.id.get_storage_size() == 0 and not source.is_virtual:
        return  # never written; the fill value was copied with the object
    for mine, theirs in zip(parts_of(source.id), parts_of(copy.id), strict=True):
        if mine.tobytes() != theirs.tobytes():
            raise _differs(path, copy.name)


def _same_chunks(source: Any, copy: Any) -> bool:
    """Whether the stored chunks of both are the same bytes at the same places, as after a copy of chunks."""
    if source.chunks != copy.chunks or filters_of(source) != filters_of(copy):
        return False
    places: list[tuple[int, ...]] = []
    source.id.chunk_iter(lambda chunk: places.append(chunk.chunk_offset))
    if copy.id.get_num_chunks() != len(places):
        return False
    for place in places:
        if copy.id.get_chunk_info_by_coord(place).byte_offset is None:
            return False
        if source.id.read_direct_chunk(place) != copy.id.read_direct_chunk(place):
            return False
    return True


def _same(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.hasobject or b.dtype.hasobject:
        return bool(np.array_equal(a, b))
    return bool(a.shape == b.shape and a.astype(b.dtype, copy=False).tobytes() == b.tobytes())


def _differs(path: str, name: str) -> CorruptFileError:
    return CorruptFileError(
        f"{name} does not hold what was written; the disk or the memory of this machine may be faulty",
        at=path,
        format="H5MD",
    )


def counting(report: Report | None, total: int) -> Callable[[int], None]:
    """A function that adds up the bytes done and reports the sum."""
    done = 0

    def advance(n: int) -> None:
        nonlocal done
        done += n
        if report is not None:
            report(min(done, total), total)

    return advance

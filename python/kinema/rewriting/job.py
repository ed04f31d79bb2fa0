"""Writes an H5MD file from another one: structure copied, tasks carried out, everything read back and compared.

It decides nothing; `kinema.rewriting.tasks` does. The file appears whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from kinema.errors import ArgumentError, CorruptFileError
from kinema.h5md.creation_files import NewFile, hdf5_errors
from kinema.h5md.opening import OpenFile, object_key, open_hdf5, reading
from kinema.progress import Report
from kinema.rewriting.copying import DROPPED, copy_attributes, copy_structure
from kinema.rewriting.storage import create
from kinema.rewriting.tasks import Make, Move, Put, Tasks
from kinema.rewriting.transfer import Moved, move, read_back
from kinema.rewriting.values import Values

__all__ = ["Written", "check_output", "total_bytes", "write"]

# copied objects keep what their file's version of HDF5 allows; all that is made new is of version 1.8
_LIBVER = ("v108", "latest")
_COMPARED = 16 << 20

Finish = Callable[[Any], None]


@dataclass(frozen=True)
class Written:
    """What was written: its size in bytes, whether it was read back, the largest change of a position by rounding."""

    size: int
    verified: bool
    largest_change: float
    notes: tuple[str, ...]


def check_output(source: str, target: str, *, overwrite: bool) -> None:
    """Raises ArgumentError where both are the same file, or where the target exists and is not to be replaced."""
    if os.path.exists(target) and os.path.exists(source) and os.path.samefile(source, target):
        raise ArgumentError(
            f"{target}: is the file that is read; write to another, and rename it afterwards", path=target
        )
    if os.path.isfile(target) and not overwrite:
        raise ArgumentError(f"{target}: exists already; overwrite=True or --force replaces it", path=target)


def total_bytes(tasks: Tasks, *, verify: bool) -> int:
    """Bytes that are moved, and read back."""
    moves = [task for task in tasks.by_key.values() if isinstance(task, Move)]
    return sum(task.storage.shape[0] * task.storage.row_bytes for task in moves) * (2 if verify else 1)


def write(
    opened: OpenFile,
    tasks: Tasks,
    path: str,
    *,
    overwrite: bool,
    verify: bool,
    workers: int,
    memory: int,
    advance: Callable[[int], None],
    align: int | None = None,
    finish: Finish | None = None,
) -> Written:
    """Makes the file at `path`. `finish` is called with it (an `h5py.File`) before it is closed."""
    check_output(opened.path, path, overwrite=overwrite)
    new = NewFile(path, overwrite=overwrite, align=align, libver=_LIBVER)
    try:
        job = _Job(opened, tasks, workers, memory, advance)
        with hdf5_errors(path):
            copy_structure(opened.file, new.h5, job.make, tasks.followed)
            if finish is not None:
                finish(new.h5)
            new.h5.close()
        if verify:
            job.compare(new.temporary, path)
        new.finish()
    except BaseException:
        new.discard()
        raise
    notes = (*tasks.notes, *job.notes)
    return Written(os.path.getsize(path), verify, job.largest_change, notes)


class _Job:
    def __init__(
        self, opened: OpenFile, tasks: Tasks, workers: int, memory: int, advance: Callable[[int], None]
    ) -> None:
        self.opened, self.tasks, self.workers, self.memory, self.advance = opened, tasks, workers, memory, advance
        self.moved: list[tuple[Moved, Move]] = []
        self.put: list[tuple[str, Put]] = []
        self.copied: list[tuple[str, str]] = []
        self.notes: list[str] = []

    @property
    def largest_change(self) -> float:
        return max((moved.largest_change for moved, _ in self.moved), default=0.0)

    def make(self, node: Any, parent: Any, name: str) -> Any:
        """Makes what a task says; None where there is none."""
        key = object_key(node)
        if key not in self.tasks.by_key:
            if isinstance(node, h5py.Dataset):
                self.copied.append((node.name, f"{parent.name.rstrip('/')}/{name}"))
            return None
        task = self.tasks.by_key[key]
        if task is None:
            return DROPPED
        if isinstance(task, Move):
            made = self._move(task, parent, name)
        else:
            made = task.make(parent, name) if isinstance(task, Make) else _put(task, parent, name)
        for attribute, value in task.attributes.items():
            if value is None:
                made.attrs.pop(attribute, None)
            else:
                made.attrs.create(attribute, value)
        if isinstance(task, Put):
            self.put.append((made.name, task))
        return made

    def _move(self, task: Move, parent: Any, name: str) -> Any:
        made = create(parent, name, task.storage, task.dataset)
        copy_attributes(task.dataset, made)
        values = self._values(task.dataset, task.dataset.file.filename)
        moved = move(
            values,
            task.first_row,
            task.columns,
            made,
            task.storage,
            memory=self.memory,
            workers=self.workers,
            advance=self.advance,
        )
        self.moved.append((moved, task))
        self.notes += [text for text in values.warnings if text not in self.notes]
        return made

    def _values(self, dataset: Any, path: str) -> Values:
        return Values(dataset, path, workers=self.workers, memory=self.memory // 4)

    def compare(self, temporary: str, path: str) -> None:
        """Reads everything back from the finished file, under its temporary name."""
        with reading(path), open_hdf5(temporary) as file:
            for moved, _ in self.moved:
                read_back(self._values(file[moved.path], temporary), moved, path, advance=self.advance)
            for name, task in self.put:
                if not _same(file[name][()], task.values):
                    raise _differs(path, name)
            for name, copy in self.copied:
                _compare_copies(self.opened.file[name], file[copy], path)


def _put(task: Put, parent: Any, name: str) -> Any:
    kind = task.dataset.id.get_type()
    values = np.asarray(task.values, task.dataset.dtype)
    space = h5py.h5s.create_simple(values.shape) if values.shape else h5py.h5s.create(h5py.h5s.SCALAR)
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_attr_creation_order(task.dataset.id.get_create_plist().get_attr_creation_order())
    plist.set_obj_track_times(False)
    type_ = kind.copy() if kind.committed() else kind
    made = h5py.Dataset(h5py.h5d.create(parent.id, name.encode(), type_, space, plist))
    if values.size:
        made[...] = values
    copy_attributes(task.dataset, made)
    return made


def _compare_copies(source: Any, copy: Any, path: str) -> None:
    if source.shape != copy.shape or source.dtype != copy.dtype:
        raise _differs(path, copy.name)
    if source.shape is None or h5py.check_ref_dtype(source.dtype) is not None or source.dtype.hasobject:
        return  # nothing, or text and references, whose bytes lie elsewhere in each file
    if not source.shape:
        equal = _same(source[()], copy[()])
        if not equal:
            raise _differs(path, copy.name)
        return
    rows = max(1, _COMPARED // max(1, source.nbytes // max(1, source.shape[0])))
    for start in range(0, source.shape[0], rows):
        if not _same(source[start : start + rows], copy[start : start + rows]):
            raise _differs(path, copy.name)


def _same(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.hasobject or b.dtype.hasobject:
        return bool(np.array_equal(a, b))
    return bool(a.shape == b.shape and a.astype(b.dtype, copy=False).tobytes() == b.tobytes())


def _differs(path: str, name: str) -> CorruptFileError:
    return CorruptFileError(
        f"{path}: {name} does not hold what was written; the disk or the memory of this machine may be faulty",
        path=path,
        format="H5MD",
    )


def counting(report: Report | None, total: int) -> Callable[[int], None]:
    """Adds up what is done, and tells."""
    done = 0

    def advance(n: int) -> None:
        nonlocal done
        done += n
        if report is not None:
            report(min(done, total), total)

    return advance

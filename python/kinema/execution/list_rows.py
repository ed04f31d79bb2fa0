"""`ListRows`: any number of rows per frame in a file of results, such as contacts.

During the run, rows lie in a file beside the results, in the order in which leaves arrive. One table in the file of
results gives the place of the rows for each run of leaves, another the number of rows of each frame; both tables have
fixed places from the start. Rows of a killed process that no entry names are ignored. At the end the rows are put into
data sets in the order of the frames, and the extra file is removed. A finished quantity:

    /<quantity>/first_row   (frames + 1,) int64; frame i has the rows first_row[i]:first_row[i + 1] of the columns
    /<quantity>/<column>    (rows, ...); attribute unit
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, CorruptFileError, from_os, os_errors
from kinema.storage.output_file import OutputFile, remove_written_with

if TYPE_CHECKING:
    from kinema.execution.results_file import ResultDataset, ResultFile

# bytes of rows that are held at a time while they are put in order
_PART_BYTES = 8 << 20
FILE_OF_ROWS = "rows"
"""Attribute of a quantity during the run: the file of rows, and the types of columns."""
NewRows = tuple[tuple[int, ...], np.dtype[Any], dict[str, Any]]
"""Shape, type and attributes of a data set to be made."""
# data sets of the quantity during the run
_TABLE, _COUNTS = "rows_of_leaves", "rows_of_frames"


class ListRows:
    """The rows of one analysis.

    `file`: open for writing.
    `dataset`: with `lists`.
    `n_frames`, `leaf_frames`: number of frames of the run, and of a leaf.
    """

    def __init__(self, file: ResultFile, dataset: ResultDataset, n_frames: int, leaf_frames: int) -> None:
        self._file = file
        self._dataset = dataset
        self._n_frames = n_frames
        self._leaf_frames = leaf_frames
        self._record: np.dtype[Any] | None = None
        self._output: OutputFile | None = None
        self._name = ""
        self._descriptor = -1
        self._end = 0  # number of rows
        self._is_finished = False

    def resume(self, group: Any) -> None:
        """Continues after the rows of an earlier run; `group` is an h5py group. Raises ArgumentError without them."""
        stored = group.attrs.get(FILE_OF_ROWS)
        self._is_finished = _TABLE not in group
        if stored is None:
            return
        name, kind = json.loads(stored)
        self._name = os.path.join(os.path.dirname(os.path.abspath(self._file.part)), name)
        if self._is_finished:
            return  # the run was killed before it removed the file of rows
        self._record = np.dtype([(column, dtype, tuple(shape)) for column, dtype, shape in kind])
        self._open(os.O_RDWR)
        # the last row may be incomplete
        self._end = -(-os.fstat(self._descriptor).st_size // self._record.itemsize)

    def write(self, first_leaf: int, results: _core.KernelResults) -> None:
        """Writes the rows of the frames from a leaf on. Only one thread at a time."""
        if self._is_finished:
            return  # by a run that was killed before it renamed the file
        first_row = np.asarray(results["first_row"], np.int64)
        columns = {name: np.asarray(results[name]) for name, _ in self._dataset.lists}
        n_frames, first = len(first_row) - 1, first_leaf * self._leaf_frames
        if first + n_frames > self._n_frames or any(len(column) != first_row[-1] for column in columns.values()):
            raise ArgumentError(f"{self._dataset.title} has another number of rows than it says, found {first_row[-1]}")
        record = np.dtype([(name, column.dtype, column.shape[1:]) for name, column in columns.items()])
        if self._record is None:
            self._create(record)
        elif record != self._record:
            raise ArgumentError(
                f"{self._dataset.title} has rows of different kinds, expected {self._record}, found {record}"
            )
        rows = np.empty(int(first_row[-1]), record)
        for name, column in columns.items():
            rows[name] = column
        at, self._end = self._end, self._end + len(rows)
        self._write(at, rows)
        self._file.put(self._path(_COUNTS), first, np.diff(first_row))
        # if this is a run of leaves, entries of its single leaves from an earlier run are no longer valid
        entries = np.zeros((-(-n_frames // self._leaf_frames), 2), np.int64)
        entries[0] = at, len(rows)
        self._file.put(self._path(_TABLE), first_leaf, entries)

    @property
    def is_open(self) -> bool:
        """Whether there is a file of rows."""
        return self._descriptor >= 0

    @property
    def part(self) -> str:
        """Path of the file of rows."""
        return self._name

    @staticmethod
    def frames_of(column: str, leaf_frames: int) -> int | None:
        """Frames per row of a data set of the quantity during the run; None if the data set is made at the end."""
        return {_TABLE: leaf_frames, _COUNTS: 1}.get(column)

    def counted(self, leaves: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """First byte, and the byte after the last one, of the rows of runs of leaves."""
        assert self._record is not None
        table, size = self._file.stored(self._path(_TABLE)), self._record.itemsize
        rows = [table[first:last] for first, last in leaves]
        return sorted((int(at) * size, int(at + n) * size) for at, n in np.concatenate(rows) if n)

    def sync(self) -> None:
        """Syncs all written rows to the disk. Raises OSError."""
        if self._descriptor >= 0:
            os.fsync(self._descriptor)

    def finish(self) -> None:
        """Puts the rows into data sets, in the order of the frames."""
        if self._record is None:
            return
        counts = self._file.stored(self._path(_COUNTS))
        first_row = np.concatenate([[0], np.cumsum(counts)])
        units = dict(self._dataset.lists)
        shapes = {name: (int(first_row[-1]), *self._record[name].shape) for name in units}
        columns = {name: (shape, self._record[name].base, {"unit": units[name]}) for name, shape in shapes.items()}
        row_numbers: dict[str, NewRows] = {"first_row": (first_row.shape, np.dtype("<i8"), {})}
        self._file.make_datasets(self._dataset.name, {**row_numbers, **columns})
        self._file.put(self._path("first_row"), 0, first_row)
        at = 0
        for rows in self._ordered_rows():
            for name in shapes:
                self._file.put(self._path(name), at, rows[name])
            at += len(rows)
        if at != first_row[-1]:
            what = "rows are missing, or are there twice"
            raise CorruptFileError(f"{what}, expected {first_row[-1]}, found {at}", at=self._name)

    def tables(self) -> list[str]:
        """The tables of a finished quantity, which are to be removed."""
        return [] if self._record is None else [self._path(name) for name in (_TABLE, _COUNTS)]

    def remove_written_with(self, other: str) -> None:
        """Removes the file of rows that the writer of `other`, a temporary file of results, has left."""
        remove_written_with(other, self._output_path)

    def columns(self) -> list[str]:
        """Names of the results: "first_row" and the columns."""
        return ["first_row", *(name for name, _ in self._dataset.lists)]

    def close(self, *, keep: bool) -> None:
        """Closes the file of rows; with `keep` it stays for a later run."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._output is not None:
            if keep:
                self._output.keep()
            else:
                self._output.discard()
            self._output.end()
            self._output = None
        if not keep and self._name:
            with suppress(FileNotFoundError):
                os.unlink(self._name)

    # -- inside -------------------------------------------------------------------------------------------------

    @property
    def _output_path(self) -> str:
        base, suffix = os.path.splitext(self._file.path)
        return f"{base}.{self._dataset.name}-rows{suffix}"

    def _path(self, name: str) -> str:
        return f"{self._dataset.name}/{name}"

    def _create(self, record: np.dtype[Any]) -> None:
        """Creates the file of rows and the tables."""
        if record.hasobject:
            raise ArgumentError(f"{self._dataset.title}: rows of type {record} are not written to a file of results")
        self._output = OutputFile(self._output_path, alone=True)
        if self._file.is_protected:
            self._output.protect()
        self._name = self._output.temporary
        self._open(os.O_RDWR)
        kind = [(name, record[name].base.str, record[name].shape) for name in record.names or ()]
        attributes = {"title": self._dataset.title, "provenance": self._dataset.provenance}
        shapes = {_COUNTS: (self._n_frames,), _TABLE: (-(-self._n_frames // self._leaf_frames), 2)}
        tables: dict[str, NewRows] = {name: (shape, np.dtype("<i8"), {}) for name, shape in shapes.items()}
        # the attribute is set last: without it an earlier run has no rows
        last = {FILE_OF_ROWS: json.dumps([os.path.basename(self._name), kind])}
        self._file.make_group(self._dataset.name, attributes, tables, last)
        for name, shape in shapes.items():
            self._file.put(self._path(name), 0, np.zeros(shape, np.int64))
        self._record = record

    def _open(self, flags: int) -> None:
        try:
            self._descriptor = os.open(self._name, flags | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise ArgumentError(
                "not found, but the checkpoint relies on rows in it; bring it back, or remove the "
                "checkpoint to start again",
                at=self._name,
            ) from None
        except OSError as error:
            raise from_os("cannot write results", error, self._name) from None

    def _write(self, first: int, rows: NDArray[Any]) -> None:
        data, at = memoryview(rows.tobytes()), first * rows.itemsize
        with os_errors("cannot write results", self._name):
            while data:
                written = os.pwrite(self._descriptor, data, at)
                data, at = data[written:], at + written

    def _ordered_rows(self) -> Iterator[NDArray[Any]]:
        """All rows in the order of the frames, some MiB at a time."""
        assert self._record is not None
        size = self._record.itemsize
        step = max(1, _PART_BYTES // size)
        for first, count in self._file.stored(self._path(_TABLE)):
            for at in range(first, first + count, step):
                length = min(step, first + count - at) * size
                data = os.pread(self._descriptor, length, at * size)
                if len(data) != length:
                    raise CorruptFileError(
                        f"too short, expected {length} bytes at byte {at * size}, found {len(data)}", at=self._name
                    )
                yield np.frombuffer(data, self._record)

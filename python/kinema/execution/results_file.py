"""`ResultFile`: results per frame in an HDF5 file, written as leaves are done.

h5py makes the structure. Rows are written to places in the file that are fixed from the start, so that a killed process
leaves a valid file. Layout:

    /              attributes: format = "kinema results", version = 1, kinema, complete, run
    /frames        (frames,) int64; numbers in the trajectory
    /time          (frames,) float64; attribute unit = "ps"
    /<quantity>   (frames, ...), one for each analysis; attributes unit, columns, periods, title, provenance (JSON);
                  or, for any number of rows per frame, a group (`kinema.execution.list_rows`). Atoms in columns count
                  from 0

All data sets are contiguous and not compressed. During the run the file has a temporary name
(`kinema.storage.output_file`) and its attribute `complete` is False: missing rows are 0. When all rows are written, the
file is synced, marked as complete and renamed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import (
    ArgumentError,
    CorruptFileError,
    Error,
    FileIOError,
    UnsupportedFormatError,
    os_errors,
)
from kinema.base.frozen_dataclass import dataclass
from kinema.execution.list_rows import FILE_OF_ROWS, ListRows, NewRows
from kinema.execution.result_arrays import ResultArray, ResultTable, check_file, from_h5py, opened
from kinema.model.selection.frames import FrameSelection
from kinema.storage.output_checks import check_no_link, check_not_input, check_remade, is_stream
from kinema.storage.output_file import OutputFile, publish

__all__ = [
    "SUFFIXES",
    "ResultArray",
    "ResultDataset",
    "ResultFile",
    "ResultTable",
    "check_result_path",
]

SUFFIXES = (".h5", ".hdf5")

_FORMAT = "kinema results"
_VERSION = 1
# bytes of frame numbers that are written at a time
_CHUNK_BYTES = 8 << 20
# kinds of numbers that HDF5 stores as NumPy does
_KINDS = "biufc"


@dataclass(frozen=True)
class ResultDataset:
    """A data set: its name, unit, column names (may be empty), title, provenance (JSON), and periods of its columns.

    `lists`: for any number of rows per frame, the names and units of the results; each has one or more numbers per row.
    """

    name: str
    unit: str
    columns: tuple[str, ...]
    title: str
    provenance: str
    lists: tuple[tuple[str, str], ...] = ()
    periods: tuple[float, ...] = ()


def check_result_path(
    path: str | os.PathLike[str], inputs: Sequence[str | os.PathLike[str] | None] = (), *, overwrite: bool = False
) -> None:
    """Checks the path for results per frame before the run.

    Raises what writing to `path` would raise for its suffix or folder, or if it is one of the `inputs`; without
    `overwrite` also if an existing file is not a file of results.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentError(f"out is a file name, found {type(path).__name__}")
    name = os.fspath(path)
    suffix = os.path.splitext(name)[1].lower()
    if suffix not in SUFFIXES:
        raise UnsupportedFormatError(
            f"results per frame are not written as {suffix or 'a file without suffix'} during the run, "
            f"choose one of {', '.join(SUFFIXES)}, or use save() after the run",
            at=name,
        )
    if is_stream(name):
        raise ArgumentError(
            "results per frame are written at their places in a file, not into a stream; use save() after the run",
            at=name,
        )
    check_not_input(name, *inputs)
    check_remade(name, overwrite=overwrite)


class ResultFile:
    """The file of a run; made by `create`, or by `resume` from the file of a killed run.

    `path`: its name when it is complete.
    `leaf_frames`: number of frames of a leaf.
    `run`: identity of the run: only the same run continues a file.

    `part`: its name until it is complete; "" before `create` and `resume`.
    """

    def __init__(
        self, path: str, frames: FrameSelection, datasets: Sequence[ResultDataset], leaf_frames: int, run: str
    ) -> None:
        self.path = path
        self.part = ""
        self._output: OutputFile | None = None
        self._frames = frames
        self._datasets = list(datasets)
        self._leaf_frames = leaf_frames
        self._run = run
        self._n_frames = len(frames)
        self._places: dict[str, _DatasetLocation] = {}
        self._descriptor = -1
        self._needed = 0  # bytes of all data sets that this process has made
        self._lock = threading.Lock()  # guards making data sets, and rows without fixed places
        self._lists = {one.name: ListRows(self, one, self._n_frames, leaf_frames) for one in datasets if one.lists}

    def create(self) -> None:
        """Creates the file; a complete file of that name stays until this one is complete.

        Raises ArgumentError if another run writes it, FileIOError if it cannot be written.
        """
        self._output = OutputFile(self.path, alone=True)
        self.part = self._output.temporary
        try:
            check_no_link(self.part)
            with _opened_to_write(self.part, "w") as file:
                file.attrs.update(
                    format=_FORMAT, version=_VERSION, kinema=_core.__version__, complete=False, run=self._run
                )
                self._make(file, "frames", (self._n_frames,), np.dtype("<i8"), {})
                self._make(file, "time", (self._n_frames,), np.dtype("<f8"), {"unit": "ps"})
        except OSError as error:
            raise from_h5py("cannot write results", error, self.path) from None
        self._open()
        first = 0
        for some in self._frames.split(_CHUNK_BYTES // 8):
            self.put("frames", first, some.numbers().astype("<i8"))
            first += len(some)
        self.sync()

    @property
    def protected_name(self) -> str:
        """The name that `protect` gives to a created file."""
        assert self._output is not None
        return self._output.protected_name

    def protect(self) -> None:
        """Keeps later runs from removing the file, because a checkpoint names it. Raises as `OutputFile.protect`."""
        assert self._output is not None
        self._output.protect()
        self.part = self._output.temporary

    def resume(self, part: str) -> None:
        """Continues the file that the run has left; ArgumentError if it does not exist or belongs to another run.

        Also if another run writes the same output: an empty file of this process lies beside it meanwhile.
        """
        name = self.part = part
        self._output = OutputFile(self.path, alone=True, resumed=part)
        if not os.path.exists(name) and self._is_whole():
            name = self.path  # when the run ended, only its checkpoint remained to be removed
        if not os.path.exists(name):
            raise ArgumentError(
                "not found, but the checkpoint relies on rows in it; bring it back, or remove the checkpoint "
                "to start again",
                at=name,
            )
        try:
            with opened(name) as file:
                if file.attrs.get("format") != _FORMAT or file.attrs.get("run") != self._run:
                    raise ArgumentError(
                        f"the results are of another run than the checkpoint, expected run {self._run}, "
                        f"found {file.attrs.get('run')}; remove both to start again",
                        at=name,
                    )
                for dataset in ("frames", "time", *(one.name for one in self._datasets)):
                    if dataset in self._lists and dataset in file:
                        for column, stored in file[dataset].items():
                            self._places[f"{dataset}/{column}"] = _DatasetLocation.from_dataset(stored)
                        self._lists[dataset].resume(file[dataset])
                    elif dataset in file:
                        self._places[dataset] = _DatasetLocation.from_dataset(file[dataset])
        except OSError as error:
            raise from_h5py("cannot read results", error, name) from None
        self._open(name)

    def write(self, first_leaf: int, results_of_leaf: list[_core.KernelResults]) -> None:
        """Writes the rows of all analyses from a leaf on; any thread may call it."""
        first = first_leaf * self._leaf_frames
        for dataset, results in zip(self._datasets, results_of_leaf, strict=True):
            times = np.asarray(results["time"], "<f8")
            if dataset.lists:
                with self._lock:
                    self._lists[dataset.name].write(first_leaf, results)
                continue
            values = np.asarray(results["values"])
            if len(times) != len(values) or first + len(times) > self._n_frames:
                raise ArgumentError(
                    f"{dataset.title} does not have one row per frame, expected {len(times)} rows, found {len(values)}"
                )
            self._check(dataset, values)
            self.put(dataset.name, first, values)
        self.put("time", first, times)

    @property
    def parts(self) -> list[str]:
        """The file, and the extra files of quantities with any number of rows per frame."""
        return [self._name, *(one.part for one in self._lists.values() if one.is_open)]

    def counted(self, nodes: Sequence[tuple[int, int]]) -> dict[str, list[tuple[int, int]]]:
        """By file, the first byte, and the byte after the last one, of runs of rows.

        The rows are those of the leaves below nodes of the merge tree, given by level and index.
        """
        leaves = _joined((index << level, (index + 1) << level) for level, index in nodes)
        found = {self._name: [run for name in self._places for run in self._runs_of(name, leaves)]}
        for one in self._lists.values():
            if one.is_open:
                found[one.part] = one.counted(leaves)
        return found

    def _runs_of(self, name: str, leaves: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The bytes of a data set's rows for runs of leaves."""
        quantity, _, column = name.partition("/")
        per_row = self._lists[quantity].frames_of(column, self._leaf_frames) if column else 1
        if per_row is None:
            return []
        place = self._places[name]
        width = int(np.prod(place.shape[1:])) * place.dtype.itemsize
        scaled = [(first * self._leaf_frames // per_row, last * self._leaf_frames // per_row) for first, last in leaves]
        runs = [(first, min(last, place.shape[0])) for first, last in scaled]
        return [(place.offset + first * width, place.offset + last * width) for first, last in runs if last > first]

    def sync(self) -> None:
        """Syncs all written data to the disk."""
        with os_errors("cannot write results", self.path):
            for one in self._lists.values():
                one.sync()
            os.fsync(self._descriptor)

    def finish(self) -> None:
        """Marks the file as complete and gives it its name."""
        self.sync()
        try:
            if os.path.exists(self.part):
                if not os.path.samestat(os.stat(self.part), os.fstat(self._descriptor)):
                    raise FileIOError("was replaced by another run; give every run a file of its own", at=self.part)
                for one in self._lists.values():
                    one.finish()
                with _opened_to_write(self.part, "r+") as file:
                    self._remove_tables(file)
                    file.attrs["complete"] = True
                for one in self._lists.values():
                    one.close(keep=False)
                if self._lists:
                    # last: until here the name is how a later run finds what this one would leave if it were killed
                    with _opened_to_write(self.part, "r+") as file:
                        self._remove_file_names(file)
                publish(self.part, self.path)
                if self._output is not None and self._output.temporary == self.part:
                    self._output.keep()
            elif not self._is_whole():
                raise FileIOError("was removed during the run", at=self.part)
        except OSError as error:
            if isinstance(error, Error):
                raise
            raise from_h5py("cannot write results", error, self.path) from None
        finally:
            self.close()

    def _remove_tables(self, file: Any) -> None:
        for one in self._lists.values():
            for name in one.tables():
                del file[name]

    def _remove_file_names(self, file: Any) -> None:
        """Removes the names of the files of rows, after these files."""
        for name, one in self._lists.items():
            if one.part:
                del file[name].attrs[FILE_OF_ROWS]

    def close(self) -> None:
        """Closes the file; a run can continue it later."""
        for one in self._lists.values():
            one.close(keep=True)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._output is not None:
            if self._output.temporary == self.part:
                self._output.keep()
            else:
                self._output.discard()
            self._output.end()

    def discard(self) -> None:
        """Removes all written data."""
        for one in self._lists.values():
            one.close(keep=False)
        self.close()
        with suppress(FileNotFoundError):
            os.unlink(self.part)

    def remove_unused(self, part: str) -> None:
        """Removes the file `part` of a run that was ended before its checkpoint relied on a row, and its files of
        rows."""
        for one in self._lists.values():
            one.remove_written_with(part)
        with suppress(FileNotFoundError):
            os.unlink(part)

    def arrays(self) -> list[_core.KernelResults]:
        """For each analysis, from the finished file: "frames", "time", "values", and "table", which combines them."""
        stored = {name: ResultArray(self.path, name, place.shape, place.dtype) for name, place in self._places.items()}
        results: list[_core.KernelResults] = []
        for dataset in self._datasets:
            if dataset.lists:
                columns = {name: stored[f"{dataset.name}/{name}"] for name in self._lists[dataset.name].columns()}
                results.append({"frames": stored["frames"], "time": stored["time"], **columns})
                continue
            arrays = {"frames": stored["frames"], "time": stored["time"], "values": stored[dataset.name]}
            table = ResultTable(list(arrays.values()))
            results.append({**arrays, "table": table})
        return results

    # -- for `ListRows` -----------------------------------------------------------------------------------------------

    @property
    def is_protected(self) -> bool:
        """Whether a checkpoint names the file."""
        return self._output is not None and self.part == self._output.protected_name

    def make_group(
        self, name: str, attributes: dict[str, Any], datasets: dict[str, NewRows], last: dict[str, Any]
    ) -> None:
        """Makes a group with data sets; the attributes `last` are set after all else."""
        with _opened_to_write(self.part, "r+") as file:
            group = file.create_group(name)
            group.attrs.update(attributes)
            for column, new in datasets.items():
                self._make(file, f"{name}/{column}", *new)
            group.attrs.update(last)

    def make_datasets(self, group: str, datasets: dict[str, NewRows]) -> None:
        """Makes data sets of a group, in place of those that a killed run has left."""
        with _opened_to_write(self.part, "r+") as file:
            for column in datasets:
                if f"{group}/{column}" in file:
                    del file[f"{group}/{column}"]
            for column, new in datasets.items():
                self._make(file, f"{group}/{column}", *new)

    def stored(self, name: str) -> NDArray[Any]:
        """The stored values of a data set."""
        return np.asarray(ResultArray(self.part, name, self._places[name].shape, self._places[name].dtype))

    # -- inside -------------------------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        """`part`, or `path` if an earlier run was killed when only its checkpoint remained to be removed."""
        return self.part if os.path.exists(self.part) else self.path

    def _open(self, name: str | None = None) -> None:
        with os_errors("cannot write results", name or self.part):
            link = 0 if name == self.path else os.O_NOFOLLOW
            self._descriptor = os.open(name or self.part, os.O_RDWR | os.O_CLOEXEC | link)

    def _is_whole(self) -> bool:
        """Whether the complete file belongs to this run."""
        if not os.path.exists(self.path):
            return False
        try:
            with opened(self.path) as file:
                return bool(file.attrs.get("run") == self._run and file.attrs.get("complete"))
        except OSError:
            # the file was not written by this run
            return False

    def _check(self, dataset: ResultDataset, values: NDArray[Any]) -> None:
        """Makes the data set with the first rows, and refuses rows that do not fit it."""
        with self._lock:
            if dataset.name not in self._places:
                self._add(dataset, values)
        place = self._places[dataset.name]
        if values.shape[1:] != place.shape[1:] or values.dtype != place.dtype:
            raise ArgumentError(
                f"{dataset.title} has rows of different kinds, expected {place.dtype} {place.shape[1:]}, found "
                f"{values.dtype} {values.shape[1:]}"
            )

    def _add(self, dataset: ResultDataset, values: NDArray[Any]) -> None:
        if values.dtype.kind not in _KINDS:
            raise ArgumentError(
                f"{dataset.title}: values of type {values.dtype} are not written to a file of results; return "
                "numbers, or run without out="
            )
        shape = (self._n_frames, *values.shape[1:])
        attributes = {
            "unit": dataset.unit,
            **({"columns": list(dataset.columns)} if dataset.columns else {}),
            **({"periods": list(dataset.periods)} if any(dataset.periods) else {}),
            "title": dataset.title,
            "provenance": dataset.provenance,
        }
        try:
            with _opened_to_write(self.part, "r+") as file:
                self._make(file, dataset.name, shape, values.dtype, attributes)
        except OSError as error:
            raise from_h5py("cannot write results", error, self.path) from None
        self.sync()

    def _make(
        self, file: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], attributes: dict[str, Any]
    ) -> None:
        """A contiguous data set without a fill, whose place in the file is fixed at once."""
        from kinema.storage.hdf5.storage import Storage, create_dataset

        self._needed += int(np.prod(shape)) * dtype.itemsize
        status = os.statvfs(os.path.dirname(os.path.abspath(self.part)))
        free = status.f_bavail * status.f_frsize
        if self._needed > free:
            raise FileIOError(
                f"the disk is too small for the results, expected {self._needed} bytes, found {free}", at=self.part
            )
        made = create_dataset(file, name, Storage(shape, dtype, early=True))
        made.attrs.update(attributes)
        self._places[name] = _DatasetLocation.from_dataset(made)

    def put(self, name: str, first: int, rows: NDArray[Any]) -> None:
        place = self._places[name]
        data: Any = memoryview(np.ascontiguousarray(rows).reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        at = place.offset + first * (len(data) // max(1, len(rows)))
        with os_errors("cannot write results", self.path):
            while data:
                written = os.pwrite(self._descriptor, data, at)
                data = data[written:]
                at += written


def _opened_to_write(path: str, mode: Literal["r+", "w"]) -> Any:
    """A file opened by h5py, which is imported only here, to be used as a context.

    Raises OSError if the file is closed and some of it is not on the disk.
    """
    if mode == "r+":
        check_file(path)
    from kinema.storage.hdf5.output import written_in_place

    # the layout of HDF5 1.8: attributes of any length, and no open mark in the file, which a killed process would leave
    # behind; no lock, which network file systems may not support
    return written_in_place(path, mode)


def _joined(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The runs in ascending order, with neighbours merged."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if joined and joined[-1][1] == first:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


@dataclass(frozen=True)
class _DatasetLocation:
    """Place of a data set in the file."""

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def from_dataset(cls, stored: Any) -> _DatasetLocation:
        # a data set without rows has no place
        offset = stored.id.get_offset() if stored.size else 0
        if offset is None:
            name = stored.file.filename
            raise CorruptFileError(f"data set {stored.name} is not contiguous", at=name)
        return cls(int(offset), tuple(stored.shape), stored.dtype)

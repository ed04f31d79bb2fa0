"""Values of a data set by rows and columns, bit for bit as in the file.

Large sets of vectors are read by Rust on several threads; all others through h5py.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.formats import h5md
from kinema.model.selection.frames import FrameSelection
from kinema.storage.hdf5.chunks import numeric_type
from kinema.storage.hdf5.file import reading
from kinema.storage.hdf5.filters import missing_filters

# below this size, reopening the file takes longer than reading it through h5py
_SMALL = 1 << 20


class Values:
    """The rows of a data set (rows, ...)."""

    def __init__(self, dataset: Any, path: str, *, workers: int = 1, memory: int = 0, native: bool = True) -> None:
        """`path` is the file's; native reading uses at most `memory` bytes besides its result."""
        self.dataset, self._path = dataset, path
        self.dtype: np.dtype[Any] = dataset.dtype
        self.item: tuple[int, ...] = dataset.shape[1:]
        self._workers, self._memory = workers, memory
        self._core: _core.Trajectory | None = None
        self._native_rows = 0
        self.warnings: list[str] = []
        self._read_as = "float32" if self.dtype.str[1:] == "f4" else "float64"
        if native and _is_native(dataset):
            self._open(path, dataset.name)

    def _open(self, path: str, name: str) -> None:
        # values are taken as they are, so any unit will do, but one must be given
        # the file was checked when the data set was opened
        options = h5md.H5mdOptions(dataset=name, units={"length": "angstrom"}, external="any")
        core = _core.Trajectory(
            [path], format="H5MD", index="memory", describe=functools.partial(h5md.describe, options=options)
        )
        core.scan(1)
        (part,) = core.parts()
        self.warnings = [text for text in part["warnings"] if "through h5py" in text]
        if self.warnings:
            return  # Rust would use the same library, only less directly
        self._core, self._native_rows = core, part["file_frames"]

    def rows(self, start: int, stop: int, columns: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Rows [start, stop) of the given columns (in any order; None: all): (rows, columns, ...)."""
        if self._core is None or stop > self._native_rows:
            return self._through_library(start, stop, columns)
        atoms = None if columns is None else columns.astype(np.uint32)
        out = np.empty((stop - start, self.item[0] if atoms is None else len(atoms), 3), self._read_as)
        self._core.read(
            FrameSelection(range(start, stop)),
            atoms=atoms,
            dtype=self._read_as,
            out=out,
            workers=self._workers,
            memory=self._memory,
            native=True,
        )
        return out if out.dtype == self.dtype else out.astype(self.dtype)

    def _through_library(self, start: int, stop: int, columns: NDArray[np.int64] | None) -> NDArray[Any]:
        with reading(self._path):
            missing_filters(self.dataset)  # registers the filters that are available
            values: NDArray[Any] = self.dataset[start:stop]
        return values if columns is None else np.ascontiguousarray(values[:, columns])


def item_bytes(dataset: Any) -> int:
    """Bytes of one row."""
    size: int = math.prod(dataset.shape[1:]) * dataset.dtype.itemsize
    return max(1, size)


def _is_native(dataset: Any) -> bool:
    """Whether Rust returns the values bit for bit."""
    shape, dtype = dataset.shape, numeric_type(dataset)
    if dtype is None or dtype != dataset.dtype or h5py.check_enum_dtype(dataset.dtype) is not None:
        return False
    exact = (dtype.kind == "f" and dtype.itemsize in (4, 8)) or (dtype.kind in "iu" and dtype.itemsize <= 4)
    vectors = len(shape) == 3 and shape[2] == 3
    if not (exact and vectors) or 0 in shape:
        return False
    return bool(dataset.size * dtype.itemsize >= _SMALL)

"""Readers of rows through h5py: for data that Rust does not decode, and for values that must be reordered or unwrapped.

libhdf5 reads one row after the other under one lock; a warning reports each use of this slow path.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import CorruptFileError
from kinema.storage.hdf5.file import open_checked, reading

Rows = Callable[[NDArray[np.int64]], NDArray[Any]]

_CHUNK_CACHE = 8 << 20


class StoredRows:
    """Rows of a data set, (n,) -> (n, ...) in the file's own numbers; opens the file at the first call.

    Checks of the file belong to its description. Calls from several threads take turns. It is not picklable: another
    process must describe the file itself.
    """

    def __init__(self, path: str, name: str, *, fixed: bool, chunk_bytes: int = 0) -> None:
        self.path = path
        self.name = name
        self.fixed = fixed
        self.cache = max(_CHUNK_CACHE, 2 * chunk_bytes)
        self._lock = threading.Lock()
        self._file: Any = None

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The rows, in the requested order, repeats included; for a fixed data set the same for every row."""
        with self._lock, reading(self.path):
            if self._file is None:
                self._file = open_checked(self.path, cache=self.cache)
            dataset = self._file[self.name]
            if self.fixed:
                return np.broadcast_to(dataset[()], (len(rows), *dataset.shape))
            wanted, places = np.unique(rows, return_inverse=True)
            result = np.empty((len(wanted), *dataset.shape[1:]), dataset.dtype.newbyteorder("="))
            breaks = np.flatnonzero(np.diff(wanted) != 1) + 1
            for first, last in itertools.pairwise([0, *breaks.tolist(), len(wanted)]):
                if first < last:
                    result[first:last] = dataset[int(wanted[first]) : int(wanted[last - 1]) + 1]
        return result if np.array_equal(wanted, rows) else result[places]

    def __reduce__(self) -> Any:
        raise TypeError("a reader of rows holds an open file and is not pickled; describe the file again")

    def close(self) -> None:
        """Closes the file; the next call opens it again."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None


@dataclass(frozen=True)
class Floats:
    """Rows as float32 if that holds them, else float64, in the machine's byte order, shaped (n, *shape)."""

    rows: Rows
    shape: tuple[int, ...]

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """(n,) -> (n, *shape)."""
        values = self.rows(rows)
        return values.reshape(len(rows), *self.shape).astype(float_type(values.dtype), copy=False)


def float_type(dtype: np.dtype[Any]) -> type[np.float32] | type[np.float64]:
    """The float that holds all values of a type: float32 for floats of up to 32 bits and integers of up to 16."""
    narrow = dtype.itemsize <= 4 if dtype.kind == "f" else dtype.itemsize <= 2
    return np.float32 if narrow else np.float64


@dataclass(frozen=True)
class CellRows:
    """Cell matrices (n, 3, 3), whose rows are the box vectors, from edge lengths or from matrices."""

    rows: Rows

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """(n,) -> (n, 3, 3)."""
        edges = self.rows(rows)
        edges = edges.astype(float_type(edges.dtype), copy=False)
        if edges.ndim == 3:
            return edges
        result = np.zeros((len(edges), 3, 3), edges.dtype)
        result[:, range(3), range(3)] = edges
        return result


@dataclass(frozen=True)
class Unwrapped:
    """Positions plus whole boxes, r + image * edges; the images count how often a particle crossed the box."""

    path: str
    positions: Rows
    images: Rows
    cells: CellRows
    image_rows: NDArray[np.int64] | None
    """Row of the images for each row of the positions; None: the same."""
    cell_rows: NDArray[np.int64] | None

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """(n,) -> (n, N, 3) float64."""
        image = self.images(rows if self.image_rows is None else self.image_rows[rows]).astype(np.float64)
        if not np.array_equal(image, np.round(image)):
            raise CorruptFileError("H5MD: images are not whole numbers", at=self.path, format="H5MD")
        cell = self.cells(rows if self.cell_rows is None else self.cell_rows[rows]).astype(np.float64)
        return np.asarray(self.positions(rows), np.float64) + image @ cell


@dataclass(frozen=True)
class IdOrder:
    """Rows with their particles in the order of `ids`, so that column i is the same particle in every frame."""

    path: str
    name: str
    values: Rows
    id_rows: Rows
    rows_of_ids: NDArray[np.int64] | None
    """Row of the ids for each row of the values; None: the same."""
    ids: NDArray[np.int64]
    """(n_atoms,) ascending."""
    fill: int | None
    """The id that marks a particle as absent."""
    absent: Literal["mask", "error"]

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """(n,) -> (n, n_atoms, 3); NaN for absent particles."""
        values = self.values(rows)
        id_rows = self.id_rows(rows if self.rows_of_ids is None else self.rows_of_ids[rows])
        result = np.full((len(rows), len(self.ids), values.shape[2]), np.nan, values.dtype)
        for row, target, source, ids in zip(rows.tolist(), result, values, id_rows, strict=True):
            there = slice(None) if self.fill is None else ids != self.fill
            present = ids[there]
            columns = np.minimum(np.searchsorted(self.ids, present), len(self.ids) - 1)
            if not np.array_equal(self.ids[columns], present):
                unknown = present[self.ids[columns] != present][0]
                raise self._wrong(row, f"particle {unknown}, which is neither in the first row nor in the last")
            if len(np.unique(columns)) != len(columns):
                raise self._wrong(row, "two particles of one id")
            if self.absent == "error" and len(columns) < len(self.ids):
                missing = np.setdiff1d(self.ids, present)[0]
                raise self._wrong(row, f"no particle {missing}, expected all {len(self.ids)}")
            target[columns] = source[there]
        return result

    def _wrong(self, row: int, what: str) -> CorruptFileError:
        return CorruptFileError(f"{self.name} has at row {row} {what}", at=self.path, format="H5MD")


def from_lengths_and_angles(lengths: NDArray[Any], angles: NDArray[Any]) -> NDArray[np.float64]:
    """Cell matrices (n, 3, 3) from edge lengths (n, 3) and angles (n, 3) alpha, beta, gamma in degrees.

    As in all formats, the first vector lies along x, the second in the xy plane, edges of length 0 are zero, and
    invalid cells are NaN.
    """
    return _core.cells_of_lengths(np.concatenate([lengths, angles], axis=1).astype(np.float64))

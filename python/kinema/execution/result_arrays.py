"""Arrays that stay in a file of results and are read on access."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kinema.base.errors import Error, FileIOError, from_os
from kinema.base.input_files import check_regular

# bytes of rows that are held at a time when all rows are iterated
_CHUNK_BYTES = 8 << 20


class ResultArray:
    """An array in a file, read on access: `array[i]`, `array[10:20, 0]`, `np.asarray(array)`.

    Indices are those of h5py; the file is open only during a read.

    `path`, `name`: the file and the data set.
    """

    def __init__(self, path: str, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.path = path
        self.name = name
        self.shape = shape
        self.dtype = dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        try:
            with opened(self.path) as file:
                return file[self.name][key]
        except OSError as error:
            raise from_h5py("cannot read results", error, self.path) from None

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("an array in a file can only be copied into memory")
        return np.asarray(self[...], dtype=dtype)

    def chunks(self) -> Iterator[NDArray[Any]]:
        """All rows in turn, some MiB at a time."""
        row = max(1, int(np.prod(self.shape[1:])) * self.dtype.itemsize)
        step = max(1, _CHUNK_BYTES // row)
        for first in range(0, len(self), step):
            yield self[first : first + step]

    def __repr__(self) -> str:
        return f"<ResultArray {self.name!r} {self.shape} {self.dtype} in {self.path}>"


class ResultTable:
    """Arrays in a file side by side as float64 columns, as by `np.column_stack`, read on access."""

    def __init__(self, arrays: Sequence[ResultArray]) -> None:
        self._arrays = tuple(arrays)
        widths = [int(np.prod(array.shape[1:])) for array in arrays]
        self.shape = (len(arrays[0]), sum(widths))
        self.dtype = np.dtype(np.float64)

    ndim = 2

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        rows, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
        if rows is Ellipsis or rows is None:
            return self.__array__()[key]
        if isinstance(rows, (int, np.integer)):
            parts = [np.atleast_1d(array[rows]).astype(np.float64) for array in self._arrays]
            row = np.concatenate(parts)
            return row[rest] if rest else row
        table = np.column_stack([array[rows].astype(np.float64) for array in self._arrays])
        return table[(slice(None), *rest)]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("an array in a file can only be copied into memory")
        return np.column_stack([np.asarray(array, np.float64) for array in self._arrays]).astype(dtype or np.float64)

    def __repr__(self) -> str:
        return f"<ResultTable {self.shape} in {self._arrays[0].path}>"


class _ResultView:
    """A changed view of the rows of an array that is not in memory: rows are read, then changed, on access."""

    def __init__(self, array: Any, shape: tuple[int, ...]) -> None:
        self._array = array
        self.shape = (len(array), *shape)
        self.dtype = array.dtype
        self.ndim = len(self.shape)

    def _select(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The view of (..., columns) values."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        rows, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
        if rows is Ellipsis or rows is None:
            return self.__array__()[key]
        rows_alone = np.asarray(self._array[rows])
        part = self._select(rows_alone)
        return part[(*[slice(None)] * (rows_alone.ndim - 1), *rest)] if rest else part

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("an array in a file can only be copied into memory")
        return self._select(np.asarray(self._array)).astype(dtype or self.dtype)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.shape} of {self._array!r}>"


class ResultColumns(_ResultView):
    """Some columns of an array that is not in memory, read with their rows; one column has no dimension of its own."""

    def __init__(self, array: Any, places: int | list[int]) -> None:
        super().__init__(array, () if isinstance(places, int) else (len(places),))
        self._places = places

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the array that is viewed, which may be in memory after loading."""
        return columns_of, (self._array, self._places)

    def _select(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows[..., self._places]


class ResultVectors(_ResultView):
    """An array that is not in memory, with each `n_components` columns side by side as one vector."""

    def __init__(self, array: Any, n_components: int) -> None:
        super().__init__(array, (array.shape[1] // n_components, n_components))

    def __reduce__(self) -> tuple[Any, ...]:
        return vectors_of, (self._array, self.shape[-1])

    def _select(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows.reshape(*rows.shape[:-1], *self.shape[1:])


class ResultLetters(_ResultView):
    """An array of ASCII codes that is not in memory, as letters."""

    def __init__(self, array: Any) -> None:
        super().__init__(array, array.shape[1:])
        self.dtype = np.dtype("S1")

    def __reduce__(self) -> tuple[Any, ...]:
        return letters_of, (self._array,)

    def _select(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows.view("S1")


def letters_of(array: Any) -> Any:
    """(rows, columns) uint8 ASCII codes as letters, bytes of length 1; values that are not in memory stay there."""
    return array.view("S1") if isinstance(array, np.ndarray) else ResultLetters(array)


def vectors_of(array: Any, n_components: int) -> Any:
    """(rows, columns) values as (rows, vectors, components); values that are not in memory stay in their file."""
    view = ResultVectors(array, n_components)
    return view[:] if isinstance(array, np.ndarray) else view


def columns_of(array: Any, places: int | list[int]) -> Any:
    """Some columns of (rows, columns) values; values that are not in memory stay in their file."""
    if not isinstance(array, np.ndarray):
        return ResultColumns(array, places)
    if isinstance(places, list):
        steps = np.unique(np.diff(places))
        if len(steps) == 1 and steps[0] > 0:
            # a view
            return array[:, places[0] : places[-1] + 1 : steps[0]]
    return array[:, places]


def check_file(path: str) -> None:
    """Raises errors for a path that is not a file, and for damaged structures of HDF5; not if there is none."""
    if os.path.exists(path):
        check_regular(path, "file of results")
        from kinema.storage.hdf5.file import check_structure

        check_structure(path)


def opened(path: str) -> Any:
    """A file opened by h5py, which is imported only here, to be used as a context."""
    import h5py

    check_file(path)
    # opened as everyone else does: a file that is open twice in one process must be opened in the same way
    return h5py.File(path, "r")


def from_h5py(doing: str, error: OSError, path: str) -> Error:
    """The Kinema error for an error of h5py, which gives the reason in its text, often without a number."""
    if error.errno is not None:
        return from_os(doing, OSError(error.errno, os.strerror(error.errno)), path)
    reason = " ".join(str(error).split()).rstrip(".")
    return FileIOError(f"{doing}: {reason[:1].lower()}{reason[1:]}", at=path)

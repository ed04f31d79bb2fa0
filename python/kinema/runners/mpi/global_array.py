"""Arrays with a row for each frame, distributed over the ranks in MPI windows: any rank puts and gets any rows.

Access is one-sided, as in Global Arrays (Nieplocha et al., J. Supercomput. 10, 169 (1996)): neither Put nor Get waits
for the work of another rank. `row_windows` puts the rows of a pass.
"""

from __future__ import annotations

import atexit
import io
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, Self

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from kinema.base.errors import ArgumentError, MemoryLimitError, OutOfRangeError, WorkerError
from kinema.model.selection.frames import FrameSelection
from kinema.runners.mpi.communicator import Ranks, sleep_between

# "frames": their numbers; "time"; "values"; "table": all of them side by side as float64
Name = Literal["frames", "time", "values", "table"]

# most bytes of one transfer: MPI counts bytes in 31 bits
_TRANSFER_BYTES = 1 << 30
# bytes of rows that are copied into a larger array at a time
_PART_BYTES = 8 << 20


@dataclass(frozen=True)
class FreeRows:
    """Message of rank 0: all ranks free the rows with this number."""

    number: int


class GlobalRows:
    """Rows of one type, in blocks of equal length, one on each rank; each rank can put and get any rows.

    All ranks make the rows together, with `MPISession.new_rows`.

    `number`: the same on all ranks.
    `frames`: the frames of the run; each has one row.
    `values`: type and shape of the values of a row.

    `record`: type of a row: "time", "values".
    `own`: the rows in this rank's memory.
    """

    def __init__(self, ranks: Ranks, number: int, frames: FrameSelection, values: np.dtype[Any]) -> None:
        self.frames = frames
        self.record = np.dtype([("time", "<f8"), ("values", values)])
        self.number = number
        self._n_rows = len(frames)
        self._block = max(1, -(-self._n_rows // ranks.size))
        first = min(ranks.rank * self._block, self._n_rows)
        self.own = range(first, min(first + self._block, self._n_rows))
        self._pending: list[NDArray[Any]] = []
        # while rank 0 alone runs the script, it broadcasts what it frees
        self._served_by: Ranks | None = ranks
        size = self._block * self.record.itemsize
        # its own communicator: MPICH numbers windows within a communicator, which must not be freed before them
        self._comm = ranks.comm.Dup()
        self._window: MPI.Win | None = MPI.Win.Allocate(size, self.record.itemsize, comm=self._comm)
        self._memory: NDArray[np.uint8] = np.asarray(self._window.tomemory(), np.uint8)
        self._window.Lock_all()

    def __len__(self) -> int:
        return self._n_rows

    @property
    def freed(self) -> bool:
        """Whether the memory was freed."""
        return self._window is None

    def put(self, first: int, records: NDArray[Any]) -> None:
        """Starts putting rows in their place; `records` must not change before `complete`."""
        window = self._live_window()
        for owner, at, part in self._parts(first, _bytes_of(records)):
            window.Put(part, owner, (at, part.size, MPI.BYTE))
        self._pending.append(records)

    def complete(self) -> None:
        """Waits until all rows that this rank has put are in their place; other ranks see them after `synchronize`."""
        self._live_window().Flush_all()
        self._pending.clear()

    def synchronize(self) -> None:
        """A barrier after which all ranks see the rows that any rank has put; collective."""
        window = self._live_window()
        window.Sync()
        sleep_between(self._comm.Ibarrier())
        window.Sync()

    def get(self, first: int, stop: int) -> NDArray[Any]:
        """(stop - first,) records, from the ranks that have them.

        Raises ArgumentError after `free`; WorkerError if MPI cannot get the records.
        """
        window = self._live_window()
        records = np.empty(stop - first, self.record)
        try:
            for owner, at, part in self._parts(first, _bytes_of(records)):
                window.Get(part, owner, (at, part.size, MPI.BYTE))
            window.Flush_all()
        except MPI.Exception as error:
            raise WorkerError(f"rows {first} to {stop - 1} of the other ranks cannot be read: {error}") from None
        return records

    def columns(self) -> dict[str, NDArray[Any]]:
        """ "time" and "values" of all rows, with only some MiB held besides. Raises MemoryLimitError without room."""
        values = self.record["values"]
        try:
            columns = {"time": np.empty(len(self)), "values": np.empty((len(self), *values.shape), values.base)}
        except MemoryError:
            raise MemoryLimitError(
                f"no room for all rows, {len(self)} of {self.record.itemsize} bytes; write them with out=, or leave "
                "them on the ranks with results='spread'"
            ) from None
        for first, stop in self.split_range(0, len(self)):
            records = self.get(first, stop)
            for name, array in columns.items():
                array[first:stop] = records[name]
        return columns

    def split_range(self, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """Splits rows into ranges of some MiB."""
        step = max(1, _PART_BYTES // self.record.itemsize)
        for begin in range(first, stop, step):
            yield begin, min(begin + step, stop)

    def local(self) -> NDArray[Any]:
        """(len(own),) a copy of the records in this rank's memory; raises ArgumentError after `free`."""
        self._live_window().Sync()
        records: NDArray[Any] = self._memory[: len(self.own) * self.record.itemsize].view(self.record)
        return records.copy()

    def free(self) -> None:
        """Frees the memory; collective, except while the other ranks serve rank 0: then only rank 0 calls it."""
        if self._window is None:
            return
        if self._served_by is not None and self._served_by.is_root:
            self._served_by.broadcast(FreeRows(self.number))
        self.free_here()

    def free_here(self) -> None:
        """Frees the memory on all ranks; collective."""
        atexit.unregister(self.free_here)
        if self._window is not None and not MPI.Is_finalized():
            self._memory = np.empty(0, np.uint8)
            self._window.Unlock_all()
            self._window.Free()
            self._window = None
            self._comm.Free()

    def detach(self) -> None:
        """Keeps the rows after the session: from now on `free` is collective, at the latest when the ranks end."""
        self._served_by = None
        atexit.register(self.free_here)

    def _live_window(self) -> MPI.Win:
        if self._window is None:
            raise ArgumentError("this array was freed; its rows are not there any more")
        return self._window

    def _parts(self, first: int, data: NDArray[np.uint8]) -> Iterator[tuple[int, int, NDArray[np.uint8]]]:
        """Yields, for each transfer, the owner, the row in its block, and the bytes of the rows."""
        most = max(1, _TRANSFER_BYTES // self.record.itemsize)
        done = 0
        while done < len(data):
            owner, at = divmod(first + done, self._block)
            rows = min(len(data) - done, self._block - at, most)
            yield owner, at, data[done : done + rows].reshape(-1)
            done += rows

    def __reduce__(self) -> NoReturn:
        raise ArgumentError("a distributed array cannot be pickled; np.asarray(array) is a copy of it")


class GlobalArray:
    """An array with a row for each frame, distributed over the ranks of an MPI program; any rank can get any rows.

    `array[100:200]` and `array[7, 0]` get these rows from the ranks that have them, `np.asarray(array)` gets all.
    Getting is one-sided: other ranks need not take part. Between nodes, most MPI libraries answer only when the owner
    of the rows next calls MPI. `free`, or the end of a `with` block, frees all arrays of the same analysis.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    """

    def __init__(self, rows: GlobalRows, column: Name) -> None:
        self.rows = rows
        self.column = column
        one = rows.record["values"]
        width = 2 + int(np.prod(one.shape))
        shapes = {"frames": (), "time": (), "values": one.shape, "table": (width,)}
        types = {"frames": np.dtype(np.int64), "values": one.base}
        self.shape: tuple[int, ...] = (len(rows), *shapes[column])
        self.dtype: np.dtype[Any] = types.get(column, np.dtype(np.float64))

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def local_rows(self) -> range:
        """The rows in this rank's memory."""
        return self.rows.own

    @property
    def local(self) -> NDArray[Any]:
        """(len(local_rows), ...) a copy of the rows in this rank's memory."""
        own = self.rows.own
        return self.extract(own.start, self.rows.local())

    def __getitem__(self, key: Any) -> Any:
        """Rows by number or slice; further indices as in numpy.

        Raises OutOfRangeError for a row that does not exist; ArgumentError for a list or mask of rows, and after
        `free`.
        """
        rows, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
        if rows is Ellipsis:
            return np.asarray(self)[key]
        if isinstance(rows, slice):
            wanted = range(*rows.indices(len(self)))
            if not wanted:
                return self._read_range(0, 0)[(slice(None), *rest)]
            first, last = min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1])
            values = self._read_range(first, last + 1)[:: abs(wanted.step)]
            return (values if wanted.step > 0 else values[::-1])[(slice(None), *rest)]
        if isinstance(rows, bool) or not hasattr(rows, "__index__"):
            raise ArgumentError(
                "rows of a distributed array are a number or a slice; np.asarray(array) has all of them"
            )
        number = rows.__index__()
        if not -len(self) <= number < len(self):
            raise OutOfRangeError(f"row {number} is out of range, the array has {len(self)} rows")
        row = self._read_range(number % len(self), number % len(self) + 1)[0]
        return row[rest] if rest else row

    def __iter__(self) -> Iterator[Any]:
        for first, stop in self.rows.split_range(0, len(self)):
            yield from self.extract(first, self.rows.get(first, stop))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a distributed array can only be copied")
        return np.asarray(self._read_range(0, len(self)), dtype=dtype)

    def free(self) -> None:
        """Frees the memory of all arrays of the same analysis; all ranks that have the array must call it."""
        self.rows.free()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()

    def __repr__(self) -> str:
        gone = ", freed" if self.rows.freed else ""
        return f"<GlobalArray {self.column!r} {self.shape} {self.dtype}{gone}>"

    def _read_range(self, first: int, stop: int) -> NDArray[Any]:
        """A range of rows; only some MiB are held besides the result."""
        values = np.empty((stop - first, *self.shape[1:]), self.dtype)
        for begin, end in self.rows.split_range(first, stop):
            values[begin - first : end - first] = self.extract(begin, self.rows.get(begin, end))
        return values

    def extract(self, first: int, records: NDArray[Any]) -> NDArray[Any]:
        """The values of this array in records that begin with row `first`."""
        if self.column in ("time", "values"):
            return np.ascontiguousarray(records[self.column])
        frames = self.rows.frames[first : first + len(records)].numbers().astype(np.int64)
        if self.column == "frames":
            return frames
        values = records["values"].reshape(len(records), -1)
        return np.column_stack([frames.astype(np.float64), records["time"], values])


def _bytes_of(records: NDArray[Any]) -> NDArray[np.uint8]:
    return records.view(np.uint8).reshape(len(records), records.dtype.itemsize)


def pack_arrays(value: object) -> tuple[bytes, frozenset[int]]:
    """Packs a value into bytes for the other ranks; also returns the numbers of the rows whose arrays it contains."""
    used: set[int] = set()

    class ArrayPickler(pickle.Pickler):
        def persistent_id(self, one: Any) -> tuple[int, str] | None:
            if not isinstance(one, GlobalArray) or one.rows.freed:
                return None
            used.add(one.rows.number)
            return one.rows.number, one.column

    buffer = io.BytesIO()
    ArrayPickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue(), frozenset(used)


def unpack_arrays(data: bytes, arrays: Sequence[GlobalRows], replace: Callable[[GlobalArray], Any]) -> Any:
    """The value that `pack_arrays` packed, with `replace(array)` for each array; `arrays` by their numbers."""

    # several results may belong to one array, which is then gathered once
    made: dict[tuple[int, Name], Any] = {}

    class ArrayUnpickler(pickle.Unpickler):
        def persistent_load(self, place: Any) -> Any:
            number, column = place
            if place not in made:
                made[place] = replace(GlobalArray(arrays[number], column))
            return made[place]

    return ArrayUnpickler(io.BytesIO(data)).load()

"""Arrays with a row for each frame that are spread over the ranks of an MPI program: any rank gets any rows.

One-sided, as in Global Arrays (Nieplocha et al., J. Supercomput. 10, 169 (1996)): neither putting nor getting waits for
what another rank is doing. It runs nothing; who puts which rows is in `rows`.
"""

from __future__ import annotations

import atexit
import io
import pickle
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Literal, NoReturn, Self

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from kinema.errors import ArgumentError, MemoryLimitError, OutOfRangeError, WorkerError
from kinema.frames import ResolvedFrames, compose, count, numbers
from kinema.runners.mpi.ranks import FreeRows, Ranks, sleep_between

__all__ = ["GlobalArray", "GlobalRows", "pack_arrays", "unpack_arrays"]

# "frames": their numbers; "time"; "values"; "table": all of them side by side as float64
Name = Literal["frames", "time", "values", "table"]

# of one transfer at the most: MPI counts bytes in 31 bits
_TRANSFER_BYTES = 1 << 30
# of rows that are on their way into a larger array
_PART_BYTES = 8 << 20


class GlobalRows:
    """Rows of one type in blocks of one length, a block with each rank; each rank can put and get any of them.

    Made by all ranks together, in `ranks.arrays`.

    Parameters
    ----------
    ranks : Ranks
    frames : the frames of the run
        One row each.
    values : numpy.dtype
        Of the values of a row, with their shape.

    Attributes
    ----------
    number : int
        The same on all ranks.
    record : numpy.dtype
        Of a row: "time", "values".
    own : range
        The rows that are in this rank's memory.
    """

    def __init__(self, ranks: Ranks, frames: ResolvedFrames, values: np.dtype[Any]) -> None:
        self.frames = frames
        self.record = np.dtype([("time", "<f8"), ("values", values)])
        self.number = len(ranks.arrays)
        self._n_rows = count(frames)
        self._block = max(1, -(-self._n_rows // ranks.size))
        first = min(ranks.rank * self._block, self._n_rows)
        self.own = range(first, min(first + self._block, self._n_rows))
        self._on_the_way: list[NDArray[Any]] = []
        # while rank 0 alone runs the script, what is freed there is to be freed by the others
        self._serving: Ranks | None = ranks
        size = self._block * self.record.itemsize
        # of its own: MPICH numbers windows within a communicator, which must not be freed before them
        self._comm = ranks.comm.Dup()
        self._window: MPI.Win | None = MPI.Win.Allocate(size, self.record.itemsize, comm=self._comm)
        self._memory: NDArray[np.uint8] = np.asarray(self._window.tomemory(), np.uint8)
        self._window.Lock_all()
        ranks.arrays.append(self)

    def __len__(self) -> int:
        return self._n_rows

    @property
    def freed(self) -> bool:
        """Whether the rows are gone."""
        return self._window is None

    def put(self, first: int, records: NDArray[Any]) -> None:
        """Sends rows to their place, and waits for nothing; `records` must not be changed before `complete`."""
        window = self._there()
        for owner, at, part in self._parts(first, _bytes_of(records)):
            window.Put(part, owner, (at, part.size, MPI.BYTE))
        self._on_the_way.append(records)

    def complete(self) -> None:
        """All that this rank has put is in its place; other ranks see it after `meet`."""
        self._there().Flush_all()
        self._on_the_way.clear()

    def meet(self) -> None:
        """Waits for all ranks; what any of them has put is there for all."""
        window = self._there()
        window.Sync()
        sleep_between(self._comm.Ibarrier())
        window.Sync()

    def get(self, first: int, stop: int) -> NDArray[Any]:
        """(stop - first,) records, from the ranks that have them.

        ArgumentError after `free`; WorkerError where MPI cannot get them.
        """
        window = self._there()
        records = np.empty(stop - first, self.record)
        try:
            for owner, at, part in self._parts(first, _bytes_of(records)):
                window.Get(part, owner, (at, part.size, MPI.BYTE))
            window.Flush_all()
        except MPI.Exception as error:
            raise WorkerError(f"rows {first} to {stop - 1} of the other ranks cannot be read: {error}") from None
        return records

    def columns(self) -> dict[str, NDArray[Any]]:
        """ "time" and "values" of all rows; no more than some MiB are held besides. MemoryLimitError without room."""
        values = self.record["values"]
        try:
            found = {"time": np.empty(len(self)), "values": np.empty((len(self), *values.shape), values.base)}
        except MemoryError:
            raise MemoryLimitError(
                f"no room for all rows, {len(self)} of {self.record.itemsize} bytes; write them with out=, or leave "
                "them on the ranks with results='spread'"
            ) from None
        for first, stop in self.in_parts(0, len(self)):
            records = self.get(first, stop)
            for name, array in found.items():
                array[first:stop] = records[name]
        return found

    def in_parts(self, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """Ranges of some MiB."""
        step = max(1, _PART_BYTES // self.record.itemsize)
        for begin in range(first, stop, step):
            yield begin, min(begin + step, stop)

    def local(self) -> NDArray[Any]:
        """(len(own),) a copy of the records in this rank's memory; ArgumentError after `free`."""
        self._there().Sync()
        found: NDArray[Any] = self._memory[: len(self.own) * self.record.itemsize].view(self.record).copy()
        return found

    def free(self) -> None:
        """Gives the memory back: called by all ranks together; by rank 0 alone while the others work for it."""
        if self._window is None:
            return
        if self._serving is not None and self._serving.leads:
            self._serving.broadcast(FreeRows(self.number))
        self.free_here()

    def free_here(self) -> None:
        """Gives the memory back, where all ranks have been told."""
        atexit.unregister(self.free_here)
        if self._window is not None and not MPI.Is_finalized():
            self._memory = np.empty(0, np.uint8)
            self._window.Unlock_all()
            self._window.Free()
            self._window = None
            self._comm.Free()

    def outlive(self) -> None:
        """From now on all ranks free it together, at the latest when they end."""
        self._serving = None
        atexit.register(self.free_here)

    def _there(self) -> MPI.Win:
        if self._window is None:
            raise ArgumentError("this array was freed; its rows are not there any more")
        return self._window

    def _parts(self, first: int, data: NDArray[np.uint8]) -> Iterator[tuple[int, int, NDArray[np.uint8]]]:
        """Owner, its own number of the first row, and the bytes of these rows, for each transfer."""
        most = max(1, _TRANSFER_BYTES // self.record.itemsize)
        done = 0
        while done < len(data):
            owner, at = divmod(first + done, self._block)
            rows = min(len(data) - done, self._block - at, most)
            yield owner, at, data[done : done + rows].reshape(-1)
            done += rows

    def __reduce__(self) -> NoReturn:
        raise ArgumentError("an array that is spread over ranks cannot be pickled; np.asarray(array) is a copy of it")


class GlobalArray:
    """An array with a row for each frame, spread over the ranks of an MPI program; any of them gets any rows.

    `array[100:200]` and `array[7, 0]` get these rows from the ranks that have them, `np.asarray(array)` all. Getting is
    one-sided: others need not take part. Between nodes most MPI libraries answer only when the owner of the rows calls
    MPI the next time. Freed by `free`, or at the end of a `with` block, of one array for all of the same analysis.

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
        """The rows that are in this rank's memory."""
        return self.rows.own

    @property
    def local(self) -> NDArray[Any]:
        """(len(local_rows), ...) a copy of the rows that are in this rank's memory."""
        own = self.rows.own
        return self.of(own.start, self.rows.local())

    def __getitem__(self, key: Any) -> Any:
        """Rows by number or slice, further indices as numpy takes them.

        OutOfRangeError for a row that is not there, ArgumentError for rows by list or mask, and after `free`.
        """
        rows, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
        if rows is Ellipsis:
            return np.asarray(self)[key]
        if isinstance(rows, slice):
            wanted = range(*rows.indices(len(self)))
            if not wanted:
                return self._between(0, 0)[(slice(None), *rest)]
            first, last = min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1])
            found = self._between(first, last + 1)[:: abs(wanted.step)]
            return (found if wanted.step > 0 else found[::-1])[(slice(None), *rest)]
        if isinstance(rows, bool) or not hasattr(rows, "__index__"):
            raise ArgumentError("rows of a spread array are a number or a slice; np.asarray(array) gives all of them")
        number = rows.__index__()
        if not -len(self) <= number < len(self):
            raise OutOfRangeError(f"row {number} is out of range, the array has {len(self)} rows")
        row = self._between(number % len(self), number % len(self) + 1)[0]
        return row[rest] if rest else row

    def __iter__(self) -> Iterator[Any]:
        for first, stop in self.rows.in_parts(0, len(self)):
            yield from self.of(first, self.rows.get(first, stop))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("an array that is spread over ranks can only be copied")
        return np.asarray(self._between(0, len(self)), dtype=dtype)

    def free(self) -> None:
        """Gives the memory back; called by all ranks that have the array. The arrays of one analysis go together."""
        self.rows.free()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.free()

    def __repr__(self) -> str:
        gone = ", freed" if self.rows.freed else ""
        return f"<GlobalArray {self.column!r} {self.shape} {self.dtype}{gone}>"

    def _between(self, first: int, stop: int) -> NDArray[Any]:
        """A range of rows; no more than some MiB are held besides the result."""
        found = np.empty((stop - first, *self.shape[1:]), self.dtype)
        for begin, end in self.rows.in_parts(first, stop):
            found[begin - first : end - first] = self.of(begin, self.rows.get(begin, end))
        return found

    def of(self, first: int, records: NDArray[Any]) -> NDArray[Any]:
        """What this array has of some records."""
        if self.column in ("time", "values"):
            return np.ascontiguousarray(records[self.column])
        frames = numbers(compose(self.rows.frames, (first, 1, len(records)))).astype(np.int64)
        if self.column == "frames":
            return frames
        values = records["values"].reshape(len(records), -1)
        return np.column_stack([frames.astype(np.float64), records["time"], values])


def _bytes_of(records: NDArray[Any]) -> NDArray[np.uint8]:
    return records.view(np.uint8).reshape(len(records), records.dtype.itemsize)


def pack_arrays(value: object) -> tuple[bytes, frozenset[int]]:
    """A value as bytes for the other ranks, and the numbers of the rows whose arrays are part of it."""
    found: set[int] = set()

    class Pickler(pickle.Pickler):
        def persistent_id(self, one: Any) -> tuple[int, str] | None:
            if not isinstance(one, GlobalArray) or one.rows.freed:
                return None
            found.add(one.rows.number)
            return one.rows.number, one.column

    buffer = io.BytesIO()
    Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue(), frozenset(found)


def unpack_arrays(data: bytes, ranks: Ranks, arrived: Callable[[GlobalArray], Any]) -> Any:
    """The value, with `arrived` of each array in the array's place."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, place: Any) -> Any:
            number, column = place
            return arrived(GlobalArray(ranks.arrays[number], column))

    return Unpickler(io.BytesIO(data)).load()

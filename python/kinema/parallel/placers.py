"""Placers: objects that write bytes of this rank at given offsets of a shared file, by pwrite or through MPI-IO."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import Error, FileIOError, from_os, os_errors
from kinema.formats.strategies import Hints, uses_mpiio

if TYPE_CHECKING:
    # processes and Dask workers place bytes without MPI
    from mpi4py import MPI

WRITEBACK_BYTES = 1 << 20
"""Smaller writes (headers, counts, small frames) are left to the kernel."""

Data: TypeAlias = "bytes | memoryview | NDArray[np.uint8]"


class _WritebackThread:
    """Starts writeback while the next bytes are made, so that `sync` waits less; closes the descriptor.

    A thread makes the calls, because the system blocks them if the storage is slow.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._thread: ThreadPoolExecutor | None = None

    def start(self, offset: int, n_bytes: int) -> None:
        """Starts writeback of these bytes, which were written before."""
        if n_bytes < WRITEBACK_BYTES:
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "kinema-writeback")
        self._thread.submit(_core.start_writeback, self._handle, offset, n_bytes)

    def close(self) -> None:
        """Drops requests that have not started: `sync` covers them."""
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)
        os.close(self._handle)


class Placer(Protocol):
    """An open file that this rank writes into. Messages call it `name`.

    `is_collective`: whether all ranks write together: then all of them make each call of `write_at`, perhaps with no
        bytes.
    """

    is_collective: bool

    def write_at(self, offset: int, data: Data) -> None:
        """Writes all bytes, from `offset` on. Raises FileIOError with the byte."""

    def sync(self) -> None:
        """Returns when all data of this rank are on the storage. Raises FileIOError."""

    def close(self) -> None:
        """Closes the file; a second call has no effect."""

    def abandon(self) -> None:
        """After an error, closes whatever this rank can close without the others."""


class FilePlacer:
    """A placer by pwrite, independent on each rank: for the strategies "serial", "direct" and "gather".

    `path`: the file, which exists.
    `name`: name of the file in messages.

    Raises FileNotFound, FileAccessError, FileIOError.
    """

    is_collective = False

    def __init__(self, path: str, name: str) -> None:
        self.name = name
        with os_errors("cannot write the file", name):
            self._handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._is_open, self._writeback = True, _WritebackThread(self._handle)

    def write_at(self, offset: int, data: Data) -> None:
        """As `Placer.write_at`; continues after short writes and interrupted calls."""
        view = bytes_of(data)
        begin, n_bytes = offset, len(view)
        while view:
            try:
                written = os.pwrite(self._handle, view, offset)
            except OSError as error:
                raise _error_at_byte(error, offset, self.name) from None
            view, offset = view[written:], offset + written
        self._writeback.start(begin, n_bytes)

    def begin_sync(self) -> None:
        """Lets the kernel start to write the data so far to the storage, while more are made."""
        _core.start_writeback(self._handle)

    def sync(self) -> None:
        """As `Placer.sync`."""
        with os_errors("cannot write the file", self.name):
            os.fdatasync(self._handle)

    def close(self) -> None:
        """As `Placer.close`."""
        if self._is_open:
            self._is_open = False
            self._writeback.close()

    def abandon(self) -> None:
        """As `Placer.abandon`."""
        with suppress(OSError):
            self.close()


def info_of(hints: Mapping[str, str]) -> MPI.Info:
    """Hints for MPI; the caller frees them."""
    from mpi4py import MPI

    info = MPI.Info.Create()
    for key, value in hints.items():
        info.Set(key, value)
    return info


class MpiPlacer:
    """A placer through MPI-IO: "mpiio" (MPI_File_write_at) and "mpiio-collective" (MPI_File_write_at_all).

    All ranks of `comm` make, sync and close it together.

    `path`, `name`: as `FilePlacer`.
    `collective`: whether `write_at` is collective.
    `hints`: {name: value}; hints for MPI.Info.

    Raises FileIOError.
    """

    def __init__(
        self, comm: MPI.Intracomm, path: str, name: str, *, collective: bool, hints: Mapping[str, str] | None = None
    ) -> None:
        from mpi4py import MPI

        self.name, self.is_collective = name, collective
        info = info_of(hints or {})
        try:
            self._file = MPI.File.Open(comm, path, MPI.MODE_RDWR, info)
        except MPI.Exception as error:
            raise _mpi_error(error, name) from None
        finally:
            info.Free()
        self._is_open = True
        self._writeback: _WritebackThread | None = None
        with suppress(OSError):
            # MPI-IO has no call for this; if the file cannot be opened by its name, `sync` does all the work
            self._writeback = _WritebackThread(os.open(path, os.O_WRONLY | os.O_CLOEXEC))

    def write_at(self, offset: int, data: Data) -> None:
        """As `Placer.write_at`."""
        from mpi4py import MPI

        write = self._file.Write_at_all if self.is_collective else self._file.Write_at
        status = MPI.Status()
        view = bytes_of(data)
        try:
            write(offset, [view, MPI.BYTE], status)
        except MPI.Exception as error:
            raise _mpi_error(error, self.name, offset) from None
        written = status.Get_count(MPI.BYTE)
        if len(view) and written not in (len(view), MPI.UNDEFINED):
            raise FileIOError(
                f"byte {offset}: cannot write the file, {len(view)} bytes expected, {written} written",
                at=self.name,
                offset=offset,
            )
        if self._writeback is not None:
            self._writeback.start(offset, len(view))

    def sync(self) -> None:
        """As `Placer.sync`; collective."""
        from mpi4py import MPI

        try:
            self._file.Sync()
        except MPI.Exception as error:
            raise _mpi_error(error, self.name) from None

    def close(self) -> None:
        """As `Placer.close`; collective."""
        from mpi4py import MPI

        if self._is_open:
            self._is_open = False
            if self._writeback is not None:
                self._writeback.close()
            try:
                self._file.Close()
            except MPI.Exception as error:
                raise _mpi_error(error, self.name) from None

    def abandon(self) -> None:
        """As `Placer.abandon`: no action, because MPI-IO closes a file on all ranks together."""


def opened_placer(comm: MPI.Intracomm, path: str, name: str, strategy: str, hints: Hints) -> Placer:
    """This rank's placer for a file, by strategy; collective."""
    if not uses_mpiio(strategy):
        return FilePlacer(path, name)
    return MpiPlacer(comm, path, name, collective=strategy == "mpiio-collective", hints=hints.info)


def bytes_of(data: Data) -> memoryview:
    """The bytes of the data, without a shape."""
    return (data.data if isinstance(data, np.ndarray) else memoryview(data)).cast("B")


def _error_at_byte(error: OSError, offset: int, name: str) -> Error:
    made = from_os(f"byte {offset}: cannot write the file", error, path=name)
    made.offset = offset
    return made


def _mpi_error(error: MPI.Exception, name: str, offset: int | None = None) -> FileIOError:
    """The error for an MPI-IO error, whose text may have several lines."""
    words = " ".join(error.Get_error_string().split())
    place = "" if offset is None else f"byte {offset}: "
    return FileIOError(f"{place}cannot write the file: {words}", at=name, offset=offset)

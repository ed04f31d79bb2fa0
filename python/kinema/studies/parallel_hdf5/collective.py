"""Readers of MPI ranks through libhdf5 and MPI-IO: independent reads, or collective reads in an agreed order.

All ranks must take part in a collective read, but they have different numbers of reads, may be at different data sets,
and may fail. So before each read an allreduce chooses the data set; ranks that do not need it take part with an empty
selection. The HDF5 calls are in `datasets`.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, CancelledError, InternalError
from kinema.base.input_files import check_regular
from kinema.model.snapshot import TrajectorySnapshot
from kinema.runners.access import AccessMethod
from kinema.runners.mpi.communicator import Ranks, RemoteError, sleep_between
from kinema.runners.mpi.reading import RankReader
from kinema.studies.parallel_hdf5.datasets import (
    MpioFiles,
    MpioSet,
    RowRange,
    bound,
    evenly_spaced,
    sets_of,
    through_mpio,
)

# a rank sends this instead of the number of a data set
_ENDS_ALL = -1
_HAS_ENDED = np.iinfo(np.int64).max


class IndependentReader(RankReader):
    """Each rank reads independently. Opening HDF5 files is collective; one thread of a rank reads at a time."""

    describe = staticmethod(through_mpio)
    _collective = False

    def __init__(self, ranks: Ranks, n_ranks: int, own: _core.Trajectory | None = None) -> None:
        super().__init__(ranks, n_ranks, own)
        self._ranks = ranks
        self._n_ranks = n_ranks
        self._lock = threading.Lock()
        self._comm: MPI.Intracomm | None = None
        self._files: MpioFiles | None = None
        self._order: _ReadOrder | None = None
        self._fixed: dict[MpioSet, NDArray[Any]] = {}

    @classmethod
    def check(cls, method: AccessMethod, trajectory: _core.Trajectory) -> None:
        """Raises ArgumentError if a part is not an HDF5 file, or if threads may not call MPI."""
        for part in trajectory.parts():
            if part["format"] != method.format:
                raise ArgumentError(
                    f"{part['path']}: access {method.name!r} is for {method.format} files, found {part['format']}"
                )
        if MPI.Query_thread() != MPI.THREAD_MULTIPLE:
            raise ArgumentError(
                f"access {method.name!r} needs an MPI library whose threads may all call it (THREAD_MULTIPLE)"
            )

    @property
    def ended_by_another(self) -> bool:
        return self._order is not None and self._order.ended_by_another

    def open(self, files: TrajectorySnapshot, data: NDArray[np.uint8]) -> _core.Trajectory:
        """See `RankReader`; if a file cannot be opened, the error is raised on all ranks."""
        descriptions = files.descriptions(data)
        sets = sets_of(descriptions.values())
        _uninterrupted(lambda: self._open(sets))
        return files.open(data, {path: bound(one, self._read) for path, one in descriptions.items()})

    def _open(self, sets: list[MpioSet]) -> None:
        group = self._ranks.comm.Get_group()
        taking_part = group.Incl(list(range(self._n_ranks)))
        comm = self._comm = self._ranks.comm.Create_group(taking_part)
        taking_part.Free()
        group.Free()
        # a collective open needs files that every rank can open
        _call_on_all(comm, lambda: _check_readable(dict.fromkeys(one.path for one in sets)))
        files = self._files = MpioFiles(comm, sets, collective=self._collective)
        _call_on_all(comm, files.open, or_abort=True)
        if self._collective:
            self._order = _ReadOrder(comm, files, sets)

    def _read(self, source: MpioSet, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Rows of a data set, in any order and repeated as asked."""
        files = self._files
        if files is None:
            raise InternalError(f"{source.path}: rows are asked of a file that is closed")
        read = files.read if self._order is None else self._order.read
        with self._lock:
            shape = files.shape(source)
            if source.fixed:
                if source not in self._fixed:
                    values = files.empty(source, shape)
                    read(source, RowRange(0, 1, 1), values)
                    self._fixed[source] = values
                return np.broadcast_to(self._fixed[source], (len(rows), *shape))
            wanted, places = np.unique(rows, return_inverse=True)
            values = files.empty(source, (len(wanted), *shape[1:]))
            begin = 0
            for run in evenly_spaced(wanted):
                read(source, run, values[begin : begin + run.count])
                begin += run.count
        return values if np.array_equal(wanted, rows) else values[places]

    def finish(self) -> None:
        if self._order is not None:
            self._order.finish()

    def stop(self) -> None:
        if self._order is not None:
            self._order.stop()

    def wait(self) -> None:
        if self._order is not None:
            self._order.wait()

    def close(self) -> None:
        _uninterrupted(self._close)

    def _close(self) -> None:
        if self._files is not None:
            if self._order is not None:
                self._order.stop()
                self._order.join()
            self._files.close()
            self._files = None
        if self._comm is not None:
            self._comm.Free()
            self._comm = None


class CollectiveReader(IndependentReader):
    """All ranks take part in each read."""

    _collective = True


class _ReadOrder:
    """The data set that all ranks read next: the first, in the common order, that any of them needs."""

    def __init__(self, comm: MPI.Intracomm, files: MpioFiles, sets: list[MpioSet]) -> None:
        self._comm = comm
        self._files = files
        self._sets = sets
        self._stopped = False
        self._over = False
        self._finishing: threading.Thread | None = None
        self._failed: Exception | None = None
        self.ended_by_another = False

    def read(self, source: MpioSet, rows: RowRange, out: NDArray[Any]) -> None:
        """As `MpioFiles.read`, when it is this data set's turn. Raises CancelledError if another rank has stopped."""
        own = self._sets.index(source)
        while (number := self._next(own)) != own:
            if number == _ENDS_ALL:
                raise CancelledError("another rank has ended the reading")
            self._files.take_part(self._sets[number])
        self._files.read(source, rows, out)

    def finish(self) -> None:
        """Starts a thread that takes part in the reads of other ranks from now on."""
        if self._finishing is None and not self._over:
            self._finishing = threading.Thread(target=self._take_part, daemon=True)
            self._finishing.start()

    def stop(self) -> None:
        """Ends the reading on all ranks at the next read."""
        self._stopped = True
        self.finish()

    def join(self) -> None:
        """Waits until that thread has ended."""
        if self._finishing is not None:
            self._finishing.join()

    def wait(self) -> None:
        """As `join`; raises the error of the thread."""
        self.join()
        if self._failed is not None:
            raise self._failed

    def _take_part(self) -> None:
        while not self._over:
            number = self._next(_HAS_ENDED)
            if number in (_ENDS_ALL, _HAS_ENDED):
                return
            try:
                self._files.take_part(self._sets[number])
            except Exception as error:
                self._failed = error
                self._stopped = True

    def _next(self, request: int) -> int:
        """The data set that all ranks read next, or the end: the smallest number that any rank has sent."""
        if self._over:
            return _ENDS_ALL
        own = np.array([_ENDS_ALL if self._stopped else request], np.int64)
        smallest = np.empty(1, np.int64)
        sleep_between(self._comm.Iallreduce(own, smallest, MPI.MIN))
        number = int(smallest[0])
        self._over = number in (_ENDS_ALL, _HAS_ENDED)
        self.ended_by_another = number == _ENDS_ALL and own[0] != _ENDS_ALL
        return number


def _check_readable(paths: Iterable[str]) -> None:
    for path in paths:
        check_regular(path, "HDF5 file")


def _call_on_all(comm: MPI.Intracomm, work: Callable[[], object], *, or_abort: bool = False) -> None:
    """Makes the call; if it fails on some ranks, the first rank's error is raised on all.

    `or_abort`: ends the whole job if only some ranks have failed, because the others could not release their resources.
    """
    failed = None
    try:
        work()
    except Exception as error:
        failed = RemoteError.wrap(error, comm.Get_rank())
    errors = [one for one in comm.allgather(failed) if one is not None]
    if errors:
        if or_abort and len(errors) < comm.Get_size():
            traceback.print_exception(errors[0].unwrap())
            comm.Abort(1)
        raise errors[0].unwrap()


def _uninterrupted(work: Callable[[], None]) -> None:
    """Makes the call in a thread, so that Ctrl-C and the like, raised in the main thread, cannot end it half-way.

    Otherwise other ranks would wait for this one for ever. Errors of either thread are raised afterwards.
    """
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        try:
            thread.join()
        except BaseException as error:
            failed.append(error)
    if failed:
        raise failed[0]

"""Reading HDF5 files through libhdf5 and MPI-IO on the ranks of a round, each by itself or all at the same time.

It reads no bytes itself; `h5md.mpio` does. A collective read is a call that all ranks make together, but they have
different numbers of reads, may be at different data sets, and may fail: before each read they agree what is read, and
whoever wants none of it takes part with an empty selection.
"""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema import _core
from kinema.errors import CancelledError, InternalError, from_os
from kinema.h5md.mpio import MpioFiles, MpioSet, Rows, bound, evenly_spaced, sets_of
from kinema.runners.known_files import KnownFiles
from kinema.runners.mpi.ranks import Ranks, Travelling, sleep_between
from kinema.runners.mpi.reading import RankReads

__all__ = ["MpioReads"]

# what a rank says instead of the number of a data set
_ENDS_ALL = -1
_HAS_ENDED = np.iinfo(np.int64).max


class MpioReads(RankReads):
    """All HDF5 files are opened by all ranks together; one thread of a rank reads at a time."""

    def __init__(self, ranks: Ranks, n_ranks: int, *, collective: bool) -> None:
        super().__init__()
        self._ranks = ranks
        self._n_ranks = n_ranks
        self._collective = collective
        self._lock = threading.Lock()
        self._comm: MPI.Intracomm | None = None
        self._files: MpioFiles | None = None
        self._turns: _Turns | None = None
        self._fixed: dict[MpioSet, NDArray[Any]] = {}

    @property
    def ended_by_another(self) -> bool:
        """See `RankReads`."""
        return self._turns is not None and self._turns.ended_by_another

    def open(self, files: KnownFiles, data: NDArray[np.uint8]) -> _core.Trajectory:
        """See `RankReads`; where a file cannot be opened the error is raised on all ranks."""
        found = files.descriptions(data)
        sets = sets_of(found.values())
        _uninterrupted(lambda: self._open(sets))
        return files.open(data, {path: bound(said, self._read) for path, said in found.items()})

    def _open(self, sets: list[MpioSet]) -> None:
        group = self._ranks.comm.Get_group()
        taking_part = group.Incl(list(range(self._n_ranks)))
        comm = self._comm = self._ranks.comm.Create_group(taking_part)
        taking_part.Free()
        group.Free()
        # what libhdf5 opens together must be there for all
        _on_all(comm, lambda: _look_at(dict.fromkeys(one.path for one in sets)))
        files = self._files = MpioFiles(comm, sets, collective=self._collective)
        _on_all(comm, files.open, or_abort=True)
        if self._collective:
            self._turns = _Turns(comm, files, sets)

    def _read(self, source: MpioSet, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Rows of a data set, in any order and repeated as asked."""
        files = self._files
        if files is None:
            raise InternalError(f"{source.path}: rows are asked of a file that is closed")
        read = files.read if self._turns is None else self._turns.read
        with self._lock:
            shape = files.shape(source)
            if source.fixed:
                if source not in self._fixed:
                    values = files.empty(source, shape)
                    read(source, Rows(0, 1, 1), values)
                    self._fixed[source] = values
                return np.broadcast_to(self._fixed[source], (len(rows), *shape))
            wanted, places = np.unique(rows, return_inverse=True)
            found = files.empty(source, (len(wanted), *shape[1:]))
            begin = 0
            for run in evenly_spaced(wanted):
                read(source, run, found[begin : begin + run.count])
                begin += run.count
        return found if np.array_equal(wanted, rows) else found[places]

    def finish(self) -> None:
        """See `RankReads`."""
        if self._turns is not None:
            self._turns.finish()

    def stop(self) -> None:
        """See `RankReads`."""
        if self._turns is not None:
            self._turns.stop()

    def wait(self) -> None:
        """See `RankReads`."""
        if self._turns is not None:
            self._turns.wait()

    def close(self) -> None:
        """See `RankReads`."""
        _uninterrupted(self._close)

    def _close(self) -> None:
        if self._files is not None:
            if self._turns is not None:
                self._turns.stop()
                self._turns.join()
            self._files.close()
            self._files = None
        if self._comm is not None:
            self._comm.Free()
            self._comm = None


class _Turns:
    """Which data set all ranks read next: the first, in their order, that any of them wants."""

    def __init__(self, comm: MPI.Intracomm, files: MpioFiles, sets: list[MpioSet]) -> None:
        self._comm = comm
        self._files = files
        self._sets = sets
        self._stopped = False
        self._over = False
        self._finishing: threading.Thread | None = None
        self._failed: Exception | None = None
        self.ended_by_another = False

    def read(self, source: MpioSet, rows: Rows, out: NDArray[Any]) -> None:
        """`MpioFiles.read` when it is this data set's turn. CancelledError where another rank has stopped."""
        own = self._sets.index(source)
        while (number := self._next(own)) != own:
            if number == _ENDS_ALL:
                raise CancelledError("another rank has ended the reading")
            self._files.take_part(self._sets[number])
        self._files.read(source, rows, out)

    def finish(self) -> None:
        """From now on a thread takes part in what others read."""
        if self._finishing is None and not self._over:
            self._finishing = threading.Thread(target=self._take_part, daemon=True)
            self._finishing.start()

    def stop(self) -> None:
        """At the next turn all ranks are told to read no more."""
        self._stopped = True
        self.finish()

    def join(self) -> None:
        """Until that thread has ended."""
        if self._finishing is not None:
            self._finishing.join()

    def wait(self) -> None:
        """The same; raises what went wrong in it."""
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

    def _next(self, wish: int) -> int:
        """What all ranks do next, the same on each: the smallest of what they say."""
        if self._over:
            return _ENDS_ALL
        told = np.array([_ENDS_ALL if self._stopped else wish], np.int64)
        found = np.empty(1, np.int64)
        sleep_between(self._comm.Iallreduce(told, found, MPI.MIN))
        number = int(found[0])
        self._over = number in (_ENDS_ALL, _HAS_ENDED)
        self.ended_by_another = number == _ENDS_ALL and told[0] != _ENDS_ALL
        return number


def _look_at(paths: Iterable[str]) -> None:
    for path in paths:
        try:
            os.close(os.open(path, os.O_RDONLY))
        except OSError as error:
            raise from_os("opening", error, path) from None


def _on_all(comm: MPI.Intracomm, work: Callable[[], object], *, or_abort: bool = False) -> None:
    """Calls it; where it fails on some ranks the first one's error is raised on all.

    `or_abort`: ranks where it went well could not give back what they have, and the whole job is ended.
    """
    failed = None
    try:
        work()
    except Exception as error:
        failed = Travelling.of(error, comm.Get_rank())
    told = [one for one in comm.allgather(failed) if one is not None]
    if told:
        if or_abort and len(told) < comm.Get_size():
            traceback.print_exception(told[0].arrived())
            comm.Abort(1)
        raise told[0].arrived()


def _uninterrupted(work: Callable[[], None]) -> None:
    """Calls it in a thread: Ctrl-C and its like, which come to the main thread, cannot end it half-way.

    Other ranks would wait for this one for ever. What came meanwhile is raised afterwards.
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

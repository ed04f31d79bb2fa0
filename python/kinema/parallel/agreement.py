"""Agreement between ranks: a call that fails on one rank raises the same error, naming that rank, on all ranks.

A waiting rank yields its core: ranks often outnumber the cores, and MPI's own wait spins.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, CancelledError
from kinema.runners.mpi.communicator import RemoteError, broadcast_bytes

T = TypeVar("T")

# seconds of tests that only yield to other processes before sleeping begins: large messages move in small pieces, one
# or a few with each test
_AWAKE = 0.02
# the same for a few numbers, which arrive whole: a late rank is busy, on this core if there is no other
AWAKE_BRIEFLY = 0.0002
# tests between sleeps
_TESTS = 64
# seconds of a sleep; longer sleeps would delay the many small calls of a frame
_SHORTEST, _LONGEST = 0.00002, 0.0003
# buffers that MPI may still use: of ranks that have left, and of ranks that have waited for them
_ABANDONED: list[tuple[MPI.Request, Any]] = []
# tag of the message that a leaving rank sends
_LEFT = 32_010
# largest size of that message: MPI delivers a short message without further help from the sender
_SHORT = 4096
# seconds for which a call waits for a rank that has announced its leaving, because it may still take part
_LAST_WORD = 1.0


class WriterTimings(dict[str, float]):
    """Seconds of this rank by activity, summed over calls."""

    NAMES = ("sort", "communicate", "encode", "write", "sync", "verify")

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(self.NAMES, 0.0))

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Adds the time of the block."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self[name] += time.perf_counter() - begin


class Agreement:
    """The ranks of a private communicator, and methods by which they agree.

    All methods are collective. `comm` is a duplicate that nobody else uses.
    """

    def __init__(self, comm: MPI.Intracomm, timings: WriterTimings) -> None:
        self.comm, self.timings = comm, timings
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        # time at which a rank's leaving was noticed, and its error
        self._left: tuple[float, RemoteError] | None = None
        self._heard: set[int] = set()
        self.is_broken = False
        """Whether a rank has left without the others: `comm` is no longer usable."""

    @property
    def is_root(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def gathered(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows (n,) of all ranks, (ranks, n)."""
        rows = np.empty((self.size, len(row)), np.int64)
        with self.timings.measure("communicate"):
            wait_for(self.comm.Iallgather(np.ascontiguousarray(row), rows), AWAKE_BRIEFLY)
        return rows

    def announced(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
        """As `gathered`, at the start of a call; raises the error of a rank that has left and makes no more calls."""
        rows, row = np.empty((self.size, len(row)), np.int64), np.ascontiguousarray(row)
        with self.timings.measure("communicate"):
            request = self.comm.Iallgather(row, rows)
            try:
                wait_for(request, AWAKE_BRIEFLY, self._hear_left)
            except BaseException:
                _ABANDONED.append((request, (row, rows)))
                raise
        return rows

    def leave(self, error: BaseException) -> None:
        """Tells the other ranks that this one leaves; not collective. They notice in their next call, however late."""
        sent = RemoteError.wrap(error, self.rank)
        if len(pickle.dumps(sent)) > _SHORT:
            # without its traceback
            what = str(error)[: _SHORT // 4]
            sent = RemoteError.wrap(
                CancelledError(f"rank {self.rank} has left: {type(error).__name__}: {what}"), self.rank
            )
        for rank in range(self.size):
            if rank != self.rank:
                _ABANDONED.append((self.comm.isend(sent, rank, tag=_LEFT), sent))

    def hear_all(self) -> None:
        """Receives the messages of all other ranks after all have left, so that none of them stays in MPI."""
        for rank in set(range(self.size)) - {self.rank} - self._heard:
            self.comm.recv(source=rank, tag=_LEFT)
        self._heard.update(range(self.size))

    def _hear_left(self) -> None:
        """Raises the error of a rank that has left, if it no longer takes part in this call."""
        if self._left is None and not self._hear(MPI.ANY_SOURCE):
            return
        assert self._left is not None
        since, error = self._left
        if time.monotonic() - since > _LAST_WORD:
            self.is_broken = True
            raise error.unwrap() from None

    def _hear(self, rank: int) -> bool:
        """Receives the message of a leaving rank, if there is one."""
        status = MPI.Status()
        message = self.comm.improbe(rank, _LEFT, status)
        if message is None:
            return False
        self._left = time.monotonic(), message.recv()
        self._heard.add(status.Get_source())
        return True

    def fail_with_left(self, rank: int) -> NoReturn:
        """Raises the error of a rank that has left; not collective, because some ranks may have given up earlier."""
        self.is_broken = True
        while self._left is None and not self._hear(rank):
            time.sleep(_LONGEST)
        assert self._left is not None
        raise self._left[1].unwrap() from None

    def gathered_within(self, seconds: float, row: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """As `gathered`; None if some rank has not called it within `seconds`: `comm` is then no longer usable."""
        rows, until = np.empty((self.size, len(row)), np.int64), time.monotonic() + seconds
        request = self.comm.Iallgather(row, rows)
        while not request.Test():
            if time.monotonic() > until:
                _ABANDONED.append((request, (row, rows)))
                self.is_broken = True
                return None
            time.sleep(0.001)
        return rows

    def check(self, error: BaseException | None) -> None:
        """Raises the error of the first rank that has one, on all ranks."""
        failed = self.gathered(np.array([error is not None], np.int64))[:, 0]
        if failed.any():
            self.fail(int(np.argmax(failed)), error)

    def fail(self, rank: int, error: BaseException | None) -> NoReturn:
        """Raises the error of `rank` on all ranks; all must know that it has one."""
        packed = pickle.dumps(RemoteError.wrap(error, rank)) if error is not None and rank == self.rank else b""
        received = self._broadcast(packed, rank)
        if error is not None and not isinstance(error, Exception):
            raise error  # Ctrl-C stays a KeyboardInterrupt on the rank that got it
        raise pickle.loads(received).unwrap() from None

    def together(self, call: Callable[[], T]) -> T:
        """The result of the call on this rank, after all ranks have made it without an error."""
        value, error = None, None
        try:
            value = call()
        except BaseException as raised:
            error = raised
        self.check(error)
        return value  # type: ignore[return-value]

    def call_on_root(self, call: Callable[[], T]) -> T:
        """The result of the call on rank 0, on all ranks; the others do not make the call."""
        packed, error = b"", None
        if self.is_root:
            try:
                packed = pickle.dumps((True, call()))
            except BaseException as raised:
                error = raised
                packed = pickle.dumps((False, RemoteError.wrap(raised, 0)))
        succeeded, value = pickle.loads(self._broadcast(packed, 0))
        if succeeded:
            result: T = value
            return result
        if error is not None and not isinstance(error, Exception):
            raise error
        raise value.unwrap() from None

    def same(self, arguments: dict[str, Any]) -> None:
        """Raises ArgumentError, on all ranks, if these arguments differ from those of rank 0."""
        mine = {name: repr(value) for name, value in arguments.items()}
        expected = pickle.loads(self._broadcast(pickle.dumps(mine) if self.is_root else b"", 0))
        different = [name for name in expected if mine.get(name) != expected[name]]
        error = None
        if different:
            name = different[0]
            error = ArgumentError(
                f"{name}= differs between ranks, expected {expected[name]} as on rank 0, found {mine.get(name)} on "
                f"rank {self.rank}"
            )
        self.check(error)

    def _broadcast(self, packed: bytes, root: int) -> bytes:
        with self.timings.measure("communicate"):
            return broadcast_bytes(self.comm, packed, root)


def wait_for(request: MPI.Request, awake: float = _AWAKE, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Waits for a request: yields to other processes for `awake` seconds, then sleeps between tests.

    `meanwhile` is called after each sleep; an exception from it ends the wait.
    """
    until = time.monotonic() + awake
    while not request.Test():
        if time.monotonic() > until:
            break
        os.sched_yield()
    else:
        return
    pause = _SHORTEST
    while True:
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST)
        meanwhile()
        for _ in range(_TESTS):
            if request.Test():
                return
            os.sched_yield()

"""Any function on the ranks of an MPI program: each takes the next argument when it is free, rank 0 among them.

It knows nothing of leaves; what the function does is somebody else's.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mpi4py import MPI

from kinema.runners.mpi.ranks import Ranks, Travelling
from kinema.runners.worker import call

__all__ = ["Compute", "compute", "lead"]

_TAG = 32_001
# seconds between two looks for what others send
_TICK = 0.001


@dataclass(frozen=True, eq=False)
class Compute:
    """What rank 0 tells all: a pickled function and its arguments, how many ranks take part and their threads."""

    function: bytes
    arguments: Sequence[bytes]
    workers: int
    threads: int


def compute(ranks: Ranks, command: Compute) -> None:
    """Takes part on a rank other than 0, until no argument is left."""
    pending: list[Any] = []
    while ranks.rank < command.workers and (number := _next(ranks, command)) is not None:
        answer = _called(ranks, command, number)
        # rank 0 may be computing: the next one is begun meanwhile
        pending.append(ranks.comm.isend((number, answer), 0, _TAG))
    pending.append(ranks.comm.isend(None, 0, _TAG))
    for request in pending:
        while not request.test()[0]:
            time.sleep(_TICK)


def lead(ranks: Ranks, command: Compute, progress: Callable[[int], None] | None) -> list[Any]:
    """What the function returned, in the order of its arguments; on rank 0."""
    ranks.counter.reset()
    ranks.broadcast(command)
    leading = _Leading(ranks, command, progress)
    try:
        with ranks.counter.serving():
            return leading.run()
    except BaseException:
        # the others end after the argument that they have
        leading.end()
        raise


class _Leading:
    """Rank 0, which computes as the others do and takes in what they send."""

    def __init__(self, ranks: Ranks, command: Compute, progress: Callable[[int], None] | None) -> None:
        self._ranks = ranks
        self._command = command
        self._progress = progress
        self._values: dict[int, Any] = {}
        self._working = ranks.size - 1

    def run(self) -> list[Any]:
        while (number := _next(self._ranks, self._command)) is not None:
            self._take(number, _called(self._ranks, self._command, number))
            self._receive()
        while self._working:
            self._receive()
            time.sleep(_TICK)
        return [self._values[number] for number in range(len(self._command.arguments))]

    def end(self) -> None:
        """Has the others stop, and takes in what is on its way."""
        _exhaust(self._ranks, self._command)
        with self._ranks.counter.serving():
            while self._working:
                if self._message() is False:
                    time.sleep(_TICK)

    def _receive(self) -> None:
        while (message := self._message()) is not False:
            if message is not None:
                self._take(*message)

    def _message(self) -> tuple[int, bytes | Travelling] | Literal[False] | None:
        """What another rank has sent: a number and its answer, None for one that has ended; False: nothing."""
        if not self._ranks.comm.iprobe(MPI.ANY_SOURCE, _TAG):
            return False
        message: tuple[int, bytes | Travelling] | None = self._ranks.comm.recv(source=MPI.ANY_SOURCE, tag=_TAG)
        if message is None:
            self._working -= 1
        return message

    def _take(self, number: int, answer: bytes | Travelling) -> None:
        if isinstance(answer, Travelling):
            error = answer.arrived()
            error.add_note(f"part {number + 1} of {len(self._command.arguments)}")
            raise error
        self._values[number] = pickle.loads(answer)
        if self._progress is not None:
            self._progress(number)


def _next(ranks: Ranks, command: Compute) -> int | None:
    """The number of an argument that no other rank has."""
    number = ranks.counter.next()
    return number if number < len(command.arguments) else None


def _called(ranks: Ranks, command: Compute, number: int) -> bytes | Travelling:
    """What the function returned, as bytes, or why it did not; after an error nobody takes another argument."""
    try:
        return call(command.function, command.arguments[number], command.threads)
    except Exception as error:
        _exhaust(ranks, command)
        return Travelling.of(error, ranks.rank)


def _exhaust(ranks: Ranks, command: Compute) -> None:
    for _ in command.arguments:
        ranks.counter.next()

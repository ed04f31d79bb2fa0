"""Remote calls: any function of many arguments on all ranks; each takes the next argument when it is free.

It serves `MPIRunner.map`; functions may be those of other libraries.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mpi4py import MPI

from kinema.runners.base import CallValues
from kinema.runners.local.worker import call
from kinema.runners.mpi.communicator import Ranks, RemoteError

__all__ = ["RemoteCall", "call_on_ranks", "serve_call"]

_TAG = 32_001
# seconds between two polls for messages
_TICK = 0.001
# values of a rank that rank 0 has not received; with so many it waits
_UNRECEIVED = 2


@dataclass(frozen=True, eq=False)
class RemoteCall:
    """Message of rank 0: a pickled function and its arguments, how many ranks take part, threads of each."""

    function: bytes
    arguments: Sequence[bytes]
    workers: int
    threads: int


def serve_call(ranks: Ranks, command: RemoteCall) -> None:
    """Takes part on a rank other than 0, until no argument is left."""
    pending: list[MPI.Request] = []
    while ranks.rank < command.workers and (number := _next(ranks, command)) is not None:
        answer = _called(ranks, command, number)
        # rank 0 may be computing; synchronous sends are complete when it has begun to receive them
        pending.append(ranks.comm.issend((number, answer), 0, _TAG))
        del answer
        _await(pending, _UNRECEIVED)
    pending.append(ranks.comm.issend(None, 0, _TAG))
    _await(pending, 1)


def _await(pending: list[MPI.Request], fewer_than: int) -> None:
    """Waits until fewer requests than that are pending, and removes those that are done."""
    while True:
        pending[:] = [request for request in pending if not request.test()[0]]
        if len(pending) < fewer_than:
            return
        time.sleep(_TICK)


def call_on_ranks(ranks: Ranks, command: RemoteCall, values: CallValues) -> list[Any]:
    """On rank 0: the values of the function, in the order of its arguments."""
    ranks.counter.reset()
    ranks.broadcast(command)
    root = _CallRoot(ranks, command, values)
    try:
        with ranks.counter.serving():
            return root.run()
    except BaseException:
        # the others end after their current argument
        root.end()
        raise


class _CallRoot:
    """Rank 0: it computes as the others do, and receives their values."""

    def __init__(self, ranks: Ranks, command: RemoteCall, values: CallValues) -> None:
        self._ranks = ranks
        self._command = command
        self._values = values
        self._working = ranks.size - 1

    def run(self) -> list[Any]:
        while (number := _next(self._ranks, self._command)) is not None:
            self._take(number, _called(self._ranks, self._command, number))
            self._receive()
        while self._working:
            self._receive()
            time.sleep(_TICK)
        return self._values.in_order()

    def end(self) -> None:
        """Stops the others and receives what they have sent."""
        _exhaust(self._ranks, self._command)
        with self._ranks.counter.serving():
            while self._working:
                if self._message() is False:
                    time.sleep(_TICK)

    def _receive(self) -> None:
        while (message := self._message()) is not False:
            if message is not None:
                self._take(*message)

    def _message(self) -> tuple[int, bytes | RemoteError] | Literal[False] | None:
        """The next message: number and value, None from a rank that has ended; False where there is none."""
        if not self._ranks.comm.iprobe(MPI.ANY_SOURCE, _TAG):
            return False
        message: tuple[int, bytes | RemoteError] | None = self._ranks.comm.recv(source=MPI.ANY_SOURCE, tag=_TAG)
        if message is None:
            self._working -= 1
        return message

    def _take(self, number: int, answer: bytes | RemoteError) -> None:
        if isinstance(answer, RemoteError):
            error = answer.unwrap()
            error.add_note(f"part {number + 1} of {len(self._command.arguments)}")
            raise error
        self._values.take(number, pickle.loads(answer))


def _next(ranks: Ranks, command: RemoteCall) -> int | None:
    """The number of the next argument for this rank; None after the last."""
    number = ranks.counter.next()
    return number if number < len(command.arguments) else None


def _called(ranks: Ranks, command: RemoteCall, number: int) -> bytes | RemoteError:
    """The pickled value, or the error; after an error the counter is exhausted, so that all ranks stop."""
    try:
        return call(command.function, command.arguments[number], command.threads)
    except Exception as error:
        _exhaust(ranks, command)
        return RemoteError.of(error, ranks.rank)


def _exhaust(ranks: Ranks, command: RemoteCall) -> None:
    for _ in command.arguments:
        ranks.counter.next()

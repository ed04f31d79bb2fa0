"""Remote calls: a function is called with many arguments, on all ranks.

In `MPIRunner.map` each free rank takes the next argument; functions may come from other libraries. In
`MPIRunner.write_in_order` a window has an argument for each rank, and an exclusive scan of the sizes gives the file
offsets of the bytes. All ranks go through the same windows, and agree in each whether a rank has failed: then all end.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema.cache.counts import add_counts, take_counts
from kinema.runners.calls import CalledFunction, CallValues, Received, unpacked_value
from kinema.runners.mpi.communicator import Ranks, RemoteError, answer_until, note_rank, sleep_between

_TAG, _SIZES, _BYTES = 32_001, 32_002, 32_003
# most bytes of a message: MPI counts bytes in 31 bits
_LARGEST_MESSAGE = 1 << 30
# seconds between two polls for messages
_TICK = 0.001
# seconds for which a window may last after a signal
_WINDOW = 2.0
# number of values not yet received by rank 0 at which a rank waits
_UNRECEIVED = 2


@dataclass(frozen=True, eq=False)
class RemoteCall:
    """Message of rank 0: a function, its pickled arguments, and the number of ranks that take part."""

    function: CalledFunction
    arguments: Sequence[bytes]
    workers: int


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
    """Waits until fewer than `fewer_than` requests are pending, and removes the completed ones."""
    while True:
        pending[:] = [request for request in pending if not request.test()[0]]
        if len(pending) < fewer_than:
            return
        time.sleep(_TICK)


def call_on_ranks(ranks: Ranks, command: RemoteCall, values: CallValues) -> None:
    """On rank 0: passes the values of the function to `values` as they arrive."""
    ranks.counter.reset()
    ranks.broadcast(command)
    root = _CallRoot(ranks, command, values)
    try:
        with ranks.counter.serving():
            root.run()
    except BaseException as error:
        # the others end after their current argument
        root.end(error)
        raise


class _CallRoot:
    """Rank 0, which computes like the others and receives their values."""

    def __init__(self, ranks: Ranks, command: RemoteCall, values: CallValues) -> None:
        self._ranks = ranks
        self._command = command
        self._values = values
        self._working = set(range(1, ranks.size))

    def run(self) -> None:
        while (number := _next(self._ranks, self._command)) is not None:
            self._take(number, _called(self._ranks, self._command, number))
            self._receive()
        while self._working:
            self._receive()
            time.sleep(_TICK)

    def end(self, error: BaseException) -> None:
        """Stops the others and receives the values that they have sent; after a signal only from ranks that answer."""
        _exhaust(self._ranks, self._command)
        try:
            self._await_others(error)
        except BaseException as stop:
            # a signal, while ranks were waited for after an error
            self._await_others(stop)
            raise

    def _await_others(self, error: BaseException) -> None:
        until = answer_until(error)
        with self._ranks.counter.serving():
            while self._working:
                if time.monotonic() > until:
                    self._ranks.silent = set(self._working)
                    return
                if self._message() is False:
                    time.sleep(_TICK)

    def _receive(self) -> None:
        while (message := self._message()) is not False:
            if message is not None:
                self._take(*message)

    def _message(self) -> tuple[int, bytes | RemoteError] | Literal[False] | None:
        """The next message: number and value, or None from a rank that has ended; False if there is no message."""
        if not self._ranks.comm.iprobe(MPI.ANY_SOURCE, _TAG):
            return False
        status = MPI.Status()
        message: tuple[int, bytes | RemoteError] | None
        message = self._ranks.comm.recv(source=MPI.ANY_SOURCE, tag=_TAG, status=status)
        if message is None:
            self._working.discard(status.Get_source())
        return message

    def _take(self, number: int, answer: bytes | RemoteError) -> None:
        if isinstance(answer, RemoteError):
            error = answer.unwrap()
            error.add_note(f"part {number + 1} of {len(self._command.arguments)}")
            raise error
        self._values.take(number, unpacked_value(answer))


def _next(ranks: Ranks, command: RemoteCall) -> int | None:
    """The number of the next argument for this rank; None after the last."""
    number = ranks.counter.next()
    return number if number < len(command.arguments) else None


def _called(ranks: Ranks, command: RemoteCall, number: int) -> bytes | RemoteError:
    """The pickled value, or the error; an error exhausts the counter, so that all ranks stop."""
    try:
        return command.function(command.arguments[number])
    except Exception as error:
        _exhaust(ranks, command)
        return RemoteError.wrap(error, ranks.rank)


def _exhaust(ranks: Ranks, command: RemoteCall) -> None:
    for _ in command.arguments:
        ranks.counter.next()


@dataclass(frozen=True, eq=False)
class OrderedWriting:
    """Message of rank 0: a function as in `Runner.write_in_order`, its pickled arguments, the number of ranks that take
    part, the file offset of the first result, and whether rank 0 places all results.
    """

    function: CalledFunction
    arguments: Sequence[bytes]
    workers: int
    offset: int
    gathered: bool


def serve_writing(ranks: Ranks, command: OrderedWriting) -> None:
    """Takes part on a rank other than 0; errors here are raised on rank 0."""
    _Writing(ranks, command, None).run()


def write_on_ranks(ranks: Ranks, command: OrderedWriting, received: Received) -> None:
    """On rank 0: returns when all bytes are in the file; raises the error of any rank."""
    ranks.broadcast(command)
    with _signals_deferred(ranks) as raise_signal:
        writing = _Writing(ranks, command, received, raise_signal)
        writing.run()
    if writing.own_error is not None:
        if isinstance(writing.own_error, Exception) and not writing.taken and ranks.size > 1:
            note_rank(writing.own_error, 0)
        raise writing.own_error
    for error in filter(None, writing.errors):
        raise error.unwrap()
    raise_signal()


class _Writing:
    """One rank in the windows of a call: a piece for each of the first `workers` ranks, in their order.

    `raise_signal`, on rank 0, calls the handler of a signal that came meanwhile.
    """

    def __init__(
        self,
        ranks: Ranks,
        command: OrderedWriting,
        received: Received | None,
        raise_signal: Callable[[], None] = lambda: None,
    ) -> None:
        self._raise_signal = raise_signal
        self._ranks, self._command, self._received = ranks, command, received
        self._offset = command.offset
        self._function: Any = None
        self.own_error: BaseException | None = None
        # whether `received` has raised the error, which is then not an error of this rank's work
        self.taken = False
        self.errors: list[RemoteError | None] = []

    def run(self) -> None:
        """Goes through all windows; afterwards rank 0 has the errors of all ranks."""
        with self._noting_errors():
            self._function = self._command.function.get()
        opens = self._agreed() and hasattr(self._function, "open")
        if opens:
            with self._noting_errors():
                self._function.open(self._ranks.comm)
        if self._agreed():
            workers = self._command.workers
            for first in range(0, len(self._command.arguments), workers):
                if not self._window(range(first, min(first + workers, len(self._command.arguments)))):
                    break
            if opens:
                with self._noting_errors():
                    self._function.close()
        own = None if self.own_error is None else RemoteError.wrap(self.own_error, self._ranks.rank)
        self._ranks.arrive()
        gathered = self._ranks.comm.gather((own, take_counts())) or []
        for _, counts in gathered:
            add_counts(counts)
        self.errors = [error for error, _ in gathered]

    def _agreed(self) -> bool:
        """Whether no rank has failed until now; collective."""
        failed = np.array([self.own_error is not None], np.int64)
        sleep_between(self._ranks.comm.Iallreduce(MPI.IN_PLACE, failed, op=MPI.SUM))
        return not failed[0]

    def _window(self, numbers: range) -> bool:
        """Makes and places the pieces of these numbers; False if a rank has failed."""
        ranks, mine = self._ranks, self._ranks.rank
        data, note = np.empty(0, np.uint8), None
        if mine < len(numbers) and self.own_error is None:
            with self._noting_errors():
                made, note = self._command.function.value(self._command.arguments[numbers[mine]])
                data = np.frombuffer(made, np.uint8)
        with self._noting_errors():
            self._raise_signal()
        size = np.array([data.nbytes, self.own_error is not None], np.int64)
        before, total = np.zeros(2, np.int64), np.zeros(2, np.int64)
        sleep_between(ranks.comm.Iexscan(size, before, op=MPI.SUM))
        sleep_between(ranks.comm.Iallreduce(size, total, op=MPI.SUM))
        if total[1]:
            return False
        # the result of an exclusive scan is not defined on the first rank
        began = self._offset
        place = began + (int(before[0]) if mine else 0)
        self._offset += int(total[0])
        sent: list[MPI.Request] = []
        together = getattr(self._function, "is_collective", False)
        if not self._command.gathered and (mine < len(numbers) or together):
            with self._noting_errors():
                self._function.place(place, data)
        if 0 < mine < len(numbers):
            report = None if self.own_error is not None else (data.nbytes, note)
            sent.append(ranks.comm.issend(report, 0, _SIZES))
            if self._command.gathered:
                for start in range(0, data.nbytes, _LARGEST_MESSAGE):
                    sent.append(ranks.comm.Issend(data[start : start + _LARGEST_MESSAGE], 0, _BYTES))
        if self._received is not None:
            self._take(numbers, began, (data, note))
        for request in sent:
            sleep_between(request)
        return True

    def _take(self, numbers: range, offset: int, own: tuple[NDArray[np.uint8], Any]) -> None:
        """On rank 0: records the outcome of each piece, in order; pieces after one that is not in the file do not
        count."""
        well = True
        for rank, number in enumerate(numbers):
            report: tuple[int, Any] | None = (own[0].nbytes, own[1])
            if rank:
                report = self._message(rank)
            if report is None:
                well = False
                continue
            # even after an error: the rank waits until its bytes are received
            data = own[0]
            if self._command.gathered and rank:
                data = self._bytes(rank, report[0])
            if not well or self.own_error is not None:
                continue
            with self._noting_errors():
                if self._command.gathered:
                    self._function.place(offset, data)
                offset += report[0]
                self.taken = True
                assert self._received is not None
                self._received(number, *report)
                self.taken = False

    def _message(self, rank: int) -> Any:
        while (message := self._ranks.comm.improbe(rank, _SIZES)) is None:
            time.sleep(_TICK)
        return message.recv()

    def _bytes(self, rank: int, size: int) -> NDArray[np.uint8]:
        data = np.empty(size, np.uint8)
        for start in range(0, size, _LARGEST_MESSAGE):
            sleep_between(self._ranks.comm.Irecv(data[start : start + _LARGEST_MESSAGE], rank, _BYTES))
        return data

    @contextmanager
    def _noting_errors(self) -> Iterator[None]:
        """Context in which an error ends the call with the next window; only the first error counts."""
        try:
            yield
        except BaseException as error:
            if self.own_error is None:
                self.own_error = error


@contextmanager
def _signals_deferred(ranks: Ranks) -> Iterator[Any]:
    """Context that only records signals that end the call: in the middle of a window other ranks wait for this one.

    It yields a function that calls the handler of a recorded signal. If the window does not end in time, because one of
    its ranks is stopped, the handler is called anyway, and all ranks are ended if that does not help.
    """
    came: list[tuple[int, FrameType | None]] = []
    before: dict[int, Any] = {}
    waiting: list[threading.Timer] = []

    def raise_signal() -> None:
        while came:
            number, frame = came.pop()
            if callable(before[number]):
                before[number](number, frame)

    def came_again(number: int) -> None:
        ranks.silent = set()
        ranks.end_by(128 + number, at_once=False)
        os.kill(os.getpid(), number)

    def defer(number: int, frame: FrameType | None) -> None:
        came.append((number, frame))
        if ranks.silent is not None:
            raise_signal()
        elif not waiting and ranks.size > 1:
            waiting.append(threading.Timer(_WINDOW, came_again, [number]))
            waiting[0].daemon = True
            waiting[0].start()

    if threading.current_thread() is threading.main_thread():
        for one in (signal.SIGINT, signal.SIGTERM):
            before[one] = signal.getsignal(one)
            signal.signal(one, defer)
    try:
        yield raise_signal
    finally:
        for timer in waiting:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)

"""Calls of a function on workers: the function as they are sent it, its values as they come, and writing in order.

`Runner.map` and `Runner.write_in_order` are made of these on every runner.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any, Protocol

from kinema.base.frozen_dataclass import dataclass
from kinema.base.resources import share_of_machine
from kinema.base.serialisation import serialize
from kinema.base.tracing.recording import TraceOfRun
from kinema.cache.counts import SentCounts, add_counts, take_counts

__all__ = ["CallValues", "CalledFunction", "OrderedWork", "PlacedInOrder", "Receive", "Received", "unpacked_value"]

# takes the value of a computation of `Runner.map`, with its number
Receive = Callable[[int, Any], None]
# takes number, bytes and note of a computation of `Runner.write_in_order`
Received = Callable[[int, int, Any], None]


class OrderedWork(Protocol):
    """What `Runner.write_in_order` calls on workers, to whom it is sent once.

    With methods `open(comm)` and `close()`, which all MPI ranks call together, it is for the MPI runner alone; with
    `is_collective` all ranks call `place` together, perhaps without bytes.
    """

    def __call__(self, computation: Any, /) -> tuple[Any, Any]:
        """Bytes (any buffer), and a small note on them for the process that leads."""

    def place(self, offset: int, data: Any) -> None:
        """Puts bytes into the file; safe to be called in several threads.

        What was put is on the storage when it returns, where the process that leads cannot sync it.
        """


class CalledFunction:
    """A pickled function as workers call it: a copy for each call, or one for all calls of a worker.

    A function may hold state, such as an analysis with results or a reader that stands at a frame, and which calls a
    worker gets depends on timing. One that says `unpickled_once = True` holds none that a call changes for others, and
    is called by several threads of a worker at a time. One that says `may_run_in_caller = True` may be called in the
    process of the caller as well, while workers start.

    Parameters
    ----------
    packed : bytes
    threads : int
        Threads that pools of libraries have meanwhile.
    once : bool
    """

    def __init__(self, packed: bytes, threads: int, once: bool, trace: TraceOfRun | None = None) -> None:
        self._packed, self._threads, self._once = packed, threads, once
        self._trace = TraceOfRun.current() if trace is None else trace
        self._lock = threading.Lock()
        self._function: Any = None

    @classmethod
    def from_function(cls, function: Callable[[Any], Any], threads: int = 1) -> CalledFunction:
        """To be sent to workers. Raises what pickling raises."""
        return cls(serialize(function), threads, bool(getattr(function, "unpickled_once", False)))

    def __reduce__(self) -> tuple[Any, ...]:
        return CalledFunction, (self._packed, self._threads, self._once, self._trace)

    def __sizeof__(self) -> int:
        return len(self._packed)

    def get(self) -> Any:
        """The function for a call."""
        if not self._once:
            return pickle.loads(self._packed)
        with self._lock:
            if self._function is None:
                self._function = pickle.loads(self._packed)
            return self._function

    def value(self, argument: bytes) -> Any:
        """Its value for a pickled argument, in one of many processes of a machine."""
        with share_of_machine(self._threads), self._trace.joined():
            return self.get()(pickle.loads(argument))

    def __call__(self, argument: bytes) -> bytes:
        """The same for `unpacked_value`, with what node caches have counted meanwhile."""
        value = self.value(argument)
        return serialize(_Computed(value, take_counts()))


@dataclass(frozen=True, eq=False)
class _Computed:
    value: Any
    counts: SentCounts | None


def unpacked_value(packed: bytes) -> Any:
    """The value that a worker has computed; what its node caches have counted is added to that of this process."""
    computed: _Computed = pickle.loads(packed)
    add_counts(computed.counts)
    return computed.value


class CallValues:
    """The values of the computations of one call, as they come.

    Parameters
    ----------
    total : int
        Number of computations.
    progress, receive : function, optional
        As of `Runner.map`.
    ahead : int, optional
        No computation begins that is so many or more behind the first whose value has not come; None: any may.
    """

    def __init__(
        self,
        total: int,
        progress: Callable[[int], None] | None = None,
        receive: Receive | None = None,
        ahead: int | None = None,
    ) -> None:
        self.total = total
        self._progress = progress
        self._receive = receive
        self._ahead = total if ahead is None else ahead
        self._values: dict[int, Any] = {}
        # those that have come: all before the first that has not, and others
        self._missing = 0
        self._beyond: set[int] = set()

    @property
    def complete(self) -> bool:
        """Whether all have come."""
        return self._missing == self.total

    def may_begin(self, number: int) -> bool:
        """Whether there is a computation of that number, and it may begin now."""
        return number < min(self.total, self._missing + self._ahead)

    def take(self, number: int, value: Any) -> None:
        """Takes the value of a computation, and reports that it is done."""
        if self._receive is None:
            self._values[number] = value
        else:
            self._receive(number, value)
        self._beyond.add(number)
        while self._missing in self._beyond:
            self._beyond.discard(self._missing)
            self._missing += 1
        if self._progress is not None:
            self._progress(number)

    def ordered_values(self) -> list[Any]:
        """The values in the order of their computations; none where `receive` has got them."""
        return [self._values[number] for number in sorted(self._values)]


class PlacedInOrder:
    """Values of `OrderedWork` functions that have come to one process, which places them one behind the other.

    Parameters
    ----------
    function : OrderedWork
    offset : int
        Where the first is placed.
    received : function
        As of `Runner.write_in_order`.
    """

    def __init__(self, function: OrderedWork, offset: int, received: Received) -> None:
        self._function = function
        self._offset = offset
        self._received = received
        self._next = 0
        self._waiting: dict[int, tuple[Any, Any]] = {}

    def receive(self, number: int, value: tuple[Any, Any]) -> None:
        """Places a value, and those that wait for it; or it waits for those before."""
        self._waiting[number] = value
        while (found := self._waiting.pop(self._next, None)) is not None:
            data, note = found
            size = memoryview(data).nbytes
            self._function.place(self._offset, data)
            self._offset += size
            self._next += 1
            self._received(self._next - 1, size, note)

"""Calls of a function on workers: the function in the form that is sent, its values as they arrive, ordered writing.

Every runner builds `Runner.map` and `Runner.write_in_order` from these parts.
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

# takes the number and the value of a computation of `Runner.map`
Receive = Callable[[int, Any], None]
# takes number, size and note of a computation of `Runner.write_in_order`
Received = Callable[[int, int, Any], None]


class OrderedWork(Protocol):
    """A function that `Runner.write_in_order` sends to workers once and calls there.

    A function with methods `open(comm)` and `close()`, which all MPI ranks call together, works only with the MPI
    runner. With `is_collective`, all ranks call `place` together, perhaps without bytes.
    """

    def __call__(self, computation: Any, /) -> tuple[Any, Any]:
        """Returns bytes (any buffer), and a small note on them for the leading process."""

    def place(self, offset: int, data: Any) -> None:
        """Writes bytes into the file; may be called by several threads.

        If the leading process cannot sync the bytes, they are on the storage when this returns.
        """


class CalledFunction:
    """A pickled function that workers call: a copy for each call, or one copy for all calls of a worker.

    A function may hold state, such as an analysis with results or a reader positioned at a frame, and the calls that a
    worker gets depend on timing. A function with `unpickled_once = True` has no state that one call changes for others;
    several threads of a worker call it at the same time. A function with `may_run_in_caller = True` may also be called
    in the caller's process while workers start.

    `threads`: threads that thread pools of libraries may use during calls.
    """

    def __init__(self, packed: bytes, threads: int, once: bool, trace: TraceOfRun | None = None) -> None:
        self._packed, self._threads, self._once = packed, threads, once
        self._trace = TraceOfRun.current() if trace is None else trace
        self._lock = threading.Lock()
        self._function: Any = None

    @classmethod
    def from_function(cls, function: Callable[[Any], Any], threads: int = 1) -> CalledFunction:
        """Pickles a function to be sent to workers. Raises what pickling raises."""
        return cls(serialize(function), threads, bool(getattr(function, "unpickled_once", False)))

    def __reduce__(self) -> tuple[Any, ...]:
        return CalledFunction, (self._packed, self._threads, self._once, self._trace)

    def __sizeof__(self) -> int:
        return len(self._packed)

    def get(self) -> Any:
        """Returns the function for a call."""
        if not self._once:
            return pickle.loads(self._packed)
        with self._lock:
            if self._function is None:
                self._function = pickle.loads(self._packed)
            return self._function

    def value(self, argument: bytes) -> Any:
        """The function's value for a pickled argument, in one of many processes of a machine."""
        with share_of_machine(self._threads), self._trace.joined():
            return self.get()(pickle.loads(argument))

    def __call__(self, argument: bytes) -> bytes:
        """The same as bytes for `unpacked_value`, with the counts of node caches since the last call."""
        value = self.value(argument)
        return serialize(_Computed(value, take_counts()))


@dataclass(frozen=True, eq=False)
class _Computed:
    value: Any
    counts: SentCounts | None


def unpacked_value(packed: bytes) -> Any:
    """The value that a worker has computed; adds the counts of its node caches to those of this process."""
    computed: _Computed = pickle.loads(packed)
    add_counts(computed.counts)
    return computed.value


class CallValues:
    """Collects the values of the computations of one call as they arrive.

    `progress`, `receive`: as in `Runner.map`.
    `ahead`: a computation may begin if its number is less than `ahead` after the first whose value has not arrived;
        None: any may begin.
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
        # numbers that have arrived: all before the first missing one, and some beyond it
        self._missing = 0
        self._beyond: set[int] = set()

    @property
    def complete(self) -> bool:
        """Whether all values have arrived."""
        return self._missing == self.total

    def may_begin(self, number: int) -> bool:
        """Whether a computation of that number exists and may begin now."""
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
        """The values in the order of their computations; empty if `receive` has taken them."""
        return [self._values[number] for number in sorted(self._values)]


class PlacedInOrder:
    """Places the values of an `OrderedWork` function, which have come to this process, one after the other.

    `offset`: file offset of the first value.
    `received`: as in `Runner.write_in_order`.
    """

    def __init__(self, function: OrderedWork, offset: int, received: Received) -> None:
        self._function = function
        self._offset = offset
        self._received = received
        self._next = 0
        self._waiting: dict[int, tuple[Any, Any]] = {}

    def receive(self, number: int, value: tuple[Any, Any]) -> None:
        """Places a value and the values that wait for it, or holds it until all earlier ones have arrived."""
        self._waiting[number] = value
        while (found := self._waiting.pop(self._next, None)) is not None:
            data, note = found
            size = memoryview(data).nbytes
            self._function.place(self._offset, data)
            self._offset += size
            self._next += 1
            self._received(self._next - 1, size, note)

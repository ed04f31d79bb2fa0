"""`VirtualTime`: a discrete-event simulation in whole nanoseconds, with queues, locks and signals.

Processes are generators. A process yields the time at which it continues, or a `Signal` that it waits for. Events at
the same time happen in the order in which they were scheduled, so a simulation always gives the same result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from heapq import heappop, heappush, heapreplace
from typing import TypeAlias

from kinema.base.errors import ArgumentError


class Signal:
    """Something that processes wait for; it is fired once."""

    __slots__ = ("_time", "_waiting", "fired")

    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        self._waiting: list[Process] = []
        self.fired = False

    def fire(self) -> None:
        """Lets all waiting processes continue now, in the order in which they came."""
        self.fired = True
        for process in self._waiting:
            self._time.resume_at(self._time.now, process)
        self._time.n_waiting -= len(self._waiting)
        self._waiting = []

    def add(self, process: Process) -> None:
        """Lets a process wait; it continues at once if the signal was fired before."""
        if self.fired:
            self._time.resume_at(self._time.now, process)
        else:
            self._waiting.append(process)
            self._time.n_waiting += 1


Process: TypeAlias = Generator[int | Signal, None, None]


class VirtualTime:
    """A clock and the processes that it drives.

    `now`: nanoseconds since the start.
    `n_waiting`: processes that wait for a signal.
    """

    def __init__(self) -> None:
        self.now = 0
        self.n_waiting = 0
        self._events: list[tuple[int, int, Process]] = []
        self._number = 0

    def start(self, process: Process) -> None:
        """Starts a process now."""
        self.resume_at(self.now, process)

    def resume_at(self, time: int, process: Process) -> None:
        """Schedules a process that is not waiting for anything else."""
        self._number += 1
        heappush(self._events, (time, self._number, process))

    def run(self) -> int:
        """Runs until all processes have ended; returns the time of the last event.

        Raises ArgumentError if processes are left that wait for each other.
        """
        events = self._events
        while events:
            self.now, _, process = heappop(events)
            wanted = next(process, None)
            if wanted is None:
                continue
            if isinstance(wanted, int):
                self.resume_at(wanted, process)
            else:
                wanted.add(process)
        if self.n_waiting:
            raise ArgumentError(f"programs of the laboratory wait for each other: {self.n_waiting} never continue")
        return self.now


class FifoQueue:
    """One or several equal servers with one queue: first come, first served.

    A server that is idle works ahead, for `ahead` ns at most: the next request finds as much of its work done.

    `busy`: nanoseconds of service so far, of all servers together.
    """

    __slots__ = ("_ahead", "_free", "_time", "busy")

    def __init__(self, time: VirtualTime, n_servers: int = 1, ahead: int = 0) -> None:
        self._time = time
        self._ahead = ahead
        self._free = [-ahead] * n_servers
        self.busy = 0

    def serve(self, ns: int) -> int:
        """The time at which a request that arrives now, and takes `ns` of service, is done."""
        now = self._time.now
        done = max(now - self._ahead, self._free[0]) + ns
        heapreplace(self._free, done)
        self.busy += ns
        return max(now, done)


class MutualExclusion:
    """A lock that one process holds at a time; the others wait in the order in which they came."""

    __slots__ = ("_held", "_time", "_waiting")

    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        self._held = False
        self._waiting: deque[Signal] = deque()

    def acquire(self) -> Process:
        """Returns when the process holds the lock."""
        if self._held:
            signal = Signal(self._time)
            self._waiting.append(signal)
            yield signal
        self._held = True

    def release(self) -> None:
        """Hands the lock to the next process."""
        if self._waiting:
            # it stays held, so that no process overtakes those that wait
            self._waiting.popleft().fire()
        else:
            self._held = False

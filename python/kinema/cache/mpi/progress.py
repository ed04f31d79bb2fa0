"""Waiting for MPI without spinning, and a thread that lets it carry out what other ranks ask of this one."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# seconds between two tests of a request: short at first, longer while nothing happens
_SHORTEST, _LONGEST = 0.00005, 0.002
# of no message
_NO_TAG = 32_000
# seconds between two calls of the progress thread: the longest that other ranks wait for it
_TICK = 0.0005


def sleep_between(request: Any, deadline: float = math.inf, longest: float = _LONGEST) -> bool:
    """Waits for a request, sleeping between tests: MPI's own wait spins on a core that another rank may need.

    False if it is not done at the deadline, a `time.monotonic` value. `longest`: most seconds between two tests.
    """
    pause = min(_SHORTEST, longest)
    while not request.Test():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(2 * pause, longest)
    return True


@contextmanager
def progressing(comm: Any, is_wanted: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Context in which a thread of this rank calls MPI every half millisecond, for one-sided operations of others.

    While `is_wanted()`, the thread calls MPI without pauses: large transfers take many calls. Most MPI libraries carry
    out one-sided operations only when the owner of the memory calls MPI. Needs MPI_THREAD_MULTIPLE.
    """
    ended = threading.Event()
    own = comm.Get_rank()

    def serve() -> None:
        while not ended.is_set():
            # any call makes progress
            comm.Iprobe(source=own, tag=_NO_TAG)
            time.sleep(0 if is_wanted() else _TICK)

    thread = threading.Thread(target=serve, daemon=True, name="kinema-mpi-progress")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()

"""Tasks in threads, while the waiting thread reports and saves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

# seconds between two reports
_INTERVAL = 0.1


class ThreadBuffers:
    """A buffer for each thread, which the thread reuses."""

    def __init__(self) -> None:
        self._own = threading.local()

    def __call__(self, n_bytes: int) -> NDArray[np.uint8]:
        """Uninitialised bytes; overwrites what this thread was given before."""
        kept: NDArray[np.uint8] | None = getattr(self._own, "kept", None)
        if kept is None or len(kept) < n_bytes:
            self._own.kept = kept = np.empty(n_bytes, np.uint8)
        return kept[:n_bytes]


class WholeRows:
    """Counts the finished rows at the front, if many threads finish runs of rows in any order."""

    def __init__(self, first: int, names: Iterable[str]) -> None:
        self._front = dict.fromkeys(names, first)
        self._behind: dict[str, dict[int, int]] = {name: {} for name in self._front}
        self._lock = threading.Lock()

    def add(self, name: str, start: int, stop: int) -> None:
        """Marks rows of one array as finished."""
        with self._lock:
            behind = self._behind[name]
            behind[start] = stop
            while self._front[name] in behind:
                self._front[name] = behind.pop(self._front[name])

    @property
    def front(self) -> int:
        """Number of rows at the front that are finished in all arrays."""
        with self._lock:
            return min(self._front.values())


def carry_out(
    tasks: Iterable[T], work: Callable[[T, Callable[[], bool]], None], workers: int, tick: Callable[[], object]
) -> None:
    """Calls `work(task, stopped)` for all tasks, on `workers` threads; tasks begin in their order.

    This thread calls `tick` about ten times a second. The first error of a task, or of `tick`, ends the work: no
    further task begins, `stopped()` becomes true, the threads are joined, and the error is raised.
    """
    remaining, lock, stop = iter(tasks), threading.Lock(), threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        while not stop.is_set():
            with lock:
                task = next(remaining, None)
            if task is None:
                return
            try:
                work(task, stop.is_set)
            except BaseException as error:
                with lock:
                    errors.append(error)
                stop.set()

    pool = ThreadPoolExecutor(workers, "kinema-archive")
    try:
        pending = {pool.submit(run) for _ in range(workers)}
        while pending:
            _, pending = wait(pending, timeout=_INTERVAL)
            tick()
    finally:
        stop.set()
        pool.shutdown(wait=True)
    if errors:
        raise errors[0]

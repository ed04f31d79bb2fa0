"""Tasks carried out by threads while the thread that waits for them reports and saves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["ThreadBuffers", "WholeRows", "carry_out"]

T = TypeVar("T")

# seconds between two reports
_INTERVAL = 0.1


class ThreadBuffers:
    """A buffer for each thread, which a thread uses again and again."""

    def __init__(self) -> None:
        self._own = threading.local()

    def __call__(self, n_bytes: int) -> NDArray[np.uint8]:
        """Uninitialised bytes; what was given to this thread before is overwritten."""
        kept: NDArray[np.uint8] | None = getattr(self._own, "kept", None)
        if kept is None or len(kept) < n_bytes:
            self._own.kept = kept = np.empty(n_bytes, np.uint8)
        return kept[:n_bytes]


class WholeRows:
    """How many rows at the front are done, where runs of rows are done in any order by many threads."""

    def __init__(self, first: int, names: Iterable[str]) -> None:
        self._front = dict.fromkeys(names, first)
        self._behind: dict[str, dict[int, int]] = {name: {} for name in self._front}
        self._lock = threading.Lock()

    def add(self, name: str, start: int, stop: int) -> None:
        """Rows of one array are done."""
        with self._lock:
            behind = self._behind[name]
            behind[start] = stop
            while self._front[name] in behind:
                self._front[name] = behind.pop(self._front[name])

    @property
    def front(self) -> int:
        """Rows before this one are done in all arrays."""
        with self._lock:
            return min(self._front.values())


def carry_out(
    tasks: Iterable[T], work: Callable[[T, Callable[[], bool]], None], workers: int, tick: Callable[[], object]
) -> None:
    """Calls `work(task, stopped)` for all tasks, which are begun in their order, on so many threads.

    `tick` is called about ten times a second by this thread. The first error of a task, and whatever `tick` raises,
    ends the work: no task is begun, `stopped()` becomes true, threads are waited for, and it is raised.
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

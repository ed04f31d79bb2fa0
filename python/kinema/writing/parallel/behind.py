"""`WriteBehind`: work on files that goes on in a thread while the program computes."""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["WriteBehind"]


class WriteBehind:
    """Does pieces of work one after the other in a thread, of which up to `most` are taken and not done.

    What one of them raises is raised by the next call; those behind it are then left out. No work calls MPI.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._thread = ThreadPoolExecutor(1, "kinema-writing")
        self._waiting: deque[Future[None]] = deque()
        self._failed = False

    def add(self, work: Callable[[], None]) -> None:
        """Takes work; waits until there is room for it."""
        while len(self._waiting) >= self._most:
            self._first_done()
        context = contextvars.copy_context()
        self._waiting.append(self._thread.submit(context.run, self._unless_failed, work))

    def finish(self) -> None:
        """Returns when all work is done."""
        while self._waiting:
            self._first_done()

    def close(self) -> None:
        """Ends the thread after the work that it is at; the rest is left out."""
        self._failed = True
        self._waiting.clear()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _first_done(self) -> None:
        self._waiting.popleft().result()

    def _unless_failed(self, work: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            work()
        except BaseException:
            self._failed = True
            raise

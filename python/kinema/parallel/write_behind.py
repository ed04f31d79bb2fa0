"""`WriteBehind`: work on files in a thread, while the program computes."""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class WriteBehind:
    """Does pieces of work in order in a thread; at most `most` of them are pending.

    If a piece raises, the next call raises its error, and later pieces are dropped. No work calls MPI.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._thread = ThreadPoolExecutor(1, "kinema-writing")
        self._waiting: deque[Future[None]] = deque()
        self._failed = False
        self._n_done = 0

    @property
    def n_done(self) -> int:
        """Number of pieces done without an error, of all that were taken."""
        return self._n_done

    def add(self, work: Callable[[], None]) -> None:
        """Takes work; waits until there is room for it."""
        self.wait(self._most - 1)
        context = contextvars.copy_context()
        self._waiting.append(self._thread.submit(context.run, self._unless_failed, work))

    def wait(self, most_left: int = 0) -> None:
        """Returns when at most `most_left` pieces are pending."""
        while len(self._waiting) > most_left:
            self._waiting.popleft().result()

    def close(self) -> None:
        """Ends the thread after its current piece of work; the rest is dropped."""
        self._failed = True
        self._waiting.clear()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _unless_failed(self, work: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            work()
            self._n_done += 1
        except BaseException:
            self._failed = True
            raise

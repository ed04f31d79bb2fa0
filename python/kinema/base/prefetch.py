"""`Prefetcher`: computes the next request on its own thread; `prefetched`: an iterator that does so."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Request = TypeVar("Request")
Result = TypeVar("Result")


class Prefetcher(Generic[Request, Result]):
    """Calls `compute(request)`; after `start`, before the result is requested.

    One request is computed at a time, so objects that `compute` uses need no lock. The thread begins with the first
    `start` and ends with `close`, or with the object. A forked process has its own thread.

    `compute`: function of a request; requests are compared with ==.
    """

    def __init__(self, compute: Callable[[Request], Result]) -> None:
        self._compute = compute
        self._pool: ThreadPoolExecutor | None = None
        self._pid = 0
        self._coming: tuple[Request, Future[Result]] | None = None

    def start(self, request: Request) -> None:
        """Starts computing this request beside the caller; `take` raises its error."""
        if self._pool is None or self._pid != os.getpid():
            from concurrent.futures import ThreadPoolExecutor

            # a forked child does not have the threads
            self._pool, self._pid = ThreadPoolExecutor(1, "kinema-prefetch"), os.getpid()
        self._coming = (request, self._pool.submit(self._compute, request))

    def take(self, request: Request) -> Result:
        """The result of a request: of the started one, or computed now."""
        coming, self._coming = self._coming, None
        if coming is None or self._pid != os.getpid():
            return self._compute(request)
        if coming[0] == request:
            return coming[1].result()
        # one at a time: a request that was started in vain ends first
        if not coming[1].cancel():
            coming[1].exception()
        return self._compute(request)

    def close(self) -> None:
        """Waits for the current computation, and ends the thread; the object can be used again."""
        self._coming = None
        if self._pool is not None and self._pid == os.getpid():
            self._pool.shutdown(cancel_futures=True)
        self._pool = None

    def __del__(self) -> None:
        # without waiting: the thread ends after its computation
        if self._pool is not None and self._pid == os.getpid():
            self._pool.shutdown(wait=False, cancel_futures=True)


def prefetched(compute: Callable[[Request], Result], requests: Iterable[Request]) -> Generator[Result, None, None]:
    """The results of all requests in their order, each computed while the caller works with the one before.

    At most three results exist at a time: the caller's, the next one, and one that is being computed while the caller
    still holds the former. Errors are raised in place of their results.
    """
    prefetcher = Prefetcher(compute)
    remaining = iter(requests)
    try:
        request = next(remaining)
    except StopIteration:
        return
    try:
        for following in remaining:
            result = prefetcher.take(request)
            prefetcher.start(following)
            yield result
            del result
            request = following
        yield prefetcher.take(request)
    finally:
        prefetcher.close()

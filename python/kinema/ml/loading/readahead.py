"""`Readahead`: the results of tasks in their order, computed ahead on its own threads within a limit of bytes."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import chain
from time import perf_counter
from typing import Generic, NamedTuple, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class _TaskEnd(NamedTuple, Generic[Result]):
    """The outcome of a task."""

    value: Result | None
    error: BaseException | None
    nbytes: int


class _Shared(Generic[Task, Result]):
    """State shared by threads and consumer.

    Threads refer to this alone, so that an iterator that nobody holds can end.
    """

    def __init__(
        self,
        work: Callable[[Task], Result],
        tasks: Iterator[tuple[Task, int]],
        limit: int,
        size: Callable[[Result], int],
    ) -> None:
        self.pid = os.getpid()
        self.work, self.tasks, self.limit, self.size = work, tasks, limit, size
        self.changed = threading.Condition()
        self.done: dict[int, _TaskEnd[Result]] = {}
        self.pending: tuple[Task, int] | None = None
        self.started = 0
        self.exhausted = False
        self.failed = False
        # threads that have not yet been given the end of the tasks
        self.serving = 0
        self.stopped = False
        # bytes of results that are being computed, are ready, or are in the hands of the consumer
        self.held = 0
        self.busy = 0.0
        self.threads: list[threading.Thread] = []

    def next_task(self) -> tuple[int, Task, int] | None:
        """Number, task and bytes of the next task, once there is room for its result; None after the last task."""
        with self.changed:
            while not self.stopped:
                if self.pending is None and not self.exhausted:
                    self.pending = next(self.tasks, None)
                    self.exhausted = self.pending is None
                if self.pending is None:
                    self.serving -= 1
                    self.changed.notify_all()
                    return None
                task, nbytes = self.pending
                if self.held == 0 or self.held + nbytes <= self.limit:
                    self.pending = None
                    self.held += nbytes
                    self.started += 1
                    return self.started - 1, task, nbytes
                self.changed.wait()
            return None

    def serve(self) -> None:
        """The loop of each thread."""
        while (following := self.next_task()) is not None:
            number, task, expected = following
            began = perf_counter()
            done: _TaskEnd[Result]
            try:
                value = self.work(task)
                done = _TaskEnd(value, None, self.size(value))
                del value
            except BaseException as error:
                # raised by `Readahead.take`, in the thread of the consumer
                done = _TaskEnd(None, error, 0)
            with self.changed:
                self.busy += perf_counter() - began
                self.held += done.nbytes - expected
                self.done[number] = done
                if done.error is not None:
                    self.failed, self.exhausted, self.pending = True, True, None
                self.changed.notify_all()
            del done

    def stop(self) -> None:
        """Makes the threads end after their current work, without waiting for them."""
        if os.getpid() != self.pid:
            # the threads are not in this process, and one of them may have held the lock
            return
        with self.changed:
            self.stopped = True
            self.done.clear()
            self.changed.notify_all()


_ALIVE: weakref.WeakSet[_Shared[object, object]] = weakref.WeakSet()


def _stop_all() -> None:
    """Runs at the end of the interpreter: a thread returning from Rust later would end the process with an error."""
    here = [one for one in _ALIVE if one.pid == os.getpid()]
    for one in here:
        one.stop()
    for one in here:
        for thread in one.threads:
            thread.join()


atexit.register(_stop_all)


class Readahead(Generic[Task, Result]):
    """The results of tasks in their order, computed in advance.

    An error of a task is raised in place of its result, and by every later call; later tasks are not begun. Threads end
    with `close`, with the object, and at the end of the interpreter. In a forked process the object is of no use:
    `is_alive` is False.

    `work`: returns the result of a task; called by several threads at once if there are several.
    `tasks`: iterator of (task, bytes); with the expected bytes of the result. The threads advance it, one at a time.
    `limit`: bytes of results at a time, including the last result that `take` returned; one result is always computed,
        whatever its size.
    `size`: bytes of a result.
    """

    def __init__(
        self,
        work: Callable[[Task], Result],
        tasks: Iterator[tuple[Task, int]],
        *,
        limit: int,
        size: Callable[[Result], int],
        threads: int = 1,
    ) -> None:
        self._shared = _Shared(work, tasks, limit, size)
        self._taken = 0
        self._in_hand = 0
        self._failed: BaseException | None = None
        _ALIVE.add(self._shared)  # type: ignore[arg-type]
        self._n_threads = threads
        self._finalizer = weakref.finalize(self, self._shared.stop)
        self._finalizer.atexit = False  # `_stop_all` does it, and waits
        self._start_threads()

    def _start_threads(self) -> None:
        """Starts as many threads as are missing."""
        shared = self._shared
        with shared.changed:
            missing = self._n_threads - shared.serving
            shared.serving = self._n_threads
            added = [
                threading.Thread(target=shared.serve, name=f"kinema-readahead-{i}", daemon=True) for i in range(missing)
            ]
            # those that have been given the end may be about to end
            shared.threads = [thread for thread in shared.threads if thread.is_alive()] + added
        for thread in added:
            thread.start()

    def extend(self, tasks: Iterator[tuple[Task, int]]) -> None:
        """Adds tasks after the others; idle threads continue. Does nothing after an error or `close`."""
        shared = self._shared
        with shared.changed:
            if shared.failed or shared.stopped:
                return
            shared.tasks = chain(shared.tasks, tasks)
            shared.exhausted = False
        self._start_threads()

    @property
    def is_alive(self) -> bool:
        """Whether this process has the threads."""
        return self._shared.pid == os.getpid()

    @property
    def busy(self) -> float:
        """Seconds that threads have worked so far, summed."""
        return self._shared.busy

    def take(self) -> Result:
        """The next result. Raises StopIteration after the last one."""
        shared = self._shared
        if self._failed is not None:
            raise self._failed
        with shared.changed:
            # the former result is the caller's alone
            shared.held -= self._in_hand
            self._in_hand = 0
            shared.changed.notify_all()
            while self._taken not in shared.done:
                if shared.stopped or (shared.exhausted and self._taken >= shared.started):
                    raise StopIteration
                shared.changed.wait()
            done = shared.done.pop(self._taken)
        self._taken += 1
        self._in_hand = done.nbytes
        if done.error is not None:
            self._failed = done.error
            raise done.error
        return done.value  # type: ignore[return-value]

    def close(self) -> None:
        """Stops, and waits for the tasks in progress."""
        self._shared.stop()
        if self.is_alive:
            for thread in self._shared.threads:
                thread.join()

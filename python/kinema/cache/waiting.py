"""Waiting for changes of a folder: by inotify where the kernel has it, and by looking again after a while in any case.

What another node writes on a network file system gives no event: the intervals bound the wait there.
"""

from __future__ import annotations

import ctypes
import os
import select
import time
from contextlib import suppress
from types import TracebackType

__all__ = ["FolderWatch"]

# seconds between two looks: from the first to the second, doubled each time
_SHORTEST = 0.005
_LONGEST = 0.1
# linux/inotify.h
_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_IN_DELETE = 0x200
_IN_CLOEXEC = 0o2000000
_IN_NONBLOCK = 0o4000


class FolderWatch:
    """Waits for files that appear in, or go from, a folder; None: at intervals alone. A context manager."""

    def __init__(self, folder: str | None) -> None:
        self._handle = -1 if folder is None else _inotify(folder)
        self._interval = _SHORTEST
        self._poll = select.poll()
        if self._handle >= 0:
            self._poll.register(self._handle, select.POLLIN)

    def wait(self, deadline: float) -> bool:
        """Returns when it is worth looking again; False where the deadline, of `time.monotonic`, is over."""
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        seconds = min(self._interval, left)
        if self._handle < 0:
            time.sleep(seconds)
        elif self._poll.poll(1000 * seconds):
            with suppress(BlockingIOError):
                while os.read(self._handle, 4096):
                    pass
            self._interval = _SHORTEST
            return True
        self._interval = min(2 * self._interval, _LONGEST)
        return True

    def __enter__(self) -> FolderWatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _inotify(folder: str) -> int:
    """A descriptor that becomes readable; -1 where the system has none for this folder: the intervals do alone."""
    library = ctypes.CDLL(None, use_errno=True)
    try:
        handle = int(library.inotify_init1(_IN_CLOEXEC | _IN_NONBLOCK))
    except AttributeError:
        return -1
    if handle < 0:
        return -1
    if library.inotify_add_watch(handle, os.fsencode(folder), _IN_MOVED_TO | _IN_CREATE | _IN_DELETE) < 0:
        os.close(handle)
        return -1
    return handle

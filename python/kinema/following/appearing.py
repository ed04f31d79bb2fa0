"""`when_there`: opens files that a simulation has yet to begin."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

from kinema.cache.waiting import POLL
from kinema.errors import Error, FileNotFound, TruncatedFileError, UnsupportedFormatError

__all__ = ["when_there"]

T = TypeVar("T")

# a file of fewer bytes may not have the head by which its format is found
_HEAD_BYTES = 4096


def when_there(opened: Callable[[], T], timeout: float | None, show: Callable[[str], None] | None = None) -> T:
    """What `opened` returns, once the file that it opens is there and has its head.

    `show` is called with the reason of waiting, once. After `timeout` seconds, where that is given, the error is
    raised; errors of other kinds are at once.
    """
    began = time.monotonic()
    while True:
        try:
            return opened()
        except (FileNotFound, TruncatedFileError, UnsupportedFormatError) as error:
            if not _may_come(error) or (timeout is not None and time.monotonic() - began >= timeout):
                raise
            if show is not None:
                show(f"waiting: {error}")
                show = None
        time.sleep(POLL)


def _may_come(error: Error) -> bool:
    if not isinstance(error, UnsupportedFormatError):
        return True
    return error.path is not None and os.path.exists(error.path) and os.path.getsize(error.path) < _HEAD_BYTES

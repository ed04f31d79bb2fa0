"""`when_there`: opens files that a simulation has yet to begin, and what such files are like."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

from kinema.base.errors import (
    ArgumentError,
    CorruptFileError,
    Error,
    FileNotFound,
    TruncatedFileError,
    UnsupportedFormatError,
)
from kinema.base.input_files import is_hdf5, open_regular
from kinema.cache.waiting import POLL
from kinema.formats import h5md

__all__ = ["TROUBLE", "Status", "is_of_beginning", "status_of", "when_there"]

T = TypeVar("T")
Status = tuple[int, int, int, int] | None

# an error that stays for so many seconds, with files that are not touched, is one; before that it may be that of half
# a write
TROUBLE = 1.0
# a file of fewer bytes may not have the head by which its format is found
_FORMAT_BYTES = 4096
# a file that begins with so many zeros is not begun
_HEAD_BYTES = 16


def when_there(opened: Callable[[], T], timeout: float | None, show: Callable[[str], None] | None = None) -> T:
    """What `opened` returns, once the file that it opens is there, has its head and, of HDF5, a frame.

    `show` is called with the reason of waiting, once. After `timeout` seconds, where that is given, the error is
    raised; errors of other kinds are when they come twice, those of a damaged file when it stands still.
    """
    began = since = time.monotonic()
    seen: Status = None
    others = 0
    while True:
        try:
            return opened()
        except Error as error:
            now = time.monotonic()
            status = None if error.path is None else status_of(error.path)
            if status != seen:
                seen, since = status, now
            # the file of a first one may have got its frame before it was looked at
            others = 0 if _may_come(error, now - since) else others + 1
            if others > 1:
                raise
            if timeout is not None and now - began >= timeout:
                raise type(error)(f"{error}; it was waited for {timeout:g} s", path=error.path) from None
            if show is not None and not others:
                show(f"waiting: {error}")
                show = None
        time.sleep(POLL)


def _may_come(error: Error, still: float) -> bool:
    """Whether a file that cannot be opened, and was not touched for `still` seconds, may be yet to begin."""
    if isinstance(error, (FileNotFound, TruncatedFileError)) or is_of_beginning(error):
        return True
    if isinstance(error, UnsupportedFormatError) and error.path is not None and os.path.isfile(error.path):
        return os.path.getsize(error.path) < _FORMAT_BYTES
    return isinstance(error, CorruptFileError) and still < TROUBLE


def is_of_beginning(error: Error) -> bool:
    """Whether the file of an error has nothing or nothing but zeros in it yet, or is one of HDF5 without a frame."""
    if error.path is None or not os.path.isfile(error.path):
        return False
    try:
        with open_regular(error.path, "trajectory") as file:
            if not any(file.read(_HEAD_BYTES)):
                return True
        empty = isinstance(error, (ArgumentError, UnsupportedFormatError)) and is_hdf5(error.path)
        return empty and not h5md.holds_frames(error.path)
    except Error:
        # it has changed; what is wrong now is said when it is opened the next time
        return False


def status_of(path: str) -> Status:
    """By what a file that has changed is known; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

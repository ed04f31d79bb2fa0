"""`when_there`: opens files that a simulation has not started to write; and tests for such files."""

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

T = TypeVar("T")
Status = tuple[int, int, int, int] | None

# seconds, without changes of the files, after which an error is real; before that, a write may be half done
TROUBLE = 1.0
# a file with fewer bytes may lack the header that identifies its format
_FORMAT_BYTES = 4096
# a file that begins with this number of zero bytes has not been started
_HEAD_BYTES = 16


def when_there(opened: Callable[[], T], timeout: float | None, show: Callable[[str], None] | None = None) -> T:
    """Calls `opened` until the file exists, has its header and, for HDF5, a frame; returns the value of `opened`.

    `show` is called once, with the reason for waiting. The error is raised after `timeout` seconds, if given. Errors of
    other kinds are raised when they come twice, and errors of a damaged file when the file no longer changes.
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
            # the first time, the file may have got its frame between the error and the look at it
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
    """Whether a file that cannot be opened, and was not changed for `still` seconds, may not have been started."""
    if isinstance(error, (FileNotFound, TruncatedFileError)) or is_of_beginning(error):
        return True
    if isinstance(error, UnsupportedFormatError) and error.path is not None and os.path.isfile(error.path):
        return os.path.getsize(error.path) < _FORMAT_BYTES
    return isinstance(error, CorruptFileError) and still < TROUBLE


def is_of_beginning(error: Error) -> bool:
    """Whether the file of an error is still empty, has only zeros, or is an HDF5 file without a frame."""
    if error.path is None or not os.path.isfile(error.path):
        return False
    try:
        with open_regular(error.path, "trajectory") as file:
            if not any(file.read(_HEAD_BYTES)):
                return True
        empty = isinstance(error, (ArgumentError, UnsupportedFormatError)) and is_hdf5(error.path)
        return empty and not h5md.holds_frames(error.path)
    except Error:
        # the file has changed; opening it the next time raises the present error
        return False


def status_of(path: str) -> Status:
    """The values by which a change of a file shows; None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

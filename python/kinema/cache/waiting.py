"""`Watch`: waits for changes of files, by inotify on local file systems, else by polling.

Sources: inotify(7), proc(5) on /proc/self/mountinfo.
"""

from __future__ import annotations

import ctypes
import math
import os
import select
import sys
import time
from collections.abc import Iterable

# default polling interval, in seconds
POLL = 0.1
# without inotify the first poll is after this share of the interval, each later one after twice as long
_FIRST = 1 / 16
# with inotify, seconds between polls without an event: writes through a memory map give none
_SELDOM = 1.0
# linux/inotify.h: MOVED_FROM, MOVED_TO, CREATE, DELETE; MODIFY, ATTRIB, CLOSE_WRITE
_NAMES = 0x40 | 0x80 | 0x100 | 0x200
_CONTENTS = 0x2 | 0x4 | 0x8
# file systems whose files change only through this kernel
_LOCAL = frozenset("bcachefs btrfs ext2 ext3 ext4 f2fs jfs overlay ramfs reiserfs tmpfs vfat xfs zfs".split())


class Watch:
    """Waits for events in the folders of files. A context manager.

    `paths`: names of files, or patterns of names.
    `poll`: seconds between two polls if there are no events.
    `events`: False: inotify is not used.
    `contents`: False: waits for names that appear or vanish, not for writes to files.

    `uses_events`: whether inotify reports events.
    """

    def __init__(self, paths: Iterable[str], poll: float = POLL, *, events: bool = True, contents: bool = True) -> None:
        self.poll = poll
        self._interval = poll * _FIRST
        self._descriptor = -1
        folders = {os.path.dirname(os.path.realpath(path)) for path in paths}
        if events and sys.platform == "linux" and all(map(_is_local, folders)):
            self._watch(folders, _NAMES | _CONTENTS if contents else _NAMES)

    @property
    def uses_events(self) -> bool:
        """See the class."""
        return self._descriptor >= 0

    def wait(self, most: float) -> None:
        """Returns after an event, after a polling interval without inotify, or after `most` seconds."""
        if not self.uses_events:
            time.sleep(max(0.0, min(most, self._interval)))
            self._interval = min(2 * self._interval, self.poll)
            return
        seconds = max(0.0, min(most, max(_SELDOM, self.poll)))
        # select() takes no descriptor beyond 1023
        events = select.poll()
        events.register(self._descriptor, select.POLLIN)
        if events.poll(math.ceil(1e3 * seconds)):
            # callers look at the files themselves to see what has happened
            self._drain()

    def wait_until(self, deadline: float) -> bool:
        """As `wait`, until a `time.monotonic` value at most; False if that moment has passed."""
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        self.wait(left)
        return True

    def close(self) -> None:
        """Stops watching; a second call does nothing."""
        if self.uses_events:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _drain(self) -> None:
        try:
            while os.read(self._descriptor, 1 << 16):
                pass
        except BlockingIOError:
            return

    def _watch(self, folders: Iterable[str], events: int) -> None:
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, AttributeError):
            return
        if descriptor < 0:
            return
        for folder in folders:
            # a user has a limited number of watches
            if libc.inotify_add_watch(descriptor, os.fsencode(folder), events) < 0:
                os.close(descriptor)
                return
        self._descriptor = descriptor


def _is_local(folder: str) -> bool:
    """Whether only this machine changes the file system of a folder, judged by the file system's name."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            mounts = [line.split() for line in lines]
    except OSError:
        return False
    best, kind = "", ""
    for words in mounts:
        point = words[4].replace("\\040", " ")
        inside = folder == point or folder.startswith(point.rstrip("/") + "/")
        # the last mount on a mount point counts
        if inside and len(point) >= len(best):
            best, kind = point, words[words.index("-") + 1]
    return kind in _LOCAL

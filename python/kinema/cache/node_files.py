"""Files of one node: a folder on its own disk, in which published files are kept, and fetched ones stored.

ROOT/published/ID/NAME      a file of this node; ID is that of its publication
ROOT/publishing/ID          name of a file that is being published, or is registered over a communicator; locked by the
                            process that publishes it
ROOT/fetched/ID/NAME        a file of another node
ROOT/published.lock         locked by the process that serves the files (`peers.py`)
ROOT/peer                   address of that process: JSON with a proof
ROOT/node                   16 digits that name the folder
ROOT/announced              folders in which markers name this node, one a line
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

from kinema import _core
from kinema.base.errors import ArgumentError, CorruptFileError, Error, WaitTimeoutError, from_os, os_errors
from kinema.cache.markers import Marker, Owner, read_marker
from kinema.model.snapshot import FETCHED, NODE, PUBLISHED
from kinema.storage.signed_json import read_signed, write_signed

# seconds between two attempts to get a lock
_LOCK_INTERVAL = 0.02
# seconds in which a process that may serve a folder does so, and between two looks at most
_STARTS = 2.0
_LOOK_INTERVAL = 0.2
_MOST_ANNOUNCED = 1 << 20


class NodeFiles:
    """The folder `root`, which is created with mode 0700 if it does not exist.

    `root`: on a disk of this node.

    Raises
    ------
    ArgumentError
        The folder belongs to another user, others may write to it, or it is on a network file system. FUSE counts as
        local.
    FileAccessError, FileIOError
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.path.abspath(os.fspath(root))
        self.published = os.path.join(self.root, PUBLISHED)
        with os_errors("cannot keep published files", self.root):
            os.makedirs(self.root, mode=0o700, exist_ok=True)
            _core.check_node_folder(self.root, True)
            for folder in (self.published, self._fetched, self._publishing):
                os.makedirs(folder, mode=0o700, exist_ok=True)
            self.node = self._node()

    def place(self, name: str, marker: Marker) -> str:
        """Path of a publication's file on this node, present or future."""
        of_this_node = marker.owner is not None and marker.owner.node == self.node
        folder = self.published if of_this_node else self._fetched
        return os.path.join(folder, marker.id, os.path.basename(name))

    def has(self, name: str, marker: Marker) -> bool:
        """Whether the file is on this node: a file under its final name is whole, and was checked."""
        try:
            return os.stat(self.place(name, marker)).st_size == marker.size
        except FileNotFoundError:
            return False

    @contextmanager
    def publishing(self, name: str, marker: Marker) -> Iterator[None]:
        """Context in which a file is kept and its marker written. Files that a killed process left are removed
        first."""
        handle = self.claim(name, marker)
        try:
            yield
        finally:
            os.unlink(os.path.join(self._publishing, marker.id))
            os.close(handle)

    def claim(self, name: str, marker: Marker) -> int:
        """Marks a file as kept for this process, until the descriptor is closed, at the latest when the process ends.
        The next process that publishes then removes the file, unless a marker names it."""
        with self._entries():
            self._remove_left()
            entry = os.path.join(self._publishing, marker.id)
            handle = os.open(entry, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX)
        os.write(handle, os.fsencode(os.path.abspath(name)))
        return handle

    @contextmanager
    def _entries(self) -> Iterator[None]:
        """Context in which no other process adds or removes entries of files being published."""
        handle = os.open(self._publishing, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _remove_left(self) -> None:
        for one in os.listdir(self._publishing):
            entry = os.path.join(self._publishing, one)
            try:
                handle = os.open(entry, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # that process has just ended
            with os.fdopen(handle, "rb") as file:
                if not _locked(file.fileno(), fcntl.LOCK_EX):
                    continue
                name = os.fsdecode(file.read())
                found = None
                with suppress(Error):  # a damaged marker does not belong to this file
                    found = read_marker(name) if name else None
                if found is None or found[0].id != one:
                    shutil.rmtree(os.path.join(self.published, one), ignore_errors=True)
                with suppress(FileNotFoundError):
                    os.unlink(entry)

    # -- fetched files ------------------------------------------------------------------------------------------------

    def fetched(self) -> list[tuple[str, int]]:
        """Files of other nodes that are on this node: path and bytes."""
        found = []
        for folder, _, names in os.walk(self._fetched):
            for name in sorted(names):
                path = os.path.join(folder, name)
                with suppress(FileNotFoundError):  # removed meanwhile
                    found.append((path, os.stat(path).st_size))
        return sorted(found)

    def clear_fetched(self) -> tuple[int, int]:
        """Removes files of other nodes except those being fetched; returns their number and bytes."""
        files = size = 0
        for one in os.listdir(self._fetched):
            folder = os.path.join(self._fetched, one)
            handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if not _locked(handle, fcntl.LOCK_EX):
                    continue
                for name in os.listdir(folder):
                    path = os.path.join(folder, name)
                    size += os.stat(path).st_size
                    os.unlink(path)
                    files += 1
            finally:
                os.close(handle)
        return files, size

    def keep(self, file: str, name: str, marker: Marker) -> None:
        """Adds a finished file by a hard link: its own name stays as well."""
        place = self.place(name, marker)
        try:
            os.mkdir(os.path.dirname(place), 0o700)
            os.link(file, place)
        except OSError as error:
            with suppress(OSError):
                os.rmdir(os.path.dirname(place))
            if error.errno == errno.EXDEV:
                raise ArgumentError(
                    f"is on another file system than {self.root}; write it below that folder, or name a folder "
                    "on its file system",
                    at=file,
                ) from None
            raise from_os(f"cannot keep the file in {self.root}", error, file) from None

    def remove(self, name: str, marker: Marker) -> None:
        """Removes a file that no marker names any more."""
        with suppress(FileNotFoundError):
            os.unlink(self.place(name, marker))
            os.rmdir(os.path.join(self.published, marker.id))

    @contextmanager
    def fetching(self, name: str, marker: Marker, deadline: float) -> Iterator[None]:
        """Context in which no other process of the node fetches the file. Raises WaitTimeoutError if another process is
        still fetching it at the deadline."""
        folder = os.path.dirname(self.place(name, marker))
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while not _locked(handle, fcntl.LOCK_EX):
                if time.monotonic() >= deadline:
                    raise WaitTimeoutError(
                        "another process of this node was still fetching it when the time was over", at=name
                    )
                time.sleep(_LOCK_INTERVAL)
            yield
        finally:
            os.close(handle)

    # -- the process that serves --------------------------------------------------------------------------------------

    def lock_serving(self) -> int | None:
        """Takes the lock of the process that serves these files; returns its descriptor, or None if another process has
        it."""
        handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if _locked(handle, fcntl.LOCK_EX):
            # the address of a process that has ended: nobody may connect to it before the new one is announced
            with suppress(FileNotFoundError):
                os.unlink(self._peer)
            return handle
        os.close(handle)
        return None

    def announce(self, owner: Owner) -> list[str]:
        """Tells processes of this node at which address the files are served; returns the folders whose markers name
        this node."""
        write_signed(self._peer, "address", asdict(owner))
        try:
            with open(os.path.join(self.root, "announced"), "rb") as file:
                lines = file.read(_MOST_ANNOUNCED).splitlines()
        except FileNotFoundError:
            return []
        folders = []
        for line in lines:
            with suppress(ValueError):  # a line that a killed process did not finish
                folders.append(os.fsdecode(json.loads(line).encode("utf-8", "surrogateescape")))
        return list(dict.fromkeys(folders))

    def owner(self, folder: str, starts: float = _STARTS) -> Owner:
        """The address at which the files are served, for a marker in a folder. Raises ArgumentError if no process
        serves them within `starts` seconds."""
        line = json.dumps(os.path.abspath(folder)) + "\n"
        # before the address is read: a process that starts to serve later knows of the folder
        handle = os.open(
            os.path.join(self.root, "announced"), os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        with os.fdopen(handle, "rb+") as file:
            if line.encode() not in file.readlines():
                file.write(line.encode())
        until, interval = time.monotonic() + starts, _LOCK_INTERVAL
        # another process may be about to serve, or to announce its address, but cannot while this one looks: so each
        # process looks less and less often
        while (found := self._address()) is None and time.monotonic() < until:
            time.sleep(interval * random.uniform(0.5, 1.0))
            interval = min(2 * interval, _LOOK_INTERVAL)
        if found is None:
            raise ArgumentError(
                "no process serves the files of this folder; keep a kinema.cache.NodeServer of it open, "
                "also while others fetch them",
                at=self.root,
            )
        if not found[1]:
            raise CorruptFileError("is forged, or was written with another key", at=self._peer)
        return Owner(**found[0])

    def _address(self) -> tuple[Any, bool] | None:
        """The announcement of the process that serves, and whether its proof holds; None if no process serves yet."""
        return read_signed(self._peer, "address") if self._is_served() else None

    def _is_served(self) -> bool:
        handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            return not _locked(handle, fcntl.LOCK_SH)
        finally:
            os.close(handle)

    @property
    def _fetched(self) -> str:
        return os.path.join(self.root, FETCHED)

    @property
    def _publishing(self) -> str:
        return os.path.join(self.root, "publishing")

    @property
    def _lock(self) -> str:
        return os.path.join(self.root, "published.lock")

    @property
    def _peer(self) -> str:
        return os.path.join(self.root, "peer")

    def _node(self) -> str:
        path = os.path.join(self.root, NODE)
        if not os.path.exists(path):
            temporary = f"{path}.{os.getpid()}.{secrets.token_hex(4)}"
            with open(temporary, "x", encoding="ascii") as file:
                file.write(secrets.token_hex(8))
            with suppress(FileExistsError):
                os.link(temporary, path)
            os.unlink(temporary)
        with open(path, encoding="ascii") as file:
            return file.read(32)


def _locked(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

"""`NodeServer`: serves the published files and cached blocks of a node to others of the same user, over TCP.

One process per node serves, the one that holds the lock of the folder. The handles of other processes wait; when the
process ends, for whatever reason, the next one takes over. `fetch` is the client side.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from kinema import _core
from kinema.base import notes
from kinema.base.errors import (
    ArgumentError,
    CorruptFileError,
    Error,
    FileAccessError,
    FileIOError,
    FileNotFound,
    WaitTimeoutError,
)
from kinema.cache.markers import Marker, Owner, read_address, write_address
from kinema.cache.node_files import NodeFiles
from kinema.storage.output_file import OutputFile, machine
from kinema.storage.user_key import user_key

if TYPE_CHECKING:
    from kinema.cache.node_cache import NodeCache

# seconds between two checks whether the lock is free
_LOCK_INTERVAL = 0.1
# seconds between two attempts to fetch: the first value, doubled each time up to the second value
_SHORTEST = 0.05
_LONGEST = 1.0
# number of times that a peer may send bytes other than those published
_MOST_LIES = 3


class NodeServer:
    """Serves the published files in `root` to clients that prove the user's key, until it is closed.

    A context manager. Several processes of a node may each have a server of the same root: one of them serves. It
    cannot be pickled, and a forked child does not inherit it.

    Parameters
    ----------
    root : path
        The folder of `publish(..., local=root)`.
    address : str, optional
        Address of this host that others can reach. Default: the address of the host's name, else of its route out.
    port : int
        0: any.
    clients : int
        Most clients that are served at once.
    timeout : float
        Seconds for each step of a connection.
    cache : NodeCache, optional
        Serve its blocks as well (`SharedBlocks`).

    Raises
    ------
    ArgumentError, FileAccessError, FileIOError
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        address: str | None = None,
        port: int = 0,
        clients: int = 32,
        timeout: float = 10.0,
        cache: NodeCache | None = None,
    ) -> None:
        self._files = NodeFiles(root)
        self._address = host_address() if address is None else address
        self._port, self._clients, self._timeout = port, clients, timeout
        self._key = user_key()
        self._cache = None if cache is None else cache.core
        self._server: _core.PeerServer | None = None
        self._lock: int | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        _handles.add(self)
        if not self._take_over():
            self._thread = threading.Thread(target=self._wait_for_lock, name="kinema-peers-lock", daemon=True)
            self._thread.start()

    @property
    def root(self) -> str:
        """The folder that is served."""
        return self._files.root

    @property
    def is_serving(self) -> bool:
        """Whether this process is the one that serves the folder."""
        return self._server is not None

    @property
    def address(self) -> tuple[str, int] | None:
        """Address and port if this process serves, else None."""
        return None if self._server is None else self._server.address

    def counts(self) -> dict[str, int]:
        """Counts of this process: clients, strangers (who did not prove the key), requests, bytes, failures."""
        return {} if self._server is None else self._server.counts()

    def close(self) -> None:
        """Stops serving; another process that has a handle continues."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
            self._thread = None
        server, self._server = self._server, None
        if server is not None:
            server.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def __enter__(self) -> NodeServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a NodeServer has an open socket and is not pickled; make one in each process")

    def _wait_for_lock(self) -> None:
        while not self._stopped.wait(_LOCK_INTERVAL):
            try:
                if self._take_over():
                    return
            except (Error, OSError) as error:
                # the handle is as good as before; the next attempt may succeed
                notes.emit([f"{self.root}: cannot take over serving: {error}"])

    def _take_over(self) -> bool:
        """Serves if no other process does so."""
        lock = self._files.lock_serving()
        if lock is None:
            return False
        try:
            server = _core.PeerServer(
                self._files.published,
                self._key,
                self._address,
                self._port,
                cache=self._cache,
                clients=self._clients,
                step=self._timeout,
            )
            address, port = server.address
            host, boot = machine()
            owner = Owner(self._files.node, host, address, port, boot)
            for folder in self._files.announce(owner):
                # a folder that has been removed has no markers
                with suppress(Error):
                    write_address(folder, owner)
        except BaseException:
            os.close(lock)
            raise
        self._server, self._lock = server, lock
        return True

    def _forget(self) -> None:
        """Closes the parent's descriptors in a forked child, which has none of the parent's threads."""
        server, self._server = self._server, None
        if server is not None:
            server.abandon()
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)  # the parent's lock stays: all its descriptors share it
        self._thread = None


# open servers of this process
_handles: weakref.WeakSet[NodeServer] = weakref.WeakSet()


def _forget_handles() -> None:
    for handle in list(_handles):
        handle._forget()


os.register_at_fork(after_in_child=_forget_handles)


def host_address() -> str:
    """The address of this host that others can probably reach; emits a note if only the loopback address is known."""
    with suppress(OSError):
        for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET, socket.SOCK_STREAM):
            address = str(found[4][0])
            if not address.startswith("127."):
                return address
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way_out:
        # nothing is sent: the system picks the address that it would send from (192.0.2.0/24 is nobody's)
        way_out.connect(("192.0.2.1", 9))
        return str(way_out.getsockname()[0])
    notes.emit(["this host has no address that others reach: published files are served on 127.0.0.1; give address="])
    return "127.0.0.1"


def fetch(
    name: str, marker: Marker, files: NodeFiles, deadline: float, step: float, otherwise: Callable[[], str]
) -> str:
    """Fetches a published file unless this node has it; returns "peer", or "local" if this node had it.

    Attempts are repeated until the deadline (a `time.monotonic` value), each at the node's current address. After each
    failure `otherwise` is called; a result that is not empty is returned. Every failure is noted.

    Raises
    ------
    WaitTimeoutError
        No peer has sent the file in time; the message gives the last reason.
    CorruptFileError
        The peer sends bytes other than those published.
    FileAccessError
        The peer has another key.
    FileIOError
        This node cannot store it.
    """
    assert marker.owner is not None, "a file without an owner is beside its marker"
    failures: list[str] = []
    lies, pause, origin = 0, _SHORTEST, "peer"
    with files.fetching(name, marker, deadline):
        if files.has(name, marker):
            return "local"
        while True:
            known = [read_address(os.path.dirname(os.path.abspath(name)), marker.owner.node), marker.owner]
            # it is not known which address is newer: try both in turn
            owners = list(dict.fromkeys(one for one in known if one is not None))
            owner = owners[len(failures) % len(owners)]
            place = f"{owner.host} ({owner.address}, port {owner.port})"
            try:
                _fetch_once(name, marker, owner, files, deadline, step)
                break
            except FileAccessError as error:
                raise FileAccessError(f"cannot be fetched from {place}: {error}", at=name) from None
            except (CorruptFileError, FileIOError, FileNotFound) as error:
                if error.path is not None:
                    raise  # of this node's own disk
                failures.append(f"{place}: {error}")
                lies += isinstance(error, CorruptFileError)
            if origin := otherwise():
                break
            if lies >= _MOST_LIES:
                raise CorruptFileError(f"cannot be fetched from {failures[-1]}", at=name)
            origin = "peer"
            time.sleep(min(pause, max(deadline - time.monotonic(), 0.0)))
            pause = min(2 * pause, _LONGEST)
            if time.monotonic() >= deadline:
                raise WaitTimeoutError(
                    f"could not be fetched in time, at {len(failures)} attempts; the last: {failures[-1]}", at=name
                )
    if failures:
        what = "read from the shared file system" if origin == "shared" else "fetched"
        notes.emit([f"{name}: was {what} after {len(failures)} failed attempts; the last: {failures[-1]}"])
    return origin


def _fetch_once(name: str, marker: Marker, owner: Owner, files: NodeFiles, deadline: float, step: float) -> None:
    asked = f"{marker.id}/{os.path.basename(name)}"
    with OutputFile(files.place(name, marker)) as output:
        _core.fetch_published(
            owner.address,
            owner.port,
            user_key(),
            os.fsencode(asked),
            marker.size,
            int(marker.xxh3, 16),
            output.temporary,
            step=step,
            timeout=max(deadline - time.monotonic(), 0.0),
        )


def check_step(seconds: float) -> float:
    """Seconds for a step of a connection; raises ArgumentError unless they are positive."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ArgumentError(f"peer_timeout is a positive number of seconds, found {seconds!r}")
    return seconds

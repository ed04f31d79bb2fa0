"""Publishing files: `publish` declares that a file is whole, `await_ready` waits for that and checks the file.

A published file does not change. Its marker (`markers.py`) appears after the file, so a reader that sees the marker can
read the whole file. With `local=` the file stays on the node that made it: only the marker is on the shared file
system.
"""

from __future__ import annotations

import glob
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, overload

from kinema import _core
from kinema.base import notes
from kinema.base.errors import (
    ArgumentError,
    CorruptFileError,
    Error,
    FileNotFound,
    WaitTimeoutError,
    from_os,
    os_errors,
)
from kinema.base.input_files import check_regular, natural_order, open_regular
from kinema.cache.markers import SUFFIX, Marker, Owner, marker_path, read_marker, write_marker
from kinema.cache.mpi.registered import register, registered
from kinema.cache.node_files import NodeFiles
from kinema.cache.peers import check_step, fetch
from kinema.cache.waiting import Watch
from kinema.storage import output_file

# seconds for which a file may look shorter than its marker says: a network file system may report an older size
_SETTLES = 1.0
_REPLACED = "replaced"


@dataclass(frozen=True)
class PublishedFile:
    """A published file that can be read on this node.

    Attributes
    ----------
    name : str
        The name under which it was published.
    path : str
        Where to read it on this node.
    size : int
        Bytes.
    xxh3 : str
        XXH3-64 of the content, 16 hexadecimal digits.
    frames : int or None
        As the producer gave it.
    origin : str
        "shared": beside its marker; "local": it was on this node; "peer": this call fetched it.
    """

    name: str
    path: str
    size: int
    xxh3: str
    frames: int | None
    origin: str


@overload
def publish(
    path: str | os.PathLike[str],
    *,
    file: str | os.PathLike[str] | None = None,
    local: str | os.PathLike[str] | None = None,
    comm: Any = None,
    frames: int | None = None,
    replace: bool = False,
) -> PublishedFile: ...
@overload
def publish(path: None, *, comm: Any) -> None: ...
def publish(
    path: str | os.PathLike[str] | None,
    *,
    file: str | os.PathLike[str] | None = None,
    local: str | os.PathLike[str] | None = None,
    comm: Any = None,
    frames: int | None = None,
    replace: bool = False,
) -> PublishedFile | None:
    """Declares that a file is whole: syncs it, gives it its name, and writes its marker `NAME.ready`.

    With `local` the file stays on this node. It gets a second name below `local`, from which a `NodeServer` of this
    node, which must be open, serves it to others. Only the marker is written to the folder of `path`.

    A second publication under the same name is refused, unless its bytes are the same or `replace` is given. In the
    latter case the old marker is removed first: a consumer sees the old file, the new file or none, but never a mixture
    without an error.

    With `local` and `comm`, the ranks of the communicator keep owner, size and checksum, and nothing is written to the
    folder of `path`. The call is collective: each rank gives a file or, with `path=None`, none. After it returns, all
    ranks can call `await_ready(path, comm=comm)`. It fails on all ranks or on none.

    Parameters
    ----------
    path : path
        The name for consumers.
    file : path, optional
        The finished file, which is renamed to `path`; with `local` it keeps its name. Default: the file at `path`; with
        `local`, the file of that name in `local`.
    local : path, optional
        A folder of this user on a disk of this node, on the same file system as the file.
    comm : mpi4py communicator, optional
        Replaces the marker; needs `local`. A duplicate is used for messages. The file stays published until this
        process ends.
    frames : int, optional
        Number of frames, for consumers.
    replace : bool
        Replace another publication.

    Returns
    -------
    PublishedFile or None
        None with `path=None`.

    Raises
    ------
    ArgumentError
        Another file is published under this name; no process serves `local`; the file is on another file system.
    FileNotFound, FileAccessError, FileIOError
    WorkerError
        On all ranks of `comm`: one rank, which the message names, has failed.
    """
    if comm is not None:
        return _publish_over(comm, path, file, local, frames, replace=replace)
    if path is None:
        raise ArgumentError("publish takes the name of a file; None goes with comm= alone")
    name = os.fspath(path)
    files = None if local is None else NodeFiles(local)
    source = _source(name, file, files)
    owner = None if files is None else files.owner(os.path.dirname(os.path.abspath(name)))
    marker = _new_marker(source, frames, owner)
    before = _published_before(name, marker, replace=replace)
    if files is not None:
        return _publish_local(name, source, marker, before, files)
    if before is not None and before.owner is None and file is None:
        return _published(name, name, before, "shared")
    if before is None or not before.has_bytes_of(marker):
        _remove_marker(name)
    if file is not None:
        output_file.publish(source, name)
    write_marker(name, marker)
    return _published(name, name, marker, "shared")


def _source(name: str, file: str | os.PathLike[str] | None, files: NodeFiles | None) -> str:
    """Syncs the finished file and returns its path."""
    default = name if files is None else os.path.join(files.root, os.path.basename(name))
    source = default if file is None else os.fspath(file)
    check_regular(source, "file to be published")
    _sync(source)
    return source


def _publish_over(
    comm: Any,
    path: str | os.PathLike[str] | None,
    file: str | os.PathLike[str] | None,
    local: str | os.PathLike[str] | None,
    frames: int | None,
    *,
    replace: bool,
) -> PublishedFile | None:
    given: list[tuple[NodeFiles, str, Marker]] = []
    with ExitStack() as undo:

        def step(table: dict[str, Marker]) -> tuple[str, Marker] | None:
            if path is None:
                return None
            if local is None:
                raise ArgumentError("comm= goes with local=, a folder on a disk of this node")
            name, files = os.fspath(path), NodeFiles(local)
            source = _source(name, file, files)
            marker = _new_marker(source, frames, files.owner(files.root))
            before = None if replace else _check_same_bytes(name, table.get(name), marker)
            if before is not None and before.owner == marker.owner and files.has(name, before):
                marker = before
            else:
                undo.callback(os.close, files.claim(name, marker))
                files.keep(source, name, marker)
                undo.callback(files.remove, name, marker)
            given.append((files, name, marker))
            return name, marker

        register(comm, step)
        undo.pop_all()  # the descriptor stays open until this process ends
    if not given:
        return None
    files, name, marker = given[0]
    return _published(name, files.place(name, marker), marker, "local")


def _publish_local(name: str, source: str, marker: Marker, before: Marker | None, files: NodeFiles) -> PublishedFile:
    if before is not None and before.owner == marker.owner and files.has(name, before):
        return _published(name, files.place(name, before), before, "local")
    with files.publishing(name, marker):
        files.keep(source, name, marker)
        try:
            write_marker(name, marker)
        except BaseException:
            files.remove(name, marker)
            raise
    return _published(name, files.place(name, marker), marker, "local")


def await_ready(
    path: str | os.PathLike[str],
    timeout: float,
    *,
    local: str | os.PathLike[str] | None = None,
    comm: Any = None,
    verify: bool = True,
    peer_timeout: float = 10.0,
) -> PublishedFile:
    """Waits until a file is published, and checks it against its marker.

    A file that its producer keeps on its own node is fetched to `local` and checked. One process of this node fetches
    it, even if several wait; later calls find it there.

    Parameters
    ----------
    path : path
        The name under which it is published.
    timeout : float
        Seconds to wait; `inf` waits for ever.
    local : path, optional
        A folder of this user on a disk of this node.
    comm : mpi4py communicator, optional
        The communicator over which the file was published. Each rank may call at any time, or not at all. If no
        `publish` that has returned on this rank has published the file, the call raises at once.
    verify : bool
        For a file beside its marker: read the whole file and compare its checksum; if false, compare only its size.
        Fetched files are always compared.
    peer_timeout : float
        Seconds that a peer may take for each step: to answer, or to send the next bytes.

    Returns
    -------
    PublishedFile
        The file, with its path on this node.

    Raises
    ------
    WaitTimeoutError
        Nothing was published within `timeout`, or no peer has sent the file.
    CorruptFileError
        Size or checksum differ from the marker's, or the marker is damaged or forged.
    ArgumentError
        The file is on another node, and `local` is not given.
    FileNotFound
        The file was not published over `comm`.
    FileAccessError, FileIOError
    """
    name = os.fspath(path)
    deadline, step = deadline_of(timeout), check_step(peer_timeout)
    files = None if local is None else NodeFiles(local)
    if comm is not None:
        known = registered(comm).get(name)
        if known is None:
            raise FileNotFound("was not published over this communicator", at=name)
        origin = _fetched(name, known, files, deadline, step, lambda: "")
        return _published(name, _place(name, known, files, origin), known, origin)
    with Watch([marker_path(name)], contents=False) as watch:
        while True:
            found = read_marker(name)
            if found is not None:
                marker, is_ours = found
                if marker.owner is None:
                    origin = "shared" if _is_as_published(name, marker, deadline, verify=verify) else ""
                    _note_foreign(name, is_ours)
                else:
                    instead = partial(_instead, name, marker, deadline)
                    origin = _fetched(name, marker, files, deadline, step, instead)
                    origin = "" if origin == _REPLACED else origin
                if origin:
                    return _published(name, _place(name, marker, files, origin), marker, origin)
            elif not watch.wait_until(deadline):
                raise WaitTimeoutError(
                    f"nothing was published within {timeout:g} s, expected {marker_path(name)}", at=name
                )


def _fetched(
    name: str,
    marker: Marker,
    files: NodeFiles | None,
    deadline: float,
    step: float,
    instead: Callable[[], str],
) -> str:
    """Where the file of another node can now be read: "local", "peer", or the result of `instead` after a failure."""
    if files is None:
        assert marker.owner is not None, "else it is beside its marker"
        raise ArgumentError(
            f"the file is kept on {marker.owner.host}; give local=, a folder on a disk of this node, and it is fetched",
            at=name,
        )
    return fetch(name, marker, files, deadline, step, instead)


def _instead(name: str, marker: Marker, deadline: float) -> str:
    """Looks for a way around a peer that fails: "shared" if the file is also beside its marker, `_REPLACED` if another
    file has been published meanwhile, else empty."""
    now = read_marker(name)
    if now is None or now[0].id != marker.id:
        return _REPLACED
    if not os.path.exists(name):
        return ""
    return "shared" if _is_as_published(name, marker, deadline, verify=True) else _REPLACED


def _place(name: str, marker: Marker, files: NodeFiles | None, origin: str) -> str:
    return name if files is None or origin == "shared" else files.place(name, marker)


def published(
    pattern: str | os.PathLike[str],
    timeout: float,
    *,
    count: int | None = None,
    local: str | os.PathLike[str] | None = None,
    verify: bool = True,
    peer_timeout: float = 10.0,
) -> Iterator[PublishedFile]:
    """Yields files published under names that match a pattern, as they appear; existing files come in natural order.

    Parameters
    ----------
    pattern : path
        As in `glob`: "run/part-*.xtc".
    timeout : float
        Seconds without a new file after which the iteration ends; `inf` waits for ever.
    count : int, optional
        Number of files after which to end; fewer within `timeout` are an error.
    local, verify, peer_timeout
        As in `await_ready`.

    Yields
    ------
    PublishedFile

    Raises
    ------
    WaitTimeoutError
        Fewer than `count` files were published.
    CorruptFileError, FileAccessError, FileIOError
        As `await_ready`.
    """
    text = os.fspath(pattern)
    seen: set[str] = set()
    with Watch([text], contents=False) as watch:
        while count is None or len(seen) < count:
            deadline = deadline_of(timeout)
            while not (new := _marked(text) - seen):
                if not watch.wait_until(deadline):
                    if count is None:
                        return
                    raise WaitTimeoutError(
                        f"no further file was published within {timeout:g} s, expected {count}, found {len(seen)}",
                        at=text,
                    )
            for name in sorted(new, key=natural_order)[: None if count is None else count - len(seen)]:
                seen.add(name)
                yield await_ready(name, timeout, local=local, verify=verify, peer_timeout=peer_timeout)


def _new_marker(source: str, frames: int | None, owner: Owner | None) -> Marker:
    """The marker of a finished file; reads the whole file."""
    size, checksum = _core.file_checksum(source)
    return Marker(size=size, xxh3=f"{checksum:016x}", frames=frames, id=secrets.token_hex(16), owner=owner)


def _remove_marker(name: str) -> None:
    """Removes the marker: nothing is published under `name` from now on."""
    with suppress(FileNotFoundError):
        os.unlink(marker_path(name))
        _sync(os.path.dirname(os.path.abspath(name)))


def deadline_of(timeout: float) -> float:
    """The `time.monotonic` value after `timeout` seconds; raises ArgumentError unless it is a number of seconds."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout >= 0:
        raise ArgumentError(f"timeout is a number of seconds from 0, found {timeout!r}")
    return time.monotonic() + timeout


def _marked(pattern: str) -> set[str]:
    return {name.removesuffix(SUFFIX) for name in glob.glob(pattern + SUFFIX)}


def _published_before(name: str, marker: Marker, *, replace: bool) -> Marker | None:
    """The existing marker, if it has the same bytes; raises ArgumentError if it has others or is damaged."""
    try:
        found = read_marker(name)
    except CorruptFileError:
        if replace:
            return None
        raise
    return None if found is None or replace else _check_same_bytes(name, found[0], marker)


def _check_same_bytes(name: str, before: Marker | None, marker: Marker) -> Marker | None:
    """The existing marker, if any; raises ArgumentError if it has other bytes."""
    if before is not None and not before.has_bytes_of(marker):
        raise ArgumentError(
            f"another file is published under this name, expected {before.size} bytes with checksum "
            f"{before.xxh3}, found {marker.size} with {marker.xxh3}; publish under a name of its own, or with "
            "replace=True",
            at=name,
        )
    return before


def _is_as_published(name: str, marker: Marker, deadline: float, *, verify: bool) -> bool:
    """Whether the file agrees with its marker; False if another file has been published meanwhile."""
    until = min(deadline, time.monotonic() + _SETTLES)
    while True:
        try:
            # opening makes network file systems ask for the current state
            with open_regular(name, "published file") as file:
                size = os.fstat(file.fileno()).st_size
            difference = "" if size == marker.size else f"size in bytes, expected {marker.size}, found {size}"
            if not difference and verify:
                size, checksum = _core.file_checksum(name)
                if (size, f"{checksum:016x}") != (marker.size, marker.xxh3):
                    difference = f"checksum, expected {marker.xxh3}, found {checksum:016x}"
        except (FileNotFound, FileNotFoundError):
            difference = "it, expected a file, found none"
        except Error:
            raise
        except OSError as error:
            raise from_os("cannot read the published file", error, name) from None
        if not difference:
            return True
        now = read_marker(name)
        if now is None or now[0].id != marker.id:
            return False
        if difference.startswith("checksum") or time.monotonic() >= until:
            raise CorruptFileError(
                f"the file is not what was published: {difference}; it was changed or replaced after that, or "
                "the marker is forged",
                at=name,
            )
        time.sleep(0.02)


def _note_foreign(name: str, is_ours: bool) -> None:
    if not is_ours:
        notes.emit(
            [
                f"{marker_path(name)}: was written with another key than this user's, or for another folder; size and "
                "checksum agree, which does not prove who made the file"
            ]
        )


def _published(name: str, path: str, marker: Marker, origin: str) -> PublishedFile:
    return PublishedFile(name, path, marker.size, marker.xxh3, marker.frames, origin)


def _sync(place: str) -> None:
    with os_errors("cannot sync", place):
        output_file.sync(place)

"""Publishing files: `publish` says that a file is whole, `await_ready` waits for that and checks it.

A published file does not change. Its marker (`markers.py`) appears after it, so whoever sees the marker can read all of
the file. With `local=` the file stays on the node that has made it: only the marker is on the shared file system.
"""

from __future__ import annotations

import glob
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from kinema import _core, notes
from kinema.cache.markers import SUFFIX, Marker, marker_path, read_marker, write_marker
from kinema.cache.waiting import FolderWatch
from kinema.errors import ArgumentError, CorruptFileError, FileNotFound, WaitTimeoutError, from_os
from kinema.files import check_regular
from kinema.writing import output_file

__all__ = ["PublishedFile", "await_ready", "publish", "published"]

# seconds for which a file may look shorter than its marker says: what a network file system knows of it may be older
_SETTLES = 1.0


@dataclass(frozen=True)
class PublishedFile:
    """A published file as it can be read here.

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
        "shared": it is beside its marker; "local": it was on this node; "peer": it was fetched by this call.
    """

    name: str
    path: str
    size: int
    xxh3: str
    frames: int | None
    origin: str


def publish(
    path: str | os.PathLike[str],
    *,
    file: str | os.PathLike[str] | None = None,
    frames: int | None = None,
    replace: bool = False,
) -> PublishedFile:
    """Says that a file is whole: syncs it, gives it its name, and writes its marker `NAME.ready`.

    A second publication under the same name is refused, unless its bytes are the same or `replace` is given; then the
    old marker is removed first, and a consumer sees the old file, the new one, or none, but never a mixture without an
    error.

    Parameters
    ----------
    path : path
        The name for consumers.
    file : path, optional
        The finished file, which is renamed to `path`. Without it the file is at `path` already.
    frames : int, optional
        Number of frames, for consumers.
    replace : bool
        Take the place of another publication.

    Raises
    ------
    ArgumentError
        Another file is published under this name.
    FileNotFound, FileAccessError, FileIOError
    """
    name = os.fspath(path)
    source = name if file is None else os.fspath(file)
    check_regular(source, "file to be published")
    _sync(source)
    marker = new_marker(source, frames)
    before = _published_before(name, marker, replace=replace)
    if before is not None and file is None:
        return _published(name, name, before, "shared")
    if before is None or not before.has_bytes_of(marker):
        remove_marker(name)
    if file is not None:
        output_file.publish(source, name)
    write_marker(name, marker)
    return _published(name, name, marker, "shared")


def await_ready(path: str | os.PathLike[str], timeout: float, *, verify: bool = True) -> PublishedFile:
    """Waits until a file is published, and checks it against its marker.

    Parameters
    ----------
    path : path
        The name under which it is published.
    timeout : float
        Seconds until it is given up; `inf` waits for ever.
    verify : bool
        Read the whole file and compare its checksum; else its size alone.

    Raises
    ------
    WaitTimeoutError
        Nothing was published within `timeout`.
    CorruptFileError
        Size or checksum are not those of the marker, or the marker is damaged or forged.
    FileAccessError, FileIOError
    """
    name = os.fspath(path)
    deadline = deadline_of(timeout)
    with FolderWatch(os.path.dirname(os.path.abspath(name))) as watch:
        while True:
            found = read_marker(name)
            if found is not None:
                marker, is_ours = found
                if _is_as_published(name, marker, deadline, verify=verify):
                    _note_foreign(name, is_ours)
                    return _published(name, name, marker, "shared")
            elif not watch.wait(deadline):
                raise WaitTimeoutError(
                    f"{name}: nothing was published within {timeout:g} s, expected {marker_path(name)}", path=name
                )


def published(
    pattern: str | os.PathLike[str],
    timeout: float,
    *,
    count: int | None = None,
    verify: bool = True,
) -> Iterator[PublishedFile]:
    """Files that are published under names of a pattern, as they come; those that are there already by their numbers.

    Parameters
    ----------
    pattern : path
        As of `glob`: "run/part-*.xtc".
    timeout : float
        Seconds without a new file, after which the iteration ends; `inf` waits for ever.
    count : int, optional
        End after so many files; fewer within `timeout` are an error.
    verify : bool
        As of `await_ready`.

    Raises
    ------
    WaitTimeoutError
        Fewer than `count`.
    CorruptFileError, FileAccessError, FileIOError
        As `await_ready`.
    """
    text = os.fspath(pattern)
    seen: set[str] = set()
    folder = os.path.dirname(os.path.abspath(text))
    with FolderWatch(folder if not glob.has_magic(folder) else None) as watch:
        while count is None or len(seen) < count:
            deadline = deadline_of(timeout)
            while not (new := _marked(text) - seen):
                if not watch.wait(deadline):
                    if count is None:
                        return
                    raise WaitTimeoutError(
                        f"{text}: no further file was published within {timeout:g} s, expected {count}, found "
                        f"{len(seen)}",
                        path=text,
                    )
            for name in sorted(new, key=natural_order)[: None if count is None else count - len(seen)]:
                seen.add(name)
                yield await_ready(name, timeout, verify=verify)


def new_marker(source: str, frames: int | None) -> Marker:
    """The marker of a finished file, which is read for it."""
    size, checksum = _core.file_checksum(source)
    return Marker(size=size, xxh3=f"{checksum:016x}", frames=frames, id=secrets.token_hex(16))


def remove_marker(name: str) -> None:
    """Nothing is published under `name` from now on."""
    with suppress(FileNotFoundError):
        os.unlink(marker_path(name))
        _sync(os.path.dirname(os.path.abspath(name)))


def deadline_of(timeout: float) -> float:
    """When so many seconds are over, by `time.monotonic`; ArgumentError for what is no number of seconds."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout >= 0:
        raise ArgumentError(f"timeout is a number of seconds from 0, found {timeout!r}")
    return time.monotonic() + timeout


def natural_order(name: str) -> list[tuple[int, str]]:
    """A key that sorts numbers within names by their values: part-9 comes before part-10."""
    return [(int(word) if word.isdigit() else -1, word) for word in re.split(r"(\d+)", name)]


def _marked(pattern: str) -> set[str]:
    return {name.removesuffix(SUFFIX) for name in glob.glob(pattern + SUFFIX)}


def _published_before(name: str, marker: Marker, *, replace: bool) -> Marker | None:
    """The marker that is there, if it is of the same bytes; ArgumentError where it is of others, or damaged."""
    try:
        found = read_marker(name)
    except CorruptFileError:
        if replace:
            return None
        raise
    if found is None or replace:
        return None
    if not found[0].has_bytes_of(marker):
        raise ArgumentError(
            f"{name}: another file is published under this name, expected {found[0].size} bytes with checksum "
            f"{found[0].xxh3}, found {marker.size} with {marker.xxh3}; publish under a name of its own, or with "
            "replace=True",
            path=name,
        )
    return found[0]


def _is_as_published(name: str, marker: Marker, deadline: float, *, verify: bool) -> bool:
    """Whether the file is what its marker says; False where another one was published meanwhile."""
    until = min(deadline, time.monotonic() + _SETTLES)
    while True:
        try:
            with open(name, "rb") as file:  # opening has network file systems ask for what is new
                size = os.fstat(file.fileno()).st_size
            difference = "" if size == marker.size else f"size in bytes, expected {marker.size}, found {size}"
            if not difference and verify:
                size, checksum = _core.file_checksum(name)
                if (size, f"{checksum:016x}") != (marker.size, marker.xxh3):
                    difference = f"checksum, expected {marker.xxh3}, found {checksum:016x}"
        except (FileNotFound, FileNotFoundError):
            difference = "it, expected a file, found none"
        except OSError as error:
            raise from_os("cannot read the published file", error, name) from None
        if not difference:
            return True
        now = read_marker(name)
        if now is None or now[0].id != marker.id:
            return False
        if difference.startswith("checksum") or time.monotonic() >= until:
            raise CorruptFileError(
                f"{name}: the file is not what was published: {difference}; it was changed or replaced after that, or "
                "the marker is forged",
                path=name,
            )
        time.sleep(0.02)


def _note_foreign(name: str, is_ours: bool) -> None:
    if not is_ours:
        notes.emit(
            [
                f"{marker_path(name)}: was written with another key than this user's; size and checksum agree, which "
                "is no proof of who made the file"
            ]
        )


def _published(name: str, path: str, marker: Marker, origin: str) -> PublishedFile:
    return PublishedFile(name, path, marker.size, marker.xxh3, marker.frames, origin)


def _sync(place: str) -> None:
    try:
        handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise from_os("cannot sync", error, place) from None

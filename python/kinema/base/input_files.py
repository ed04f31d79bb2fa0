"""Input files: their names as users give them, the only way to open them, and the signature of HDF5 files.

Only regular files are opened, without waiting: a FIFO would block for ever, and a device has no end.
"""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, cast

from kinema.base.errors import ArgumentError, CorruptFileError, Error, from_os, os_errors

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# bytes of text that are checked together: a line of twice this length covers a whole piece
_PIECE_OF_TEXT = 1 << 19


def file_names(paths: Any) -> list[str]:
    """File names of one path or several. Raises ArgumentError for no path, and for other objects."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    if isinstance(given, bytes) or not isinstance(given, Sequence):
        raise ArgumentError(f"open takes file names or an MDAnalysis Universe, found {type(paths).__name__}")
    if not given:
        raise ArgumentError("open was given no files; name at least one")
    for path in given:
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentError(f"file names are text or paths, found {type(path).__name__}")
    # names of pathlib-like objects may be bytes
    return [os.fsdecode(path) for path in given]


def file_key(path: str | os.PathLike[str]) -> tuple[int, int] | str:
    """A key that is equal for all names of one file: device and inode. For a relative name, or a file that does not
    exist: the text of the name, without "." and double slashes."""
    name = os.fspath(path)
    if os.path.isabs(name):
        # other errors mean that the name cannot be looked up: it is too long, or has a null byte
        with suppress(OSError, ValueError):
            status = os.stat(name)
            return status.st_dev, status.st_ino
    words = [word for word in name.split("/") if word not in ("", ".")]
    return ("/" if os.path.isabs(name) else "") + "/".join(words)


def natural_order(name: str) -> list[tuple[int, int, str]]:
    """A sort key that orders numbers within names by value: part-9 comes before part-10."""
    words = re.split(r"([0-9]+)", name)
    return [(1, int(word), word) if word.isdecimal() else (0, 0, word) for word in words]


def open_regular(path: str | os.PathLike[str], what: str) -> IO[bytes]:
    """Opens a file for reading bytes; `what` names the kind of file in messages: "index file".

    Raises FileNotFound, FileAccessError or FileIOError as the system does, ArgumentError if it is not a regular file.
    """
    name = os.fspath(path)
    if "\0" in name:
        raise ArgumentError(f"a path has no NUL byte, found {name!r}")
    with os_errors(f"cannot read the {what}", name):
        # without O_NONBLOCK the open of a FIFO waits for a writer
        handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            _refuse_irregular(name, os.fstat(handle).st_mode)
            os.set_blocking(handle, True)
            return os.fdopen(handle, "rb")
        except BaseException:
            os.close(handle)
            raise


def read_regular(path: str | os.PathLike[str], what: str, most: int, *, own: bool = False) -> bytes:
    """All bytes of a file. Raises ArgumentError, without reading, if the file has more than `most` bytes; with `own`,
    also if it belongs to another user. Otherwise as `open_regular`."""
    name = os.fspath(path)
    with open_regular(name, what) as file:
        status = os.fstat(file.fileno())
        size = status.st_size
        if own and status.st_uid != os.geteuid():
            raise ArgumentError(f"the {what} belongs to another user", at=name)
        with os_errors(f"cannot read the {what}", name):
            data = b"" if size > most else file.read(most + 1)
    found = max(size, len(data))
    if found > most:
        raise _too_large(name, what, most, found)
    return data


def check_regular(path: str | os.PathLike[str], what: str, most: int | None = None) -> None:
    """Checks a file that a library will open by name; raises as `open_regular`, or as `read_regular` with `most`."""
    with open_regular(path, what) as file:
        size = os.fstat(file.fileno()).st_size
    if most is not None and size > most:
        raise _too_large(os.fspath(path), what, most, size)


def check_lines(path: str | os.PathLike[str], what: str, most: int | None = None) -> None:
    """Raises CorruptFileError for a text file, also in a `.gz` or `.bz2`, with a line of a MiB or more within the first
    `most` bytes: a library would load that line into memory whole. Lines shorter than 512 KiB are never refused."""
    name = os.fspath(path)
    with open_text(name, what) as file:
        at = 0
        while (most is None or at < most) and len(piece := file.read(_PIECE_OF_TEXT)) == _PIECE_OF_TEXT:
            if b"\n" not in piece and b"\r" not in piece:
                raise CorruptFileError(
                    f"byte {at}: expected text in lines of less than {_PIECE_OF_TEXT} bytes, found no end "
                    "of a line in as many",
                    at=name,
                    offset=at,
                )
            at += len(piece)


@contextmanager
def open_text(path: str | os.PathLike[str], what: str) -> Iterator[IO[bytes]]:
    """Context with the bytes of a text file, also in a `.gz` or `.bz2`; raises as `open_regular`, and CorruptFileError
    if bytes read in the block cannot be decompressed."""
    name = os.fspath(path)
    with open_regular(name, what) as raw:
        try:
            yield _decompressed(name, raw)
        except (OSError, EOFError, zlib.error) as error:
            if isinstance(error, Error):
                raise
            if isinstance(error, OSError) and error.errno is not None:
                raise from_os(f"cannot read the {what}", error, name) from None
            raise CorruptFileError(f"cannot be decompressed: {error}", at=name) from None


def _decompressed(name: str, raw: IO[bytes]) -> IO[bytes]:
    if name.lower().endswith(".gz"):
        import gzip

        return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
    if name.lower().endswith(".bz2"):
        import bz2

        return cast("IO[bytes]", bz2.BZ2File(raw))
    return raw


def _too_large(name: str, what: str, most: int, found: int) -> ArgumentError:
    return ArgumentError(
        f"is too large for {_with_article(what)}, expected at most {most} bytes, found {found}", at=name
    )


def _refuse_irregular(name: str, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kinds = (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a pipe (FIFO)"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISBLK, "a block device"),
    )
    kind = next((kind for is_kind, kind in kinds if is_kind(mode)), "of another kind")
    raise ArgumentError(f"is {kind}, expected a regular file", at=name)


def _with_article(what: str) -> str:
    return f"{'an' if what[0] in 'aeio' else 'a'} {what}"


def is_hdf5(path: str | os.PathLike[str]) -> bool:
    """Whether a file has the signature of HDF5 at one of its places (HDF5 file format, II.A: 0, 512, 1024, ...)."""
    if not os.path.isfile(path):
        return False
    with open_regular(path, "file") as file:
        place, size = 0, os.path.getsize(path)
        while place < size:
            file.seek(place)
            if file.read(len(_HDF5_SIGNATURE)) == _HDF5_SIGNATURE:
                return True
            place = max(512, 2 * place)
    return False

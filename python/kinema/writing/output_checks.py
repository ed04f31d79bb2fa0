"""Checks of the paths of outputs: streams, folders, files that are read, suffixes, links in their place."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import IO, Any

from kinema._core import formats
from kinema.errors import ArgumentError, FileAccessError, FileNotFound, UnsupportedFormatError

__all__ = [
    "check_format",
    "check_no_link",
    "check_not_input",
    "check_plot_path",
    "check_target",
    "is_stream",
    "open_temporary",
    "others_may_move",
]

_STREAMS = ("-", "/dev/stdout", "/dev/stderr")


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether an output is written into rather than replaced: "-", /dev/stdout, a FIFO, a device."""
    name = os.fspath(path)
    if name in _STREAMS or name.startswith(("/dev/fd/", "/proc/self/fd/")):
        return True
    with suppress(OSError):
        mode = os.stat(name).st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return False


def check_target(path: str | os.PathLike[str], *, overwrite: bool = True, or_else: str = "") -> None:
    """Raises what keeps a file from being made at `path`, to be asked before a run.

    ArgumentError for a folder, and without `overwrite` for what exists (`or_else` says what else the caller may do);
    FileNotFound, FileAccessError for its folder.
    """
    name = os.fspath(path)
    if is_stream(name):
        return
    folder = os.path.dirname(os.path.abspath(name))
    if os.path.isdir(name):
        raise ArgumentError(f"{name}: is a directory, expected a file name", path=name)
    if os.path.exists(name) and not overwrite:
        raise ArgumentError(f"{name}: exists already; overwrite=True replaces it{or_else}", path=name)
    if not os.path.isdir(folder):
        raise FileNotFound(f"{name}: its folder does not exist, make it first", path=name)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileAccessError(f"{name}: its folder may not be written, choose another", path=name)


def check_not_input(path: str | os.PathLike[str], *sources: str | os.PathLike[str] | None) -> None:
    """Raises ArgumentError where `path` is one of the files that are read; None stands for no file."""
    name = os.fspath(path)
    for source in sources:
        if source is None or not os.path.exists(name) or not os.path.exists(source):
            continue
        if not is_stream(name) and os.path.samefile(source, name):
            raise ArgumentError(
                f"{name}: is the file that is read; write to another, and rename it afterwards", path=name
            )


def check_format(path: str | os.PathLike[str], format: str) -> None:
    """Raises UnsupportedFormatError for a file name whose suffix is not one of `format`, which is what is written."""
    name = os.fspath(path)
    if is_stream(name):
        raise ArgumentError(f"{name}: {format} is written to files, not into streams; name a file", path=name)
    known = [f".{ending}" for one in formats() if one["name"] == format for ending in one["extensions"]]
    suffix = os.path.splitext(name)[1]
    if suffix and suffix.lower() not in known:
        raise UnsupportedFormatError(
            f"{name}: this version writes {format} here, expected a name that ends with {' or '.join(known)}, found "
            f"{suffix}",
            path=name,
            format=format,
        )


def check_plot_path(path: str | os.PathLike[str]) -> None:
    """`check_target` for a picture; UnsupportedFormatError for others than .png, .pdf and .svg."""
    name = os.fspath(path)
    suffix = os.path.splitext(name)[1].lower()
    if suffix not in (".png", ".pdf", ".svg"):
        raise UnsupportedFormatError(
            f"{name}: plots are not written as {suffix or 'a file without suffix'}, choose one of .png, .pdf, .svg",
            path=name,
        )
    check_target(name)


def others_may_move(path: str) -> bool:
    """Whether others may remove or rename what is beside `path`: they can write there, and the folder is not sticky."""
    with suppress(OSError):
        mode = os.stat(os.path.dirname(os.path.abspath(path))).st_mode
        return bool(mode & 0o022) and not mode & stat.S_ISVTX
    return False


def open_temporary(name: str, mode: str, **options: Any) -> IO[Any]:
    """As `open`, for a temporary file of an output: FileAccessError where others have put a link in its place."""

    def opener(path: str, flags: int) -> int:
        try:
            return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError:
            check_no_link(path)
            raise

    return open(name, mode, opener=opener, **options)


def check_no_link(temporary: str) -> None:
    """FileAccessError where others have put a link in place of a temporary file, before a library writes into it."""
    if os.path.islink(temporary):
        raise FileAccessError(
            f"{temporary}: a link was put in place of the temporary file of an output; write where others may not "
            "remove your files",
            path=temporary,
        )

"""The exceptions of Kinema, each also one of Python's own; `make` gives the one for an error kind of the Rust half."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kinema.base.printable import printable


class Error(Exception):
    """An error that Kinema itself reports; one line, lower case, with its place.

    Attributes
    ----------
    path : str or None
        The file concerned.
    format : str or None
        Its format, "XTC".
    frame : int or None
        The frame of the file, from 0.
    offset : int or None
        The byte of the file at which the error occurred.
    """

    path: str | None
    format: str | None
    frame: int | None
    offset: int | None

    def __init__(
        self,
        message: str,
        *,
        at: str | None = None,
        path: str | None = None,
        format: str | None = None,
        frame: int | None = None,
        offset: int | None = None,
    ) -> None:
        """`at`: the file concerned, whose path is put before the message; `path`: the same, but the message says it."""
        super().__init__(printable(message if at is None else f"{at}: {message}"))
        self.path = path if at is None else at
        self.format = format
        self.frame = frame
        self.offset = offset

    def __str__(self) -> str:
        # OSError and KeyError print their arguments in their own ways
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        place = (self.path, self.format, self.frame, self.offset)
        # notes from a worker process are shown where the error is raised
        noted = {"__notes__": self.__notes__} if hasattr(self, "__notes__") else None
        return _restore, (type(self), self.args[0], *place), noted


class FileNotFound(Error, FileNotFoundError):
    """A file does not exist."""


class FileAccessError(Error, PermissionError):
    """Permission to read a file, or to write into a folder, is missing."""


class FileIOError(Error, OSError):
    """The operating system failed to read or write."""


class TruncatedFileError(Error, EOFError):
    """A file ends within a header, within a frame if `on_truncated="error"`, or while it is read."""


class CorruptFileError(Error, ValueError):
    """The bytes of a file contradict its format, or coordinates are not numbers."""


class RewoundError(CorruptFileError):
    """A file that is being followed has lost frames that were given already, or has others in their place."""


class UnsupportedFormatError(Error, ValueError):
    """A format, or a variant of one, that Kinema does not read or write."""


class ArgumentError(Error, ValueError):
    """An argument cannot be used; the message says what to give instead."""


class OutOfRangeError(Error, IndexError):
    """A frame or an atom beyond the trajectory."""


class MemoryLimitError(Error, MemoryError):
    """Not even one frame fits in the stated memory limit."""


class MissingPackageError(Error, ImportError):
    """An optional package is not installed, or cannot be imported; the message names the extra that brings it."""


class CancelledError(Error):
    """The caller asked to stop."""


class WaitTimeoutError(Error, TimeoutError):
    """A wait did not end within the given time."""


class WorkerError(Error, RuntimeError):
    """A worker process ended without an answer: it was killed, memory ran out, or it could not start."""


class InternalError(Error, RuntimeError):
    """A defect of Kinema itself; please report it with the message."""


_CLASSES: dict[str, type[Error]] = {
    "NotFound": FileNotFound,
    "PermissionDenied": FileAccessError,
    "Io": FileIOError,
    "Truncated": TruncatedFileError,
    "Corrupt": CorruptFileError,
    "Unsupported": UnsupportedFormatError,
    "InvalidArgument": ArgumentError,
    "OutOfRange": OutOfRangeError,
    "MemoryLimit": MemoryLimitError,
    "Cancelled": CancelledError,
    "Internal": InternalError,
}


def make(
    kind: str,
    message: str,
    path: str | None = None,
    format: str | None = None,
    frame: int | None = None,
    offset: int | None = None,
) -> Error:
    """The exception for an `ErrorKind` of the Rust half, to be raised by the caller.

    An unknown kind gives `InternalError`, so that a newer core never hides an error.
    """
    return _CLASSES.get(kind, InternalError)(message, path=path, format=format, frame=frame, offset=offset)


def from_os(doing: str, error: OSError, path: str | None = None) -> Error:
    """The exception for an operating system's error, as `{path}: {doing}: {reason}`."""
    kind = "Io"
    if isinstance(error, FileNotFoundError):
        kind = "NotFound"
    elif isinstance(error, PermissionError):
        kind = "PermissionDenied"
    reason = (error.strerror or str(error)).lower()
    place = f"{path}: " if path is not None else ""
    return make(kind, f"{place}{doing}: {reason}", path=path)


@contextmanager
def os_errors(doing: str, path: str | None = None) -> Iterator[None]:
    """Within the block, an error of the operating system is raised as the error that `from_os` makes of it."""
    try:
        yield
    except OSError as error:
        if isinstance(error, Error):
            raise
        raise from_os(doing, error, path) from None


def missing_package(
    user: str, package: str, extra: str, error: ImportError, path: str | None = None
) -> MissingPackageError:
    """The exception for when `user`, a part of Kinema, cannot import `package`, which the extra `extra` installs."""
    message = f"{user} needs {package} ({error}); install it with: pip install 'kinema[{extra}]'"
    return MissingPackageError(message if path is None else f"{path}: {message}", path=path)


def says_enough(error: BaseException) -> bool:
    """Whether the message of an error is enough: defects of Kinema, and exceptions of other code, need a traceback."""
    return isinstance(error, Error) and not isinstance(error, InternalError)


class RemoteTraceback(Exception):
    """The traceback of an error on a worker, as text: the cause of the same error here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def note_worker(error: BaseException, place: str | None, text: str) -> None:
    """Adds to a worker's error the worker's name, if `place` gives it, and its traceback there, `text`.

    For errors that need a traceback, the note contains it. For other errors it becomes the cause of the error, and is
    shown only with the error's own traceback.
    """
    if says_enough(error):
        if place is not None:
            error.add_note(place)
        error.__cause__ = RemoteTraceback(text)
    else:
        error.add_note(f"{place or 'on a worker'}:\n{text}")


def with_name(error: Error, path: str, name: str) -> Error:
    """The same error with `name` as the name of the file that is temporarily named `path`."""
    message = str(error).replace(path, name)
    made = type(error)(message, path=name, format=error.format, frame=error.frame, offset=error.offset)
    for note in getattr(error, "__notes__", []):
        made.add_note(note)
    return made


def _restore(
    cls: type[Error], message: str, path: str | None, format: str | None, frame: int | None, offset: int | None
) -> Error:
    return cls(message, path=path, format=format, frame=frame, offset=offset)

"""The standard streams of the command: those that are closed, full, or cannot encode a name end in no traceback."""

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kinema.base.errors import Error, from_os

__all__ = ["give_up_stdout", "prepare_streams", "print_out", "stdout_error"]


class _ClosedStdout(io.TextIOBase):
    """What takes the place of a stdout that was closed when the process started: all that is written is an error."""

    def write(self, text: str, /) -> int:
        raise stdout_error(OSError(errno.EBADF, os.strerror(errno.EBADF)))


class _Stdout(io.TextIOWrapper):
    """The stdout of the process with errors that name it, whoever prints, as `--help` is printed by a library."""

    def write(self, text: str, /) -> int:
        with _named_errors():
            return super().write(text)

    def flush(self) -> None:
        with _named_errors():
            super().flush()


@contextmanager
def _named_errors() -> Iterator[None]:
    """FileIOError for a stdout that cannot be written, but for a reader that has gone, BrokenPipeError."""
    try:
        yield
    except (BrokenPipeError, Error):
        raise
    except OSError as error:
        raise stdout_error(error) from None


def prepare_streams() -> None:
    """Escapes what an encoding lacks, and fills the places of streams that are closed."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # the next file to be opened would take the number, and what libraries print would go into it
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = _ClosedStdout()
    elif type(sys.stdout) is io.TextIOWrapper and sys.stdout is sys.__stdout__:
        encoding, at_once, by_line = sys.stdout.encoding, sys.stdout.write_through, sys.stdout.line_buffering
        own = _Stdout(sys.stdout.detach(), encoding, line_buffering=by_line, write_through=at_once)
        sys.stdout = sys.__stdout__ = own  # type: ignore[misc]
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.FileIO(os.devnull, "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def print_out(text: str) -> None:
    """Prints on stdout at once; FileIOError where that fails, but for a reader that has gone, BrokenPipeError."""
    with _named_errors():
        print(text, flush=True)


def stdout_error(error: OSError) -> Error:
    """The exception for a stdout that cannot be written, which takes nothing from now on."""
    give_up_stdout()
    if isinstance(error, Error):
        return error
    return from_os("cannot write", error, "stdout")


def give_up_stdout() -> None:
    """What is still to be written, also at the end of the interpreter, goes nowhere."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

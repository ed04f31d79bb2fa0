"""The standard streams of the command: a closed or full stream, or one that cannot encode a name, is an error line."""

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kinema.base.errors import Error, from_os


class _ClosedStdout(io.TextIOBase):
    """Replaces a stdout that was closed when the process started: every write is an error."""

    def write(self, text: str, /) -> int:
        raise stdout_error(OSError(errno.EBADF, os.strerror(errno.EBADF)))


class _Stdout(io.TextIOWrapper):
    """The stdout of the process, with errors that name it even if a library prints, as for `--help`."""

    def write(self, text: str, /) -> int:
        with _named_errors():
            return super().write(text)

    def flush(self) -> None:
        with _named_errors():
            super().flush()


@contextmanager
def _named_errors() -> Iterator[None]:
    """Within the block, raises FileIOError if stdout cannot be written, and BrokenPipeError if its reader has gone."""
    try:
        yield
    except (BrokenPipeError, Error):
        raise
    except OSError as error:
        raise stdout_error(error) from None


def prepare_streams() -> None:
    """Escapes characters that an encoding lacks, and replaces closed streams."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # else the next open file would get this number, and libraries would print into it
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
    """Prints on stdout and flushes. Raises FileIOError if that fails, and BrokenPipeError if the reader has gone."""
    with _named_errors():
        print(text, flush=True)


def stdout_error(error: OSError) -> Error:
    """The exception for a stdout that cannot be written; stdout discards everything from now on."""
    give_up_stdout()
    if isinstance(error, Error):
        return error
    return from_os("cannot write", error, "stdout")


def give_up_stdout() -> None:
    """Discards all further output, including the flush at interpreter exit."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

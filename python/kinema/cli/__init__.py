"""The command `kinema`: takes arguments, returns an exit code; every failure prints one line that says what to do.

Each command calls one public function of the package. Exit codes: 0 done, 1 problems found
(`kinema check`), 2 bad input or arguments, 70 a defect of Kinema, 130 stopped by Ctrl-C, 143 stopped by SIGTERM.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from kinema.base.errors import ArgumentError, Error
from kinema.cache.counts import emit_troubles
from kinema.cli import exit_codes
from kinema.cli.stopping import Terminated, stop_on_signals
from kinema.cli.streams import give_up_stdout, prepare_streams, stdout_error

if TYPE_CHECKING:
    from kinema.cli.command_line import Command
    from kinema.runners.mpi.launcher import Launch

__all__ = ["main"]

# typer's scripts set this variable when a shell asks for completions
COMPLETION = "_KINEMA_COMPLETE"


def main(arguments: list[str] | None = None) -> None:
    """Runs `kinema` with the arguments (by default the process's own) and exits the process."""
    # imports make objects that live on: collecting garbage among them takes a tenth of a start; see `_invoke`
    gc.disable()
    if arguments is None:
        # and a quarter of the process's end, which frees everything anyway
        atexit.register(_leave_garbage)
    try:
        _run_and_exit(arguments)
    finally:
        gc.unfreeze()
        gc.enable()


def _leave_garbage() -> None:
    """Stops the interpreter from collecting garbage at its end.

    Does nothing if h5py is loaded: HDF5 identifiers in reference cycles would be released after libhdf5 has closed,
    which crashes.
    """
    if "h5py" not in sys.modules:
        gc.freeze()


def _run_and_exit(arguments: list[str] | None) -> NoReturn:
    from kinema.cli.command_line import prepare

    prepare_streams()
    if COMPLETION in os.environ:
        from kinema.cli.app import complete

        sys.exit(complete(COMPLETION))
    try:
        command = prepare(sys.argv[1:] if arguments is None else arguments)
    except ArgumentError as error:
        print("kinema:", error, file=sys.stderr)
        sys.exit(exit_codes.BAD_INPUT)
    try:
        with stop_on_signals():
            code = _run_traced(command)
            sys.stdout.flush()
    except BrokenPipeError:
        # the reader, `head` for example, has closed the pipe: print nothing more, not even at interpreter exit
        give_up_stdout()
        code = exit_codes.DONE
    except OSError as error:
        # from the flush; `_run` prints all other errors
        code = _failed(command, str(stdout_error(error)), exit_codes.BAD_INPUT)
    sys.exit(code)


def _run_traced(command: Command) -> int:
    """Runs the command, or this rank of it, with the trace asked for. Returns the exit code."""
    from kinema.base.tracing.recording import traced
    from kinema.runners.mpi.launcher import launched

    launch = launched()
    try:
        with traced(command.trace, command.print_note) as recording:
            code = _run_on_ranks(command, launch) if launch is not None and launch.size > 1 else _run(command)
    except Error as error:
        # from the trace; `_run` prints all other errors
        return _failed(command, str(error), exit_codes.BAD_INPUT)
    if recording is not None and not command.quiet and (launch is None or launch.rank == 0):
        print(recording, file=sys.stderr, flush=True)
    return code


def _run_on_ranks(command: Command, launch: Launch) -> int:
    """Runs this rank of several. Returns its exit code."""
    from kinema.cli.ranks import run_on_ranks, stopped_early

    try:
        return run_on_ranks(command, launch, _run)
    except (KeyboardInterrupt, Terminated) as stop:
        return stopped_early(launch, exit_codes.TERMINATED if isinstance(stop, Terminated) else exit_codes.INTERRUPTED)


def _run(command: Command) -> int:
    """Runs a command and returns its exit code; a failure prints one line, with --debug after the traceback."""
    try:
        return _invoke(command)
    except (KeyboardInterrupt, Terminated) as stop:
        code = exit_codes.TERMINATED if isinstance(stop, Terminated) else exit_codes.INTERRUPTED
        kept = _exception_notes(stop)
        return _failed(command, f"stopped; {kept}" if kept else "stopped, nothing was written", code)
    except BrokenPipeError:
        raise
    except Exception as error:
        message = _bad_input(error, command)
        if message is not None:
            return _failed(command, message, exit_codes.BAD_INPUT)
        noted = _exception_notes(error)
        what = f"{type(error).__name__}: {error}{f'; {noted}' if noted else ''}"
        message = f"{what}; this is a defect of kinema, please report it with --debug"
        return _failed(command, message, exit_codes.DEFECT)


def _invoke(command: Command) -> int:
    """Parses the arguments and calls the command's function; without arguments it prints the help."""
    import typer

    from kinema.base.notes import collected
    from kinema.cli.app import (
        GROUPS,
        parser_of,
        path_of,
        print_or_install_completion,
        refuse_renamed,
        refuse_single_hyphens,
        refuse_unknown,
    )
    from kinema.cli.option_names import option_names
    from kinema.cli.working_folder import leave_out_matplotlibrc
    from kinema.storage.output_file import reservations

    words = command.arguments or ["--help"]
    if len(words) == 1 and words[0] in GROUPS:
        words = [*words, "--help"]
    if print_or_install_completion(words, COMPLETION):
        return exit_codes.DONE
    refuse_unknown(words)
    refuse_renamed(words)
    refuse_single_hyphens(words, option_names(words).values())
    group = parser_of(path_of(words) or tuple(words))
    gc.freeze()
    gc.enable()
    # not the application itself, which takes every EOFError for a request to stop
    try:
        with (
            _warnings_in_lines(command),
            collected(command.print_note),
            reservations(),
            group.make_context("kinema", words, obj=command) as context,
        ):
            leave_out_matplotlibrc()
            try:
                group.invoke(context)
            finally:
                # troubles that no reader has reported
                emit_troubles()
    except typer.Exit as end:
        command.print_node_cache()
        return int(end.exit_code)
    command.print_node_cache()
    return exit_codes.DONE


@contextmanager
def _warnings_in_lines(command: Command) -> Iterator[None]:
    """Within the block, each warning of a library is a line on stderr, without its source location."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_args, **_keywords: command.print_warning(str(message))
        yield


def _bad_input(error: Exception, command: Command) -> str | None:
    """The line for a failure that the user can fix; None for a defect of Kinema."""
    format_message = getattr(error, "format_message", None)  # typer's own errors about arguments
    if format_message is not None:
        place = getattr(error, "ctx", None)
        name = place.command_path if place is not None else "kinema"
        return f"{str(format_message()).rstrip('.')} (see {name} --help)"
    from kinema.base.errors import says_enough
    from kinema.cli.option_names import option_names, rewrite_names

    if says_enough(error):
        message = "; ".join(filter(None, (str(error), _exception_notes(error))))
        return rewrite_names(message, option_names(command.arguments), path=getattr(error, "path", None))
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}" if str(error) else "not enough memory"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return None


def _exception_notes(error: BaseException) -> str:
    """The notes of an exception (PEP 678), which say where finished work lies."""
    return "; ".join(getattr(error, "__notes__", []))


def _failed(command: Command, message: str, code: int) -> int:
    """Prints why the command failed, as one line on stderr; with --debug the traceback comes first."""
    from kinema.base.printable import printable

    if command.debug:
        import traceback

        traceback.print_exc()
    print("kinema:", printable(" ".join(message.split("\n"))), file=sys.stderr)
    return code

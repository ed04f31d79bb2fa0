"""`kinema trace`: records the I/O of any command. The recording is `kinema.report.record`."""

from pathlib import Path
from typing import Annotated

import typer

from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options


def trace(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND...", help="Command to run, with its arguments."),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", "--out", help="Folder for the trace, for `kinema report`.")
    ] = Path("trace"),
    data: Annotated[
        list[Path] | None,
        typer.Option(
            "--data",
            help="Keep only calls on this file, or on files in this folder; may be repeated. By default, all calls of "
            "the command, on libraries and programs too.",
        ),
    ] = None,
    force: options.Force = False,
) -> None:
    """Run any command under strace and record its calls on files; for Kinema's own commands also their events."""
    from kinema.report import record

    called: Command = context.obj
    if called.ranks is not None:
        raise ArgumentError("trace starts the ranks itself: kinema trace -- mpiexec -n 4 COMMAND")
    found = record(command or [], output, data=data or [], overwrite=force)
    emit(found.notes)
    called.print_result(
        lambda: {"folder": found.folder, "trace": found.path, "exit_code": found.code, "events": found.events},
        lambda: f"{found.events:,} calls recorded in {found.path}; for the summary: kinema report {found.folder}",
        # stdout is the command's
        on_stderr=True,
    )
    if found.code:
        raise typer.Exit(found.code)

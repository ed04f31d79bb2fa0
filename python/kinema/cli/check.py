"""`kinema check`: looks for what is wrong with trajectory files. The looking is `kinema.check`."""

from typing import Annotated

import typer

from kinema.cli import exit_codes, options
from kinema.cli.command_line import Command


def check(
    context: typer.Context,
    files: options.Files,
    topology: options.Topology = None,
    jump: Annotated[
        float,
        typer.Option("--jump", help="Call a step a jump that is this many times the usual step of the atoms."),
    ] = 10.0,
    headers_only: Annotated[
        bool, typer.Option("--headers-only", help="Look at frame headers only, not at coordinates.")
    ] = False,
    workers: options.Workers = None,
    memory: options.Memory = None,
) -> None:
    """Look for truncation, gaps, repeated times, NaN, jumps, differing atom counts; exit 1 if there are any."""
    import kinema as kn

    command: Command = context.obj
    report = kn.check(
        [str(file) for file in files],
        None if topology is None else str(topology),
        coordinates=not headers_only,
        jump=jump,
        workers=workers,
        memory=memory,
        progress=False if command.quiet else None,
    )
    command.tell(report.as_dict, report)
    if not report.ok:
        raise typer.Exit(exit_codes.PROBLEMS)

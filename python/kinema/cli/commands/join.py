"""`kinema join`: makes one file of several. The work is `kinema.join`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import kinema as kn
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.cli.options.analyses import FileWorkers, Opened, TrajectoryFiles, takes_groups


@takes_groups
def join(
    context: typer.Context,
    named: TrajectoryFiles,
    output: Annotated[Path, typer.Option("-o", "--output", help="File to make.", show_default=False)],
    opened: Opened,
    workers: FileWorkers,
    copy: Annotated[
        bool, typer.Option("--copy", help="H5MD: copy the frames, rather than refer to the parts.")
    ] = False,
    overlap: options.Overlap = "last",
    renumber: Annotated[
        bool,
        typer.Option("--renumber", help="H5MD: steps and times continue through parts that each begin at their own."),
    ] = False,
    on_truncated: options.OnTruncated = "drop",
    verify: options.Verify = True,
    force: options.Force = False,
) -> None:
    """Make one trajectory file of several. For H5MD it is a small file that refers to the parts, unless with --copy."""
    command: Command = context.obj
    done = kn.join(
        named.paths,
        output,
        copy=copy,
        overlap=overlap,
        renumber=renumber,
        **opened.arguments,
        on_truncated=on_truncated,
        overwrite=force,
        verify=verify,
        runner=workers.chosen(command),
        workers=workers.workers,
        memory=workers.memory or "512 MiB",
        progress=False if command.quiet else None,
    )
    command.print_result(lambda: asdict(done), lambda: done)

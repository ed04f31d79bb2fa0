"""`kinema split`: cuts a trajectory file between frames. The work is `kinema.split`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import kinema as kn
from kinema.cli import numbers
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.cli.options.analyses import FileWorkers, Opened, TrajectoryFiles, takes_groups


@takes_groups
def split(
    context: typer.Context,
    named: TrajectoryFiles,
    opened: Opened,
    workers: FileWorkers,
    parts: Annotated[int | None, typer.Option("--parts", **numbers.COUNT, help="How many files to make.")] = None,
    frames_per_part: Annotated[
        int | None,
        typer.Option("--frames-per-part", **numbers.COUNT, help="Or: how many frames each has."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder for the parts; NAME.parts beside the file by default."),
    ] = None,
    on_truncated: options.OnTruncated = "drop",
    verify: options.Verify = True,
    force: options.Force = False,
) -> None:
    """Cut a trajectory between frames into several files: XTC, TRR, NetCDF, DCD, HISTORY as they are, H5MD by step."""
    command: Command = context.obj
    done = kn.split(
        named.path,
        output or named.path.with_suffix(".parts"),
        parts=parts,
        frames_per_part=frames_per_part,
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

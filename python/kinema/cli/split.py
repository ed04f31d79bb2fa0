"""`kinema split`: cuts a trajectory file between frames. The work is `kinema.split`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kinema.cli import options
from kinema.cli.command_line import Command


def split(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="IN", help="Trajectory file.", show_default=False)],
    parts: Annotated[int | None, typer.Option("--parts", help="How many files to make.", show_default=False)] = None,
    frames_per_part: Annotated[
        int | None, typer.Option("--frames-per-part", help="Or: how many frames each has.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Folder for the parts; NAME.parts beside IN by default.", show_default=False
        ),
    ] = None,
    group: options.ParticlesGroup = None,
    on_truncated: options.OnTruncatedOption = options.OnTruncated.error,
    verify: options.Verify = True,
    force: options.Force = False,
    workers: options.Workers = None,
    memory: options.Memory = None,
) -> None:
    """Cut a trajectory between frames into several files: XTC and DCD byte for byte, H5MD by step."""
    import kinema as kn

    command: Command = context.obj
    done = kn.split(
        source,
        output or source.with_suffix(".parts"),
        parts=parts,
        frames_per_part=frames_per_part,
        group=group,
        on_truncated=on_truncated.value,
        overwrite=force,
        verify=verify,
        workers=workers,
        memory=memory or "512 MiB",
        progress=False if command.quiet else None,
    )
    command.tell(lambda: asdict(done), done)

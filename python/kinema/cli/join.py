"""`kinema join`: makes one file of several. The work is `kinema.join`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kinema.cli import options
from kinema.cli.command_line import Command


def join(
    context: typer.Context,
    parts: Annotated[
        list[Path], typer.Argument(metavar="PART...", help="Files, in the order of time.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="File to make.", show_default=False)],
    copy: Annotated[
        bool, typer.Option("--copy", help="H5MD: copy the frames, rather than refer to those of the parts.")
    ] = False,
    group: options.ParticlesGroup = None,
    overlap: options.OverlapOption = options.Overlap.last,
    on_truncated: options.OnTruncatedOption = options.OnTruncated.error,
    verify: options.Verify = True,
    force: options.Force = False,
    workers: options.Workers = None,
    memory: options.Memory = None,
) -> None:
    """Make one trajectory file of several; of H5MD files a small one that refers to them, unless --copy is given."""
    import kinema as kn

    command: Command = context.obj
    done = kn.join(
        parts,
        output,
        copy=copy,
        overlap=overlap.value,
        group=group,
        on_truncated=on_truncated.value,
        overwrite=force,
        verify=verify,
        workers=workers,
        memory=memory or "512 MiB",
        progress=False if command.quiet else None,
    )
    command.tell(lambda: asdict(done), done)

"""`kinema repack`: rewrites an H5MD file in another layout or compression. The work is `kinema.repack`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import kinema as kn
from kinema.cli import numbers
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.cli.options import storage as storage_options
from kinema.cli.options.analyses import FileWorkers, Stated, takes_groups


@takes_groups
def repack(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="IN", help="H5MD file.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="File to make.")],
    files: Stated,
    workers: FileWorkers,
    layout: Annotated[
        str,
        typer.Option(
            "--layout",
            parser=storage_options.layout,
            metavar="TEXT",
            help="frames (about 1 MiB of whole frames), atoms (few atoms over many frames), contiguous, keep, or a "
            "chunk shape: 16x1000x3.",
        ),
    ] = "frames",
    compress: Annotated[
        str,
        typer.Option("--compress", help=f"{', '.join(['keep', *storage_options.COMPRESSIONS])}."),
    ] = "keep",
    shuffle: storage_options.Shuffle = None,
    checksum: storage_options.Checksum = False,
    max_error: storage_options.MaxError = None,
    unit: storage_options.Unit = None,
    topology: options.Topology = None,
    select: options.Select = None,
    align: Annotated[
        int | None,
        typer.Option("--align", **numbers.whole(1, 1 << 40), help="Begin chunks at multiples of this number of bytes."),
    ] = None,
    verify: options.Verify = True,
    force: options.Force = False,
) -> None:
    """Store the frames of an H5MD file in another layout, compressed, rounded or of fewer atoms; keep all else."""
    command: Command = context.obj
    compression, level = storage_options.compression(compress)
    done = kn.repack(
        source,
        target,
        layout=layout,
        compression=compression,
        level=level,
        shuffle=shuffle,
        checksum=checksum,
        max_error=max_error,
        unit=unit,
        select=select,
        topology=None if topology is None else str(topology),
        **files.arguments,
        align=align,
        overwrite=force,
        verify=verify,
        runner=workers.chosen(command),
        workers=workers.workers,
        memory=workers.memory or "512 MiB",
        progress=False if command.quiet else None,
    )
    command.print_result(lambda: asdict(done), lambda: done)

"""`kinema cache clear`: removes blocks of a node cache. The work is `NodeCache.clear`."""

from pathlib import Path
from typing import Annotated

import typer

from kinema.base.printable import counted
from kinema.cli.command_line import Command
from kinema.cli.commands.cache.folder import Folder, existing


def clear(
    context: typer.Context,
    folder: Folder,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILES", help="Files whose blocks are removed; all by default."),
    ] = None,
) -> None:
    """Remove the blocks of files, or all. Running processes fetch them again when they need them.

    Without FILES, published files that were fetched from other nodes are removed as well.
    """
    command: Command = context.obj
    cache = existing(folder)
    blocks, size = cache.clear(files or None)
    fetched, fetched_bytes = (0, 0) if files else cache.clear_fetched()
    command.print_result(
        lambda: {"blocks": blocks, "bytes": size, "fetched": fetched, "fetched_bytes": fetched_bytes},
        lambda: (
            f"{cache.root}: {counted(blocks, 'block')}, {size:,} bytes removed"
            + (f", and {counted(fetched, 'published file')} of other nodes, {fetched_bytes:,} bytes" if fetched else "")
        ),
    )

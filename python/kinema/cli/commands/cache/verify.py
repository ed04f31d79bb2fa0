"""`kinema cache verify`: compares blocks of a node cache with their checksums. The work is `NodeCache.verify_all`."""

import typer

from kinema.base.printable import counted
from kinema.cli import exit_codes
from kinema.cli.command_line import Command
from kinema.cli.commands.cache.folder import Folder, existing


def verify(context: typer.Context, folder: Folder) -> None:
    """Compare all blocks with their checksums. If some are damaged, remove them and exit with 1."""
    command: Command = context.obj
    cache = existing(folder)
    blocks = cache.stat()["blocks"]
    damaged = cache.verify_all(progress=False if command.quiet else None)
    command.print_result(
        lambda: {
            "blocks": blocks,
            "damaged": [{"path": path, "offset": offset, "reason": reason} for path, offset, reason in damaged],
        },
        lambda: "\n".join(
            [
                f"{cache.root}: {counted(blocks, 'block')}, {len(damaged):,} of them damaged and removed",
                *(f"  {path}: byte {offset}: {reason}" for path, offset, reason in damaged),
            ]
        ),
    )
    if damaged:
        raise typer.Exit(exit_codes.PROBLEMS)

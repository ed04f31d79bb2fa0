"""`kinema cache fill`: fetches whole files into a node cache. The work is `NodeCache.fill`."""

from enum import StrEnum
from typing import Annotated

import typer

from kinema.base.input_files import check_regular
from kinema.base.printable import counted
from kinema.cache import NodeCache
from kinema.cache.blocks import DEFAULT_BLOCK
from kinema.cli.command_line import Command
from kinema.cli.commands.cache.folder import Folder
from kinema.cli.options import shared as options
from kinema.cli.options.analyses import TrajectoryFiles, takes_groups


class VerifyWhen(StrEnum):
    """When checksums are compared."""

    NEVER = "never"
    FIRST = "first"
    ALWAYS = "always"


@takes_groups
def fill(
    context: typer.Context,
    named: TrajectoryFiles,
    folder: Folder,
    limit: Annotated[
        str | None,
        typer.Option(
            "--limit",
            parser=options.byte_count,
            metavar="TEXT",
            help="Most bytes of the cache's blocks, stored in its folder for all users; 200 GiB if none is stored.",
        ),
    ] = None,
    block: Annotated[
        str,
        typer.Option(
            "--block",
            parser=options.byte_count,
            metavar="TEXT",
            help="Bytes per block, the same as in the program that reads.",
        ),
    ] = DEFAULT_BLOCK,
    verify: Annotated[
        VerifyWhen | None,
        typer.Option(
            "--verify",
            help="When programs that use the folder compare checksums: never, when a process first reads bytes, "
            "or always. Stored in the folder; first if none is stored.",
        ),
    ] = None,
    workers: options.Workers = None,
) -> None:
    """Fetch files before a job computes on them: each byte once, for any number of processes; cached blocks stay.

    Then name the folder with --node-cache. You can stop the command at any time; it resumes where it stopped.
    """
    import time

    command: Command = context.obj
    began = time.perf_counter()
    # checked first, so that missing files make no folder
    for name in named.paths:
        check_regular(name, "file")
    cache = NodeCache(folder, limit, block, None if verify is None else verify.value)
    done = cache.fill(named.paths, workers=workers, progress=False if command.quiet else None)
    seconds = time.perf_counter() - began
    command.print_result(
        lambda: {**done, "seconds": seconds},
        lambda: (
            f"{cache.root}: {counted(done['files'], 'file')}, {done['bytes']:,} bytes, "
            f"of which {done['fetched_bytes']:,} were fetched in {seconds:.2f} s"
        ),
    )

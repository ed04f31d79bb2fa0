"""`kinema check`: problems of trajectory files. The work is `kinema.check`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import kinema as kn
from kinema.base.errors import ArgumentError
from kinema.cli import exit_codes, numbers
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.cli.options.analyses import StatedTimes, TrajectoryFiles, takes_groups
from kinema.cli.periodic import options as periodic


@takes_groups
def check(
    context: typer.Context,
    named: TrajectoryFiles,
    opened: StatedTimes,
    topology: options.Topology = None,
    jump: Annotated[
        float,
        typer.Option(
            "--jump",
            **numbers.decimal(1, 1e18),
            help="Call a step a jump that is this many times the usual step of the atoms.",
        ),
    ] = 10.0,
    headers_only: Annotated[
        bool, typer.Option("--headers-only", help="Read frame headers only, not coordinates.")
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Read coordinates of the first frame, the last and 16 between, not of all frames."
        ),
    ] = False,
    select: options.Select = None,
    index_file: options.IndexFile = None,
    group: options.Group = None,
    bonds: periodic.BondsOption = None,
    salvage: Annotated[
        bool, typer.Option("--salvage", help="Copy the frames that can be decoded to the file of -o: not H5MD.")
    ] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File that --salvage makes.")] = None,
    force: options.Force = False,
    workers: options.Workers = None,
    memory: options.Memory = None,
) -> None:
    """Find truncation, gaps, repeated times, NaN, jumps, differing atom counts; exit 1 if there are any.

    Frames are compared with their checksums, if `kinema index --checksums` has stored them.
    With bonds (-s) it notes molecules that are broken at the faces of the cell; these are not a problem: exit 0.
    """
    files = named.paths
    if salvage != (output is not None) or (salvage and len(files) != 1):
        raise ArgumentError("--salvage takes one file, and the file to make with -o; give both or none")
    given = {"--quick": quick, "--select": select, "--group": group, "-n": index_file, "--bonds": bonds}
    named_options = [name for name, value in given.items() if value]
    if headers_only and named_options:
        raise ArgumentError(f"{named_options[0]} is about coordinates, which --headers-only does not read; use one")
    if group is not None and index_file is None:
        raise ArgumentError("--group names a group of an index file; give the file with -n")
    command: Command = context.obj
    progress = False if command.quiet else None
    report = kn.check(
        [str(file) for file in files],
        None if topology is None else str(topology),
        coordinates=not headers_only,
        quick=quick,
        select=select,
        index_file=None if index_file is None else str(index_file),
        group=group,
        bonds=bonds,
        jump=jump,
        **opened.arguments,
        workers=workers,
        memory=memory,
        progress=progress,
    )
    if output is None:
        command.print_result(report.as_dict, lambda: report)
    else:
        done = kn.salvage(
            str(files[0]),
            str(output),
            format=opened.format,
            stored=not opened.no_stored,
            overwrite=force,
            workers=workers,
            memory=memory,
            progress=progress,
        )
        command.print_result(lambda: report.as_dict() | {"salvaged": asdict(done)}, lambda: f"{report}\n{done}")
    if not report.ok:
        raise typer.Exit(exit_codes.PROBLEMS)

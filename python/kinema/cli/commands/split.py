"""`kinema split`: cuts a trajectory file between frames. The work is `kinema.split`."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import kinema as kn
from kinema.cli import numbers
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.cli.options.analyses import FileReport, FileWorkers, Opened, TrajectoryFiles, takes_groups


@takes_groups
def split(
    context: typer.Context,
    named: TrajectoryFiles,
    opened: Opened,
    workers: FileWorkers,
    reported: FileReport,
    parts: Annotated[
        int | None, typer.Option("--parts", **numbers.COUNT, help="How many files to make.", show_default=False)
    ] = None,
    frames_per_part: Annotated[
        int | None,
        typer.Option("--frames-per-part", **numbers.COUNT, help="Or: how many frames each has.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Folder for the parts; NAME.parts beside the file by default.", show_default=False
        ),
    ] = None,
    on_truncated: options.OnTruncated = "drop",
    verify: options.Verify = True,
    force: options.Force = False,
) -> None:
    """Cut a trajectory between frames into several files: XTC, TRR, NetCDF, DCD, HISTORY as they are, H5MD by step."""
    command: Command = context.obj
    reported.check([named.path], force=force)
    runner = workers.chosen(command)
    began = time.perf_counter()
    done = kn.split(
        named.path,
        output or named.path.with_suffix(".parts"),
        parts=parts,
        frames_per_part=frames_per_part,
        **opened.arguments,
        on_truncated=on_truncated,
        overwrite=force,
        verify=verify,
        runner=runner,
        workers=workers.workers,
        memory=workers.memory or "512 MiB",
        progress=False if command.quiet else None,
    )
    if reported.report is not None:
        from kinema.runners.workers import CallWorkers
        from kinema.studies.programs.one_pass import even_shares, one_pass

        wall = time.perf_counter() - began
        source = kn.open(named.path, **opened.arguments, on_truncated=on_truncated)
        calling = CallWorkers(runner, workers.workers)
        number = calling.threads if calling.is_local else calling.n_workers
        made = one_pass(
            source, "split", wall, [{}] * number, even_shares(source.n_frames, number),
            runner=runner.name, command=command.typed,
        )  # fmt: skip
        made.save(reported.report, overwrite=force)
    command.print_result(lambda: asdict(done), lambda: done)

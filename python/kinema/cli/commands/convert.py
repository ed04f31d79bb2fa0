"""`kinema convert`: frames of any trajectory as a file of another format. The work is `kinema.convert`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kinema.cli import numbers, options
from kinema.cli.analysis_options import FrameOptions, Inputs, Opening, takes_groups
from kinema.cli.command_line import Command


@takes_groups
def convert(
    context: typer.Context,
    inputs: Inputs,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File to make; its suffix says the format.", show_default=False)
    ],
    opened: Opening,
    window: FrameOptions,
    fields: Annotated[
        str | None,
        typer.Option(
            "--fields",
            help="What to write of the atoms: positions or velocities; positions by default.",
            show_default=False,
        ),
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            "--precision",
            **numbers.decimal(1, 1e9),
            help="XTC: numbers to a nm; as the input has, or 1000.",
            show_default=False,
        ),
    ] = None,
    verify: options.Verify = True,
    checkpoint: options.Checkpoint = None,
    checkpoint_interval: options.CheckpointInterval = None,
    force: options.Force = False,
    runner: options.Runner = None,
    workers: options.Workers = None,
    memory: options.Memory = None,
) -> None:
    """Write frames of a trajectory as a file of another format, or of the same with other frames or atoms."""
    import kinema as kn
    from kinema.cli.analysis_options import checkpoint_of
    from kinema.cli.analysis_run import chosen_frames
    from kinema.writing.convert import check_output

    command: Command = context.obj
    saved = checkpoint_of(checkpoint, checkpoint_interval)
    check_output(output, overwrite=force, checkpoint=saved)
    progress = False if command.quiet else None
    trajectory = kn.open(
        [str(path) for path in inputs.paths],
        None if inputs.topology is None else str(inputs.topology),
        **opened.arguments,
    )
    trajectory.scan(workers=workers, progress=progress, skip_damaged=opened.skip_damaged)
    done = kn.convert(
        trajectory,
        output,
        **chosen_frames(trajectory, window),
        select=inputs.select,
        index_file=inputs.index_file,
        group=inputs.group,
        fields=None if fields is None else [name.strip() for name in fields.split(",")],
        precision=precision,
        runner="threads" if runner is None else runner.value,
        workers=workers,
        memory=memory,
        overwrite=force,
        verify=verify,
        checkpoint=saved,
        skip_damaged=opened.skip_damaged,
        progress=progress,
    )
    command.print_result(lambda: asdict(done), lambda: done)

"""`kinema rmsf`: fluctuation of each atom about its mean. The computation is `kinema.analysis.RMSF`."""

from enum import StrEnum
from typing import Annotated

import typer

from kinema.cli import options


class Align(StrEnum):
    """What frames are superposed on first."""

    none = "none"
    average = "average"
    reference = "reference"


def rmsf(
    context: typer.Context,
    trajectory: options.Trajectories,
    topology: options.Topology = None,
    select: options.Select = None,
    index_file: options.IndexFile = None,
    group: options.Group = None,
    align: Annotated[
        Align,
        typer.Option("--align", help="Superpose frames on the average structure or on the reference first."),
    ] = Align.none,
    align_select: Annotated[
        str | None,
        typer.Option("--align-select", help="Atoms to superpose on; those of --select by default."),
    ] = None,
    ref_frame: options.ReferenceFrame = None,
    reference: options.Reference = None,
    begin: options.Begin = None,
    end: options.End = None,
    dt: options.Every = None,
    start: options.Start = None,
    stop: options.Stop = None,
    step: options.Step = None,
    workers: options.Workers = None,
    runner: options.Runner = None,
    memory: options.Memory = None,
    access: options.AccessOption = options.Access.direct,
    threads_per_worker: options.ThreadsPerWorker = None,
    schedule: options.ScheduleOption = None,
    oversubscribe: options.Oversubscribe = None,
    gather: options.GatherOption = None,
    scheduler: options.Scheduler = None,
    overlap: options.OverlapOption = options.Overlap.last,
    on_truncated: options.OnTruncatedOption = options.OnTruncated.error,
    output: options.Output = None,
    plot: options.Plot = None,
    checkpoint: options.Checkpoint = None,
    checkpoint_interval: options.CheckpointInterval = None,
    report: options.Report = None,
) -> None:
    """Root-mean-square fluctuation of each atom."""
    import kinema as kn
    from kinema.cli.analysis_run import Inputs, Outputs, Quantity, Window, open_inputs, run
    from kinema.cli.reference import reference_arguments
    from kinema.cli.runner_choice import Workers
    from kinema.errors import ArgumentError

    inputs = Inputs(trajectory, topology, select, index_file, group, overlap, on_truncated)
    outputs = Outputs(output, plot, checkpoint, checkpoint_interval, report=report)
    traj, atoms = open_inputs(inputs, outputs)
    if align is Align.none and (align_select, ref_frame, reference) != (None, None, None):
        raise ArgumentError("--align-select, --ref-frame and --reference need --align average or reference")
    analysis = kn.analysis.RMSF(
        traj,
        select=atoms,
        align=None if align is Align.none else align.value,
        align_select=align_select,
        **reference_arguments(ref_frame, reference),
    )
    run(
        context.obj,
        traj,
        analysis,
        Quantity(f"RMSF of {atoms.n_atoms} atoms", "angstrom"),
        Window(begin, end, dt, start, stop, step),
        outputs,
        Workers(workers, memory, runner, threads_per_worker, schedule, oversubscribe, gather, scheduler, access),
    )

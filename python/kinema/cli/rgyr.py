"""`kinema rgyr`: radius of gyration over time. The computation is `kinema.analysis.RadiusOfGyration`."""

from enum import StrEnum
from typing import Annotated

import typer

from kinema.cli import options


class Weights(StrEnum):
    """What each atom counts."""

    mass = "mass"
    none = "none"


def rgyr(
    context: typer.Context,
    trajectory: options.Trajectories,
    topology: options.Topology = None,
    select: options.Select = None,
    index_file: options.IndexFile = None,
    group: options.Group = None,
    weights: Annotated[
        Weights | None,
        typer.Option(
            "--weights",
            help="Weight of an atom; mass by default where there is a topology.",
            show_default=False,
        ),
    ] = None,
    axes: Annotated[bool, typer.Option("--axes", help="Also the radii about the x, y and z axis.")] = False,
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
    output: options.SeriesOutput = None,
    plot: options.Plot = None,
    checkpoint: options.Checkpoint = None,
    checkpoint_interval: options.CheckpointInterval = None,
    report: options.Report = None,
) -> None:
    """Radius of gyration of the atoms, for each frame."""
    import kinema as kn
    from kinema.cli.analysis_run import Inputs, Outputs, Quantity, Window, open_inputs, run
    from kinema.cli.runner_choice import Workers
    from kinema.errors import ArgumentError

    inputs = Inputs(trajectory, topology, select, index_file, group, overlap, on_truncated)
    outputs = Outputs(output, plot, checkpoint, checkpoint_interval, per_frame=True, report=report)
    traj, atoms = open_inputs(inputs, outputs)
    if traj.topology_name is None and weights is not Weights.none:
        raise ArgumentError("masses come from a topology: give one with -s, or --weights none")
    analysis = kn.analysis.RadiusOfGyration(
        traj, select=atoms, weights=None if weights is Weights.none else "mass", axes=axes
    )
    run(
        context.obj,
        traj,
        analysis,
        Quantity(f"radius of gyration of {atoms.n_atoms} atoms", "angstrom", column=0),
        Window(begin, end, dt, start, stop, step),
        outputs,
        Workers(workers, memory, runner, threads_per_worker, schedule, oversubscribe, gather, scheduler, access),
    )

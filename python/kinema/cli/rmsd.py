"""`kinema rmsd`: RMSD to a reference over time. The computation is `kinema.analysis.RMSD`."""

from enum import StrEnum
from typing import Annotated

import typer

from kinema.cli import options


class Weights(StrEnum):
    """What each atom counts."""

    none = "none"
    mass = "mass"


def rmsd(
    context: typer.Context,
    trajectory: options.Trajectories,
    topology: options.Topology = None,
    select: options.Select = None,
    index_file: options.IndexFile = None,
    group: options.Group = None,
    rmsd_select: Annotated[
        list[str] | None,
        typer.Option("--rmsd-select", help="More atoms to take the RMSD of, after superposition on --select."),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("--groups", help="The same by a group of the index file; may be repeated."),
    ] = None,
    ref_frame: options.ReferenceFrame = None,
    reference: options.Reference = None,
    weights: Annotated[Weights, typer.Option("--weights", help="Weight of an atom.")] = Weights.none,
    superposition: Annotated[
        bool, typer.Option("--superposition/--no-superposition", help="Superpose before the RMSD is taken.")
    ] = True,
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
    """RMSD of the atoms to a reference frame or structure, for each frame."""
    import kinema as kn
    from kinema.cli.analysis_run import Inputs, Outputs, Quantity, Window, open_inputs, run
    from kinema.cli.reference import reference_arguments
    from kinema.cli.runner_choice import Workers
    from kinema.errors import ArgumentError

    inputs = Inputs(trajectory, topology, select, index_file, group, overlap, on_truncated)
    outputs = Outputs(output, plot, checkpoint, checkpoint_interval, per_frame=True, report=report)
    traj, atoms = open_inputs(inputs, outputs)
    if groups and index_file is None:
        raise ArgumentError("--groups names groups of an index file; give the file with -n")
    others = [traj.select(text) for text in rmsd_select or []]
    others += [traj.select(index_file=str(index_file), group=name) for name in groups or []]
    analysis = kn.analysis.RMSD(
        traj,
        select=atoms,
        groups=others or None,
        weights="mass" if weights is Weights.mass else None,
        superposition=superposition,
        **reference_arguments(ref_frame, reference),
    )
    run(
        context.obj,
        traj,
        analysis,
        Quantity(f"RMSD of {atoms.n_atoms} atoms", "angstrom", column=0),
        Window(begin, end, dt, start, stop, step),
        outputs,
        Workers(workers, memory, runner, threads_per_worker, schedule, oversubscribe, gather, scheduler, access),
    )

"""`kinema rmsd`: RMSD to a reference over time. The computation is `kinema.analysis.RMSD`."""

from typing import Annotated

import typer

from kinema.choices import WEIGHTS
from kinema.cli import options
from kinema.cli.analysis_options import (
    FollowedFiles,
    FrameOptions,
    Inputs,
    Opening,
    SeriesOutputs,
    Workers,
    takes_groups,
)


@takes_groups
def rmsd(
    context: typer.Context,
    inputs: Inputs,
    window: FrameOptions,
    workers: Workers,
    opening: Opening,
    following: FollowedFiles,
    outputs: SeriesOutputs,
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
    match: options.Match = None,
    weights: Annotated[str, typer.Option("--weights", **options.one_of(WEIGHTS), help="Weight of an atom.")] = "none",
    superposition: Annotated[
        bool, typer.Option("--superposition/--no-superposition", help="Superpose before the RMSD is taken.")
    ] = True,
) -> None:
    """RMSD of the atoms to a reference frame or structure, for each frame."""
    import kinema as kn
    from kinema.cli.analysis_run import Summarised, open_inputs, run
    from kinema.cli.reference import reference_arguments
    from kinema.errors import ArgumentError

    traj, atoms = open_inputs(context.obj, inputs, opening, outputs, workers, following, reference)
    if groups and inputs.index_file is None:
        raise ArgumentError("--groups names groups of an index file; give the file with -n")
    others = [traj.select(text) for text in rmsd_select or []]
    others += [traj.select(index_file=str(inputs.index_file), group=name) for name in groups or []]
    analysis = kn.analysis.RMSD(
        traj,
        select=atoms,
        groups=others or None,
        weights=None if weights == "none" else weights,
        superposition=superposition,
        **reference_arguments(ref_frame, reference, match),
    )
    run(
        context.obj,
        traj,
        analysis,
        Summarised(f"RMSD of {atoms.count(traj.n_atoms)}", column=0),
        opening,
        window,
        outputs,
        workers,
        following,
    )

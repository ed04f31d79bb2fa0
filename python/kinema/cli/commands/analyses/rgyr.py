"""`kinema rgyr`: radius of gyration over time. The computation is `kinema.analysis.RadiusOfGyration`."""

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
def rgyr(
    context: typer.Context,
    inputs: Inputs,
    window: FrameOptions,
    workers: Workers,
    opening: Opening,
    following: FollowedFiles,
    outputs: SeriesOutputs,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            **options.one_of(WEIGHTS),
            help="Weight of an atom; mass by default where there is a topology.",
            show_default=False,
        ),
    ] = None,
    axes: Annotated[bool, typer.Option("--axes", help="Also the radii about the x, y and z axis.")] = False,
) -> None:
    """Radius of gyration of the atoms, for each frame."""
    import kinema as kn
    from kinema.cli.analysis_run import Summarised, open_inputs, run
    from kinema.errors import ArgumentError

    traj, atoms = open_inputs(context.obj, inputs, opening, outputs, workers, following)
    if traj.topology_name is None and weights != "none":
        raise ArgumentError("masses come from a topology: give one with -s, or --weights none")
    analysis = kn.analysis.RadiusOfGyration(
        traj, select=atoms, weights=None if weights == "none" else "mass", axes=axes
    )
    run(
        context.obj,
        traj,
        analysis,
        Summarised(f"radius of gyration of {atoms.count(traj.n_atoms)}", column=0),
        opening,
        window,
        outputs,
        workers,
        following,
    )

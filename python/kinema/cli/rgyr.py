"""`kinema rgyr`: radius of gyration over time. The computation is `kinema.analysis.RadiusOfGyration`."""

from enum import StrEnum
from typing import Annotated

import typer

from kinema.cli.analysis_options import Inputs, Joining, SeriesOutputs, Window, Workers, takes_groups


class Weights(StrEnum):
    """What each atom counts."""

    mass = "mass"
    none = "none"


@takes_groups
def rgyr(
    context: typer.Context,
    inputs: Inputs,
    window: Window,
    workers: Workers,
    joining: Joining,
    outputs: SeriesOutputs,
    weights: Annotated[
        Weights | None,
        typer.Option(
            "--weights",
            help="Weight of an atom; mass by default where there is a topology.",
            show_default=False,
        ),
    ] = None,
    axes: Annotated[bool, typer.Option("--axes", help="Also the radii about the x, y and z axis.")] = False,
) -> None:
    """Radius of gyration of the atoms, for each frame."""
    import kinema as kn
    from kinema.cli.analysis_run import Quantity, open_inputs, run
    from kinema.errors import ArgumentError

    traj, atoms = open_inputs(inputs, joining, outputs)
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
        window,
        outputs,
        workers,
    )

"""`kinema rmsd`: RMSD to a reference over time. The computation is `kinema.analysis.RMSD`."""

from enum import StrEnum
from typing import Annotated

import typer

from kinema.cli import options
from kinema.cli.analysis_options import Inputs, Joining, SeriesOutputs, Window, Workers, takes_groups


class Weights(StrEnum):
    """What each atom counts."""

    none = "none"
    mass = "mass"


@takes_groups
def rmsd(
    context: typer.Context,
    inputs: Inputs,
    window: Window,
    workers: Workers,
    joining: Joining,
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
    weights: Annotated[Weights, typer.Option("--weights", help="Weight of an atom.")] = Weights.none,
    superposition: Annotated[
        bool, typer.Option("--superposition/--no-superposition", help="Superpose before the RMSD is taken.")
    ] = True,
) -> None:
    """RMSD of the atoms to a reference frame or structure, for each frame."""
    import kinema as kn
    from kinema.cli.analysis_run import Quantity, open_inputs, run
    from kinema.cli.reference import reference_arguments
    from kinema.errors import ArgumentError

    traj, atoms = open_inputs(inputs, joining, outputs)
    if groups and inputs.index_file is None:
        raise ArgumentError("--groups names groups of an index file; give the file with -n")
    others = [traj.select(text) for text in rmsd_select or []]
    others += [traj.select(index_file=str(inputs.index_file), group=name) for name in groups or []]
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
        window,
        outputs,
        workers,
    )

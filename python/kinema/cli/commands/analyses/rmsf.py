"""`kinema rmsf`: fluctuation of each atom about its mean. The computation is `kinema.analysis.RMSF`."""

from enum import StrEnum
from typing import Annotated

import typer

from kinema.cli import options
from kinema.cli.analysis_options import FollowedFiles, FrameOptions, Inputs, Opening, Outputs, Workers, takes_groups


class Align(StrEnum):
    """What frames are superposed on first."""

    none = "none"
    average = "average"
    reference = "reference"


@takes_groups
def rmsf(
    context: typer.Context,
    inputs: Inputs,
    window: FrameOptions,
    workers: Workers,
    opening: Opening,
    following: FollowedFiles,
    outputs: Outputs,
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
    match: options.Match = None,
    by: options.By = "atom",
) -> None:
    """Root-mean-square fluctuation of each atom."""
    import kinema as kn
    from kinema.cli.analysis_run import Summarised, open_inputs, run
    from kinema.cli.reference import reference_arguments
    from kinema.errors import ArgumentError

    if following.follow and align is Align.average:
        raise ArgumentError(
            "--align average reads all frames twice, which --follow cannot; use --align reference, or run it when all "
            "frames are there"
        )
    traj, atoms = open_inputs(context.obj, inputs, opening, outputs, workers, following, reference)
    if align is Align.none and any(given is not None for given in (align_select, ref_frame, reference, match)):
        raise ArgumentError("--align-select, --ref-frame, --reference and --match need --align average or reference")
    analysis = kn.analysis.RMSF(
        traj,
        select=atoms,
        align=None if align is Align.none else align.value,
        align_select=align_select,
        by=by,
        **reference_arguments(ref_frame, reference, match),
    )
    run(
        context.obj,
        traj,
        analysis,
        Summarised(f"RMSF of {atoms.count(traj.n_atoms)}"),
        opening,
        window,
        outputs,
        workers,
        following,
    )

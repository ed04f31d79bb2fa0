"""`kinema ml statistics`: moments of samples for normalisation. The work is `kinema.ml.statistics`."""

from pathlib import Path
from typing import Annotated, Any

import typer

import kinema as kn
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.cli.command_line import Command
from kinema.cli.commands.ml.export import SplitPart
from kinema.cli.options import shared as options
from kinema.cli.options import storage as storage_options
from kinema.cli.options.analyses import StatedTimes, takes_groups
from kinema.cli.periodic.inputs import Inputs
from kinema.storage.output_checks import check_not_input, check_remade


@takes_groups
def statistics(
    context: typer.Context,
    inputs: Inputs,
    output: Annotated[Path, typer.Option("-o", "--output", help="File to make, JSON.")],
    opened: StatedTimes,
    chosen: SplitPart,
    fields: Annotated[
        str | None,
        typer.Option(
            "--fields",
            help="Arrays of archives, all by default; of trajectories positions,velocities,forces and labels.",
        ),
    ] = None,
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            "--labels",
            help="CSV file with a column step and columns of values, one for each trajectory, in their order.",
        ),
    ] = None,
    file_is_sample: storage_options.FileIsSample = None,
    energy: Annotated[
        str | None,
        typer.Option("--energy", help="The label that is the energy; energy or potential_energy by default."),
    ] = None,
    workers: options.Workers = None,
    on_truncated: options.OnTruncated = "drop",
    force: options.Force = False,
) -> None:
    """Moments of sample archives, or of trajectories, for normalisation: of the training part of a split."""
    import kinema.ml

    command: Command = context.obj
    if chosen.part is not None and chosen.split is None:
        raise ArgumentError("--part is of a split; name its file with --split")
    check_not_input(output, *inputs.paths, inputs.topology, chosen.split)
    check_remade(output, overwrite=force)
    names = None if fields is None else [name.strip() for name in fields.split(",")]
    stated = {**opened.arguments, "on_truncated": on_truncated}
    archives = _archive_dataset(inputs, stated, names, labels, file_is_sample)
    data = _frame_dataset(command, inputs, stated, names, labels) if archives is None else archives
    done = kinema.ml.statistics(
        data,
        split=chosen.split,
        part="train" if chosen.part is None else chosen.part,
        energy=energy,
        workers=workers,
        progress=False if command.quiet else None,
    )
    done.save(output, overwrite=force)
    command.print_result(lambda: _facts(output, done), lambda: f"{output}: {_summary(done)}")


def _archive_dataset(
    inputs: Inputs,
    stated: dict[str, Any],
    fields: list[str] | None,
    labels: list[Path] | None,
    file_is_sample: bool | None,
) -> Any:
    """The data set of archives of samples; None if the files are others."""
    import kinema.ml
    from kinema.cache.node_cache import node_cache_of
    from kinema.ml.stored.sample_files import is_archive
    from kinema.trajectory.following.patterns import GivenFiles

    cache = node_cache_of(stated["node_cache"])
    given = GivenFiles(tuple(map(str, inputs.paths)), None if cache is None else cache.root)
    if not all(map(is_archive, given.paths())):
        if file_is_sample is not None:
            raise ArgumentError(f"--file-is-sample is for archives of samples, and {inputs.paths[0]} is none")
        return None
    wrong = [
        name
        for name, value in vars(inputs).items()
        if value not in (None, False) and name not in ("files", "trajectory")
    ]
    if wrong or labels:
        name = wrong[0].replace("_", "-") if wrong else "labels"
        raise ArgumentError(f"--{name} is for trajectories, and {inputs.paths[0]} is an archive of samples")
    paths = [str(path) for path in inputs.paths]
    return kinema.ml.SampleDataset(
        paths[0] if len(paths) == 1 else paths, fields, file_is_sample=file_is_sample, node_cache=cache
    )


def _frame_dataset(
    command: Command, inputs: Inputs, stated: dict[str, Any], fields: list[str] | None, labels: list[Path] | None
) -> Any:
    """The data set of frames."""
    import kinema.ml

    trajectories = []
    for path in inputs.paths:
        trajectory = kn.open(path, inputs.topology, **stated)
        trajectory.scan(progress=False if command.quiet else None)
        trajectories.append(inputs.transformed(trajectory, lambda: None))
    select: Any = inputs.select
    if inputs.index_file is not None or inputs.group is not None:
        select = trajectories[0].select(inputs.select, index_file=inputs.index_file, group=inputs.group)
    known = all(one.topology is not None and one.topology.atoms.get("elements") is not None for one in trajectories)
    wanted = ["positions"] if fields is None else fields
    if known and "atomic_numbers" not in wanted:
        wanted = [*wanted, "atomic_numbers"]
    tables = None if not labels else [str(path) for path in labels]
    return kinema.ml.FrameDataset(trajectories, select, wanted, labels=tables)


def _summary(done: Any) -> str:
    of = "" if done.part is None else f" of part {done.part!r}"
    names = [*done.arrays, *done.species, *([] if done.energy is None else [done.energy.name])]
    return f"statistics of {counted(done.n_samples, 'sample')}{of}: {', '.join(names)}"


def _facts(output: Path, done: Any) -> dict[str, Any]:
    return {
        "output": str(output),
        "n_samples": done.n_samples,
        "part": done.part,
        "arrays": list(done.arrays),
        "species": {name: list(found) for name, found in done.species.items()},
        "energy": None if done.energy is None else done.energy.name,
        "fingerprint": done.fingerprint,
    }

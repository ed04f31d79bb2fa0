"""`kinema ml export`: frames with labels as files that training codes read. The work is `kinema.ml.export`."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import kinema as kn
from kinema.base.errors import ArgumentError
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.cli.options.analyses import FileWorkers, FrameOptions, StatedTimes, takes_groups
from kinema.cli.periodic.inputs import Inputs


@dataclass(frozen=True)
class Labels:
    """Options for values of frames, beside the values of atoms."""

    labels: Annotated[
        list[Path] | None,
        typer.Option(
            "--labels",
            help="CSV file with a column step and columns of values, one for each trajectory, in their order.",
        ),
    ] = None
    missing: Annotated[
        str,
        typer.Option(
            "--missing",
            **options.one_of(("error", "drop")),
            help="Frames for whose step a label has no value: an error, or drop them.",
        ),
    ] = "error"
    energy: Annotated[
        str | None,
        typer.Option(
            "--energy", help="extxyz, deepmd: the label that is the energy; energy or potential_energy by default."
        ),
    ] = None
    label_units: Annotated[
        str | None,
        typer.Option(
            "--label-units", help="Units of labels whose files do not state them: energy=eV; kJ/mol by default."
        ),
    ] = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of `kinema.ml.export`. Raises ArgumentError if --label-units is not a list of names and units."""
        from kinema.cli.word_lists import named_words

        units = None if self.label_units is None else named_words("--label-units", self.label_units, "NAME=UNIT")
        tables = None if not self.labels else [str(path) for path in self.labels]
        return {"labels": tables, "missing": self.missing, "energy": self.energy, "label_units": units}


@dataclass(frozen=True)
class SplitPart:
    """Options that choose samples."""

    split: Annotated[
        Path | None,
        typer.Option("--split", help="Split of a data set (kinema.ml.DataSplit)."),
    ] = None
    part: Annotated[str | None, typer.Option("--part", help="Part of --split to export: train.")] = None


@takes_groups
def export(
    context: typer.Context,
    inputs: Inputs,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="File, or folder for shards; a name with the format's suffix is one file."),
    ],
    output_format: Annotated[
        str,
        typer.Option("--output-format", metavar="<samples-h5|npy|npz|extxyz|deepmd>", help="Format to write."),
    ],
    opened: StatedTimes,
    window: FrameOptions,
    labelled: Labels,
    chosen: SplitPart,
    workers: FileWorkers,
    fields: Annotated[
        str | None,
        typer.Option(
            "--fields",
            help="positions,forces and names of labels; by default positions, forces if there are any, and all "
            "columns of --labels.",
        ),
    ] = None,
    dtype: Annotated[
        str, typer.Option("--dtype", **options.one_of(("float32", "float64")), help="Type of positions and forces.")
    ] = "float32",
    shard_size: Annotated[
        str | None,
        typer.Option(
            "--shard-size",
            parser=options.byte_count,
            metavar="TEXT",
            help='Bytes of a file of a folder, about: "256 MiB"; 1 GiB by default.',
        ),
    ] = None,
    compress: Annotated[bool, typer.Option("--compress", help="npz: deflated members.")] = False,
    on_truncated: options.OnTruncated = "drop",
    force: options.Force = False,
) -> None:
    """Write frames with labels as files that training codes read; each trajectory file is one by itself."""
    import kinema.ml
    from kinema.cli.analysis_run import chosen_frames
    from kinema.ml.export.formats import export_format
    from kinema.ml.stored.sample_files import is_archive

    command: Command = context.obj
    labels = labelled.arguments
    # before anything is opened
    export_format(output_format, labels["energy"], labels["label_units"], compress)
    runner = workers.chosen(command)
    trajectories = []
    for path in inputs.paths:
        if is_archive(path):
            raise ArgumentError(
                f"{path}: an archive of samples, expected a trajectory; samples are copied by `kinema ml convert`, and "
                "exported by kinema.ml.export(kinema.ml.SampleDataset(...), ...)",
                path=str(path),
            )
        trajectory = kn.open(path, inputs.topology, **opened.arguments, on_truncated=on_truncated)
        trajectory.scan(
            workers=runner.local_threads(workers.workers),
            progress=False if command.quiet else None,
            search=runner.find_frames,
        )
        trajectory = inputs.transformed(trajectory, lambda: None, lambda one: chosen_frames(one, window))
        frames = chosen_frames(trajectory, window)
        trajectories.append(trajectory[trajectory.choose(**frames)] if any(_given(window)) else trajectory)
    select: Any = inputs.select
    if inputs.index_file is not None or inputs.group is not None:
        select = trajectories[0].select(inputs.select, index_file=inputs.index_file, group=inputs.group)
    done = kinema.ml.export(
        trajectories,
        output,
        format=output_format,
        select=select,
        fields=None if fields is None else [name.strip() for name in fields.split(",")],
        **labels,
        split=chosen.split,
        part=chosen.part,
        dtype=dtype,
        shard_size=shard_size,
        compress=compress,
        runner=runner,
        workers=workers.workers,
        memory=workers.memory,
        overwrite=force,
        progress=False if command.quiet else None,
    )
    command.print_result(lambda: {**asdict(done), "gib_per_second": done.gib_per_second}, lambda: done)


def _given(window: FrameOptions) -> list[bool]:
    return [value is not None for value in vars(window).values()]

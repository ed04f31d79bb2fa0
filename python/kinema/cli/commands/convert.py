"""`kinema convert`: frames of any trajectory as a file of another format. The work is `kinema.convert`."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import kinema as kn
from kinema.base.choices import DIALECTS
from kinema.base.errors import ArgumentError
from kinema.cli import numbers
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.cli.options import storage as storage_options
from kinema.cli.options.analyses import (
    FileReport,
    FileWorkers,
    FrameOptions,
    Opening,
    checkpoint_of,
    remove_checkpoints_of_passes,
    takes_groups,
)
from kinema.cli.periodic.inputs import Inputs


@dataclass(frozen=True)
class FormatOptions:
    """Options of formats; `convert` refuses an option that the format lacks."""

    precision: Annotated[
        float | None,
        typer.Option(
            "--precision", **numbers.decimal(1, 1e9), help="XTC: steps per nm; by default as the input, or 1000."
        ),
    ] = None
    title: Annotated[
        str | None,
        typer.Option("--title", help="HISTORY, CONFIG: the first line; by default as in such an input."),
    ] = None
    layout: Annotated[
        str | None,
        typer.Option(
            "--layout",
            parser=storage_options.layout,
            metavar="TEXT",
            help="H5MD, NetCDF-4: frames (about 1 MiB of whole frames), atoms (few atoms over many frames), contiguous "
            "(H5MD), or a chunk shape: 16x1000x3; frames by default.",
        ),
    ] = None
    compress: Annotated[
        str | None,
        typer.Option("--compress", help=f"H5MD, NetCDF-4: {', '.join(storage_options.COMPRESSIONS)}; none by default."),
    ] = None
    max_error: storage_options.MaxError = None
    unit: storage_options.Unit = None
    length_unit: Annotated[
        str | None,
        typer.Option("--length-unit", help="H5MD: angstrom, nm or pm; by default as in the input."),
    ] = None
    dialect: Annotated[
        str | None,
        typer.Option(
            "--dialect",
            **options.one_of(DIALECTS),
            help="H5MD: strings as the specification has them (h5md, the default), or as MDAnalysis reads them.",
        ),
    ] = None
    netcdf4: Annotated[
        bool, typer.Option("--netcdf4", help="NetCDF: NetCDF-4, which is stored in HDF5, in place of CDF-2.")
    ] = False
    convention: Annotated[
        str | None,
        typer.Option("--convention", **options.one_of(("amber", "dl_poly")), help="NetCDF-4: amber by default."),
    ] = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The given options, as arguments of `kinema.convert`."""
        given = {name: value for name, value in vars(self).items() if value not in (None, False) and name != "compress"}
        if self.compress is not None:
            name, level = storage_options.compression(self.compress)
            given |= {"compression": name, **({} if level is None else {"level": level})}
        return given


@dataclass(frozen=True)
class Several:
    """Options for more files than one."""

    split: Annotated[
        int | None,
        typer.Option("--split", **numbers.COUNT, help="Frames per file: out0.xtc, out1.xtc, ..."),
    ] = None
    sep: Annotated[bool, typer.Option("--sep", help="Each frame as a file: --split 1.")] = False
    topology_out: Annotated[
        Path | None,
        typer.Option(
            "--topology-out", help="Also write the atoms, with positions of the first frame, as .pdb or .gro."
        ),
    ] = None

    @property
    def arguments(self) -> dict[str, Any]:
        """As arguments of `kinema.convert`."""
        if self.sep and self.split is not None:
            raise ArgumentError("--sep is --split 1, and both are given; use one")
        return {"split": 1 if self.sep else self.split, "topology_out": self.topology_out}


@takes_groups
def convert(
    context: typer.Context,
    inputs: Inputs,
    output: Annotated[Path, typer.Option("-o", "--output", help="File to make; its suffix says the format.")],
    opened: Opening,
    window: FrameOptions,
    stored: FormatOptions,
    several: Several,
    workers: FileWorkers,
    reported: FileReport,
    dump: Annotated[
        float | None,
        typer.Option("--dump", **numbers.TIME, help="Only the frame nearest to this time, ps."),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option("--reference", help="Structure that --fit superposes on; the first frame by default."),
    ] = None,
    fields: Annotated[
        str | None,
        typer.Option(
            "--fields", help="Fields to write: positions,velocities,forces; by default all that the format holds."
        ),
    ] = None,
    verify: Annotated[
        str | None,
        typer.Option(
            "--verify", **options.one_of(("some", "all")), help="Frames to read back and compare; some by default."
        ),
    ] = None,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Compare none.")] = False,
    rotate_cell: Annotated[
        bool,
        typer.Option(
            "--rotate-cell",
            help="Rotate frames and all vectors so that lengths and angles describe the cells, left-handed ones too.",
        ),
    ] = False,
    checkpoint: options.Checkpoint = None,
    checkpoint_interval: options.CheckpointInterval = None,
    force: options.Force = False,
    append: Annotated[
        bool, typer.Option("--append", help="Add the frames to the output if it exists; nothing is read back.")
    ] = False,
    strategy: options.Strategy = None,
    hints: options.Hints = None,
) -> None:
    """Write frames of a trajectory as a file of another format, or of the same with other frames or atoms."""
    from kinema.cli.word_lists import named_words
    from kinema.files.convert import check_output

    command: Command = context.obj
    saved = checkpoint_of(checkpoint, checkpoint_interval)
    if no_verify and verify is not None:
        raise ArgumentError(f"--verify {verify} and --no-verify are both given; use one")
    made = several.arguments
    check_output(output, overwrite=force or append or made["split"] is not None, checkpoint=saved)
    reported.check([*inputs.paths, inputs.topology], force=force)
    progress = False if command.quiet else None
    began = time.perf_counter()
    runner, trajectory = _scanned(command, inputs, opened, workers)
    done = kn.convert(
        inputs.transformed(
            trajectory,
            lambda: None,
            lambda one: _frames(one, window, dump),
            {
                "runner": runner,
                "workers": workers.workers,
                "memory": workers.memory,
                "progress": progress,
                "skip_damaged": opened.skip_damaged,
                "checkpoint": saved,
            },
            None if reference is None else str(reference),
        ),
        output,
        **_frames(trajectory, window, dump),
        **made,
        **stored.arguments,
        select=inputs.select,
        index_file=inputs.index_file,
        group=inputs.group,
        fields=None if fields is None else [name.strip() for name in fields.split(",")],
        runner=runner,
        workers=workers.workers,
        strategy="auto" if strategy is None else strategy,
        hints=None if hints is None else named_words("--hints", hints),
        memory=workers.memory,
        overwrite=force,
        append=append,
        verify=False if no_verify else "all" if verify == "all" else True,
        rotate_cell=rotate_cell,
        checkpoint=saved,
        skip_damaged=opened.skip_damaged,
        progress=progress,
    )
    remove_checkpoints_of_passes(saved)
    if reported.report is not None:
        made_report = _report(trajectory, done, time.perf_counter() - began, runner, command)
        made_report.save(reported.report, overwrite=force)
    command.print_result(lambda: {**asdict(done), "gib_per_second": done.gib_per_second}, lambda: done)


def _scanned(command: Command, inputs: Inputs, opened: Opening, workers: FileWorkers) -> tuple[Any, Any]:
    """The runner, and the trajectory, whose frames are known."""
    trajectory = kn.open(
        [str(path) for path in inputs.paths],
        None if inputs.topology is None else str(inputs.topology),
        **opened.arguments,
    )
    runner = workers.chosen(command)
    trajectory.scan(
        workers=runner.local_threads(workers.workers),
        progress=False if command.quiet else None,
        search=runner.find_frames,
        skip_damaged=opened.skip_damaged,
    )
    return runner, trajectory


def _report(trajectory: Any, done: Any, wall: float, runner: Any, command: Command) -> Any:
    """The report of a conversion, which took `wall` seconds."""
    from kinema.studies.programs.one_pass import even_shares, one_pass, phases_of_writing

    return one_pass(
        trajectory, "convert", wall, [phases_of_writing(done.timings, done.workers)] * done.workers,
        even_shares(done.n_frames, done.workers), runner=runner.name, command=command.typed,
    )  # fmt: skip


def _frames(trajectory: Any, window: FrameOptions, dump: float | None) -> dict[str, Any]:
    """The arguments that choose frames."""
    from kinema.cli.analysis_run import chosen_frames

    if dump is None:
        return chosen_frames(trajectory, window)
    given = [name for name, value in vars(window).items() if value is not None]
    if given:
        raise ArgumentError(f"--dump is one frame, and --{given[0]} chooses others; use one")
    return {"dump": dump}

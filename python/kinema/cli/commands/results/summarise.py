"""`kinema summarise`: statistics of saved results. The work is `kinema.summarise`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import kinema as kn
from kinema.cli import numbers
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.storage.output_checks import is_stream


def summarise(
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE[:COLUMN]...",
            help="Results of each frame: .csv, .dat, .xvg, .npy, .npz, .parquet, .h5; all columns, or one.",
        ),
    ],
    begin: options.Begin = None,
    end: options.End = None,
    equilibrated: Annotated[
        bool,
        typer.Option("--equilibrated", help="Only values from the detected start of equilibrium on."),
    ] = False,
    periodic: Annotated[
        float | None,
        typer.Option(
            "--periodic",
            **numbers.decimal(0, 1e9),
            help="Period of all values, such as 360; 0: none. By default as the file says.",
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Table, as .csv, .dat or .parquet.")] = None,
    output_format: options.OutputFormat = None,
    output_unit: options.OutputUnit = "angstrom",
    force: options.Force = False,
) -> None:
    """Mean, standard error, deviation, statistical inefficiency and start of equilibrium of each column of results."""
    from kinema.statistics.saved import split_column
    from kinema.statistics.summary import check_summary_path
    from kinema.storage.provenance import Input

    command: Command = context.obj
    if output is not None:
        inputs = [Input(split_column(file)[0]) for file in files]
        check_summary_path(output, output_format, inputs, overwrite=force)
    done = kn.summarise(
        list(files), begin=begin, end=end, equilibrated=equilibrated, periodic=periodic, output_unit=output_unit
    )
    if output is not None:
        done.save(output, format=output_format, command=command.typed, overwrite=force)
    command.print_result(
        lambda: {"command": command.typed, "columns": [asdict(one) for one in done], "output": output and str(output)},
        lambda: "\n".join([*done.lines(), *([] if output is None else [f"written: {output}"])]),
        on_stderr=output is not None and is_stream(output),
    )

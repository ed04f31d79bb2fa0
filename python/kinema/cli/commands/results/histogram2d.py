"""`kinema histogram2d`: the joint histogram of two saved quantities. The work is `kinema.histogram2d`."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import kinema as kn
from kinema.cli import numbers
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.statistics.histogram import QUANTITIES_OF_BINS, check_histogram_path
from kinema.storage.output_checks import check_not_input, check_plot_path, is_stream


def _one_or_two(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser of one value for both axes, or of two values with a comma between them."""

    def parsed(text: str) -> Any:
        words = str(text).split(",")
        if len(words) > 2:
            raise typer.BadParameter(f"expected one value, or one for x and one for y, found {len(words)}")
        found = [parse(word) for word in words]
        return found[0] if len(found) == 1 else tuple(found)

    return parsed


def histogram2d(
    context: typer.Context,
    x: Annotated[str, typer.Argument(metavar="FILE[:COLUMN]", help="Results of each frame; the x axis.")],
    y: Annotated[str, typer.Argument(metavar="FILE[:COLUMN]", help="The same for the y axis.")],
    temperature: Annotated[
        float | None,
        typer.Option("--temperature", **numbers.decimal(1e-6, 1e9), help="Temperature, K, for the free energy."),
    ] = None,
    quantity: Annotated[
        str,
        typer.Option(
            "--quantity",
            **options.one_of(QUANTITIES_OF_BINS),
            help="Quantity of the bins to draw; a free energy needs --temperature.",
        ),
    ] = "free-energy",
    bins: Annotated[
        Any,
        typer.Option(
            "--bins",
            parser=_one_or_two(lambda word: numbers.whole_number(word, 1, 1 << 32)),
            metavar="N[,N]",
            help="Number of bins along both axes, or along x and y.",
        ),
    ] = 50,
    x_range: Annotated[
        tuple[float, float] | None,
        typer.Option(
            "--x-range",
            **numbers.decimal(-1e18, 1e18),
            help="First and last edge; by default all values, or a whole period.",
        ),
    ] = None,
    y_range: Annotated[
        tuple[float, float] | None,
        typer.Option("--y-range", **numbers.decimal(-1e18, 1e18), help="The same for y."),
    ] = None,
    periodic: Annotated[
        Any,
        typer.Option(
            "--periodic",
            parser=_one_or_two(numbers.decimal(0, 1e9)["parser"]),
            metavar="P[,P]",
            help="Periods, such as 360,360; 0: none. By default as the files say.",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights", metavar="FILE[:COLUMN]", help="Weights of the frames, such as those of a biased run."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Bins, as .csv, .dat, .xvg, .npy or .parquet; arrays as .npz or .h5."),
    ] = None,
    output_format: options.OutputFormat = None,
    plot: options.Plot = None,
    force: options.Force = False,
) -> None:
    """Joint histogram of two quantities of a run: counts, probability, and free energy at a temperature."""
    from kinema.statistics.saved import split_column
    from kinema.storage.provenance import Input

    command: Command = context.obj
    inputs = [Input(split_column(file)[0]) for file in (x, y, *([] if weights is None else [weights]))]
    if output is not None:
        check_histogram_path(output, output_format, inputs, overwrite=force)
    if plot is not None:
        check_not_input(plot, *(one.path for one in inputs))
        check_plot_path(plot, overwrite=force)
    done = kn.histogram2d(
        x,
        y,
        bins=bins,
        x_range=x_range,
        y_range=y_range,
        periodic=periodic,
        weights=weights,
        temperature=temperature,
        quantity=quantity,  # type: ignore[arg-type]
    )
    if output is not None:
        done.save(output, format=output_format, command=command.typed, overwrite=force)
    if plot is not None:
        done.plot(plot, command=command.typed, overwrite=force)
    written = [str(one) for one in (output, plot) if one is not None]
    command.print_result(
        lambda: {"command": command.typed, **done.facts(), "outputs": written},
        lambda: "\n".join([*done.lines(), *([f"written: {', '.join(written)}"] if written else [])]),
        on_stderr=output is not None and is_stream(output),
    )

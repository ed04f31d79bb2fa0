"""`kinema report`: where the time of runs went, and what traces say of I/O. The computation is `kinema.report`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.base.printable import printable
from kinema.cli.command_line import Command
from kinema.cli.commands.report.figures import FigureInputs, print_figure, print_table
from kinema.cli.options import shared as options
from kinema.cli.options.shared import one_of
from kinema.storage.output_checks import check_not_input, check_plot_path
from kinema.studies.publications import FIGURES, TABLES

if TYPE_CHECKING:
    from kinema.report import Report


_FIGURES = "Figures and tables of the publications"


def report(
    context: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Reports, written with --report; or traces: folders, .pfw and .pfw.gz files, each a column."
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            help="Picture: one report, each worker's time; several, or published tables, speed-up and efficiency; "
            "one trace, its events over time; several, their times and calls.",
        ),
    ] = None,
    timeline: Annotated[
        Path | None, typer.Option("--timeline", help="Picture of one report: the blocks of each worker.")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="NAME=PATTERN",
            help="Machine of the reports whose paths match, 'cluster=a/*.json'; may be repeated. Otherwise series "
            "differ by host, file system and versions. For traces, the name of the column.",
        ),
    ] = None,
    published: Annotated[
        Path | None,
        typer.Option(
            "--published",
            help="Folder with the publications' tables, instead of reports; with --figure or --table, beside them.",
        ),
    ] = None,
    figure: Annotated[
        str | None,
        typer.Option(
            "--figure",
            **one_of(FIGURES),
            help="Figure of the publications, written to --plot; machines: of reports and results.json of "
            "bench-write; timeline: of traces.",
            rich_help_panel=_FIGURES,
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="SERIES",
            help="Series that speedup measures against: its label, or a part of it; its own by default.",
            rich_help_panel=_FIGURES,
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            metavar="RUN",
            help="Leave out reports whose paths match, or runs: '*, 72 ranks, repeat 5'; may be repeated.",
            rich_help_panel=_FIGURES,
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            **one_of(TABLES),
            help="Table of a publication, by its year and number.",
            rich_help_panel=_FIGURES,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File of --table: .csv or .md.", rich_help_panel=_FIGURES),
    ] = None,
    quantity: Annotated[
        str | None,
        typer.Option(
            "--quantity",
            **options.QUANTITIES_LIST,
            help="Time whose S(N) and E(N) are shown, of several reports: t_total, t_IO, t_compute and others; with "
            "--figure several, for timings and speedup.",
            show_default="t_total",
        ),
    ] = None,
    names: Annotated[
        str | None,
        typer.Option(
            "--names",
            **options.one_of(("2020",)),
            help="Instead: the run's times by the names of the publication of 2020, and what each is the sum of.",
        ),
    ] = None,
    output_format: Annotated[
        str | None,
        typer.Option(
            "--output-format", **options.one_of(("csv",)), help="Format of the table of --names; text by default."
        ),
    ] = None,
    force: options.Force = False,
) -> None:
    """Say where the time of runs went, which worker was slow and what to do; for several runs also S(N) and E(N).

    For traces, say how files were used: times, calls, sizes. --figure and --table make the figures and tables of the
    publications.
    """
    from kinema.report.traces.lines import is_trace

    command: Command = context.obj
    if figure is not None or table is not None:
        given, labels = _each_once(files or [], _labels(files or [], label or []))
        inputs = FigureInputs(given, labels, published, exclude or [])
        if timeline is not None or names is not None or output_format is not None:
            raise ArgumentError("--timeline and --names are apart; leave out --figure and --table")
        if table is not None:
            if any(one is not None for one in (figure, plot, quantity, baseline)):
                raise ArgumentError("--table makes a table; leave out --figure, --plot, --quantity and --baseline")
            print_table(command, inputs, table, output, force=force)
        else:
            if output is not None:
                raise ArgumentError("--output is of --table; the picture of --figure is --plot")
            print_figure(command, inputs, str(figure), plot, quantity=quantity, baseline=baseline, force=force)
        return
    if any(one is not None for one in (baseline, output)) or exclude:
        raise ArgumentError("--baseline and --exclude belong to --figure, --output to --table")
    if output_format is not None and names is None:
        raise ArgumentError("--output-format is of the table of --names")
    if published is not None:
        if files or label or timeline is not None or quantity is not None or names is not None:
            raise ArgumentError(
                "--published reads tables of its own; leave out reports, --label, --timeline, --quantity and --names"
            )
        _print_published(command, published, plot, force)
        return
    if not files:
        raise ArgumentError(
            "name reports, written by an analysis with --report, or traces, written with --trace or by kinema trace; "
            "or tables with --published"
        )
    files, labels = _each_once(files, _labels(files, label or []))
    if names is not None and (plot is not None or timeline is not None or quantity is not None):
        raise ArgumentError("--names prints a table; leave out --plot, --timeline and --quantity")
    if any(map(is_trace, files)):
        if names is not None or quantity is not None:
            raise ArgumentError("--names and --quantity are of reports, not of traces")
        if timeline is not None or not all(map(is_trace, files)):
            raise ArgumentError("reports and traces are not of one kind; --timeline is of a report")
        _print_traces(command, files, labels, plot, force)
    elif names is not None:
        _print_names(command, files, output_format)
    else:
        _print_reports(command, files, labels, plot, timeline, quantity, force)


def _print_reports(
    command: Command,
    files: list[Path],
    labels: list[str | None],
    plot: Path | None,
    timeline: Path | None,
    quantity: str | None,
    force: bool,
) -> None:
    from kinema.report import Report

    for picture in (plot, timeline):
        if picture is not None:
            check_not_input(picture, *files)
            check_plot_path(picture, overwrite=force)
    reports = [Report.load(file) for file in files]
    if len(reports) == 1:
        if quantity is not None:
            raise ArgumentError("--quantity is of several reports, whose times are compared; one has all quantities")
        _print_report(command, reports[0], plot, timeline, force)
        return
    if timeline is not None:
        raise ArgumentError("--timeline is of one report; name that one alone")
    _print_scaling(command, reports, labels, _gaps_of(files, labels), quantity or "t_total", plot)


def _gaps_of(files: list[Path], labels: list[str | None]) -> list[tuple[int, str]]:
    """Numbers of workers of the gaps beside the reports, and in words which and why."""
    from kinema.studies.publications.figures import gather_series

    series = gather_series(files, labels=labels)
    return [(gap.n_ranks, f"{one.label}, {gap}") for one in series for gap in one.gaps]


def _each_once(files: list[Path], labels: list[str | None]) -> tuple[list[Path], list[str | None]]:
    """Without further names of files that are named already, which are noted; a label of any name stays."""
    from kinema.base.input_files import file_key

    first: dict[object, int] = {}
    kept: list[Path] = []
    given: list[str | None] = []
    for file, label in zip(files, labels, strict=True):
        place = first.setdefault(file_key(file.absolute()), len(kept))
        if place == len(kept):
            kept.append(file)
            given.append(label)
            continue
        emit([f"{file}: is named twice, first as {kept[place]}; it is counted once"])
        given[place] = label if given[place] is None else given[place]
    return kept, given


def _labels(files: list[Path], given: list[str]) -> list[str | None]:
    """The name that --label gives to each file; ArgumentError for a label of no file."""
    from fnmatch import fnmatchcase

    labels: list[str | None] = [None] * len(files)
    for one in given:
        name, equals, pattern = one.partition("=")
        fitting = [i for i, file in enumerate(files) if fnmatchcase(str(file), pattern)]
        if not (name and equals and fitting):
            why = "none of the reports fits" if name and equals else "expected NAME=PATTERN"
            raise ArgumentError(f"--label {one!r}: {why}")
        for i in fitting:
            labels[i] = name
    return labels


def _print_report(command: Command, report: "Report", plot: Path | None, timeline: Path | None, force: bool) -> None:
    if plot is not None:
        report.plot(plot, overwrite=force)
    if timeline is not None:
        report.plot(timeline, kind="timeline", overwrite=force)
    command.print_result(report.as_dict, lambda: report)


def _print_names(command: Command, files: list[Path], output_format: str | None) -> None:
    from kinema.report import Report
    from kinema.report.names_2020 import named_times, names_as_csv, names_as_text

    found = {str(file): named_times(Report.load(file).timings) for file in files}

    def text() -> str:
        if output_format == "csv":
            return names_as_csv(found)
        return "\n\n".join(f"{file}\n{names_as_text(times)}" for file, times in found.items())

    command.print_result(lambda: {file: [one.as_dict() for one in times] for file, times in found.items()}, text)


def _print_scaling(
    command: Command,
    reports: list["Report"],
    labels: list[str | None],
    gaps: list[tuple[int, str]],
    quantity: str,
    plot: Path | None,
) -> None:
    from kinema.report import scaling_of

    scaling = scaling_of(reports, quantity=quantity, labels=labels)
    if plot is not None:
        from kinema.report.figures.scaling import draw_scaling, note_gaps
        from kinema.report.figures.style import write

        figure = draw_scaling(scaling)
        note_gaps(figure, gaps)
        write(figure, plot)
    words = [f"gap: {printable(why)}" for _, why in gaps]
    command.print_result(scaling.as_dict, lambda: "\n".join([str(scaling), *words]))


def _print_traces(
    command: Command, files: list[Path], labels: list[str | None], plot: Path | None, force: bool
) -> None:
    """Files with one label are one trace; without labels each file and each folder is one."""
    from kinema.report import TraceColumns, TraceSummary, side_by_side, summarise
    from kinema.report.traces.lines import trace_files

    traces: dict[str, list[Path]] = {}
    for file, name in zip(files, labels, strict=True):
        traces.setdefault(str(file) if name is None else name, []).append(file)
    if plot is not None:
        check_not_input(plot, *trace_files(files))
        check_plot_path(plot, overwrite=force)
    found: TraceSummary | TraceColumns
    if len(traces) == 1:
        ((name, paths),) = traces.items()
        found = summarise(paths, label=name)
    else:
        found = side_by_side(traces)
    if plot is not None:
        found.plot(plot, overwrite=force)
    command.print_result(found.as_dict, lambda: found)


def _print_published(command: Command, folder: Path, plot: Path | None, force: bool) -> None:
    from kinema.studies import read_published

    if plot is not None:
        check_plot_path(plot, overwrite=force)
    tables = read_published(folder)
    if plot is not None:
        from kinema.report.figures.style import write
        from kinema.studies.publications.figures import draw_figure

        write(draw_figure("speedup", [table.with_common_names().series() for table in tables]), plot)
    command.print_result(
        lambda: [{"title": table.title, "summary": table.summary()} for table in tables],
        lambda: "\n\n".join(map(str, tables)),
    )

"""`kinema report`: where the time of runs went. The reckoning is `kinema.profile`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kinema.cli.command_line import Command

if TYPE_CHECKING:
    from kinema.profile import Report


def report(
    context: typer.Context,
    files: Annotated[
        list[Path] | None, typer.Argument(help="Reports, written with --report.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            help="Picture: of one report each worker's time, of several speed-up and efficiency; of tables both.",
        ),
    ] = None,
    timeline: Annotated[
        Path | None, typer.Option("--timeline", help="Picture: the blocks of each worker; of one report.")
    ] = None,
    published: Annotated[
        Path | None,
        typer.Option("--published", help="Folder with the publications' per-rank tables, instead of reports."),
    ] = None,
) -> None:
    """Say where the time of runs went, who was slow and what to do; of several runs also S(N) and E(N)."""
    from kinema.errors import ArgumentError
    from kinema.profile import Report

    command: Command = context.obj
    if published is not None:
        if files or timeline is not None:
            raise ArgumentError("--published reads tables of its own; leave out reports and --timeline")
        _tell_published(command, published, plot)
        return
    if not files:
        raise ArgumentError("name reports, written by an analysis with --report; or tables with --published")
    found = [Report.load(file) for file in files]
    if len(found) == 1:
        _tell_one(command, found[0], plot, timeline)
        return
    if timeline is not None:
        raise ArgumentError("--timeline is of one report; name that one alone")
    _tell_several(command, found, plot)


def _tell_one(command: Command, found: "Report", plot: Path | None, timeline: Path | None) -> None:
    if plot is not None:
        found.plot(plot)
    if timeline is not None:
        found.plot(timeline, kind="timeline")
    command.tell(found.as_dict, found)


def _tell_several(command: Command, found: list["Report"], plot: Path | None) -> None:
    from kinema.output import check_plot_path
    from kinema.profile import scaling_of

    if plot is not None:
        check_plot_path(plot)
    scaling = scaling_of(found)
    if plot is not None:
        from kinema.profile import plotting

        plotting.write(plotting.draw_scaling(scaling), plot)
    command.tell(scaling.as_dict, scaling)


def _tell_published(command: Command, folder: Path, plot: Path | None) -> None:
    from kinema.output import check_plot_path
    from kinema.profile import read_published

    if plot is not None:
        check_plot_path(plot)
    tables = read_published(folder)
    if plot is not None:
        from kinema.profile import plotting

        plotting.write(plotting.draw_publications(tables), plot)
    command.tell(
        lambda: [{"title": table.title, "summary": table.summary()} for table in tables],
        "\n\n".join(map(str, tables)),
    )

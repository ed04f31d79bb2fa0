"""`kinema report --figure` and `--table`: the publications' figures and tables from files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kinema._core import __version__
from kinema.base.errors import ArgumentError, UnsupportedFormatError
from kinema.cli.command_line import Command
from kinema.cli.word_lists import list_of_words
from kinema.storage.output_checks import check_not_input, check_plot_path, check_remade, is_stream
from kinema.storage.output_file import write_whole
from kinema.studies.publications import RANK_FIGURES

if TYPE_CHECKING:
    from kinema.report import TraceSummary
    from kinema.report.ranks import RankSeries

_SUFFIXES = (".csv", ".md")
_SUMMARIES = "2024-summaries"


@dataclass(frozen=True)
class FigureInputs:
    """Files, the label of each, the folder of published tables, and patterns of runs that are left out."""

    files: Sequence[Path]
    labels: Sequence[str | None]
    published: Path | None
    exclude: Sequence[str]

    def check(self, *, traces: bool, published: bool = True) -> None:
        """Raises ArgumentError if there is nothing to show, or if the files are of the wrong kind."""
        from kinema.report.traces.lines import is_trace

        if not self.files and (self.published is None or not published):
            raise ArgumentError("name traces" if traces else "name reports, or tables with --published")
        if self.published is not None and not published:
            raise ArgumentError("published tables have no values for this; leave out --published")
        wrong = [file for file in self.files if is_trace(file) != traces]
        if wrong:
            kind = "traces" if traces else "reports"
            raise ArgumentError(f"{wrong[0]}: expected {kind}", path=str(wrong[0]))

    def series(self) -> list["RankSeries"]:
        """Series of the reports and of the published tables."""
        from kinema.studies.publications.figures import gather_series

        return gather_series(self.files, labels=self.labels, published=self.published, exclude=self.exclude)


def print_figure(
    command: Command,
    inputs: FigureInputs,
    kind: str,
    plot: Path | None,
    *,
    quantity: str | None,
    baseline: str | None,
    force: bool,
) -> None:
    """Draws a figure into the file `plot`."""
    from kinema.report.figures.style import write
    from kinema.studies.publications import figures

    if plot is None:
        raise ArgumentError("--figure needs --plot, the name of the picture")
    quantities = () if quantity is None else list_of_words(quantity)
    figures.check_figure_options(kind, quantities=quantities, baseline=baseline)
    if kind in ("machines", "timeline") and inputs.exclude:
        raise ArgumentError(f"--exclude leaves out runs of reports and published tables, not of {kind}")
    inputs.check(traces=kind == "timeline", published=kind in RANK_FIGURES)
    check_not_input(plot, *_all_files(inputs, kind))
    check_plot_path(plot, overwrite=force)
    shown: list[str]
    if kind == "timeline":
        from kinema.report.traces.timeline import draw_timelines

        summaries = summaries_of(inputs)
        figure, shown = draw_timelines(summaries), [one.label for one in summaries]
    elif kind == "machines":
        figure, shown = figures.draw_machine_figure(inputs.files), list(map(str, inputs.files))
    else:
        series = inputs.series()
        figure = figures.draw_figure(kind, series, quantities=quantities, baseline=baseline)
        shown = [one.label for one in series]
    write(figure, plot, [f"kinema {__version__}", f"call: {command.typed}"])
    command.print_result(
        lambda: {"figure": kind, "picture": str(plot), "series": shown}, lambda: f"figure {kind}, written: {plot}"
    )


def print_table(command: Command, inputs: FigureInputs, name: str, output: Path | None, *, force: bool) -> None:
    """Prints a table in Markdown, or writes it as .csv or .md."""
    from kinema.report import Report
    from kinema.studies.publications.paper_tables import make_table
    from kinema.studies.results_log import marked

    of_traces = name == _SUMMARIES
    inputs.check(traces=of_traces, published=not of_traces)
    if output is not None:
        _check_table_path(output, _all_files(inputs, "timeline" if of_traces else ""), force)
    if of_traces:
        found = make_table(name, traces=summaries_of(inputs))
    else:
        series = inputs.series()
        reports = [Report.load(file) for file in inputs.files]
        found = make_table(name, reports=reports, series=series)
    if output is None:
        command.print_result(found.as_dict, lambda: found.markdown)
        return
    text = f"# kinema {__version__}\n{found.csv}" if output.suffix.lower() == ".csv" else marked(found.markdown + "\n")
    write_whole(output, lambda file: file.write(text.encode()))
    command.print_result(found.as_dict, lambda: f"{found.title}, written: {output}")


def summaries_of(inputs: FigureInputs) -> list["TraceSummary"]:
    """A summary for each trace; files with one label are one trace."""
    from kinema.report import summarise

    traces: dict[str, list[Path]] = {}
    for file, name in zip(inputs.files, inputs.labels, strict=True):
        traces.setdefault(str(file) if name is None else name, []).append(file)
    return [summarise(paths, label=label) for label, paths in traces.items()]


def _all_files(inputs: FigureInputs, kind: str) -> list[Path]:
    if kind == "timeline":
        from kinema.report.traces.lines import trace_files

        return list(map(Path, trace_files(inputs.files)))
    return [*inputs.files, *([] if inputs.published is None else sorted(inputs.published.rglob("*")))]


def _check_table_path(output: Path, files: Sequence[Path], force: bool) -> None:
    if is_stream(output) or output.suffix.lower() not in _SUFFIXES:
        raise UnsupportedFormatError(
            f"{output}: tables of publications are written as {' or '.join(_SUFFIXES)}; without --output the table is "
            "printed",
            path=str(output),
        )
    check_not_input(output, *files)
    check_remade(output, overwrite=force)

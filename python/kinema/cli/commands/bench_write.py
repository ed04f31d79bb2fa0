"""`kinema bench-write`: the DL_POLY paper's experiment: many ranks write one file. The runs are `kinema.studies`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kinema.base.comparison import LEAST_REPEATS
from kinema.base.errors import ArgumentError
from kinema.cli import numbers
from kinema.cli.command_line import Command
from kinema.cli.options import clusters
from kinema.cli.options import shared as options
from kinema.cli.options.analyses import takes_groups
from kinema.cli.options.shared import one_of
from kinema.cli.word_lists import list_of_numbers, list_of_words
from kinema.studies.write_strategies.design import (
    FORMATS,
    NETCDF_LIBRARY,
    PAGE_CACHES,
    PNETCDF,
    RECORDS,
    SYSTEMS,
    WriteDesign,
    parse_hints,
)

_RUNS = "Runs"
_SIMULATION = "Simulation"
_MOST_SECONDS = 1e7


@dataclass(frozen=True)
class BenchWriteRuns:
    """Options of the runs: the data, and the ways to write it."""

    system: Annotated[str, typer.Option("--system", **one_of(SYSTEMS), help="Gd2Zr2O7.", rich_help_panel=_RUNS)] = (
        SYSTEMS[0]
    )
    particles: Annotated[
        int,
        typer.Option(
            "--particles",
            **numbers.whole(1, 1 << 40),
            help="Approximate number of particles: a block of whole cells of 88.",
            rich_help_panel=_RUNS,
        ),
    ] = 3_773_000
    strategies: Annotated[
        str,
        typer.Option(
            "--strategies",
            help=f"serial,direct,mpiio,mpiio-collective,gather,subfiles,{NETCDF_LIBRARY},{PNETCDF}; all: every one "
            "that a format has.",
            rich_help_panel=_RUNS,
        ),
    ] = "all"
    ranks: Annotated[str, typer.Option("--ranks", help="Numbers of MPI ranks: 1,2,4.", rich_help_panel=_RUNS)] = "1,2"
    records: Annotated[
        str, typer.Option("--records", help="ascii: CONFIG; binary: native float64.", rich_help_panel=_RUNS)
    ] = ",".join(RECORDS)
    formats: Annotated[
        str, typer.Option("--formats", help=f"Besides these: {','.join(FORMATS)}; none.", rich_help_panel=_RUNS)
    ] = "netcdf"
    hints: Annotated[
        str | None,
        typer.Option(
            "--hints",
            help="With ROMIO's names: cb_nodes=2,cb_buffer_size=4194304; cb_nodes=1/2 tries both.",
            show_default=False,
            rich_help_panel=_RUNS,
        ),
    ] = None
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit",
            **numbers.decimal(1e-3, _MOST_SECONDS),
            help="Seconds per run; a run that takes longer is left out as a gap.",
            rich_help_panel=_RUNS,
        ),
    ] = 600.0
    repeats: Annotated[
        int, typer.Option("--repeats", **numbers.whole(1, 100_000), help="Runs of each kind.", rich_help_panel=_RUNS)
    ] = LEAST_REPEATS
    verify: Annotated[
        bool, typer.Option("--verify", help="Each rank reads another's data; timed apart.", rich_help_panel=_RUNS)
    ] = False
    page_cache: Annotated[
        str,
        typer.Option(
            "--page-cache",
            **one_of(PAGE_CACHES),
            help="Read files back from memory (warm), or drop them from memory first.",
            rich_help_panel=_RUNS,
        ),
    ] = "drop"
    ranks_per_node: Annotated[
        int | None,
        typer.Option(
            "--ranks-per-node",
            **numbers.whole(1, numbers.MOST_WORKERS),
            help="As the launcher places them.",
            show_default=False,
            rich_help_panel=_RUNS,
        ),
    ] = None
    launcher: clusters.Launcher = None
    peers: Annotated[
        bool,
        typer.Option("--peers/--no-peers", help="PnetCDF; formatted writes of Fortran, Python.", rich_help_panel=_RUNS),
    ] = True
    step_time: Annotated[
        float | None,
        typer.Option(
            "--step-time",
            **numbers.decimal(1e-9, _MOST_SECONDS),
            help="Seconds per step, to compute the share of a simulation that writing takes.",
            show_default=False,
            rich_help_panel=_SIMULATION,
        ),
    ] = None
    every: Annotated[
        int | None,
        typer.Option(
            "--every",
            **numbers.COUNT,
            help="Steps between two configurations.",
            show_default=False,
            rich_help_panel=_SIMULATION,
        ),
    ] = None

    def design(self) -> WriteDesign:
        """The experiment. Raises ArgumentError for options that do not fit together."""
        formats = () if self.formats == "none" else list_of_words(self.formats)
        return WriteDesign(
            particles=self.particles,
            system=self.system,
            records=(*list_of_words(self.records), *formats),
            strategies=list_of_words(self.strategies),
            ranks=list_of_numbers("--ranks", self.ranks),
            hints={} if self.hints is None else parse_hints(self.hints),
            time_limit=self.time_limit,
            repeats=self.repeats,
            verify=self.verify,
            page_cache=self.page_cache,
            ranks_per_node=self.ranks_per_node,
            launcher=clusters.words_of("--launcher", self.launcher),
            step_time=self.step_time,
            every=self.every,
            peers=self.peers,
        )


@takes_groups
def bench_write(
    context: typer.Context,
    runs: BenchWriteRuns,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for report.md, results.json, bandwidth.png.")
    ] = Path("bench-write-output"),
    force: options.Force = False,
) -> None:
    """Ways to write one file from many ranks: speed, memory, precision, beside the DL_POLY paper's findings."""
    from kinema.studies.write_strategies import run_study

    command: Command = context.obj
    if command.ranks is not None:
        raise ArgumentError("kinema bench-write starts mpiexec for each run; start it itself without it")
    study = run_study(runs.design(), output, command.print_progress, overwrite=force)
    command.print_result(
        study.as_dict, lambda: f"{study.text}\nwritten: {', '.join(str(output / name) for name in study.file_names)}"
    )

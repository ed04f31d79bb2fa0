"""`kinema bench-write`: the DL_POLY paper's experiment: many ranks write one file. The runs are `kinema.studies`."""

from dataclasses import dataclass, replace
from functools import partial
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
from kinema.cli.options.laboratory import Lab, Nodes
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

_runs = partial(typer.Option, rich_help_panel="Runs")
_simulation = partial(typer.Option, rich_help_panel="Simulation")
_MOST_SECONDS = 1e7


@dataclass(frozen=True)
class BenchWriteRuns:
    """Options of the runs: the data, and the ways to write it."""

    system: Annotated[str, _runs("--system", **one_of(SYSTEMS), help="Gd2Zr2O7.")] = SYSTEMS[0]
    particles: Annotated[
        int,
        _runs(
            "--particles",
            **numbers.whole(1, 1 << 40),
            help="Approximate number of particles: a block of whole cells of 88.",
        ),
    ] = 3_773_000
    strategies: Annotated[
        str,
        _runs(
            "--strategies",
            help=f"serial,direct,mpiio,mpiio-collective,gather,subfiles,{NETCDF_LIBRARY},{PNETCDF}; all: every one "
            "that a format has.",
        ),
    ] = "all"
    ranks: Annotated[str, _runs("--ranks", help="Numbers of MPI ranks: 1,2,4.")] = "1,2"
    records: Annotated[str, _runs("--records", help="ascii: CONFIG; binary: native float64.")] = ",".join(RECORDS)
    formats: Annotated[str, _runs("--formats", help=f"Besides these: {','.join(FORMATS)}; none.")] = "netcdf"
    hints: Annotated[
        str | None,
        _runs("--hints", help="With ROMIO's names: cb_nodes=2,cb_buffer_size=4194304; cb_nodes=1/2 tries both."),
    ] = None
    time_limit: Annotated[
        float,
        _runs(
            "--time-limit",
            **numbers.decimal(1e-3, _MOST_SECONDS),
            help="Seconds per run; a run that takes longer is left out as a gap.",
        ),
    ] = 600.0
    repeats: Annotated[int, _runs("--repeats", **numbers.whole(1, 100_000), help="Runs of each kind.")] = LEAST_REPEATS
    verify: Annotated[bool, _runs("--verify", help="Each rank reads another's data; timed apart.")] = False
    page_cache: Annotated[
        str,
        _runs(
            "--page-cache",
            **one_of(PAGE_CACHES),
            help="Read files back from memory (warm), or drop them from memory first.",
        ),
    ] = "drop"
    ranks_per_node: Annotated[
        int | None,
        _runs("--ranks-per-node", **numbers.whole(1, numbers.MOST_WORKERS), help="As the launcher places them."),
    ] = None
    launcher: clusters.Launcher = None
    peers: Annotated[
        bool,
        _runs("--peers/--no-peers", help="PnetCDF; formatted writes of Fortran, Python."),
    ] = True
    step_time: Annotated[
        float | None,
        _simulation(
            "--step-time",
            **numbers.decimal(1e-9, _MOST_SECONDS),
            help="Seconds per step, to compute the share of a simulation that writing takes.",
        ),
    ] = None
    every: Annotated[
        int | None,
        _simulation("--every", **numbers.COUNT, help="Steps between two configurations."),
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
    lab: Lab = None,
    nodes: Nodes = None,
    stripes: Annotated[
        int | None,
        typer.Option(
            "--stripes",
            **numbers.COUNT,
            help="Storage targets of the file: of --lab, or on Lustre and BeeGFS as a hint of MPI-IO.",
            rich_help_panel="Runs",
        ),
    ] = None,
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
    if lab is not None:
        from kinema.studies.lab.platform import read_platform
        from kinema.studies.lab.writing import WriteLaboratory

        laboratory = WriteLaboratory(read_platform(lab), nodes, stripes)
        study = laboratory.run(runs.design(), output, command.print_progress, overwrite=force)
    elif nodes is not None:
        raise ArgumentError("--nodes is for an emulated cluster: it needs --lab")
    else:
        design = _with_stripes(runs.design(), output, stripes)
        study = run_study(design, output, command.print_progress, overwrite=force)
    command.print_result(
        study.as_dict, lambda: f"{study.text}\nwritten: {', '.join(str(output / name) for name in study.file_names)}"
    )


def _with_stripes(design: WriteDesign, folder: Path, stripes: int | None) -> WriteDesign:
    """The design with MPI-IO's hint for stripes. Raises ArgumentError if it would have no effect."""
    if stripes is None:
        return design
    from kinema.studies.stripes import stripe_hints

    hints = {name: (value,) for name, value in stripe_hints(str(folder), stripes).items()}
    for name in design.hints.keys() & hints:
        raise ArgumentError(f"--stripes and --hints {name} are the same hint; give one")
    return replace(design, hints={**design.hints, **hints})

"""`kinema scaling`: the publications' experiments on your own files. The runs are `kinema.studies`."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kinema.base.choices import GATHER, SCHEDULE
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.cli import numbers
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.cli.options.analyses import StatedTimes, TrajectoryFiles, takes_groups
from kinema.cli.options.clusters import ClusterRuns, words_of
from kinema.cli.word_lists import list_of_numbers, list_of_words
from kinema.studies.design import FORMATS, PAGE_CACHES, SOURCES, Design

_RUNS = "Runs"


@dataclass(frozen=True)
class ScalingInputs(TrajectoryFiles):
    """Files, atoms and frames of all runs."""

    topology: options.Topology = None
    select: options.Select = None
    start: options.Start = None
    stop: options.Stop = None
    step: options.Step = None


@dataclass(frozen=True)
class ScalingRuns:
    """Options of the runs, and the values to vary."""

    workers: Annotated[str, typer.Option("--workers", help="Numbers: 1,2,4.", rich_help_panel=_RUNS)] = "1,2"
    runner: Annotated[
        str, typer.Option("--runner", help="serial, threads, processes, dask or mpi.", rich_help_panel=_RUNS)
    ] = "threads"
    repeats: Annotated[
        int, typer.Option("--repeats", **numbers.whole(1, 100_000), help="Runs of each kind.", rich_help_panel=_RUNS)
    ] = 5
    workload: Annotated[
        str, typer.Option("--workload", help="Times to compute each frame: 1,40,70,100.", rich_help_panel=_RUNS)
    ] = "1"
    source: Annotated[
        str,
        typer.Option(
            "--source",
            help=f"{','.join(SOURCES)}; synthetic: the same size in memory, no storage.",
            rich_help_panel=_RUNS,
        ),
    ] = "file"
    formats: Annotated[
        str | None,
        typer.Option(
            "--formats",
            help=f"Write and read as {','.join(FORMATS[1:])}; the files as they are by default.",
            show_default=False,
            rich_help_panel=_RUNS,
        ),
    ] = None
    gather: Annotated[
        str | None,
        typer.Option("--gather", help=f"With MPI: {','.join(GATHER)}.", show_default=False, rich_help_panel=_RUNS),
    ] = None
    access: Annotated[
        str,
        typer.Option(
            "--access",
            help=f"How frames are read: {','.join(options.ACCESS_NAMES)}; hdf5-mpio-* with MPI.",
            rich_help_panel=_RUNS,
        ),
    ] = "direct"
    memory: options.Memory = None
    schedule: Annotated[
        str | None,
        typer.Option("--schedule", help=f"{' or '.join(SCHEDULE)}.", show_default=False, rich_help_panel=_RUNS),
    ] = None
    oversubscribe: Annotated[
        str | None,
        typer.Option(
            "--oversubscribe",
            help="Least numbers of pieces of work per worker: 1,3.",
            show_default=False,
            rich_help_panel=_RUNS,
        ),
    ] = None
    page_cache: Annotated[
        str,
        typer.Option(
            "--page-cache",
            help=f"{', '.join(PAGE_CACHES)}: read before, dropped before each run, a fresh copy for each.",
            rich_help_panel=_RUNS,
        ),
    ] = "warm"
    ranks_per_node: Annotated[
        int | None,
        typer.Option(
            "--ranks-per-node",
            **numbers.whole(1, numbers.MOST_WORKERS),
            help="With MPI.",
            show_default=False,
            rich_help_panel=_RUNS,
        ),
    ] = None

    def design(self, inputs: ScalingInputs, opened: StatedTimes, clusters: ClusterRuns) -> Design:
        """The experiment. Raises ArgumentError for options that do not fit together."""
        return Design(
            files=tuple(map(str, inputs.paths)),
            topology=None if inputs.topology is None else str(inputs.topology),
            select=inputs.select,
            **opened.arguments,
            start=inputs.start,
            stop=inputs.stop,
            step=inputs.step,
            workers=list_of_numbers("--workers", self.workers),
            runner=self.runner,
            repeats=self.repeats,
            workloads=list_of_numbers("--workload", self.workload),
            sources=list_of_words(self.source),
            formats=FORMATS[:1] if self.formats is None else list_of_words(self.formats),
            gathers=("",) if self.gather is None else list_of_words(self.gather),
            oversubscribes=(0,)
            if self.oversubscribe is None
            else list_of_numbers("--oversubscribe", self.oversubscribe),
            accesses=list_of_words(self.access),
            memory=self.memory,
            schedule=self.schedule or "",
            page_cache=self.page_cache,
            ranks_per_node=self.ranks_per_node,
            **clusters.arguments,
        )


@takes_groups
def scaling(
    context: typer.Context,
    inputs: ScalingInputs,
    opened: StatedTimes,
    runs: ScalingRuns,
    clusters: ClusterRuns,
    quantity: Annotated[
        str,
        typer.Option(
            "--quantity",
            **options.QUANTITY,
            help="Time whose S(N) and E(N) are shown: t_total, t_IO, t_compute and others.",
        ),
    ] = "t_total",
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for reports, results.jsonl and scaling.png.")
    ] = Path("scaling-output"),
    force: options.Force = False,
) -> None:
    """RMSD on several numbers of workers, repeated: S(N), E(N) with deviations, where the time went, R_comp/IO."""
    from kinema.report import plotting, scaling_of
    from kinema.report.verdicts import verdicts_of
    from kinema.studies import run_design

    command: Command = context.obj
    if clusters.collect is not None:
        _collect(command, clusters.collect, quantity, force)
        return
    if command.ranks is not None and runs.runner == "mpi":
        raise ArgumentError("--runner mpi starts mpiexec for each run; start kinema scaling itself without it")
    design = runs.design(inputs, opened, clusters)
    if clusters.batch is not None:
        _write_jobs(command, design, clusters, output, force)
        return
    picture = output / "scaling.png"
    outcomes = list(run_design(design, output, command.print_progress, overwrite=force, beside=[picture]))
    reports = [outcome.report for outcome in outcomes]
    measured, verdicts = scaling_of(reports, quantity=quantity), verdicts_of(reports, quantity)
    plotting.write(plotting.draw_scaling(measured), picture)
    command.print_result(
        lambda: {
            "runs": [outcome.as_dict() for outcome in outcomes],
            "scaling": measured.as_dict(),
            "fastest": [one.as_dict() for one in verdicts],
            "picture": str(picture),
        },
        lambda: (
            "\n".join(map(str, [measured, *verdicts]))
            + f"\nwritten: {output / 'results.jsonl'}, {picture}, {output / 'reports'}"
        ),
    )


def _write_jobs(command: Command, design: Design, clusters: ClusterRuns, output: Path, force: bool) -> None:
    """Writes the job scripts of --batch, and submits them if asked to."""
    from kinema.studies.batch import submit_jobs, write_jobs

    system, options = clusters.batch or "", words_of("--batch-options", clusters.batch_options)
    nodes = list_of_numbers("--nodes", clusters.nodes or "1")
    jobs = write_jobs(design, output, system, nodes, options, overwrite=force)
    lines = [f"written: {job.script}" for job in jobs]
    if clusters.submit:
        jobs = list(submit_jobs(jobs, system))
        lines += [f"submitted: job {job.number} on {counted(job.nodes, 'node')}" for job in jobs]
    command.print_result(
        lambda: [{"nodes": job.nodes, "script": str(job.script), "job": job.number or None} for job in jobs],
        lambda: "\n".join([*lines, f"afterwards: kinema scaling --collect {shlex.quote(str(output))}"]),
    )


def _collect(command: Command, folder: Path, quantity: str, force: bool) -> None:
    """Shows the reports of jobs."""
    from kinema.report import plotting, scaling_of
    from kinema.report.verdicts import verdicts_of
    from kinema.storage.output_checks import check_remade
    from kinema.studies.batch import collect_jobs

    picture = folder / "scaling.png"
    check_remade(picture, overwrite=force)
    found = collect_jobs(folder)
    measured, verdicts = scaling_of(found.reports, quantity=quantity), verdicts_of(found.reports, quantity)
    plotting.write(plotting.draw_scaling(measured), picture)
    command.print_result(
        lambda: {
            "scaling": measured.as_dict(),
            "fastest": [one.as_dict() for one in verdicts],
            "gaps": list(found.gaps),
            "picture": str(picture),
        },
        lambda: "\n".join(
            [*map(str, [measured, *verdicts]), *(f"gap: {gap}" for gap in found.gaps), f"written: {picture}"]
        ),
    )

"""`kinema scaling`: the publications' experiments on your own files. The runs are `kinema.studies`."""

import shlex
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kinema.base.choices import GATHER, SCHEDULE
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted, printable
from kinema.cli import exit_codes, numbers
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.cli.options.analyses import StatedTimes, TrajectoryFiles, takes_groups
from kinema.cli.options.clusters import ClusterRuns, words_of
from kinema.cli.options.laboratory import Lab, Nodes, laboratory
from kinema.cli.word_lists import list_of_numbers, list_of_words, named_words
from kinema.studies.design import FORMATS, MOST_RUNS, PAGE_CACHES, READERS, RMSD, SOURCES, TASKS, Design

if TYPE_CHECKING:
    from kinema.studies import ExperimentRun
    from kinema.studies.lab.experiment import Laboratory

_runs = partial(typer.Option, rich_help_panel="Runs")
_PICTURE = "scaling.png"


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

    workers: Annotated[str, _runs("--workers", help="Numbers: 1,2,4.")] = "1,2"
    runner: Annotated[str, _runs("--runner", help="serial,threads,processes,dask,mpi.")] = "threads"
    repeats: Annotated[int, _runs("--repeats", **numbers.whole(1, 100_000), help="Runs of each kind.")] = 5
    reader: Annotated[
        str,
        _runs(
            "--reader",
            help=f"{','.join(READERS)}; mdanalysis: reads and computes, each worker a share, as the publications.",
        ),
    ] = READERS[0]
    analysis: Annotated[
        str,
        _runs("--analysis", help="rmsd,MODULE:FUNCTION; a function of a frame, found on PYTHONPATH."),
    ] = RMSD
    task: Annotated[
        str,
        _runs("--task", help=f"{','.join(TASKS)}; empty: a call for nothing for each frame."),
    ] = TASKS[0]
    workload: Annotated[str, _runs("--workload", help="Times to compute each frame: 1,40,70,100.")] = "1"
    times: Annotated[
        str,
        _runs("--times", help="The trajectory n times, one after the other, without copies: 100,300,600."),
    ] = "1"
    source: Annotated[
        str,
        _runs(
            "--source",
            help=f"{','.join(SOURCES)}; synthetic: a file of the same size in memory; none: no file, t_IO is 0.",
        ),
    ] = "file"
    frames: Annotated[
        int | None,
        _runs("--frames", **numbers.COUNT, help="For source none.", show_default="of the files"),
    ] = None
    atoms: Annotated[
        int | None,
        _runs("--atoms", **numbers.COUNT, help="For source none.", show_default="of the files"),
    ] = None
    formats: Annotated[
        str | None,
        _runs("--formats", help=f"Write and read as {','.join(FORMATS[1:])}; the files as they are by default."),
    ] = None
    gather: Annotated[
        str | None,
        _runs("--gather", help=f"With MPI: {','.join(GATHER)}."),
    ] = None
    access: Annotated[
        str,
        _runs("--access", help=f"How frames are read: {','.join(options.ACCESS_NAMES)}; hdf5-mpio-* with MPI."),
    ] = "direct"
    memory: options.Memory = None
    schedule: Annotated[
        str | None,
        _runs("--schedule", help=f"{' or '.join(SCHEDULE)}."),
    ] = None
    oversubscribe: Annotated[
        str | None,
        _runs("--oversubscribe", "--tasks-per-worker", help="Least numbers of pieces of work per worker: 1,3."),
    ] = None
    page_cache: Annotated[
        str,
        _runs(
            "--page-cache",
            help=f"{', '.join(PAGE_CACHES)}: read before, dropped before each run, a fresh copy for each.",
        ),
    ] = "warm"
    ranks_per_node: Annotated[
        str | None,
        _runs("--ranks-per-node", help="With MPI: 12,24."),
    ] = None
    storage: Annotated[
        list[str] | None,
        _runs("--storage", metavar="NAME=FOLDER", help="Read copies of the files in this folder; may be given again."),
    ] = None
    stripes: Annotated[
        str | None,
        _runs("--stripes", help="On Lustre, BeeGFS or --lab: targets of each file, 1,3,48."),
    ] = None
    time_limit: Annotated[
        float | None,
        _runs(
            "--time-limit",
            **numbers.decimal(1e-3, 1e7),
            help="Seconds per run; a run that takes longer is left out as a gap.",
        ),
    ] = None
    max_runs: Annotated[int, _runs("--max-runs", **numbers.COUNT, help="Refuse more runs than this.")] = MOST_RUNS

    def design(self, inputs: ScalingInputs, opened: StatedTimes, clusters: ClusterRuns) -> Design:
        """The experiment. Raises ArgumentError for options that do not fit together."""
        sources = list_of_words(self.source)
        needs_files = sources != ("none",) or inputs.files or inputs.trajectory
        return Design(
            files=tuple(map(str, inputs.paths)) if needs_files else (),
            topology=None if inputs.topology is None else str(inputs.topology),
            select=inputs.select,
            **opened.arguments,
            start=inputs.start,
            stop=inputs.stop,
            step=inputs.step,
            workers=list_of_numbers("--workers", self.workers),
            runners=list_of_words(self.runner),
            repeats=self.repeats,
            readers=list_of_words(self.reader),
            analyses=list_of_words(self.analysis),
            tasks=list_of_words(self.task),
            workloads=list_of_numbers("--workload", self.workload),
            times=list_of_numbers("--times", self.times),
            sources=sources,
            frames=self.frames,
            atoms=self.atoms,
            formats=FORMATS[:1] if self.formats is None else list_of_words(self.formats),
            gathers=("",) if self.gather is None else list_of_words(self.gather),
            accesses=list_of_words(self.access),
            memory=self.memory,
            schedule=self.schedule or "",
            page_cache=self.page_cache,
            storages=named_words("--storage", ",".join(self.storage), "NAME=FOLDER") if self.storage else {},
            time_limit=self.time_limit,
            max_runs=self.max_runs,
            oversubscribes=_numbers("--oversubscribe", self.oversubscribe) or (0,),
            stripes=_numbers("--stripes", self.stripes) or (0,),
            ranks_per_node=_numbers("--ranks-per-node", self.ranks_per_node) or (None,),
            **clusters.arguments,
        )


@dataclass(frozen=True)
class LaboratoryOptions:
    """Options of the laboratory, which runs the ranks of an emulated cluster in virtual time."""

    lab: Lab = None
    nodes: Nodes = None
    cpu_per_frame: Annotated[
        str,
        laboratory(
            "--cpu-per-frame",
            help="measured, paper (2020), or microseconds of decoding and computing: 20,3.",
        ),
    ] = "measured"

    recorded: Annotated[
        str | None,
        laboratory(
            "--recorded",
            metavar="DIR",
            help="Replay this trace of a real run on as many ranks, not a plan; auto: run and record them here first.",
        ),
    ] = None

    def laboratory(self) -> "Laboratory | None":
        """The emulated cluster, if there is one. Raises ArgumentError for its options without `--lab`."""
        from kinema.studies.lab.experiment import Laboratory
        from kinema.studies.lab.platform import read_platform

        if self.lab is None:
            if self.nodes is not None or self.recorded is not None:
                raise ArgumentError("--nodes and --recorded are for an emulated cluster: they need --lab")
            return None
        return Laboratory(read_platform(self.lab), self.nodes, self.cpu_per_frame, self.recorded or "")


def _numbers(option: str, text: str | None) -> tuple[int, ...]:
    """The numbers of an option; none if it is not given."""
    return () if text is None else list_of_numbers(option, text)


@takes_groups
def scaling(
    context: typer.Context,
    inputs: ScalingInputs,
    opened: StatedTimes,
    runs: ScalingRuns,
    emulated: LaboratoryOptions,
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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the runs with an estimate of time and disk, and run none.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--continue", help="Keep the runs that the folder has reports of, and run the others.")
    ] = False,
    force: options.Force = False,
) -> None:
    """RMSD on several numbers of workers, repeated: S(N), E(N) with deviations, where the time went, R_comp/IO.

    Options that name several values, with commas between, multiply. A run that fails or takes too long is a gap with
    its reason in results.jsonl, table and picture: exit 1 at the end.
    """
    command: Command = context.obj
    if clusters.collect is not None:
        _collect(command, clusters.collect, quantity, force)
        return
    if command.ranks is not None and "mpi" in list_of_words(runs.runner):
        raise ArgumentError("--runner mpi starts mpiexec for each run; start kinema scaling itself without it")
    if resume and force:
        raise ArgumentError("--continue keeps results and --force replaces them, and both are given; use one")
    laboratory = emulated.laboratory()
    if laboratory is not None and dry_run:
        raise ArgumentError("--dry-run estimates real runs; runs of the laboratory take seconds: leave out --dry-run")
    design = runs.design(inputs, opened, clusters)
    if clusters.batch is not None:
        if laboratory is not None:
            raise ArgumentError("--lab runs an emulated cluster here, and --batch writes jobs; use one")
        _write_jobs(command, design, clusters, output, force)
        return
    if dry_run:
        _print_estimate(command, design)
        return
    from kinema.studies import run_design

    run = run_design if laboratory is None else laboratory.run
    outcomes = list(
        run(design, output, command.print_progress, overwrite=force, resume=resume, beside=[output / _PICTURE])
    )
    _print_outcomes(command, outcomes, output, quantity)
    if any(one.report is None for one in outcomes):
        raise typer.Exit(exit_codes.PROBLEMS)


def _print_estimate(command: Command, design: Design) -> None:
    from kinema.studies.estimate import estimate

    found = estimate(design)
    command.print_result(found.as_dict, lambda: "\n".join(found.lines(str)))


def _print_outcomes(command: Command, outcomes: "list[ExperimentRun]", output: Path, quantity: str) -> None:
    from kinema.report import scaling_of
    from kinema.report.figures.scaling import draw_scaling, note_gaps
    from kinema.report.figures.style import write
    from kinema.report.verdicts import verdicts_of
    from kinema.studies.splitting import paid_off

    gaps = [one for one in outcomes if one.report is None]
    reports = [one.report for one in outcomes if one.report is not None]
    measured = scaling_of(reports, quantity=quantity) if reports else None
    picture = output / _PICTURE
    if measured is not None:
        figure = draw_scaling(measured)
        note_gaps(figure, [(one.workers, str(one)) for one in gaps])
        write(figure, picture)
    written = [output / "results.jsonl", *([picture] if reports else []), *([output / "reports"] if reports else [])]
    split, verdicts = paid_off(outcomes), verdicts_of(reports, quantity)
    command.print_result(
        lambda: {
            "runs": [outcome.as_dict() for outcome in outcomes],
            "scaling": {} if measured is None else measured.as_dict(),
            "fastest": [one.as_dict() for one in verdicts],
            "gaps": [str(one) for one in gaps],
            "split": [one.as_dict() for one in split],
            "picture": str(picture) if reports else None,
        },
        lambda: "\n".join(
            [
                *([] if measured is None else [str(measured)]),
                *map(str, [*verdicts, *split]),
                *(f"gap: {printable(str(one))}" for one in gaps),
                f"written: {', '.join(map(str, written))}",
            ]
        ),
    )


def _write_jobs(command: Command, design: Design, clusters: ClusterRuns, output: Path, force: bool) -> None:
    """Writes the job scripts of --batch, and submits them if asked to."""
    from kinema.studies.batch import submit_jobs, write_jobs

    system, words = clusters.batch or "", words_of("--batch-options", clusters.batch_options)
    nodes = list_of_numbers("--batch-nodes", clusters.batch_nodes or "1")
    jobs = write_jobs(design, output, system, nodes, words, overwrite=force)
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
    from kinema.report import scaling_of
    from kinema.report.figures.scaling import draw_scaling, note_gaps
    from kinema.report.figures.style import write
    from kinema.report.verdicts import verdicts_of
    from kinema.storage.output_checks import check_remade
    from kinema.studies.batch import collect_jobs

    picture = folder / _PICTURE
    check_remade(picture, overwrite=force)
    found = collect_jobs(folder)
    measured, verdicts = scaling_of(found.reports, quantity=quantity), verdicts_of(found.reports, quantity)
    figure = draw_scaling(measured)
    note_gaps(figure, found.gaps_by_workers)
    write(figure, picture)
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
    if found.gaps:
        raise typer.Exit(exit_codes.PROBLEMS)

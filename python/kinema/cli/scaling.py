"""`kinema scaling`: the publications' experiments on files of one's own. The runs are `kinema.experiments`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from kinema.cli import options
from kinema.cli.command_line import Command
from kinema.errors import ArgumentError

_RUNS = "Runs"


def scaling(
    context: typer.Context,
    trajectory: options.Trajectories,
    topology: options.Topology = None,
    select: options.Select = None,
    start: options.Start = None,
    stop: options.Stop = None,
    step: options.Step = None,
    workers: Annotated[str, typer.Option("--workers", help="Numbers: 1,2,4.", rich_help_panel=_RUNS)] = "1,2",
    runner: Annotated[
        str, typer.Option("--runner", help="serial, threads, processes, dask or mpi.", rich_help_panel=_RUNS)
    ] = "threads",
    repeats: Annotated[int, typer.Option("--repeats", help="Runs of each kind.", rich_help_panel=_RUNS)] = 5,
    workload: Annotated[
        str, typer.Option("--workload", help="Compute each frame so often: 1,40,70,100.", rich_help_panel=_RUNS)
    ] = "1",
    source: Annotated[
        str,
        typer.Option(
            "--source", help="file, synthetic (the same size in memory: no storage), or both.", rich_help_panel=_RUNS
        ),
    ] = "file",
    formats: Annotated[
        str | None,
        typer.Option(
            "--formats", help="Write and read as xtc,dcd,h5md,h5md-automatic,h5md-frame,h5md-contiguous,h5md-gzip1,"
            "h5md-gzip9,subfiles,chain; the files as they are by default.", show_default=False, rich_help_panel=_RUNS,
        ),
    ] = None,
    gather: Annotated[
        str | None,
        typer.Option("--gather", help="With MPI: collective,one-sided.", show_default=False, rich_help_panel=_RUNS),
    ] = None,
    access: Annotated[
        str,
        typer.Option(
            "--access", help="How frames are read: direct,frame,subset,in-memory, and with MPI hdf5-mpio-independent,"
            "hdf5-mpio-collective.", rich_help_panel=_RUNS,
        ),
    ] = "direct",
    memory: options.Memory = None,
    schedule: Annotated[
        str | None, typer.Option("--schedule", help="dynamic or static.", show_default=False, rich_help_panel=_RUNS)
    ] = None,
    oversubscribe: Annotated[
        str | None,
        typer.Option(
            "--oversubscribe", help="Pieces of work a worker gets at the least: 1,3.", show_default=False,
            rich_help_panel=_RUNS,
        ),
    ] = None,
    cache: Annotated[
        str,
        typer.Option(
            "--cache", help="warm, drop (forgotten before each run), copy (a fresh copy each).", rich_help_panel=_RUNS
        ),
    ] = "warm",
    ranks_per_node: Annotated[
        int | None, typer.Option("--ranks-per-node", help="With MPI.", show_default=False, rich_help_panel=_RUNS)
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for reports, results.jsonl and scaling.png.")
    ] = Path("scaling-output"),
) -> None:  # fmt: skip
    """RMSD on several numbers of workers, repeated: S(N), E(N) with deviations, where the time went, R_comp/IO."""
    from kinema.experiments import Design, run_design
    from kinema.profile import plotting, scaling_of

    command: Command = context.obj
    if command.ranks is not None and runner == "mpi":
        raise ArgumentError("--runner mpi starts mpiexec for each run; start kinema scaling itself without it")
    design = Design(
        files=tuple(map(str, trajectory)),
        topology=None if topology is None else str(topology),
        select=select,
        start=start,
        stop=stop,
        step=step,
        workers=_numbers("--workers", workers),
        runner=runner,
        repeats=repeats,
        workloads=_numbers("--workload", workload),
        sources=_words(source),
        formats=("as is",) if formats is None else _words(formats),
        gathers=("",) if gather is None else _words(gather),
        oversubscribes=(0,) if oversubscribe is None else _numbers("--oversubscribe", oversubscribe),
        accesses=_words(access),
        memory=memory,
        schedule=schedule or "",
        cache=cache,
        ranks_per_node=ranks_per_node,
    )
    for format in design.unreadable:
        command.mention(f"{format}: Kinema does not read this format yet; left out")
    outcomes = list(run_design(design, output, command.mention))
    found = scaling_of([outcome.report for outcome in outcomes])
    picture = output / "scaling.png"
    plotting.write(plotting.draw_scaling(found), picture)
    if command.json:
        left_out = list(design.unreadable)
        runs = [outcome.as_dict() for outcome in outcomes]
        print(json.dumps({"runs": runs, "scaling": found.as_dict(), "unreadable": left_out, "picture": str(picture)}))
    elif not command.quiet:
        print(found)
        print(f"written: {output / 'results.jsonl'}, {picture}, {output / 'reports'}")


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _numbers(option: str, text: str) -> tuple[int, ...]:
    words = _words(text)
    if not words or not all(word.isdecimal() and int(word) > 0 for word in words):
        raise ArgumentError(f"{option} takes whole numbers from 1 on, with commas between, found {text!r}")
    return tuple(dict.fromkeys(map(int, words)))

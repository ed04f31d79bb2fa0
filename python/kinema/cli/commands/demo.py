"""`kinema demo`: shows on this machine what Kinema does. The measuring is `kinema.demo`."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinema.base.progress import reporting
from kinema.cli import numbers
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.cli.stopping import Terminated
from kinema.storage.output_checks import check_remade

if TYPE_CHECKING:
    from kinema.demo import Case, Row

_EXAMPLE = 'kinema rmsd -s topology.psf -f trajectory.xtc --select "protein and name CA" -o rmsd.csv --plot rmsd.png'


def demo(
    context: typer.Context,
    folder: Annotated[Path, typer.Option("--folder", help="Folder for its files, which are kept and reused.")] = Path(
        "demo-output"
    ),
    frames: Annotated[
        int | None,
        typer.Option(
            "--frames",
            **numbers.whole(1, 10**9),
            help="Number of frames, fewer if the disk is small; 100,000 by default, 250 with --follow.",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Instead, run a small simulation and an analysis that follows it and draws."),
    ] = False,
    case: Annotated[
        str | None,
        typer.Option(
            "--case",
            help="Instead, make a publication's data set: adk, yiip, mummi, pyrochlore. All but adk is random.",
            show_default=False,
        ),
    ] = None,
    times: Annotated[
        int | None,
        typer.Option(
            "--times",
            **numbers.whole(1, 10**9),
            help="With --case: repetitions of its frames, or number of its files or configurations.",
            show_default=False,
        ),
    ] = None,
    atoms: Annotated[
        int | None,
        typer.Option(
            "--atoms",
            **numbers.whole(1, 10**9),
            help="With --case: atoms, or values of a sample; --frames: frames that are repeated, or samples of a file.",
            show_default=False,
        ),
    ] = None,
    virtual: Annotated[
        bool, typer.Option("--virtual", help="With --case adk or yiip: H5MD that has the frames once and repeats them.")
    ] = False,
    force: options.Force = False,
) -> None:
    """RMSD of a real protein on this machine: MDAnalysis, Kinema, and a plain read of the same bytes."""
    if case is not None:
        if follow:
            raise typer.BadParameter("--follow runs a simulation, and --case makes files; give one of them")
        sizes = {"times": times, "frames": frames, "atoms": atoms, "virtual": virtual or None}
        _make_data_set(context.obj, folder, case, sizes, force)
        return
    if times is not None or atoms is not None or virtual:
        raise typer.BadParameter("--times, --atoms and --virtual need --case")
    if follow:
        _follow(context.obj, folder, 250 if frames is None else frames, force)
        return
    _measure(context.obj, folder, 100_000 if frames is None else frames, force)


def _follow(command: Command, folder: Path, n_frames: int, force: bool) -> None:
    from kinema.demo.followed import follow_demo

    try:
        found = follow_demo(folder, n_frames, command.print_progress, overwrite=force)
    except (KeyboardInterrupt, Terminated) as stop:
        stop.add_note(f"what had come is in {folder}")
        raise
    facts = {"n_frames": n_frames, "engine": found.engine, "picture": str(found.picture), "drawn": found.drawn}
    command.print_result(
        lambda: facts,
        lambda: (
            f"picture: {found.picture}, drawn {found.drawn} times while {found.engine} simulated\n\n"
            "the same for a simulation of your own, which may have yet to begin:\n  "
            'kinema rgyr -s topology.psf "md.part*.xtc" --follow --until "100 ns" --plot rgyr.png'
        ),
    )


def _make_data_set(command: Command, folder: Path, case: str, sizes: dict[str, int | None], force: bool) -> None:
    from kinema.demo.data_sets import choose_data_set, make_data_set

    chosen = choose_data_set(case, **sizes)
    command.print_progress(f"making {chosen}, about {chosen.n_bytes:,} bytes, in {folder}")
    command.print_progress(f"published: {chosen.published}")
    with reporting(False if command.quiet or command.json else None, "writing", 1, "bytes") as report:
        paths = make_data_set(chosen, folder, report, overwrite=force)
    found = {"case": case, "files": [str(path) for path in paths], "bytes": sum(path.stat().st_size for path in paths)}
    command.print_result(lambda: found, lambda: "\n".join(map(str, paths)))


def _measure(command: Command, folder: Path, frames: int, force: bool) -> None:
    from kinema.demo import make_case, measurements

    command.print_progress(f"making up to {frames:,} frames of adenylate kinase in {folder} (not timed)")
    with reporting(False if command.quiet or command.json else None, "writing", 1, "bytes") as report:
        case = make_case(folder, frames, report, overwrite=force)
    plot = folder / "rmsd.png"
    for path in (folder / "rmsd.npy", plot.with_suffix(".csv"), plot):
        check_remade(path, overwrite=force)
    rows = list(measurements(case, folder, command.print_progress))
    line = _plot_real_trajectory(case, plot)
    if not (command.quiet or command.json):
        _print_table(case, rows)
    command.print_result(
        lambda: {"n_frames": case.n_frames, "rows": [dataclasses.asdict(row) for row in rows]},
        lambda: f"picture: {plot}, made by\n  {line}\n\nthe same for files of your own:\n  {_EXAMPLE}",
    )


def _plot_real_trajectory(case: "Case", plot: Path) -> str:
    """Draws the picture of the 98 real frames. Returns the command that drew it."""
    import shlex

    from kinema.demo import SELECTION, run_json
    from kinema.runners.local.interpreter import module_command

    words = ["rmsd", "-s", str(case.topology), "-f", str(case.source), "--select", SELECTION]
    words += ["-o", str(plot.with_suffix(".csv")), "--plot", str(plot)]
    # --force: existing files were checked before the first measurement
    run_json(module_command("kinema", *words, "--json", "--force"))
    return shlex.join(["kinema", *words])


def _print_table(case: "Case", rows: list["Row"]) -> None:
    """The one table, with ratios to MDAnalysis and to the plain read of the same format and cores."""
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title="RMSD of 214 C-alpha atoms, 3341 atoms a frame",
        caption="wall time, best of 3; the file is in the page cache if that is large enough; "
        "opening files and finding frames is not counted",
    )
    table.add_column("program")
    table.add_column("format")
    for name in (
        "cores",
        "frames",
        "frames/s",
        "x MDAnalysis",
        "of plain read",
        "peak MiB",
        "largest diff. (Å)",
    ):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*_cells(row, rows))
    terminal = Console()
    # a pipe has no width
    console = terminal if terminal.is_terminal else Console(width=120)
    console.print(table)


def _cells(row: "Row", rows: list["Row"]) -> list[str]:
    def rate_of(program: str, cores: int) -> Any:
        same = (one for one in rows if (one.program, one.format, one.cores) == (program, row.format, cores))
        return next(same).frames_per_second

    read = row.frames_per_second / rate_of("plain read", row.cores)
    return [
        row.program,
        row.format,
        str(row.cores),
        f"{row.frames:,}",
        f"{row.frames_per_second:,.0f}",
        f"{row.frames_per_second / rate_of('MDAnalysis', 1):,.1f}",
        f"{read:.3f}",
        f"{row.peak_memory / 2**20:,.0f}",
        "" if row.difference is None else f"{row.difference:.1e}",
    ]

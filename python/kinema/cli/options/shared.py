"""Options that several commands share, each described once; `kinema.base.choices` lists their values.

Names and units follow GROMACS for the options that it has: -s, -f, -n, -o, and -b, -e, --dt in ps.
"""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from kinema.base.choices import (
    EXTERNAL,
    GATHER,
    ON_REWIND,
    ON_TRUNCATED,
    OUTPUT_TIME_UNIT,
    OUTPUT_UNIT,
    OVERLAP,
    QUANTITIES,
    SCHEDULE,
    TABLE_FORMATS,
)
from kinema.base.errors import ArgumentError
from kinema.base.resources import parse_memory
from kinema.cli import numbers
from kinema.runners.access import access_names


class RunnerName(StrEnum):
    """Kinds of workers."""

    threads = "threads"
    processes = "processes"
    dask = "dask"
    mpi = "mpi"
    serial = "serial"


def one_of(values: Sequence[str]) -> dict[str, Any]:
    """Arguments of `typer.Option` for an option that takes one of these names."""

    def parse(value: str) -> str:
        if value not in values:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(map(repr, values))}")
        return value

    return {"parser": parse, "metavar": f"<{'|'.join(values)}>"}


# of --quantity: a time of reports, of too many to name each in the help
QUANTITY: dict[str, Any] = one_of(QUANTITIES) | {"metavar": "NAME"}


def _quantities(text: str) -> str:
    """Returns the text if all of its words are quantities, else raises typer.BadParameter."""
    for word in text.split(","):
        QUANTITY["parser"](word.strip())
    return text


# the same, or several, separated by commas
QUANTITIES_LIST: dict[str, Any] = {"parser": _quantities, "metavar": "NAME[,NAME]"}


def byte_count(text: str) -> str:
    """Returns the text if it names a number of bytes, else raises typer.BadParameter."""
    try:
        parse_memory(text)
    except ArgumentError as error:
        raise typer.BadParameter(str(error).removeprefix("memory ")) from None
    return text


# ways of the runners, and ways that studies attach
ACCESS_NAMES = access_names()

_FRAMES = "Frames"
_READING = "Reading"
_OUTPUT = "Output"
_FOLLOWING = "Following"

Files = Annotated[
    list[Path] | None,
    typer.Argument(help="Trajectory files, parts of one in the order of time; or with -f.", show_default=False),
]
Topology = Annotated[
    Path | None,
    typer.Option("-s", "--topology", help="Topology (PSF, GRO, PDB, TPR, H5MD, ...): atom names, masses."),
]
Trajectories = Annotated[
    list[Path] | None,
    typer.Option(
        "-f",
        "--trajectory",
        help="The same: -f a.xtc b.xtc.",
        show_default=False,
    ),
]
Select = Annotated[str | None, typer.Option("--select", help='Atoms, in MDAnalysis\' words: "protein and name CA".')]
IndexFile = Annotated[Path | None, typer.Option("-n", "--index-file", help="GROMACS index file (.ndx).")]
Group = Annotated[str | None, typer.Option("--group", help="Group of the index file.")]
Particles = Annotated[
    str | None,
    typer.Option(
        "--particles",
        help="Group of particles of an H5MD file that has several.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
InputFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Format of files whose name and bytes do not say it: XYZ, TRJ, ... (kinema formats).",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
InputUnits = Annotated[
    str | None,
    typer.Option(
        "--input-units",
        metavar="length=nm,time=ps",
        help="Units of the files, if they state none or wrong ones.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
External = Annotated[
    str,
    typer.Option(
        "--external",
        **one_of(EXTERNAL),
        help="Files that an H5MD file may link to: none, files in its folder and below, any.",
        rich_help_panel=_READING,
    ),
]
NoStored = Annotated[
    bool,
    typer.Option(
        "--no-stored",
        help="Use no stored knowledge of the files (indices, ...), and store none.",
        rich_help_panel=_READING,
    ),
]
NodeCacheFolder = Annotated[
    Path | None,
    typer.Option(
        "--node-cache",
        metavar="DIR",
        help="Cache blocks of the files in this folder of the node: each byte is fetched once for all its processes.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Timestep = Annotated[
    float | None,
    typer.Option(
        "--timestep",
        **numbers.decimal(1e-12, 1e18),
        help="Time between the frames of the files, ps, instead of their times.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
FirstTime = Annotated[
    float | None,
    typer.Option(
        "--t0",
        **numbers.TIME,
        help="Time of the first frame, ps; all times are shifted.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace existing files: trajectories, archives, and any other file that Kinema did not write.",
    ),
]
Verify = Annotated[
    bool,
    typer.Option("--verify/--no-verify", help="Read back what was written, and compare (H5MD; others are copied)."),
]
Begin = Annotated[
    float | None, typer.Option("-b", "--begin", **numbers.TIME, help="First time, ps.", rich_help_panel=_FRAMES)
]
End = Annotated[
    float | None, typer.Option("-e", "--end", **numbers.TIME, help="Last time, ps.", rich_help_panel=_FRAMES)
]
Every = Annotated[
    float | None,
    typer.Option("--dt", **numbers.TIME, help="Time between the frames used, ps.", rich_help_panel=_FRAMES),
]
Start = Annotated[
    int | None, typer.Option("--start", **numbers.FRAME, help="First frame, from 0.", rich_help_panel=_FRAMES)
]
Stop = Annotated[
    int | None, typer.Option("--stop", **numbers.FRAME, help="Frame to stop before.", rich_help_panel=_FRAMES)
]
Step = Annotated[
    int | None, typer.Option("--step", **numbers.FRAME, help="Take each n-th frame.", rich_help_panel=_FRAMES)
]
FrameList = Annotated[
    str | None,
    typer.Option(
        "--frames",
        metavar="LIST|FILE",
        help="Frames from 0 in this order: 1,5,9-20; or a text file of frame numbers, or of times in ps (100.0).",
        show_default=False,
        rich_help_panel=_FRAMES,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "-j",
        "--workers",
        **numbers.whole(1, numbers.MOST_WORKERS),
        help="Workers; all allowed cores by default.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Runner = Annotated[
    RunnerName | None,
    typer.Option(
        "--runner",
        help="Kind of worker; results are the same. Default: threads, or the ranks that mpiexec has started.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
ThreadsPerWorker = Annotated[
    int | None,
    typer.Option(
        "--threads-per-worker",
        **numbers.whole(1, numbers.MOST_WORKERS),
        help="Threads per process, Dask task or MPI rank; 1 by default.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        help="Dask scheduler: tcp://host:port or its file; without one, the runner dask starts workers here.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        help="How workers write one file: auto, serial, direct, mpiio, mpiio-collective.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Hints = Annotated[
    str | None,
    typer.Option(
        "--hints",
        help="MPI-IO hints, by ROMIO's names: cb_buffer_size=16777216,striping_factor=8.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Schedule = Annotated[
    str | None,
    typer.Option(
        "--schedule",
        **one_of(SCHEDULE),
        help="Give work to free workers (dynamic, the default), or in equal shares (static).",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Oversubscribe = Annotated[
    int | None,
    typer.Option(
        "--oversubscribe",
        **numbers.whole(1, numbers.MOST_WORKERS),
        help="Least number of pieces of work per worker; 4 by default.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Gather = Annotated[
    str | None,
    typer.Option(
        "--gather",
        **one_of(GATHER),
        help="How results of MPI ranks are gathered; collective by default.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Access = Annotated[
    str,
    typer.Option(
        "--access",
        **one_of(ACCESS_NAMES),
        help="How frames are read; results are the same. All but direct are for comparisons.",
        rich_help_panel=_READING,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        parser=byte_count,
        metavar="TEXT",
        help='Working memory: "256 MiB".',
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Overlap = Annotated[
    str,
    typer.Option("--overlap", **one_of(OVERLAP), help="Frames to keep where parts overlap.", rich_help_panel=_READING),
]
OnTruncated = Annotated[
    str,
    typer.Option(
        "--on-truncated",
        **one_of(ON_TRUNCATED),
        help="If the last frame is incomplete: leave it out with a note, or stop with an error.",
        rich_help_panel=_READING,
    ),
]
SkipDamaged = Annotated[
    bool,
    typer.Option(
        "--skip-damaged",
        help="Leave out frames that cannot be decoded, with a note; an extra pass finds them first.",
        rich_help_panel=_READING,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Values, as .csv, .xvg, .npy, .parquet or .dat.", rich_help_panel=_OUTPUT),
]
SeriesOutput = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        help="Values, as .csv, .xvg, .npy, .parquet, .dat; or .h5, written during the run and not held in memory.",
        rich_help_panel=_OUTPUT,
    ),
]
OutputFormat = Annotated[
    str | None,
    typer.Option(
        "--output-format",
        **one_of(TABLE_FORMATS),
        help="Format of the values, whatever the file's name: for -o - (stdout, csv by default) and FIFOs.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        help="Save progress to this file; after a kill, the same command resumes from it.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
CheckpointInterval = Annotated[
    float | None,
    typer.Option(
        "--checkpoint-interval",
        **numbers.decimal(0, 1e9),
        help="Seconds between two saves; 30 by default.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
OutputUnit = Annotated[
    str,
    typer.Option(
        "--output-unit", **one_of(OUTPUT_UNIT), help="Unit of lengths in values and picture.", rich_help_panel=_OUTPUT
    ),
]
OutputTimeUnit = Annotated[
    str,
    typer.Option(
        "--output-time-unit",
        **one_of(OUTPUT_TIME_UNIT),
        help="Unit of times in values and picture.",
        rich_help_panel=_OUTPUT,
    ),
]
Plot = Annotated[Path | None, typer.Option("--plot", help="Picture, as .png, .svg or .pdf.", rich_help_panel=_OUTPUT)]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report",
        help="Where the time went, as JSON; `kinema report FILE` prints it.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
Follow = Annotated[
    bool,
    typer.Option(
        "--follow",
        help="The files are still being written: use frames as they arrive, until --until, --follow-timeout or Ctrl-C; "
        "a pattern in quotes names future parts.",
        rich_help_panel=_FOLLOWING,
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        help='With --follow: the last frame, as a number of frames or a time, "100 ns".',
        metavar="N|TIME",
        show_default=False,
        rich_help_panel=_FOLLOWING,
    ),
]
FollowTimeout = Annotated[
    float | None,
    typer.Option(
        "--follow-timeout",
        **numbers.decimal(0.0, 1e9),
        help="With --follow: end after this many seconds in which nothing is written.",
        show_default=False,
        rich_help_panel=_FOLLOWING,
    ),
]
OnRewind = Annotated[
    str,
    typer.Option(
        "--on-rewind",
        **one_of(ON_REWIND),
        help="With --follow: if frames that were used are rewritten, stop with an error or start again.",
        rich_help_panel=_FOLLOWING,
    ),
]

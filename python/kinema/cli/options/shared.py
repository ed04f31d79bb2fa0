"""Options that several commands share, each described once; `kinema.base.choices` lists their values.

Names and units follow GROMACS for the options that it has: -s, -f, -n, -o, and -b, -e, --dt in ps.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from kinema.base.choices import (
    BY,
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

_frames, _reading, _output, _following = (
    partial(typer.Option, rich_help_panel=panel) for panel in ("Frames", "Reading", "Output", "Following")
)

Files = Annotated[
    list[Path] | None,
    typer.Argument(help="Trajectory files, parts of one in the order of time; or with -f."),
]
Topology = Annotated[
    Path | None,
    typer.Option("-s", "--topology", help="Topology (PSF, GRO, PDB, TPR, H5MD, ...): atom names, masses."),
]
Trajectories = Annotated[
    list[Path] | None,
    typer.Option("-f", "--trajectory", help="The same: -f a.xtc b.xtc."),
]
Select = Annotated[str | None, typer.Option("--select", help='Atoms, in MDAnalysis\' words: "protein and name CA".')]
IndexFile = Annotated[Path | None, typer.Option("-n", "--index-file", help="GROMACS index file (.ndx).")]
Group = Annotated[str | None, typer.Option("--group", help="Group of the index file.")]
Particles = Annotated[
    str | None,
    _reading("--particles", help="Group of particles of an H5MD file that has several."),
]
InputFormat = Annotated[
    str | None,
    _reading(
        "--format",
        metavar="NAME",
        help="Format of files whose name and bytes do not say it: XYZ, TRJ, ... (kinema formats).",
    ),
]
InputUnits = Annotated[
    str | None,
    _reading(
        "--input-units", metavar="length=nm,time=ps", help="Units of the files, if they state none or wrong ones."
    ),
]
External = Annotated[
    str,
    _reading(
        "--external",
        **one_of(EXTERNAL),
        help="Files that an H5MD file may link to: none, files in its folder and below, any.",
    ),
]
NoStored = Annotated[
    bool,
    _reading("--no-stored", help="Use no stored knowledge of the files (indices, ...), and store none."),
]
NodeCacheFolder = Annotated[
    Path | None,
    _reading(
        "--node-cache",
        metavar="DIR",
        help="Cache blocks of the files in this folder of the node: each byte is fetched once for all its processes.",
    ),
]
Timestep = Annotated[
    float | None,
    _reading(
        "--timestep",
        **numbers.decimal(1e-12, 1e18),
        help="Time between the frames of the files, ps, instead of their times.",
    ),
]
FirstTime = Annotated[
    float | None,
    _reading("--t0", **numbers.TIME, help="Time of the first frame, ps; all times are shifted."),
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
Begin = Annotated[float | None, _frames("-b", "--begin", **numbers.TIME, help="First time, ps.")]
End = Annotated[float | None, _frames("-e", "--end", **numbers.TIME, help="Last time, ps.")]
Every = Annotated[
    float | None,
    _frames("--dt", **numbers.TIME, help="Time between the frames used, ps."),
]
Start = Annotated[int | None, _frames("--start", **numbers.FRAME, help="First frame, from 0.")]
Stop = Annotated[int | None, _frames("--stop", **numbers.FRAME, help="Frame to stop before.")]
Step = Annotated[int | None, _frames("--step", **numbers.FRAME, help="Take each n-th frame.")]
FrameList = Annotated[
    str | None,
    _frames(
        "--frames",
        metavar="LIST|FILE",
        help="Frames from 0 in this order: 1,5,9-20; or a text file of frame numbers, or of times in ps (100.0).",
    ),
]
Workers = Annotated[
    int | None,
    _reading(
        "-j", "--workers", **numbers.whole(1, numbers.MOST_WORKERS), help="Workers; all allowed cores by default."
    ),
]
Runner = Annotated[
    RunnerName | None,
    _reading(
        "--runner",
        help="Kind of worker; results are the same. Default: threads, or the ranks that mpiexec has started.",
    ),
]
ThreadsPerWorker = Annotated[
    int | None,
    _reading(
        "--threads-per-worker",
        **numbers.whole(1, numbers.MOST_WORKERS),
        help="Threads per process, Dask task or MPI rank; 1 by default.",
    ),
]
Scheduler = Annotated[
    str | None,
    _reading(
        "--scheduler",
        help="Dask scheduler: tcp://host:port or its file; without one, the runner dask starts workers here.",
    ),
]
Strategy = Annotated[
    str | None,
    _reading("--strategy", help="How workers write one file: auto, serial, direct, mpiio, mpiio-collective."),
]
Hints = Annotated[
    str | None,
    _reading("--hints", help="MPI-IO hints, by ROMIO's names: cb_buffer_size=16777216,striping_factor=8."),
]
Schedule = Annotated[
    str | None,
    _reading(
        "--schedule",
        **one_of(SCHEDULE),
        help="Give work to free workers (dynamic, the default), or in equal shares (static).",
    ),
]
Oversubscribe = Annotated[
    int | None,
    _reading(
        "--oversubscribe",
        **numbers.whole(1, numbers.MOST_WORKERS),
        help="Least number of pieces of work per worker; 4 by default.",
    ),
]
Gather = Annotated[
    str | None,
    _reading("--gather", **one_of(GATHER), help="How results of MPI ranks are gathered; collective by default."),
]
Access = Annotated[
    str,
    _reading(
        "--access",
        **one_of(ACCESS_NAMES),
        help="How frames are read; results are the same. All but direct are for comparisons.",
    ),
]
Memory = Annotated[
    str | None,
    _reading("--memory", parser=byte_count, metavar="TEXT", help='Working memory: "256 MiB".'),
]
Overlap = Annotated[
    str,
    _reading("--overlap", **one_of(OVERLAP), help="Frames to keep where parts overlap."),
]
OnTruncated = Annotated[
    str,
    _reading(
        "--on-truncated",
        **one_of(ON_TRUNCATED),
        help="If the last frame is incomplete: leave it out with a note, or stop with an error.",
    ),
]
SkipDamaged = Annotated[
    bool,
    _reading(
        "--skip-damaged", help="Leave out frames that cannot be decoded, with a note; an extra pass finds them first."
    ),
]
Output = Annotated[
    Path | None,
    _output("-o", "--output", help="Values, as .csv, .xvg, .npy, .parquet or .dat."),
]


def output_with(other_formats: Mapping[str, str]) -> Any:
    """The same for an analysis that writes files other than tables: what each suffix holds."""
    tables = "Values, as .csv, .xvg, .npy, .parquet or .dat"
    more = "; ".join(f"{suffix}: {what}" for suffix, what in other_formats.items())
    return Annotated[Path | None, _output("-o", "--output", help=f"{tables}; {more}.")]


SeriesOutput = Annotated[
    Path | None,
    _output(
        "-o",
        "--output",
        help="Values, as .csv, .xvg, .npy, .parquet, .dat; or .h5, written during the run and not held in memory.",
    ),
]
OutputFormat = Annotated[
    str | None,
    _output(
        "--output-format",
        **one_of(TABLE_FORMATS),
        help="Format of the values, whatever the file's name: for -o - (stdout, csv by default) and FIFOs.",
    ),
]
Checkpoint = Annotated[
    Path | None,
    _output("--checkpoint", help="Save progress to this file; after a kill, the same command resumes from it."),
]
CheckpointInterval = Annotated[
    float | None,
    _output("--checkpoint-interval", **numbers.decimal(0, 1e9), help="Seconds between two saves; 30 by default."),
]
OutputUnit = Annotated[
    str,
    _output("--output-unit", **one_of(OUTPUT_UNIT), help="Unit of lengths in values and picture."),
]
OutputTimeUnit = Annotated[
    str,
    _output("--output-time-unit", **one_of(OUTPUT_TIME_UNIT), help="Unit of times in values and picture."),
]
Occupancy = Annotated[
    Path | None,
    _output("--occupancy", help="How often each distinct row occurs, with events and means, as a table like -o."),
]
OccupancyBy = Annotated[
    str | None,
    _output(
        "--by",
        help="Rows of --occupancy that are counted as one: of the same atoms, or of the same residues.",
        **one_of(BY),
    ),
]
Lifetime = Annotated[
    Path | None,
    _output(
        "--lifetime", help="Share of the bonds of a frame that are still there tau frames later, as a table like -o."
    ),
]
TauMax = Annotated[
    int | None,
    _output(
        "--tau-max", **numbers.whole(1, 1 << 31), help="Largest tau of --lifetime, in analysed frames; 20 by default."
    ),
]
WindowStep = Annotated[
    int | None,
    _output(
        "--window-step",
        **numbers.whole(1, 1 << 31),
        help="Frames between the first frames that --lifetime averages over.",
    ),
]
Intermittency = Annotated[
    int | None,
    _output(
        "--intermittency", **numbers.whole(0, 1 << 31), help="Frames for which a bond of --lifetime may be absent."
    ),
]
ClusterTable = Annotated[
    Path | None,
    _output("--clusters", help="Size, share and centre of each cluster, as a table like -o."),
]
CenterFolder = Annotated[
    Path | None,
    _output("--write-centers", help="Folder to write the centre of each cluster to, as .pdb if there is a topology."),
]
ClusterFolder = Annotated[
    Path | None,
    _output("--write-clusters", help="Folder to write the frames of each cluster to, in the trajectory's format."),
]
Plot = Annotated[Path | None, _output("--plot", help="Picture, as .png, .svg or .pdf.")]
Report = Annotated[
    Path | None,
    _output("--report", help="Where the time went, as JSON; `kinema report FILE` prints it."),
]
Follow = Annotated[
    bool,
    _following(
        "--follow",
        help="The files are still being written: use frames as they arrive, until --until, --follow-timeout or Ctrl-C; "
        "a pattern in quotes names future parts.",
    ),
]
Until = Annotated[
    str | None,
    _following(
        "--until", help='With --follow: the last frame, as a number of frames or a time, "100 ns".', metavar="N|TIME"
    ),
]
FollowTimeout = Annotated[
    float | None,
    _following(
        "--follow-timeout",
        **numbers.decimal(0.0, 1e9),
        help="With --follow: end after this many seconds in which nothing is written.",
    ),
]
OnRewind = Annotated[
    str,
    _following(
        "--on-rewind",
        **one_of(ON_REWIND),
        help="With --follow: if frames that were used are rewritten, stop with an error or start again.",
    ),
]

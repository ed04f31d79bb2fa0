"""Options that several commands share, each described once.

Names and units follow GROMACS where it has the option: -s, -f, -n, -o, and -b, -e, --dt in ps.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Overlap(StrEnum):
    """Which frames count where parts overlap in time."""

    last = "last"
    first = "first"
    all = "all"


class OnTruncated(StrEnum):
    """What to do with a file that ends within a frame."""

    error = "error"
    drop = "drop"


class RunnerName(StrEnum):
    """What the workers are."""

    threads = "threads"
    processes = "processes"
    dask = "dask"
    mpi = "mpi"
    serial = "serial"


class Schedule(StrEnum):
    """Which worker gets which piece of work."""

    dynamic = "dynamic"
    static = "static"


class Gather(StrEnum):
    """How results come together."""

    collective = "collective"
    one_sided = "one-sided"


class Access(StrEnum):
    """How frames are read; the names are those of `kinema.access`."""

    direct = "direct"
    frame = "frame"
    subset = "subset"
    in_memory = "in-memory"
    mpio_independent = "hdf5-mpio-independent"
    mpio_collective = "hdf5-mpio-collective"


_FRAMES = "Frames"
_READING = "Reading"
_OUTPUT = "Output"

Files = Annotated[list[Path], typer.Argument(help="Trajectory files, in the order of time.", show_default=False)]
Topology = Annotated[
    Path | None,
    typer.Option("-s", "--topology", help="Topology (PSF, GRO, PDB, TPR, ...): atom names, masses."),
]
Trajectories = Annotated[
    list[Path],
    typer.Option(
        "-f",
        "--trajectory",
        help="Trajectory; several files are its parts: -f a.xtc b.xtc.",
        show_default=False,
    ),
]
Select = Annotated[str | None, typer.Option("--select", help='Atoms, in MDAnalysis\' words: "protein and name CA".')]
IndexFile = Annotated[Path | None, typer.Option("-n", "--index-file", help="GROMACS index file (.ndx).")]
Group = Annotated[str | None, typer.Option("--group", help="Group of the index file.")]
ParticlesGroup = Annotated[
    str | None, typer.Option("--group", help="Particles group of an H5MD file that has several.", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there.")]
Verify = Annotated[bool, typer.Option("--verify/--no-verify", help="H5MD: read back what was written, and compare.")]
ReferenceFrame = Annotated[
    int | None,
    typer.Option("--ref-frame", help="Frame to superpose on; 0 by default.", show_default=False),
]
Reference = Annotated[
    Path | None, typer.Option("--reference", help="Structure file to superpose on, instead of a frame.")
]
Begin = Annotated[float | None, typer.Option("-b", "--begin", help="First time, ps.", rich_help_panel=_FRAMES)]
End = Annotated[float | None, typer.Option("-e", "--end", help="Last time, ps.", rich_help_panel=_FRAMES)]
Every = Annotated[float | None, typer.Option("--dt", help="Time between the frames used, ps.", rich_help_panel=_FRAMES)]
Start = Annotated[int | None, typer.Option("--start", help="First frame, from 0.", rich_help_panel=_FRAMES)]
Stop = Annotated[int | None, typer.Option("--stop", help="Frame to stop before.", rich_help_panel=_FRAMES)]
Step = Annotated[int | None, typer.Option("--step", help="Take each n-th frame.", rich_help_panel=_FRAMES)]
Workers = Annotated[
    int | None,
    typer.Option(
        "-j",
        "--workers",
        help="Workers; all allowed cores by default.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Runner = Annotated[
    RunnerName | None,
    typer.Option(
        "--runner",
        help="What the workers are; results are the same. Threads, or the ranks that mpiexec has started.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
ThreadsPerWorker = Annotated[
    int | None,
    typer.Option(
        "--threads-per-worker",
        help="Threads of a process, a Dask task or an MPI rank; 1 by default.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        help="Dask scheduler: tcp://host:port or its file; without one the runner dask starts workers here.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
ScheduleOption = Annotated[
    Schedule | None,
    typer.Option(
        "--schedule",
        help="Work goes to whoever is free, or in equal shares; dynamic by default.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Oversubscribe = Annotated[
    int | None,
    typer.Option(
        "--oversubscribe",
        help="Pieces of work that a worker gets at the least; 4 by default.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
GatherOption = Annotated[
    Gather | None,
    typer.Option(
        "--gather",
        help="How results of MPI ranks come together; collective by default.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
AccessOption = Annotated[
    Access,
    typer.Option(
        "--access",
        help="How frames are read; results are the same. All but direct are for comparisons.",
        rich_help_panel=_READING,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option("--memory", help='Working memory: "256 MiB".', show_default=False, rich_help_panel=_READING),
]
OverlapOption = Annotated[
    Overlap,
    typer.Option("--overlap", help="Frames that count where parts overlap.", rich_help_panel=_READING),
]
OnTruncatedOption = Annotated[
    OnTruncated,
    typer.Option("--on-truncated", help="What to do with an incomplete last frame.", rich_help_panel=_READING),
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
        help="Values, as .csv, .xvg, .npy, .parquet, .dat; as .h5 they are written as they come, not held in memory.",
        rich_help_panel=_OUTPUT,
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        help="Save what is done to this file; the same command goes on after any kill.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
CheckpointInterval = Annotated[
    float | None,
    typer.Option(
        "--checkpoint-interval",
        help="Seconds between two saves; 30 by default.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
Plot = Annotated[Path | None, typer.Option("--plot", help="Picture, as .png, .svg or .pdf.", rich_help_panel=_OUTPUT)]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report",
        help="Where the time went, as JSON; `kinema report FILE` tells it.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]

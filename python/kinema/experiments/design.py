"""What an experiment varies, checked before anything runs.

It makes no files and starts nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kinema import _core
from kinema.access import MPIO, check_access
from kinema.errors import ArgumentError
from kinema.resources import parse_memory

__all__ = ["CACHES", "FORMATS", "RUNNERS", "SOURCES", "Design", "Setting"]

RUNNERS = ("serial", "threads", "processes", "dask", "mpi")
CACHES = ("warm", "drop", "copy")
SOURCES = ("file", "synthetic")
# what the publications used; "as is": the files as they were given; "h5md": as Kinema writes it, the others as
# MDAnalysis does; "subfiles": as many files as workers; "chain": as many as the most workers, whatever their number
FORMATS = (
    "as is", "xtc", "dcd", "trr", "nc", "h5md", "h5md-automatic", "h5md-frame", "h5md-contiguous", "h5md-gzip1",
    "h5md-gzip9", "subfiles", "chain",
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """One series of runs: everything but the number of workers and the repeat."""

    format: str
    source: str
    workload: int
    gather: str
    access: str
    oversubscribe: int = 0


@dataclass(frozen=True)
class Design:
    """An experiment.

    Attributes
    ----------
    files, topology, select, start, stop, step : as `kinema.open`, `Trajectory.select` and `Analysis.run`
    workers : numbers of workers
    runner : one of RUNNERS
    repeats : runs of each kind
    workloads : how many times the RMSD is computed for each frame that is read: R_comp/IO grows with it
    sources : "file"; "synthetic": as many atoms and frames of a random walk, in memory: the control without I/O
    formats : of FORMATS; written from the files before the runs, with the selected frames
    oversubscribes : pieces of work that a worker gets at the least, of runners that hand out work; 0 for their own
    gathers : of the runner with MPI: "collective", "one-sided"; "" for the runner's own
    schedule : "dynamic" or "static", for runners that hand out work; "" for the runner's own
    accesses : ways to read, of `kinema.access`
    memory : limit of working memory of a run, as `Analysis.run` has it; "in-memory" needs what the frames take
    cache : "warm": files are read once before each run; "drop": the system is asked to forget them; "copy": each run
        reads a fresh copy, which is forgotten as well
    ranks_per_node : of the runner with MPI
    """

    files: tuple[str, ...]
    topology: str | None = None
    select: str | None = None
    start: int | None = None
    stop: int | None = None
    step: int | None = None
    workers: tuple[int, ...] = (1, 2)
    runner: str = "threads"
    repeats: int = 5
    workloads: tuple[int, ...] = (1,)
    sources: tuple[str, ...] = ("file",)
    formats: tuple[str, ...] = ("as is",)
    gathers: tuple[str, ...] = ("",)
    oversubscribes: tuple[int, ...] = (0,)
    accesses: tuple[str, ...] = ("direct",)
    memory: str | None = None
    schedule: str = ""
    cache: str = "warm"
    ranks_per_node: int | None = None
    unreadable: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        _among("runner", (self.runner,), RUNNERS)
        _among("cache", (self.cache,), CACHES)
        _among("source", self.sources, SOURCES)
        _among("formats", self.formats, FORMATS)
        _among("gather", self.gathers, ("", "collective", "one-sided"))
        _among("schedule", (self.schedule,), ("", "dynamic", "static"))
        if not self.accesses:
            raise ArgumentError("an experiment needs a way to read: access is empty")
        for access in self.accesses:
            if check_access(access) in MPIO and self.runner != "mpi":
                raise ArgumentError(f"access {access!r} is for the runner mpi, and this is {self.runner}")
        if self.memory is not None:
            parse_memory(self.memory)
        pieces = (1,) if self.oversubscribes == (0,) else self.oversubscribes
        counted = {"workers": self.workers, "workload": self.workloads, "repeats": (self.repeats,)}
        for name, numbers in (counted | {"oversubscribe": pieces}).items():
            if not numbers or min(numbers) < 1:
                raise ArgumentError(
                    f"{name} must be whole numbers from 1 on, found {', '.join(map(str, numbers)) or 'none'}"
                )
        if not self.files:
            raise ArgumentError("an experiment needs a trajectory")
        if self.runner != "mpi" and (self.gathers != ("",) or self.ranks_per_node is not None):
            raise ArgumentError(f"gather and ranks per node are for the runner mpi, and this is {self.runner}")
        if self.ranks_per_node is not None and self.ranks_per_node < 1:
            raise ArgumentError(f"ranks per node must be at least 1, found {self.ranks_per_node}")
        if self.runner not in ("processes", "mpi", "dask") and (self.schedule or self.oversubscribes != (0,)):
            raise ArgumentError(
                f"schedule and oversubscribe are for processes, mpi and dask, and this is {self.runner}"
            )
        if self.runner == "serial" and self.workers != (1,):
            raise ArgumentError("the serial runner has one worker")
        read = {known["name"] for known in _core.formats() if known["reads"]}
        # of the publications' formats; NetCDF-4 is read as HDF5, AMBER's NetCDF-3 is not
        names = {"trr": "TRR", "nc": "NetCDF"}
        missing = tuple(one for one in self.formats if one in names and names[one] not in read)
        object.__setattr__(self, "unreadable", missing)
        if len(missing) == len(self.formats):
            raise ArgumentError(f"not read yet: {', '.join(missing)}; name another format")

    def settings(self) -> Iterator[Setting]:
        """All series, of what Kinema reads. Synthetic data have one format: there is nothing to store."""
        for source in self.sources:
            formats: Sequence[str] = [one for one in self.formats if one not in self.unreadable]
            if source == "synthetic":
                formats = ["as is"]
            for format in formats:
                for workload in self.workloads:
                    for gather in self.gathers:
                        for access in self.accesses:
                            for pieces in self.oversubscribes:
                                yield Setting(format, source, workload, gather, access, pieces)


def _among(name: str, values: Sequence[str], allowed: Sequence[str]) -> None:
    if not values:
        raise ArgumentError(f"{name} must be of {', '.join(map(repr, filter(None, allowed)))}, found none")
    for value in values:
        if value not in allowed:
            raise ArgumentError(f"{name} must be of {', '.join(map(repr, filter(None, allowed)))}, found {value!r}")

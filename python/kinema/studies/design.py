"""The design of a scaling experiment: the varied settings, checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from kinema.base.choices import GATHER, SCHEDULE
from kinema.base.errors import ArgumentError
from kinema.base.resources import parse_memory
from kinema.runners.access import access_method
from kinema.runners.registry import options_of

__all__ = ["FORMATS", "PAGE_CACHES", "SOURCES", "Design", "Setting"]

PAGE_CACHES = ("warm", "drop", "copy")
SOURCES = ("file", "synthetic")
# formats of the publications; "as is": the given files; "h5md": Kinema's own layout, "h5md-...": the layouts that were
# compared; "subfiles": one file per worker; "chain": as many files as the largest number of workers, for every number
# of workers
FORMATS = (
    "as is", "xtc", "dcd", "trr", "nc", "h5md", "h5md-automatic", "h5md-frame", "h5md-contiguous", "h5md-gzip1",
    "h5md-gzip9", "subfiles", "chain",
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """One series of runs: everything except the number of workers and the repeat."""

    format: str
    source: str
    workload: int
    gather: str
    access: str
    oversubscribe: int = 0

    @property
    def as_given(self) -> bool:
        """Whether the runs read the files that the user has named."""
        return self.source == "file" and self.format == "as is"


@dataclass(frozen=True)
class Design:
    """An experiment.

    Attributes
    ----------
    files, topology, particles, units, dt, t0, stored, node_cache, external : as `kinema.open`
    select, start, stop, step : as `Trajectory.select` and `Analysis.run`
    workers : numbers of workers
    runner : as `Analysis.run`, by name
    repeats : number of runs of each kind
    workloads : how many times the RMSD is computed for each frame that is read: R_comp/IO grows with it
    sources : "file"; "synthetic": a random walk of as many atoms and frames, in memory: the control without I/O
    formats : of FORMATS; written from the files before the runs, with the selected frames
    oversubscribes : least number of tasks per worker, for runners that schedule work; 0 for the runner's own
    gathers : for the runner with MPI: "collective", "one-sided"; "" for the runner's own
    schedule : "dynamic" or "static", for runners that schedule work; "" for the runner's own
    accesses : access methods, of `kinema.runners.access`
    memory : limit of working memory of a run, as in `Analysis.run`; "in-memory" needs the size of the frames
    page_cache : "warm": files are read once before each run; "drop": the system is asked to drop them from its cache;
        "copy": each run reads a fresh copy, which is dropped from the cache too
    ranks_per_node : for the runner with MPI
    scheduler : for the runner with Dask: address or file of the scheduler of a cluster that is there
    launcher : for the runner with MPI: words of the program that starts ranks; empty for mpiexec
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
    page_cache: str = "warm"
    ranks_per_node: int | None = None
    format: str | None = None
    particles: str | None = None
    units: Mapping[str, str] | None = None
    dt: float | None = None
    t0: float | None = None
    stored: bool = True
    node_cache: str | None = None
    external: str = "folder"
    scheduler: str | None = None
    launcher: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        pieces = next(filter(None, self.oversubscribes), None)
        gather = next(filter(None, self.gathers), None)
        options_of(self.runner, {"schedule": self.schedule or None, "oversubscribe": pieces, "gather": gather})
        _check_each("page_cache", (self.page_cache,), PAGE_CACHES)
        _check_each("source", self.sources, SOURCES)
        _check_each("formats", self.formats, FORMATS)
        _check_each("gather", self.gathers, ("", *GATHER))
        _check_each("schedule", (self.schedule,), ("", *SCHEDULE))
        if not self.accesses:
            raise ArgumentError("an experiment needs a way to read: access is empty")
        for access in self.accesses:
            access_method(access).check(self.runner)
        if self.memory is not None:
            parse_memory(self.memory)
        counted = {"workers": self.workers, "workload": self.workloads, "repeats": (self.repeats,)}
        if self.oversubscribes != (0,):
            counted["oversubscribe"] = self.oversubscribes
        for name, numbers in counted.items():
            if not numbers or min(numbers) < 1:
                raise ArgumentError(
                    f"{name} must be whole numbers from 1 on, found {', '.join(map(str, numbers)) or 'none'}"
                )
        if not self.files:
            raise ArgumentError("an experiment needs a trajectory")
        if self.runner != "mpi" and self.ranks_per_node is not None:
            raise ArgumentError(f"ranks per node are for the runner mpi, and this is {self.runner}")
        if self.ranks_per_node is not None and self.ranks_per_node < 1:
            raise ArgumentError(f"ranks per node must be at least 1, found {self.ranks_per_node}")
        for option, value, runner in (("a scheduler", self.scheduler, "dask"), ("a launcher", self.launcher, "mpi")):
            if value and self.runner != runner:
                raise ArgumentError(f"{option} is for the runner {runner}, and this is {self.runner}")
        if self.runner == "serial" and self.workers != (1,):
            raise ArgumentError("the serial runner has one worker")

    @property
    def stated(self) -> dict[str, Any]:
        """Arguments of `kinema.open` for the given files."""
        stated = {"format": self.format, "particles": self.particles, "units": self.units, "dt": self.dt}
        return stated | {"t0": self.t0, "stored": self.stored, "node_cache": self.node_cache, "external": self.external}

    def settings(self) -> Iterator[Setting]:
        """All series. Synthetic data have one format, because nothing is stored."""
        for source in self.sources:
            formats = ("as is",) if source == "synthetic" else self.formats
            varied = product(formats, [source], self.workloads, self.gathers, self.accesses, self.oversubscribes)
            for values in varied:
                yield Setting(*values)


def _check_each(name: str, values: Sequence[str], allowed: Sequence[str]) -> None:
    if not values:
        raise ArgumentError(f"{name} must be of {', '.join(map(repr, filter(None, allowed)))}, found none")
    for value in values:
        if value not in allowed:
            raise ArgumentError(f"{name} must be of {', '.join(map(repr, filter(None, allowed)))}, found {value!r}")

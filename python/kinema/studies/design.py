"""The design of a scaling experiment: the varied settings, checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import product
from typing import Any

from kinema.base.choices import GATHER, SCHEDULE, renamed
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.base.resources import parse_memory
from kinema.runners.access import access_method
from kinema.runners.registry import options_of

PAGE_CACHES = ("warm", "drop", "copy")
SOURCES = ("file", "synthetic", "none")
READERS = ("kinema", "mdanalysis")
TASKS = ("rmsd", "split", "convert", "empty")
RMSD = "rmsd"
MOST_RUNS = 200
# formats of the publications; "as is": the given files; "h5md": Kinema's own layout, "h5md-...": the layouts that were
# compared; "bare": a data set of frames x 3 atoms; "subfiles": one file per worker; "chain": as many files as the
# largest number of workers, for every number of workers
FORMATS = (
    "as is", "xtc", "dcd", "trr", "nc", "h5md", "h5md-automatic", "h5md-frame", "h5md-contiguous", "h5md-gzip1",
    "h5md-gzip9", "bare", "subfiles", "chain",
)  # fmt: skip
# formats of one file that another can be made of
_WHOLE_FILES = tuple(name for name in FORMATS if name not in ("bare", "subfiles", "chain"))
# what the runs of an experiment have in common; all else is in the setting of each
_COMMON = (
    "files", "topology", "select", "start", "stop", "step", "frames", "atoms", "memory", "schedule",
    "page_cache", "storages", "format", "particles", "units", "dt", "t0", "stored", "node_cache", "external",
    "scheduler", "launcher",
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
    runner: str = "threads"
    reader: str = READERS[0]
    analysis: str = RMSD
    times: int = 1
    ranks_per_node: int | None = None
    storage: str = ""
    stripes: int = 0
    task: str = TASKS[0]

    @property
    def as_given(self) -> bool:
        """Whether the runs read the files that the user has named, or copies of them."""
        return self.source == "file" and (self.format == "as is" or self.task == "convert")

    @property
    def varied(self) -> dict[str, Any]:
        """Values that are not as usual, by name, for the labels of series."""
        names = (
            "format", "source", "gather", "oversubscribe", "ranks_per_node", "reader", "times", "storage", "stripes",
            "task", "analysis",
        )  # fmt: skip
        found = {name: getattr(self, name) for name in names}
        return {name: value for name, value in found.items() if value != getattr(_USUAL, name)}

    def __str__(self) -> str:
        """In words: runner, files, and what is not as usual."""
        words = [] if self.task == TASKS[0] else [self.task]
        words += [self.runner if self.reader == READERS[0] else f"{self.runner} with MDAnalysis"]
        words += [self.source, self.format, self.access]
        words += [] if self.analysis == RMSD else [self.analysis]
        words += [f"work x{self.workload}"]
        named = {"times": self.times if self.times > 1 else 0, "storage": self.storage, "stripes": self.stripes}
        named |= {"gather": self.gather, "oversubscribe": self.oversubscribe, "ranks per node": self.ranks_per_node}
        return ", ".join([*words, *(f"{name} {value}" for name, value in named.items() if value)])


_USUAL = Setting("as is", "file", 1, "", "direct")


@dataclass(frozen=True)
class Design:
    """An experiment. Every combination of the listed values is a series of runs, if it makes sense.

    Attributes
    ----------
    files, topology, particles, units, dt, t0, stored, node_cache, external : as `kinema.open`
    select, start, stop, step : as `Trajectory.select` and `Analysis.run`
    workers : numbers of workers; the serial runner has one
    runners : as `Analysis.run`, by name
    repeats : number of runs of each kind
    readers : "kinema"; "mdanalysis": MDAnalysis reads the frames and computes the RMSD, the publications' baseline
    analyses : "rmsd"; "MODULE:FUNCTION", a function of a `kinema.Frame`
    tasks : "rmsd": the analyses; "split", "convert": the files are cut into as many as there are workers, or written as
        `formats`; "empty": a call that does nothing for each frame
    workloads : how many times the analysis is computed for each frame that is read: R_comp/IO grows with it
    times : how many times the trajectory is concatenated with itself; nothing is copied
    sources : "file"; "synthetic": a random walk of as many atoms and frames, in a file in memory; "none": positions are
        made in the memory of each process before the clock starts
    frames, atoms : of the positions for "none"; by default as many frames and atoms as the files have
    formats : of FORMATS; written from the files before the runs, with the selected frames
    oversubscribes : least number of tasks per worker, for runners that schedule work; 0 for the runner's own
    gathers : for the runner with MPI: "collective", "one-sided"; "" for the runner's own
    schedule : "dynamic" or "static", for runners that schedule work; "" for the runner's own
    accesses : access methods, of `kinema.runners.access`
    memory : limit of working memory of a run, as in `Analysis.run`; "in-memory" needs the size of the frames
    page_cache : "warm": files are read once before each run; "drop": the system is asked to drop them from its cache;
        "copy": each run reads a fresh copy, which is dropped from the cache too
    ranks_per_node : for the runner with MPI; None leaves it to the launcher
    storages : (name, folder): the files of the runs are in that folder
    stripes : numbers of storage targets of each file, for file systems that have stripes; 0 for the folder's own
    time_limit : seconds of one run, from its start to its end; None for any time
    max_runs : the largest number of runs
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
    runners: tuple[str, ...] = ("threads",)
    repeats: int = 5
    readers: tuple[str, ...] = (READERS[0],)
    analyses: tuple[str, ...] = (RMSD,)
    tasks: tuple[str, ...] = (TASKS[0],)
    workloads: tuple[int, ...] = (1,)
    times: tuple[int, ...] = (1,)
    sources: tuple[str, ...] = ("file",)
    frames: int | None = None
    atoms: int | None = None
    formats: tuple[str, ...] = ("as is",)
    gathers: tuple[str, ...] = ("",)
    oversubscribes: tuple[int, ...] = (0,)
    accesses: tuple[str, ...] = ("direct",)
    memory: str | None = None
    schedule: str = ""
    page_cache: str = "warm"
    ranks_per_node: tuple[int | None, ...] = (None,)
    storages: Mapping[str, str] = field(default_factory=dict)
    stripes: tuple[int, ...] = (0,)
    time_limit: float | None = None
    max_runs: int = MOST_RUNS
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
        # one name or number alone is a list of one
        for name, kind in (("runners", str), ("ranks_per_node", int)):
            if isinstance(value := getattr(self, name), kind):
                object.__setattr__(self, name, (value,))
        for runner in self.runners:
            options_of(runner, {})
        if not self.runners:
            raise ArgumentError("runner must be a name, found none")
        _check_each("page_cache", (self.page_cache,), PAGE_CACHES)
        _check_each("source", self.sources, SOURCES)
        _check_each("formats", self.formats, FORMATS)
        _check_each("reader", self.readers, READERS)
        _check_each("task", self.tasks, TASKS)
        _check_each("gather", self.gathers, ("", *GATHER))
        _check_each("schedule", (self.schedule,), ("", *SCHEDULE))
        if not self.accesses:
            raise ArgumentError("an experiment needs a way to read: access is empty")
        if self.memory is not None:
            parse_memory(self.memory)
        self._check_numbers()
        self._check_analyses()
        self._check_runners()
        self._check_sources()
        self._check_series()

    def _check_numbers(self) -> None:
        counted_values: dict[str, Sequence[int]] = {
            "workers": self.workers, "workload": self.workloads, "repeats": (self.repeats,), "times": self.times,
            "max_runs": (self.max_runs,),
        }  # fmt: skip
        if self.oversubscribes != (0,):
            counted_values["oversubscribe"] = self.oversubscribes
        if self.stripes != (0,):
            counted_values["stripes"] = self.stripes
        if self.ranks_per_node != (None,):
            counted_values["ranks_per_node"] = [one or 0 for one in self.ranks_per_node]
        for name in ("frames", "atoms"):
            if getattr(self, name) is not None:
                counted_values[name] = (getattr(self, name),)
        for name, numbers in counted_values.items():
            if not numbers or min(numbers) < 1:
                raise ArgumentError(
                    f"{name} must be whole numbers from 1 on, found {', '.join(map(str, numbers)) or 'none'}"
                )
        if self.time_limit is not None and not 0 < self.time_limit < float("inf"):
            raise ArgumentError(f"time_limit must be a number of seconds above 0, found {self.time_limit:g}")

    def _check_analyses(self) -> None:
        if not self.analyses:
            raise ArgumentError("analysis must be rmsd or MODULE:FUNCTION, found none")
        for name in self.analyses:
            module, _, function = name.partition(":")
            words = [*module.split("."), function]
            if name != RMSD and not all(map(str.isidentifier, words)):
                raise ArgumentError(f"analysis must be rmsd or MODULE:FUNCTION, found {name!r}")

    def _check_runners(self) -> None:
        """Refuses options that no runner takes, and numbers of workers that the serial runner does not have."""
        given: dict[str, Any] = {"schedule": self.schedule or None}
        given |= {"oversubscribe": next(filter(None, self.oversubscribes), None)}
        given |= {"gather": next(filter(None, self.gathers), None)}
        for name, value in given.items():
            if not any(_takes(runner, name, value) for runner in self.runners):
                options_of(self.runners[0], {name: value})  # type: ignore[misc]
        for access in self.accesses:
            if not any(_reads(runner, access) for runner in self.runners):
                access_method(access).check(self.runners[0])
        if "mpi" not in self.runners and self.ranks_per_node != (None,):
            raise ArgumentError(f"ranks per node are for the runner mpi, and this is {self.runners[0]}")
        for option, value, runner in (("a scheduler", self.scheduler, "dask"), ("a launcher", self.launcher, "mpi")):
            if value and runner not in self.runners:
                raise ArgumentError(f"{option} is for the runner {runner}, and this is {self.runners[0]}")
        if "serial" in self.runners and 1 not in self.workers:
            raise ArgumentError("the serial runner has one worker, and workers does not name 1")
        if self.runners == ("serial",) and self.workers != (1,):
            raise ArgumentError("the serial runner has one worker")

    def _check_sources(self) -> None:
        made = "none" in self.sources
        if not made and (self.frames is not None or self.atoms is not None):
            raise ArgumentError("frames and atoms are for source none: files have their own")
        if len(self.files) > 1 and "split" in self.tasks and "as is" in self.formats:
            raise ArgumentError(f"task split cuts one file, found {len(self.files)}; join them, or name formats")
        if self.files:
            if self.times != (1,) and "as is" in self.formats and (self.start, self.stop, self.step) != (None,) * 3:
                raise ArgumentError(
                    "start, stop and step with times choose frames of files that are written; name their formats"
                )
            return
        if self.sources != ("none",) or set(self.tasks) - {"rmsd", "empty"}:
            raise ArgumentError("an experiment needs a trajectory, unless its only source is none")
        if self.frames is None or self.atoms is None:
            raise ArgumentError("source none needs frames and atoms, if there is no trajectory that has them")
        if self.select is not None and self.topology is None:
            raise ArgumentError("source none has no atoms by name: select needs a topology")

    def _check_series(self) -> None:
        """Refuses values that no series has, and more runs than allowed."""
        n_runs = 0
        found: dict[str, set[Any]] = {one.name: set() for one in fields(Setting)}
        for setting in self.settings():
            n_runs += len(self.workers_of(setting)) * self.repeats
            for name, value in asdict(setting).items():
                found[name].add(value)
        if n_runs > self.max_runs:
            raise ArgumentError(
                f"the experiment has {counted(n_runs, 'run')}, expected at most {self.max_runs:,}; name fewer values, "
                "or raise max_runs"
            )
        named: dict[str, Iterable[Any]] = {
            "task": self.tasks, "reader": self.readers, "analysis": self.analyses, "times": self.times,
            "storage": self.storages, "stripes": self.stripes, "runner": self.runners, "access": self.accesses,
            "source": self.sources, "workload": self.workloads,
            "format": self.formats if "convert" not in self.tasks else (),
        }  # fmt: skip
        unused = [(name, value) for name, values in named.items() for value in values if value not in found[name]]
        # the user has not named what is as usual
        unused.sort(key=lambda one: one[1] == getattr(_USUAL, one[0]))
        for name, value in unused:
            raise ArgumentError(f"{name} {value} fits none of the other values, so that it would not run")

    @property
    def stated(self) -> dict[str, Any]:
        """Arguments of `kinema.open` for the given files."""
        stated = {"format": self.format, "particles": self.particles, "units": self.units, "dt": self.dt}
        return stated | {"t0": self.t0, "stored": self.stored, "node_cache": self.node_cache, "external": self.external}

    @property
    def common(self) -> dict[str, Any]:
        """Files, frames and options of all runs, as plain values."""
        plain = {name: getattr(self, name) for name in _COMMON}
        return plain | {name: dict(plain[name] or {}) for name in ("storages", "units")} | {"files": list(self.files)}

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return sum(len(self.workers_of(setting)) for setting in self.settings()) * self.repeats

    def workers_of(self, setting: Setting) -> tuple[int, ...]:
        """The numbers of workers of a series."""
        return (1,) if setting.runner == "serial" else self.workers

    def settings(self) -> Iterator[Setting]:
        """All series that make sense, each once.

        Options that a runner does not take are left out for it. Synthetic data have one format, because nothing is
        stored.
        """
        seen: set[Setting] = set()
        kinds = product(self.tasks, self.runners, self.storages or ("",), self.stripes, self.readers, self.sources)
        for task, runner, storage, stripes, reader, source in kinds:
            if not _fits(task, runner, reader, source):
                continue
            for setting in self._settings_of(task, runner, reader, source):
                made = source == "file" and task != "empty"
                # stripes are those of files that the experiment writes
                one = Setting(**{**setting, "storage": storage if made else "", "stripes": stripes if made else 0})
                if one not in seen:
                    seen.add(one)
                    yield one

    def _settings_of(self, task: str, runner: str, reader: str, source: str) -> Iterator[dict[str, Any]]:
        analyses = task == "rmsd"
        by_kinema = analyses and reader == READERS[0]
        formats = self.formats if source == "file" and task != "empty" else ("as is",)
        if task != "rmsd":
            formats = tuple(name for name in formats if name in _WHOLE_FILES[task == "convert" :] or task == "empty")
        elif not by_kinema:
            formats = tuple(name for name in formats if name != "bare")
        varied: dict[str, Sequence[Any]] = {
            "format": formats,
            "workload": self.workloads if analyses else (1,),
            "gather": self.gathers if by_kinema and _takes(runner, "gather", GATHER[0]) else ("",),
            "access": tuple(name for name in self.accesses if _reads(runner, name))
            if by_kinema and source != "none"
            else ("direct",),
            "oversubscribe": self.oversubscribes if by_kinema and _takes(runner, "oversubscribe", 1) else (0,),
            "analysis": self.analyses if by_kinema else (RMSD,),
            "times": self.times if analyses else (1,),
            "ranks_per_node": self.ranks_per_node if runner == "mpi" else (None,),
        }
        for values in product(*varied.values()):
            yield {"task": task, "runner": runner, "reader": reader, "source": source} | dict(
                zip(varied, values, strict=True)
            )


# `replace` and `Design(...)` take the new name
Design.__init__ = renamed(runner="runners")(Design.__init__)  # type: ignore[method-assign]


def _fits(task: str, runner: str, reader: str, source: str) -> bool:
    """Whether runs of this kind make sense."""
    if task in ("split", "convert"):
        return source == "file" and reader == READERS[0]
    if task == "empty":
        # threads of one process call no functions of Python at the same time
        return reader == READERS[0] and runner != "threads"
    return reader == READERS[0] or (source != "none" and runner != "threads")


def _takes(runner: str, option: str, value: Any) -> bool:
    try:
        options_of(runner, {option: value})  # type: ignore[misc]
    except ArgumentError:
        return False
    return True


def _reads(runner: str, access: str) -> bool:
    """Whether the runner can use the access method; raises ArgumentError for an unknown one."""
    return access_method(access).runner in (None, runner)


def _check_each(name: str, values: Sequence[str], allowed: Sequence[str]) -> None:
    if not values:
        raise ArgumentError(f"{name} must be of {', '.join(map(repr, filter(None, allowed)))}, found none")
    for value in values:
        if value not in allowed:
            raise ArgumentError(f"{name} must be of {', '.join(map(repr, filter(None, allowed)))}, found {value!r}")

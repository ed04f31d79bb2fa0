"""The options that analyses share, in groups, and how a command takes a group as one parameter.

A group imports what it needs when it is used, so that --help is printed at once. The dataclasses have no unused methods
(`eq`, `repr`), which halves the time to make them.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.cli.options import shared as options
from kinema.cli.stopping import Terminated
from kinema.runners.registry import choose_runner, options_of
from kinema.storage.output_checks import check_not_input, check_plot_path, check_remade, check_target
from kinema.storage.output_file import reserve

if TYPE_CHECKING:
    from kinema.analysis.declared import DeclaredAnalysis
    from kinema.cli.command_line import Command
    from kinema.execution.checkpoint import Checkpoint
    from kinema.runners import Runner, RunnerOptions


def takes_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer needs it: each parameter that is a dataclass is replaced by the fields of that class."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        group = hints[name]
        if not (isinstance(group, type) and is_dataclass(group)):
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=group))
            continue
        groups[name] = group
        given_as = get_type_hints(group, include_extras=True)
        for option, declared in inspect.signature(group).parameters.items():
            parameters.append(declared.replace(kind=declared.KEYWORD_ONLY, annotation=given_as[option]))

    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    called.__doc__ = command.__doc__
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return called


@dataclass(frozen=True, eq=False, repr=False)
class TrajectoryFiles:
    """The files of a trajectory, as arguments or with -f."""

    files: options.Files = None
    trajectory: options.Trajectories = None

    @property
    def paths(self) -> list[Path]:
        """The files. Raises ArgumentError if none is named, or if some are arguments and some come with -f."""
        if self.files and self.trajectory:
            raise ArgumentError(
                f"trajectories are named as arguments or with -f, found both: {self.files[0]} and {self.trajectory[0]}"
            )
        if not (self.files or self.trajectory):
            raise ArgumentError("no trajectory is named; give its files as arguments or with -f (see --help)")
        return self.files or self.trajectory or []

    @property
    def path(self) -> Path:
        """The file, for commands that take one."""
        if len(self.paths) > 1:
            raise ArgumentError(f"this command takes one trajectory file, found {len(self.paths)}")
        return self.paths[0]


@dataclass(frozen=True, eq=False, repr=False)
class Stated:
    """Facts that the user states because files lack them or state them wrongly."""

    particles: options.Particles = None
    input_units: options.InputUnits = None
    external: options.External = "folder"

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments for the functions that open files. Raises ArgumentError for an unknown unit."""
        return {
            "particles": self.particles,
            "units": parse_units(self.input_units),
            "external": self.external,
        }


@dataclass(frozen=True, eq=False, repr=False)
class Opened(Stated):
    """Adds the format, and whether stored knowledge of files is used: for all commands that read any trajectory."""

    format: options.InputFormat = None
    no_stored: options.NoStored = False

    @property
    def arguments(self) -> dict[str, Any]:
        return {**super().arguments, "format": self.format, "stored": not self.no_stored}


@dataclass(frozen=True, eq=False, repr=False)
class StatedTimes(Opened):
    """Adds times and the node cache.

    The commands index, split, join and repack have neither: they leave the files' own times, and read each byte only
    once, to write it or to find frames.
    """

    timestep: options.Timestep = None
    t0: options.FirstTime = None
    node_cache: options.NodeCacheFolder = None

    @property
    def arguments(self) -> dict[str, Any]:
        if self.timestep is not None and not 0 < self.timestep < float("inf"):
            raise ArgumentError(f"--timestep must be above 0 ps, found {self.timestep:g}")
        if self.t0 is not None and not abs(self.t0) < float("inf"):
            raise ArgumentError(f"--t0 must be a number of ps, found {self.t0:g}")
        return {
            **super().arguments,
            "dt": self.timestep,
            "t0": self.t0,
            "node_cache": None if self.node_cache is None else str(self.node_cache),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Opening(StatedTimes):
    """How files are opened and concatenated to one trajectory."""

    overlap: options.Overlap = "last"
    on_truncated: options.OnTruncated = "drop"
    skip_damaged: options.SkipDamaged = False

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `kinema.open`."""
        return {**super().arguments, "overlap": self.overlap, "on_truncated": self.on_truncated}


def parse_units(text: str | None) -> dict[str, str] | None:
    """{"length": "nm", "time": "ps"} from "length=nm,time=ps". Raises ArgumentError if a unit has another dimension."""
    if text is None:
        return None
    from kinema.formats.h5md.units import scale_to_kinema

    units: dict[str, str] = {}
    for word in text.split(","):
        name, equals, unit = (part.strip() for part in word.partition("="))
        if not (equals and unit) or name not in ("length", "time", "velocity", "force") or name in units:
            raise ArgumentError(
                "--input-units takes length=UNIT, time=UNIT, velocity=UNIT, force=UNIT, each once, with commas "
                f"between, found {text!r}"
            )
        try:
            scale_to_kinema(unit, name)  # type: ignore[arg-type]
        except ArgumentError as error:
            raise ArgumentError(f"--input-units: {error}") from None
        units[name] = unit
    return units


@dataclass(frozen=True, eq=False, repr=False)
class FrameOptions:
    """Frames: by time in ps, by number, or a list of them."""

    begin: options.Begin = None
    end: options.End = None
    dt: options.Every = None
    start: options.Start = None
    stop: options.Stop = None
    step: options.Step = None
    frames: options.FrameList = None


@dataclass(frozen=True, eq=False, repr=False)
class FollowedFiles:
    """Whether to follow files that are still being written, and until when."""

    follow: options.Follow = False
    until: options.Until = None
    follow_timeout: options.FollowTimeout = None
    on_rewind: options.OnRewind = "error"

    def check(self, outputs: "Outputs", workers: "Workers", opening: Opening) -> None:
        """Raises ArgumentError for an option that needs --follow, or excludes it."""
        if not self.follow:
            given = {"until": self.until, "follow-timeout": self.follow_timeout}
            named = [name for name, value in given.items() if value is not None]
            for name in [*named, *(["on-rewind"] if self.on_rewind != "error" else [])]:
                raise ArgumentError(f"--{name} is for files that are being written; add --follow")
            return
        refused: list[tuple[str, object]] = [
            ("--checkpoint", outputs.checkpoint),
            ("--report", outputs.report),
            ("--skip-damaged", opening.skip_damaged or None),
            ("--runner", None if workers.runner in (None, options.RunnerName.threads) else workers.runner),
            ("--scheduler", workers.scheduler),
            ("--access", None if workers.access == "direct" else workers.access),
            (f"-o {outputs.rows}", outputs.rows),
            *((f"--{name}", value) for name, value in workers.scheduling.items()),
        ]
        for name, value in refused:
            if value is not None:
                raise ArgumentError(
                    f"{name} is not for files that are being written: --follow computes on threads, and writes tables "
                    "and pictures only"
                )


@dataclass(frozen=True, eq=False, repr=False)
class FileWorkers:
    """Number and kind of the workers that write a file, and their memory, all together."""

    workers: options.Workers = None
    runner: options.Runner = None
    memory: options.Memory = None
    threads_per_worker: options.ThreadsPerWorker = None
    scheduler: options.Scheduler = None

    @property
    def scheduling(self) -> "RunnerOptions":
        """More options of the runner."""
        return {}

    def chosen(self, command: "Command") -> "Runner":
        """The runner. Raises ArgumentError for an option of another runner.

        Default: Dask if a scheduler is named, MPI ranks if an MPI launcher started the command, else threads.
        """
        name = self.runner
        if name is None:
            name = options.RunnerName.threads if command.ranks is None else options.RunnerName.mpi
            if self.scheduler is not None:
                name = options.RunnerName.dask
        if self.scheduler is not None and name is not options.RunnerName.dask:
            raise ArgumentError(f"--scheduler is for the runner dask, and this is {name.value}; leave it out")
        given: RunnerOptions = {"threads_per_worker": self.threads_per_worker, **self.scheduling}
        checked = options_of(name.value, given, spell=lambda option: f"--{option.replace('_', '-')}")
        if name is options.RunnerName.mpi and command.ranks is not None:
            return command.ranks.configured(**checked)
        if self.scheduler is not None:
            from kinema.runners.dask.runner import Dask

            return Dask(self.scheduler, **checked)
        # MPI without a launcher: one rank alone
        return choose_runner(name.value, **given)


@dataclass(frozen=True, eq=False, repr=False)
class FileReport:
    """The report of a command that writes files."""

    report: options.Report = None

    def check(self, inputs: Sequence[Path | None], *, force: bool) -> None:
        """Reserves the file. Raises what writing would raise, and an error if it is an input."""
        if self.report is not None:
            check_not_input(self.report, *inputs)
            check_remade(self.report, overwrite=force)
            reserve(self.report)


@dataclass(frozen=True, eq=False, repr=False)
class Workers(FileWorkers):
    """Adds how analyses read, and how work is scheduled."""

    access: options.Access = "direct"
    schedule: options.Schedule = None
    oversubscribe: options.Oversubscribe = None
    gather: options.Gather = None

    @property
    def scheduling(self) -> "RunnerOptions":
        return {"schedule": self.schedule, "oversubscribe": self.oversubscribe, "gather": self.gather}


def checkpoint_of(path: Path | None, interval: float | None, *, keep: bool = False) -> "Checkpoint | None":
    """The checkpoint of --checkpoint and --checkpoint-interval. Raises ArgumentError for an interval alone."""
    if path is None:
        if interval is not None:
            raise ArgumentError("--checkpoint-interval says how often to save; name the file with --checkpoint")
        return None
    from kinema.execution.checkpoint.file import DEFAULT_INTERVAL, Checkpoint

    return Checkpoint(str(path), DEFAULT_INTERVAL if interval is None else interval, keep)


def remove_checkpoints_of_passes(kept: "Checkpoint | None") -> None:
    """Removes the checkpoints of transforms' first passes, which lie beside the command's own."""
    if kept is not None:
        from kinema.transforms.first_passes.base import checkpoint_beside
        from kinema.transforms.first_passes.kinds import KINDS

        for made in KINDS:
            checkpoint_beside(kept, made).remove()


@dataclass(frozen=True, eq=False, repr=False)
class Outputs:
    """Files that a run writes: values, picture, checkpoint, report."""

    #: suffixes of files other than tables that the analysis writes
    other_formats: ClassVar[Mapping[str, str]] = {}

    output: options.Output = None
    output_format: options.OutputFormat = None
    plot: options.Plot = None
    checkpoint: options.Checkpoint = None
    checkpoint_interval: options.CheckpointInterval = None
    report: options.Report = None
    output_unit: options.OutputUnit = "angstrom"
    output_time_unit: options.OutputTimeUnit = "ps"
    force: options.Force = False

    @property
    def units(self) -> dict[str, str]:
        """The units, as arguments of `save` and `plot`."""
        return {"output_unit": self.output_unit, "output_time_unit": self.output_time_unit}

    @property
    def written(self) -> list[str]:
        """Files for the user."""
        from kinema.storage.tables import table_files

        values = [] if self.output is None else table_files(self.output, self.output_format)
        return values + [str(path) for path in (self.plot, self.report) if path is not None]

    @property
    def rows(self) -> str | None:
        """The file that values are written to during the run; None if they are written after it."""
        return None

    @property
    def kept(self) -> "Checkpoint | None":
        """The checkpoint; it stays until the values are written."""
        return checkpoint_of(self.checkpoint, self.checkpoint_interval, keep=True)

    @contextmanager
    def checkpoint_noted(self) -> Iterator[None]:
        """On a stop within the block, notes the checkpoint, perhaps an earlier run's, unless the stop has a note."""
        try:
            yield
        except (KeyboardInterrupt, Terminated) as stop:
            if self.checkpoint is not None and self.checkpoint.exists() and not getattr(stop, "__notes__", []):
                stop.add_note(f"what was done before is in {self.checkpoint}")
            raise

    @property
    def use_stdout(self) -> bool:
        """Whether one of them is written to stdout, which then carries nothing else."""
        return bool({"-", "/dev/stdout"} & {*self.written})

    def _check_names(self) -> None:
        """Raises ArgumentError if two outputs name one file; streams may take several."""
        named: dict[Path, str] = {}
        for option, path in named_outputs(self):
            if path.exists() and not path.is_file():
                continue
            other = named.setdefault(path.resolve(), option)
            if other != option:
                raise ArgumentError(f"{path}: is named by --{other} and --{option}; give each a file of its own")

    def save_more(self, analysis: "DeclaredAnalysis") -> None:
        """Writes files of this kind of analysis, besides values and picture. By default there are none."""
        return

    def check(self, inputs: Sequence[Path | None]) -> None:
        """Reserves the files written after the run.

        Raises what writing would raise, and an error for an output that is also an input.
        """
        from kinema.storage.tables import check_writable

        kept = self.kept
        self._check_names()
        if self.output_format is not None and (self.output is None or self.rows is not None):
            raise ArgumentError("--output-format is of tables; name one with -o FILE, or -o - for stdout")
        for name in (*self.written, *([] if kept is None else [kept.name])):
            check_not_input(name, *inputs)
        if self.rows is not None:
            if (self.output_unit, self.output_time_unit) != ("angstrom", "ps"):
                raise ArgumentError(
                    f"{self.rows}: values are written as they come, in angstrom and ps; --output-unit and "
                    "--output-time-unit are for tables and pictures"
                )
            from kinema.execution.results_file import check_result_path

            check_result_path(self.rows, overwrite=self.force)
        elif self.output is not None:
            check_writable(self.output, self.output_format, overwrite=self.force, more=tuple(self.other_formats))
            reserve(self.output)
        if self.plot is not None:
            check_plot_path(self.plot, overwrite=self.force)
            reserve(self.plot)
        if kept is not None:
            check_target(kept.name)
        if self.report is not None:
            check_remade(self.report, overwrite=self.force)
            reserve(self.report)


@dataclass(frozen=True, eq=False, repr=False)
class SeriesOutputs(Outputs):
    """Outputs of values per frame, which may go to a file of rows."""

    output: options.SeriesOutput = None

    @property
    def rows(self) -> str | None:
        if self.output is None:
            return None
        from kinema.execution.results_file import SUFFIXES

        return str(self.output) if self.output.suffix.lower() in SUFFIXES else None


@dataclass(frozen=True, eq=False, repr=False)
class ListOutputs(SeriesOutputs):
    """Outputs of any number of rows per frame: also how often each distinct row occurs."""

    occupancy: options.Occupancy = None
    by: options.OccupancyBy = None

    @property
    def written(self) -> list[str]:
        from kinema.storage.tables import table_files

        return super().written + ([] if self.occupancy is None else table_files(self.occupancy))

    def check(self, inputs: Sequence[Path | None]) -> None:
        if self.by is not None and self.occupancy is None:
            raise ArgumentError("--by says what distinguishes rows of --occupancy; name its file")
        super().check(inputs)
        if self.occupancy is not None:
            from kinema.storage.tables import check_writable

            check_writable(self.occupancy, overwrite=self.force)
            reserve(self.occupancy)

    def save_more(self, analysis: "DeclaredAnalysis") -> None:
        if self.occupancy is not None:
            from kinema.analysis.lists import ListAnalysis

            assert isinstance(analysis, ListAnalysis), "others have no such option"
            analysis.occupancy(self.by).save(self.occupancy, overwrite=self.force, **self.units)


def named_outputs(outputs: Outputs) -> list[tuple[str, Path]]:
    """The given files of a group of outputs, by the name of their option."""
    names = ("output", "plot", "checkpoint", "report", "occupancy", "clusters", "lifetime")
    return [(name, path) for name in names if (path := getattr(outputs, name, None)) is not None]

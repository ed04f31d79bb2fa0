"""The options that `kinema rmsd`, `rmsf` and `rgyr` share, in groups, and how a command takes a group as one parameter.

It runs nothing, and imports no more of Kinema than the command line itself needs.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

from kinema.cli import options

if TYPE_CHECKING:
    from kinema.checkpoint import Checkpoint
    from kinema.cli.command_line import Command
    from kinema.runners import Runner, RunnerOptions

__all__ = ["Inputs", "Joining", "Outputs", "SeriesOutputs", "Window", "Workers", "takes_groups"]


def takes_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer needs it: with the fields of its parameters that are dataclasses in the place of these."""
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
        for option, told in inspect.signature(group).parameters.items():
            parameters.append(told.replace(kind=told.KEYWORD_ONLY, annotation=given_as[option]))

    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    called.__doc__ = command.__doc__
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return called


@dataclass(frozen=True)
class Inputs:
    """Files and atoms."""

    trajectory: options.Trajectories
    topology: options.Topology = None
    select: options.Select = None
    index_file: options.IndexFile = None
    group: options.Group = None


@dataclass(frozen=True)
class Joining:
    """How parts become one trajectory."""

    overlap: options.OverlapOption = options.Overlap.last
    on_truncated: options.OnTruncatedOption = options.OnTruncated.error


@dataclass(frozen=True)
class Window:
    """Frames: by time in ps, or by number."""

    begin: options.Begin = None
    end: options.End = None
    dt: options.Every = None
    start: options.Start = None
    stop: options.Stop = None
    step: options.Step = None


@dataclass(frozen=True)
class Workers:
    """How many, what they are, with how much memory together, how they read, and how work is given to them."""

    workers: options.Workers = None
    runner: options.Runner = None
    memory: options.Memory = None
    access: options.AccessOption = options.Access.direct
    threads_per_worker: options.ThreadsPerWorker = None
    schedule: options.ScheduleOption = None
    oversubscribe: options.Oversubscribe = None
    gather: options.GatherOption = None
    scheduler: options.Scheduler = None

    def chosen(self, command: "Command") -> "str | Runner":
        """The runner; ArgumentError for an option that is none of its own.

        By default threads; where the command was started by an MPI launcher its ranks; Dask where a scheduler is named.
        """
        from kinema.errors import ArgumentError
        from kinema.runners import choose_runner
        from kinema.runners.base import options_of

        name = self.runner
        if name is None:
            name = options.RunnerName.threads if command.ranks is None else options.RunnerName.mpi
            if self.scheduler is not None:
                name = options.RunnerName.dask
        if self.scheduler is not None and name is not options.RunnerName.dask:
            raise ArgumentError(f"--scheduler is for the runner dask, and this is {name.value}; leave it out")
        given: RunnerOptions = {
            "threads_per_worker": self.threads_per_worker,
            "schedule": None if self.schedule is None else self.schedule.value,
            "oversubscribe": self.oversubscribe,
            "gather": None if self.gather is None else self.gather.value,
        }
        checked = options_of(name.value, given, spell=lambda option: f"--{option.replace('_', '-')}")
        if name is options.RunnerName.mpi and command.ranks is not None:
            return command.ranks.configured(**checked)
        if self.scheduler is not None:
            from kinema.runners.dask.runner import Dask

            return Dask(self.scheduler, **checked)
        # MPI without a launcher: one rank alone
        return choose_runner(name.value, **given)


@dataclass(frozen=True)
class Outputs:
    """Where the values and the picture go, and what is kept of a run."""

    output: options.Output = None
    plot: options.Plot = None
    checkpoint: options.Checkpoint = None
    checkpoint_interval: options.CheckpointInterval = None
    report: options.Report = None

    @property
    def written(self) -> list[str]:
        """Files for the user."""
        return [str(path) for path in (self.output, self.plot, self.report) if path is not None]

    @property
    def rows(self) -> str | None:
        """The file that values are written to while the run goes on, if they are."""
        return None

    @property
    def kept(self) -> "Checkpoint | None":
        """The checkpoint; it stays until the values are written."""
        from kinema.checkpoint.file import DEFAULT_INTERVAL, Checkpoint
        from kinema.errors import ArgumentError

        if self.checkpoint is None:
            if self.checkpoint_interval is not None:
                raise ArgumentError("--checkpoint-interval says how often to save; name the file with --checkpoint")
            return None
        interval = DEFAULT_INTERVAL if self.checkpoint_interval is None else self.checkpoint_interval
        return Checkpoint(str(self.checkpoint), interval, keep=True)

    def check(self) -> None:
        """Raises what writing them would raise."""
        from kinema.output import check_folder, check_plot_path, check_writable
        from kinema.result_file import check_result_path

        if self.rows is not None:
            check_result_path(self.rows)
        elif self.output is not None:
            check_writable(self.output)
        if self.plot is not None:
            check_plot_path(self.plot)
        if self.kept is not None:
            check_folder(self.kept.name)
        if self.report is not None:
            check_folder(str(self.report))


@dataclass(frozen=True)
class SeriesOutputs(Outputs):
    """The same of values per frame, which may go to a file of rows."""

    output: options.SeriesOutput = None

    @property
    def rows(self) -> str | None:
        """See `Outputs`."""
        from kinema.result_file import SUFFIXES

        return str(self.output) if self.output is not None and self.output.suffix.lower() in SUFFIXES else None

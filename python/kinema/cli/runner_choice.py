"""Which runner the options of a command name, with its own options; none is started here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kinema.cli.command_line import Command
from kinema.cli.options import Access, Gather, RunnerName, Schedule
from kinema.errors import ArgumentError
from kinema.runners import Runner

if TYPE_CHECKING:
    from kinema.runners.mpi import MPIRunner


@dataclass(frozen=True)
class Workers:
    """How many, with how much memory together, what they are, how work is given to them, and how they read."""

    number: int | None
    memory: str | None
    runner: RunnerName | None = None
    threads_per_worker: int | None = None
    schedule: Schedule | None = None
    oversubscribe: int | None = None
    gather: Gather | None = None
    scheduler: str | None = None
    access: Access = Access.direct

    def chosen(self, command: Command) -> str | Runner:
        """The runner; ArgumentError for an option that is none of its own.

        By default threads; where the command was started by an MPI launcher its ranks; Dask where a scheduler is named.
        """
        name = self.runner
        if name is None:
            name = RunnerName.threads if command.ranks is None else RunnerName.mpi
            if self.scheduler is not None:
                name = RunnerName.dask
        given: dict[str, Any] = {
            "threads_per_worker": self.threads_per_worker,
            "schedule": None if self.schedule is None else self.schedule.value,
            "oversubscribe": self.oversubscribe,
            "gather": None if self.gather is None else self.gather.value,
            "scheduler": self.scheduler,
        }
        options = {option: value for option, value in given.items() if value is not None}
        for option in options:
            if option not in _OPTIONS.get(name, ()):
                fitting = " and ".join(one.value for one, own in _OPTIONS.items() if option in own)
                raise ArgumentError(
                    f"--{option.replace('_', '-')} is for the runner {fitting}, and this is {name.value}; leave it out"
                )
        if name is RunnerName.mpi:
            return _on_ranks(command, options)
        if name is RunnerName.dask:
            from kinema.runners.dask import Dask

            return Dask(options.pop("scheduler", None), **options)
        if name is RunnerName.processes and options:
            from kinema.runners.processes import ProcessesRunner

            return ProcessesRunner(**options)
        return name.value


# what each runner can be told
_OPTIONS = {
    RunnerName.processes: ("schedule", "oversubscribe"),
    RunnerName.dask: ("schedule", "oversubscribe", "threads_per_worker", "scheduler"),
    RunnerName.mpi: ("schedule", "oversubscribe", "threads_per_worker", "gather"),
}


def _on_ranks(command: Command, options: dict[str, Any]) -> MPIRunner:
    if command.ranks is not None:
        return command.ranks.configured(**options)
    from kinema.runners.mpi import MPIRunner

    # one rank alone, as without a launcher
    return MPIRunner(**options)

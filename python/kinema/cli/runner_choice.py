"""Which runner the options of a command name, with its own options; none is started here."""

from __future__ import annotations

from dataclasses import dataclass

from kinema.cli.command_line import Command
from kinema.cli.options import Access, Gather, RunnerName, Schedule
from kinema.errors import ArgumentError
from kinema.runners import Runner, RunnerOptions, choose_runner
from kinema.runners.base import options_of


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
        if self.scheduler is not None and name is not RunnerName.dask:
            raise ArgumentError(f"--scheduler is for the runner dask, and this is {name.value}; leave it out")
        given: RunnerOptions = {
            "threads_per_worker": self.threads_per_worker,
            "schedule": None if self.schedule is None else self.schedule.value,
            "oversubscribe": self.oversubscribe,
            "gather": None if self.gather is None else self.gather.value,
        }
        options = options_of(name.value, given, spell=lambda option: f"--{option.replace('_', '-')}")
        if name is RunnerName.mpi and command.ranks is not None:
            return command.ranks.configured(**options)
        if self.scheduler is not None:
            from kinema.runners.dask.runner import Dask

            return Dask(self.scheduler, **options)
        # MPI without a launcher: one rank alone
        return choose_runner(name.value, **given)

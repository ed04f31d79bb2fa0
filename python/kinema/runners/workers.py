"""`CallWorkers`: workers of a call that writes files: threads of this process, or the workers of a runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

from kinema.base.errors import ArgumentError
from kinema.base.progress import ProgressChoice, Report, reporting
from kinema.base.resources import worker_count
from kinema.formats.strategies import Hints, check_strategy, hints_of, uses_mpiio
from kinema.runners.base import Runner

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class CallWorkers:
    """The workers of a call.

    `workers`: by default as many as there are.
    `strategy`: strategy by which they write one file, as the caller has named it.
    """

    runner: Runner
    workers: int | None = None
    strategy: str = "auto"
    hints: Mapping[str, Any] | None = None

    @property
    def is_local(self) -> bool:
        """Whether threads of this process do all the work."""
        return self.runner.name == "threads"

    @property
    def threads(self) -> int:
        """Threads of this process for work that it does alone."""
        return self.runner.local_threads(self.workers)

    @property
    def n_workers(self) -> int:
        """Number of workers that work at a time."""
        return self.runner.concurrency(self.workers)

    def check(self) -> None:
        """Raises ArgumentError for a number of workers that the runner does not have."""
        if self.is_local:
            worker_count(self.workers)
        else:
            self.runner.concurrency(self.workers)

    def chosen(self, format: str) -> tuple[str, Hints]:
        """The strategy for a format, and the hints; raises ArgumentError if format or runner do not have it."""
        strategy = check_strategy(format, "frames", self.strategy)
        hints = hints_of(self.hints, strategy)
        name = self.runner.name
        if uses_mpiio(strategy) and name != "mpi":
            raise ArgumentError(
                f"strategy {strategy!r} is for the ranks of runner='mpi', and this is {name!r}; leave it out"
            )
        if self.is_local and strategy != check_strategy(format, "frames", "auto"):
            raise ArgumentError(
                f"threads share one open file, which has no strategy {strategy!r}; leave it out, or name another runner"
            )
        return strategy, hints

    def lead(self, work: Callable[[], T]) -> T:
        """Returns the value of a call that one process leads; every process that calls gets the value."""

        def work_in_session() -> T:
            with self.runner.session():
                return work()

        return self.runner.broadcast_from_root(work_in_session)

    def reporting(self, progress: ProgressChoice, what: str, total: int) -> AbstractContextManager[Report | None]:
        """The function to report bytes to, as `kinema.base.progress.reporting`."""
        return reporting(progress, what, total, "bytes", launched=self.runner.launched)

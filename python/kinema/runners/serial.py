"""The serial runner: one worker, whatever the machine has.

It differs from threads in the number of workers alone, so that both share one tested path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kinema import _core
from kinema.access import Access
from kinema.errors import ArgumentError
from kinema.frames import ResolvedFrames
from kinema.progress import Report
from kinema.resources import worker_count
from kinema.runners.base import Job, Outcome
from kinema.runners.gathering import Gathering
from kinema.runners.threads import ThreadsRunner

__all__ = ["SerialRunner"]


class SerialRunner:
    """Runs on one worker; ArgumentError where more are asked for."""

    name = "serial"

    def map_reduce(
        self,
        trajectory: _core.Trajectory,
        frames: ResolvedFrames,
        jobs: Sequence[Job],
        *,
        workers: int | None,
        memory: int,
        progress: Report | None,
        gathering: Gathering | None = None,
        access: Access = "direct",
    ) -> Outcome:
        """See `Runner.map_reduce`."""
        if workers is not None and worker_count(workers) != 1:
            raise ArgumentError(f"the serial runner has one worker, asked for {workers}; use runner='threads'")
        return ThreadsRunner().map_reduce(
            trajectory,
            frames,
            jobs,
            workers=1,
            memory=memory,
            progress=progress,
            gathering=gathering,
            access=access,
        )

    def concurrency(self, workers: int | None) -> int:
        """See `TaskRunner.concurrency`: 1."""
        if workers is not None and worker_count(workers) != 1:
            raise ArgumentError(f"the serial runner has one worker, asked for {workers}; use runner='processes'")
        return 1

    def map(
        self,
        function: Callable[[Any], Any],
        computations: Sequence[Any],
        *,
        workers: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Any]:
        """See `TaskRunner.map`; nothing is pickled."""
        self.concurrency(workers)
        values = []
        for number, one in enumerate(computations):
            try:
                values.append(function(one))
            except Exception as error:
                error.add_note(f"part {number + 1} of {len(computations)}")
                raise
            if progress is not None:
                progress(number)
        return values

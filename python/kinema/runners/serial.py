"""The serial runner: one worker, whatever the machine has.

It differs from threads in the number of workers alone, so that both share one tested path.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kinema.errors import ArgumentError
from kinema.resources import worker_count
from kinema.runners.base import Outcome, RoundRequest
from kinema.runners.pickling import pack
from kinema.runners.threads import ThreadsRunner

__all__ = ["SerialRunner"]


class SerialRunner:
    """Runs on one worker; ArgumentError where more are asked for."""

    name = "serial"

    def map_reduce(self, request: RoundRequest) -> Outcome:
        """See `Runner.map_reduce`."""
        if request.workers is not None and worker_count(request.workers) != 1:
            raise ArgumentError(f"the serial runner has one worker, asked for {request.workers}; use runner='threads'")
        return ThreadsRunner().map_reduce(replace(request, workers=1))

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
        """See `TaskRunner.map`; the function is pickled where it is called more than once, and nothing else."""
        self.concurrency(workers)
        packed = pack(function) if len(computations) > 1 else None
        values = []
        for number, one in enumerate(computations):
            try:
                called = function if packed is None else pickle.loads(packed)
                values.append(called(one))
            except Exception as error:
                error.add_note(f"part {number + 1} of {len(computations)}")
                raise
            if progress is not None:
                progress(number)
        return values

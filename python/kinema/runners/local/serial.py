"""The `serial` runner: one worker on any machine; the same as the `threads` runner with one thread."""

from __future__ import annotations

from dataclasses import replace

from kinema.base.errors import ArgumentError
from kinema.base.resources import worker_count
from kinema.runners.base import PassRequest, PassResult, Runner
from kinema.runners.local.threads import ThreadsRunner


class SerialRunner(Runner):
    """Runs on one worker, in the calling Python thread; raises ArgumentError if more are requested."""

    name = "serial"

    def local_threads(self, workers: int | None) -> int:
        """One."""
        return 1

    def map_reduce(self, request: PassRequest) -> PassResult:
        if request.workers is not None and worker_count(request.workers) != 1:
            raise ArgumentError(f"the serial runner has one worker, asked for {request.workers}; use runner='threads'")
        return ThreadsRunner().map_reduce(replace(request, workers=1))

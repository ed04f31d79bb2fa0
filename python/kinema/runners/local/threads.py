"""The `threads` runner: Rust threads of this process take one leaf after the other, and end with the pass."""

from __future__ import annotations

import time

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.base.resources import default_memory, worker_count
from kinema.base.timings import PassTimings
from kinema.runners.base import PassRequest, PassResult, Runner
from kinema.runners.reduction import Reduction

__all__ = ["ThreadsRunner"]


class ThreadsRunner(Runner):
    """Runs on threads, which leave the global interpreter lock free."""

    name = "threads"

    def map_reduce(self, request: PassRequest) -> PassResult:
        """See `Runner.map_reduce`."""
        began = time.monotonic()
        plan = request.plan(memory=request.memory or default_memory(), workers=worker_count(request.workers))
        reduction = request.reduction or Reduction(plan, request.kernels)
        report = reduction.report(request.progress)
        planned = time.monotonic() - began
        timings = _core.run_into(
            request.trajectory, plan, request.jobs, reduction.tree, reduction.missing, progress=report
        )
        wall = time.monotonic() - began
        passes = PassTimings.from_core(timings, plan.n_frames, reduction.restored, plan=planned, wall=wall)
        return PassResult(reduction.partials(), passes, plan.explain())

    def concurrency(self, workers: int | None) -> int:
        """Raises ArgumentError: threads would share the state of another library's function, such as a reader."""
        raise ArgumentError(
            f"the runner {self.name!r} cannot compute parts of other libraries' analyses, which threads would share; "
            "use 'processes', 'dask' or 'serial'"
        )

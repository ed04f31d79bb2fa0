"""The runner with threads: leaves are handed out one by one to threads of this process, in Rust.

The threads live as long as the run; nothing is kept for the next.
"""

from __future__ import annotations

from kinema import _core
from kinema.resources import worker_count
from kinema.runners.base import Outcome, RoundRequest
from kinema.runners.gathering import Gathering
from kinema.runners.timings import RoundTimings

__all__ = ["ThreadsRunner"]


class ThreadsRunner:
    """Runs on threads; the global interpreter lock is free meanwhile."""

    name = "threads"

    def map_reduce(self, request: RoundRequest) -> Outcome:
        """See `Runner.map_reduce`."""
        plan = request.plan(memory=request.memory, workers=worker_count(request.workers))
        gathering = request.gathering or Gathering(plan, request.kernels)
        report = gathering.report(request.progress)
        timings = _core.run_into(
            request.trajectory, plan, request.jobs, gathering.tree, gathering.missing, progress=report
        )
        rounds = RoundTimings.from_core(timings, plan.n_frames, gathering.restored)
        return Outcome(gathering.partials(), rounds, plan.explain())

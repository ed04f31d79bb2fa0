"""The runner with threads: leaves are handed out one by one to threads of this process, in Rust.

The threads live as long as the run; nothing is kept for the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from kinema import _core
from kinema.access import Access
from kinema.frames import ResolvedFrames
from kinema.progress import Report
from kinema.resources import worker_count
from kinema.runners.base import Job, Outcome
from kinema.runners.gathering import Gathering
from kinema.runners.timings import RoundTimings

__all__ = ["ThreadsRunner"]


class ThreadsRunner:
    """Runs on threads; the global interpreter lock is free meanwhile."""

    name = "threads"

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
        plan = _core.Plan(trajectory, frames, jobs, memory=memory, workers=worker_count(workers), access=access)
        if gathering is None:
            gathering = Gathering(plan, [kernel for kernel, _ in jobs])
        report = gathering.report(progress)
        timings = _core.run_into(trajectory, plan, jobs, gathering.tree, gathering.missing, progress=report)
        rounds = RoundTimings.from_core(timings, plan.n_frames, gathering.restored)
        return Outcome(gathering.partials(), rounds, plan.explain())

"""The report of work that Kinema's passes do not time: one pass, whose workers have timed themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinema.analysis import RMSD
from kinema.base.timings import BLOCK_COLUMNS, PassTimings, Timings, WorkerTimings
from kinema.execution.record import RunRecord
from kinema.report import Report, report_of
from kinema.trajectory import Trajectory

__all__ = ["one_pass"]


def one_pass(
    settings: Mapping[str, Any],
    trajectory: Trajectory,
    name: str,
    wall: float,
    phases: Sequence[Mapping[str, float]],
    frames: Sequence[int],
) -> Report:
    """The report of a run of `wall` seconds.

    Parameters
    ----------
    settings : of the run
    trajectory : Trajectory
    name : str
        The work, for tables.
    wall : float
    phases : list of {phase: seconds}
        One for each worker.
    frames : list of int
        Frames of each worker.
    """
    chosen = trajectory.choose(*(settings[one] for one in ("start", "stop", "step")))
    nothing: dict[str, Any] = dict.fromkeys(("open", "io", "decode", "compute", "wait"), 0.0)
    nothing |= {"total": wall, "cpu": 0.0, "blocks": 0, "bytes_read": 0, "reads": 0}
    workers = tuple(
        WorkerTimings(**{**nothing, **known, "worker": number, "frames": done})
        for number, (known, done) in enumerate(zip(phases, frames, strict=True))
    )
    timed = PassTimings(wall, sum(frames), workers, np.empty((0, len(BLOCK_COLUMNS))))
    timings = Timings((timed,), whole=wall, opening=dict(trajectory.opening), runner=settings["runner"])
    selection = RMSD(trajectory, settings["select"]).selection
    record = RunRecord(trajectory, chosen, (name,), (selection,), "", f"{name}, not planned by Kinema", timings)
    return report_of(record, extra=settings["extra"])

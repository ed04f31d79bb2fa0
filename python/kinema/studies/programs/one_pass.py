"""The report of work that Kinema's passes do not time: one pass, whose workers have timed themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinema.base.timings import BLOCK_COLUMNS, PassTimings, Timings, WorkerTimings
from kinema.execution.record import RunRecord
from kinema.model.selection.frames import FrameSelection
from kinema.report import Report, report_of
from kinema.trajectory import Trajectory
from kinema.transforms.arguments import select_atoms

# a phase of reports -> the phase of `kinema.convert`
_WRITING = {"open": "open", "io": "io", "decode": "decode", "compute": "encode", "wait": "wait"}


def one_pass(
    trajectory: Trajectory,
    name: str,
    wall: float,
    phases: Sequence[Mapping[str, float]],
    frames: Sequence[int],
    *,
    runner: str,
    chosen: FrameSelection | None = None,
    select: str | None = None,
    command: str = "",
    extra: Mapping[str, Any] | None = None,
) -> Report:
    """The report of a run of `wall` seconds, which contain opening the files.

    `name`: the work, for tables.
    `phases`: list of {phase: seconds}; one for each worker.
    `frames`: frames of each worker.
    `chosen`: the frames of the run; None for all.
    `select`: as `Trajectory.select`.
    `command`, `extra`: as in `Report`.
    """
    nothing: dict[str, Any] = dict.fromkeys(("open", "io", "decode", "compute", "wait"), 0.0)
    nothing |= {"total": wall, "cpu": 0.0, "blocks": 0, "bytes_read": 0, "reads": 0}
    workers = tuple(
        WorkerTimings(**{**nothing, **known, "worker": number, "frames": done})
        for number, (known, done) in enumerate(zip(phases, frames, strict=True))
    )
    timed = PassTimings(wall, sum(frames), workers, np.empty((0, len(BLOCK_COLUMNS))))
    timings = Timings((timed,), whole=wall, runner=runner)
    selection = select_atoms(trajectory, select)
    record = RunRecord(
        trajectory,
        trajectory.choose() if chosen is None else chosen,
        (name,),
        (selection,),
        command,
        f"{name}: no pass of Kinema",
        timings,
    )
    return report_of(record, extra=extra)


def even_shares(n_frames: int, workers: int) -> list[int]:
    """Frames of each worker, if nobody has counted them."""
    return [n_frames * (one + 1) // workers - n_frames * one // workers for one in range(workers)]


def phases_of_writing(timings: Mapping[str, float], workers: int) -> dict[str, float]:
    """The mean over workers of each phase of `kinema.convert`, which adds up their seconds; writing counts as I/O."""
    mean = {phase: timings.get(name, 0.0) / workers for phase, name in _WRITING.items()}
    return mean | {"io": mean["io"] + timings.get("write", 0.0) / workers}

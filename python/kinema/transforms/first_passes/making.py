"""Stations of first passes: stored ones, extended if files have grown, or computed by a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.execution.run import run
from kinema.runners.registry import runner_of
from kinema.transforms.first_passes.base import FirstPass, Stations
from kinema.transforms.first_passes.kept import KeptStations

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

# change of a reduced coordinate from frame to frame; beyond 1/2 a jump cannot be recognised
_LONG_STEP = 0.4


def stations_of(made: FirstPass, options: Mapping[str, Any]) -> Stations:
    """The stations of a pass over all frames of its trajectory: stored ones, or computed by a run.

    `options` are arguments of `kinema.run`. With MPI, all ranks must call this, and all get the stations.
    """
    runner, others = runner_of(options)
    return runner.broadcast_from_root(lambda: _kept_or_made(made, {**others, "runner": runner}))


def _kept_or_made(made: FirstPass, options: Mapping[str, Any]) -> Stations:
    trajectory = made.trajectory
    skips = bool(options.get("skip_damaged", False))
    trajectory.scan(search=options["runner"].find_frames, skip_damaged=skips)
    n_frames = len(trajectory)
    if not 0 < n_frames <= trajectory.core.n_frames < 1 << 32:
        raise ArgumentError(f"{made.done} between the frames of 1 to {1 << 32}, found {n_frames}")
    # damaged files: it is not known beforehand which frames are left
    kept = None if skips else KeptStations(made)
    known = None if kept is None else kept.load()
    made.every = made.spacing(n_frames, options.get("memory"))
    if known is not None:
        known = known.thinned(made.every)
        made.every = known.every
        if len(known.frames) == n_frames:
            return known
        # the frames after the last station are read again
        made.behind = known
        made.trajectory = trajectory[(len(known.sums) - 1) * known.every :]
    if kept is not None:
        kept.watch()
    (done,) = run([made], **options)
    stations: Stations = done.results.stations
    if kept is not None:
        kept.store(stations)
    return stations


def note_long_step(trajectory: Trajectory, stations: Stations) -> None:
    """Emits a note if the longest step, in edges of the cell, is nearly too long to recognise jumps."""
    if stations.longest > _LONG_STEP:
        emit(
            [
                f"{trajectory.paths[0]}: an atom moves by {stations.longest:.2f} of the cell in one step, to frame "
                f"{stations.frame}; beyond 0.5 a jump cannot be told from motion, as frames lie too far apart"
            ]
        )

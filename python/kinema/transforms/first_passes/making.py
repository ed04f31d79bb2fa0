"""Stations of first passes: those that were kept, gone on with where files have grown, or of a run."""

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

__all__ = ["note_long_step", "stations_of"]

# of a reduced coordinate from frame to frame, where 1/2 is as far as can be known
_LONG_STEP = 0.4


def stations_of(made: FirstPass, options: Mapping[str, Any]) -> Stations:
    """The stations of a pass over all frames of its trajectory: those that were kept, or of a run.

    `options` are arguments of `kinema.run`. With MPI all ranks call it, and all get them.
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
    # of what is damaged it is not known beforehand which frames it leaves
    kept = None if skips else KeptStations(made)
    known = None if kept is None else kept.load()
    made.every = made.spacing(n_frames, options.get("memory"))
    if known is not None:
        known = known.thinned(made.every)
        made.every = known.every
        if len(known.frames) == n_frames:
            return known
        # what lies behind the last station is read anew
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
    """Emits a note where the longest step, in edges of the cell, is nearly as long as can be known."""
    if stations.longest > _LONG_STEP:
        emit(
            [
                f"{trajectory.paths[0]}: an atom moves by {stations.longest:.2f} of the cell in one step, to frame "
                f"{stations.frame}; beyond 0.5 a jump cannot be told from motion, as frames lie too far apart"
            ]
        )

"""`FirstPass`: a pass over all frames whose result a transform needs; made on any runner, and kept for the next run.

Its kernel sums up something from frame to frame. Sums are wanted for every so many frames, the stations, from which
whoever reads a frame runs up to it. They have the same bits wherever the work was divided, and wherever it was begun: a
pass goes on behind frames whose sums are known.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.errors import ArgumentError
from kinema.execution.computation import Computation, Pass, Passes, Results
from kinema.execution.run import run
from kinema.notes import emit
from kinema.resources import parse_memory
from kinema.runners.registry import runner_of
from kinema.selection.frames import FrameSelection

if TYPE_CHECKING:
    from kinema.execution.checkpoint import Checkpoint
    from kinema.selection.atoms import Selection
    from kinema.trajectory import Trajectory

__all__ = ["FirstPass", "Stations", "checkpoint_beside", "note_long_step", "stations_of"]

# of a reduced coordinate from frame to frame, where 1/2 is as far as can be known
_LONG_STEP = 0.4
# of `memory=`, stations have one part of so many at the most
_PART_OF_MEMORY = 8


class Stations(NamedTuple):
    """Sums at every so many of the frames, (stations, ...), and the longest step with the frame behind it.

    Steps are of reduced coordinates; 0 where these are not looked at.
    """

    every: int
    sums: NDArray[Any]
    longest: float
    frame: int
    frames: FrameSelection

    def thinned(self, every: int) -> Stations:
        """Those at every so many frames, if these are farther apart."""
        step = max(1, every // self.every)
        return self._replace(every=step * self.every, sums=self.sums[::step])

    def until(self, n_frames: int) -> Stations:
        """Those of the first frames alone."""
        return self._replace(sums=self.sums[: -(-n_frames // self.every)], frames=self.frames[:n_frames])


class FirstPass(Computation):
    """A pass over the frames of a trajectory, all of the files or those of a view.

    After `run`: results.stations, `Stations`. Subclasses say the kernel and how stations are joined.
    """

    #: of checkpoints and of the folder in the cache
    name: ClassVar[str]
    #: "jumps are counted": for messages
    done: ClassVar[str]
    #: what to do where some frames are damaged; empty where the others will do
    without_damaged: ClassVar[str] = ""
    #: frames from one station to the next, at least: a run-up is decoded once more
    least: ClassVar[int] = 128
    #: bytes of all stations
    most_bytes: ClassVar[int] = 64 << 20
    #: type of sums
    dtype: ClassVar[Any] = np.float64

    def __init__(self, trajectory: Trajectory, selection: Selection) -> None:
        super().__init__(trajectory, selection, {})
        self.every = 0
        self.behind: Stations | None = None

    @property
    @abstractmethod
    def kernel_arguments(self) -> Mapping[str, Any]:
        """Of the kernel that has the name of the pass, but for stations."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of the sums of a station."""

    @abstractmethod
    def _station_arguments(self, frames: FrameSelection) -> Mapping[str, Any]:
        """Of the kernel: which frames are stations, of these."""

    def _joined(self, behind: NDArray[Any], found: NDArray[Any]) -> NDArray[Any]:
        """Sums of frames that begin with the last station of others."""
        return np.concatenate([behind[:-1], behind[-1] + found])

    def _passes(self, frames: FrameSelection) -> Passes:
        if self.without_damaged and len(frames) != len(self.trajectory):
            raise ArgumentError(
                f"{self.trajectory.paths[0]}: {self.done} between all frames, and some are damaged; "
                f"{self.without_damaged}"
            )
        self.every = self.every or self.spacing(len(frames), None)
        arguments = {**self.kernel_arguments, **self._station_arguments(frames)}
        found = yield Pass(_core.Kernel(self.name, self.trajectory.n_atoms, **arguments))
        longest, frame = 0.0, 0
        if "longest" in found:
            longest, frame = float(found["longest"][0]), int(found["longest_frame"][0])
        sums = found["stations"].view(self.dtype)
        behind = self.behind
        if behind is not None:
            sums = self._joined(behind.sums, sums)
            if behind.longest >= longest:
                longest, frame = behind.longest, behind.frame
            frames = self.trajectory.of_all_frames().choose()
        return Results(stations=Stations(self.every, sums, longest, frame, frames))

    def spacing(self, n_frames: int, memory: int | str | None) -> int:
        """Frames from station to station, a power of two; `memory` as of `kinema.run`."""
        bytes_of_all = self.most_bytes
        # in large steps: a run with a little less memory goes on from the same checkpoint
        while memory is not None and _PART_OF_MEMORY * bytes_of_all > parse_memory(memory) and bytes_of_all > 1 << 16:
            bytes_of_all //= 4
        of_one = int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize
        most = max(1, bytes_of_all // max(1, of_one))
        every = self.least
        while -(-n_frames // every) > most:
            every *= 2
        return every


def stations_of(made: FirstPass, options: Mapping[str, Any]) -> Stations:
    """The stations of a pass over all frames of its trajectory: those that were kept, or of a run.

    `options` are arguments of `kinema.run`. With MPI all ranks call it, and all get them.
    """
    runner, others = runner_of(options)
    return runner.on_root_for_all(lambda: _kept_or_made(made, {**others, "runner": runner}))


def _kept_or_made(made: FirstPass, options: Mapping[str, Any]) -> Stations:
    # what knows HDF5 files, which most passes are not over
    from kinema.transforms.first_passes.kept import KeptStations

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


def checkpoint_beside(kept: Checkpoint, made: type[FirstPass]) -> Checkpoint:
    """The checkpoint of a first pass of a command, beside its own; it stays until the command is done."""
    return replace(kept, path=f"{kept.name}.{made.name}", keep=True)

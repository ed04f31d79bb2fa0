"""`FirstPass`: a pass over all frames whose result a transform needs before it changes one.

Its kernel sums values from frame to frame, and keeps the sum at every n-th frame, the stations. Reading a frame starts
at the station before it. The sums have the same bits however the work was divided and wherever it started: a pass
continues after frames whose sums are known.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.base.resources import default_memory, parse_memory
from kinema.execution.computation import Computation, Pass, Passes, Results
from kinema.model.selection.frames import FrameSelection

if TYPE_CHECKING:
    from kinema.execution.checkpoint import Checkpoint
    from kinema.model.selection.atoms import Selection
    from kinema.trajectory import Trajectory

# stations use at most one part in this number of `memory=`
_PART_OF_MEMORY, _LEAST_BYTES = 8, 1 << 16


class Stations(NamedTuple):
    """Sums at every `every`-th of the frames, (stations, ...), and the longest step with the frame after it.

    Steps are in reduced coordinates; 0 if the pass does not measure them.
    """

    every: int
    sums: NDArray[Any]
    longest: float
    frame: int
    frames: FrameSelection

    def thinned(self, every: int) -> Stations:
        """The stations at every `every`-th frame, if that is farther apart."""
        step = max(1, every // self.every)
        return self._replace(every=step * self.every, sums=self.sums[::step])

    def truncate(self, n_frames: int) -> Stations:
        """The stations of the first `n_frames` frames."""
        return self._replace(sums=self.sums[: -(-n_frames // self.every)], frames=self.frames[:n_frames])


class FirstPass(Computation):
    """A pass over the frames of a trajectory: all frames of the files, or the frames of a view.

    After `run`: results.stations, `Stations`. Subclasses define the kernel and how stations are joined.
    """

    #: of the kernel, of checkpoints and of the folder in the cache
    name: ClassVar[str]
    #: "jumps are counted": for messages
    done: ClassVar[str]
    #: advice if some frames are damaged; empty if the other frames suffice
    without_damaged: ClassVar[str] = ""
    #: least number of frames between stations: reading decodes the frames from a station on again
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
        """Arguments of the kernel that has the pass's name, except the stations."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of a station's sums."""

    @abstractmethod
    def _station_arguments(self, frames: FrameSelection) -> Mapping[str, Any]:
        """Arguments of the kernel that say which of these frames are stations."""

    def _joined(self, behind: NDArray[Any], found: NDArray[Any]) -> NDArray[Any]:
        """Joins sums: `found` starts at the last station of `behind`."""
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
            frames = self.trajectory.viewed_trajectory().choose()
        return Results(stations=Stations(self.every, sums, longest, frame, frames))

    def spacing(self, n_frames: int, memory: int | str | None) -> int:
        """Frames from station to station, `least` times a power of two; `memory` is as in `kinema.run`."""
        limit = default_memory() if memory is None else parse_memory(memory)
        bytes_of_all = self.most_bytes
        # in large steps: a run with a little less memory resumes from the same checkpoint
        while _PART_OF_MEMORY * bytes_of_all > limit and bytes_of_all > _LEAST_BYTES:
            bytes_of_all //= 4
        of_one = int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize
        most = max(1, bytes_of_all // max(1, of_one))
        every = self.least
        while -(-n_frames // every) > most:
            every *= 2
        return every


def checkpoint_beside(kept: Checkpoint, made: type[FirstPass]) -> Checkpoint:
    """The checkpoint of a command's first pass, beside the command's own; it stays until the command is done."""
    return replace(kept, path=f"{kept.name}.{made.name}", keep=True)

"""`System`: what a data set keeps of one trajectory, and the trajectories that a process has open for it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.errors import ArgumentError
from kinema.ml.processes import file_pool
from kinema.opening import open as open_trajectory
from kinema.selection.atoms import AtomChoice
from kinema.selection.frames import FrameSelection
from kinema.snapshot import TrajectorySnapshot
from kinema.trajectory import Trajectory

__all__ = ["OpenTrajectories", "System", "TrajectoryEntry", "systems_of"]


@runtime_checkable
class TrajectoryEntry(Protocol):
    """An entry of a list of trajectories, such as `kinema.ml.mdcath` gives."""

    def open(self) -> Trajectory:
        """The trajectory."""

    def labels(self) -> dict[str, NDArray[Any]]:
        """Values that are known of its frames, (frames, ...), by name."""


@dataclass(frozen=True, eq=False)
class System:
    """One trajectory of a data set: how processes open it, its frames and atoms."""

    name: str
    """For messages: the first file, and the group of particles."""
    snapshot: TrajectorySnapshot
    data: NDArray[np.uint8]
    """Bytes of the snapshot."""
    frames: FrameSelection
    """Of the whole trajectory."""
    atoms: NDArray[np.uint32] | None
    """None: all."""
    n_atoms: int
    """That are read."""
    times: NDArray[np.float64]
    """(frames,) in ps."""
    entry: TrajectoryEntry | None = None
    group: str = ""
    """Of particles, where one was named."""

    def numbers(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Frame numbers in the whole trajectory, of positions among `frames`."""
        stride = self.frames.stride
        if stride is not None:
            return stride[0] + stride[1] * positions
        return self.frames.numbers()[positions].astype(np.int64)


class OpenTrajectories:
    """The trajectories of a data set as one process has them open, each when it is first needed; no file is scanned."""

    def __init__(self, systems: Sequence[System], pool: _core.FilePool) -> None:
        self._systems, self._pool = systems, pool
        self._cores: dict[int, _core.Trajectory] = {}

    def core(self, number: int) -> _core.Trajectory:
        """The trajectory of a system."""
        core = self._cores.get(number)
        if core is None:
            system = self._systems[number]
            core = self._cores.setdefault(number, system.snapshot.open(system.data, pool=self._pool))
        return core


def systems_of(trajectories: Any, select: AtomChoice, vectors: tuple[str, ...]) -> list[tuple[System, Trajectory]]:
    """The systems that users name, and their trajectories; ArgumentError for none, and where one lacks a vector."""
    one = isinstance(trajectories, (Trajectory, str, os.PathLike, TrajectoryEntry))
    given = [trajectories] if one else trajectories
    if isinstance(given, bytes) or not isinstance(given, Sequence) or not given:
        raise ArgumentError(f"trajectories are a list of trajectories or paths, found {type(trajectories).__name__}")
    return [_system(item, select, vectors) for item in given]


def _system(item: Any, select: AtomChoice, vectors: tuple[str, ...]) -> tuple[System, Trajectory]:
    entry: TrajectoryEntry | None = None
    if isinstance(item, Trajectory):
        trajectory = item
    elif isinstance(item, (str, os.PathLike)):
        trajectory = open_trajectory(item)
    elif isinstance(item, TrajectoryEntry):
        trajectory, entry = item.open(), item
    else:
        raise ArgumentError(f"a trajectory is a path or what kinema.open gives, found {type(item).__name__}")
    trajectory.scan()
    if vectors:
        trajectory.check_fields(vectors)
    snapshot, data = TrajectorySnapshot.of(trajectory.core, absolute=True)
    if trajectory is not item:
        # of thousands of files that are opened here only as many stay open as the pool has
        trajectory = trajectory.with_core(snapshot.open(data, pool=file_pool()))
    frames = trajectory.choose()
    atoms = None if select is None else trajectory.select(select).indices
    group = trajectory.stated.get("particles", "")
    system = System(
        name=trajectory.paths[0] + (f" ({group})" if group else ""),
        snapshot=snapshot,
        data=data,
        frames=frames,
        atoms=atoms,
        n_atoms=trajectory.n_atoms if atoms is None else len(atoms),
        times=np.asarray(trajectory.times, np.float64),
        entry=entry,
        group=group,
    )
    return system, trajectory

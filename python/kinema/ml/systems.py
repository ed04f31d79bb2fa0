"""`System`, what a data set stores about one trajectory, and the trajectories that a process has open."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.cache.node_cache import NodeCache, cache_of
from kinema.cache.trajectories import sized_for
from kinema.ml.catalogue.catalogue import Catalogue
from kinema.ml.catalogue.entry import Entry
from kinema.ml.processes import file_pool
from kinema.model.selection.atoms import AtomChoice
from kinema.model.selection.frames import FrameSelection
from kinema.model.snapshot import SentTrajectory, TrajectorySnapshot
from kinema.trajectory import Trajectory
from kinema.trajectory.opening import open as open_trajectory

# trajectories that a data set keeps open in a process; this does not count files
_MOST_OPENED = 8192


@runtime_checkable
class TrajectoryEntry(Protocol):
    """An entry of a list of trajectories, for example from `kinema.ml.mdcath`."""

    def open(self) -> Trajectory:
        """Opens the trajectory."""

    def labels(self) -> dict[str, NDArray[Any]]:
        """Known values of its frames, (frames, ...), by name."""


class OpenedWith(Protocol):
    """Recipe with which a process opens a trajectory."""

    def open(self, pool: _core.FilePool | None = None) -> _core.Trajectory:
        """Opens the trajectory; reads no file. `pool`: open files, shared with other trajectories."""


@dataclass(frozen=True, eq=False)
class System:
    """One trajectory of a data set: its recipe for processes to open it, its frames and atoms."""

    name: str
    """Name in messages: the first file, and the group of particles."""
    paths: tuple[str, ...]
    """The files, in order."""
    snapshot: OpenedWith
    frames: FrameSelection
    """Frames of the data set, by their numbers in the whole trajectory."""
    atoms: NDArray[np.uint32] | None
    """Atoms to read; None: all."""
    n_atoms: int
    """Number of atoms that are read."""
    times: NDArray[np.float64] | None
    """(frames,) in ps; None: `CatalogueSystems.times` finds them."""
    entry: TrajectoryEntry | None = None
    group: str = ""
    """Group of particles, if one was named."""
    node_cache: NodeCache | None = None
    """Node cache that its files are read through."""
    transforms: tuple[bytes, ...] = ()
    """Identity of the transforms of its frames."""

    def numbers(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Frame numbers in the whole trajectory for positions among `frames`."""
        stride = self.frames.stride
        if stride is not None:
            return stride[0] + stride[1] * positions
        return self.frames.numbers()[positions].astype(np.int64)


class CatalogueSystems(Sequence[System]):
    """The systems of a catalogue, each made when it is needed; its tables have the numbers of frames and atoms."""

    def __init__(self, catalogue: Catalogue, vectors: tuple[str, ...], node_cache: NodeCache | None) -> None:
        self.catalogue, self._vectors, self._node_cache = catalogue, vectors, node_cache
        self.n_frames = catalogue.file.n_frames.astype(np.int64)
        self.n_atoms = catalogue.file.n_atoms.astype(np.int64)

    def __len__(self) -> int:
        return len(self.catalogue)

    @overload
    def __getitem__(self, number: int) -> System: ...
    @overload
    def __getitem__(self, number: slice) -> list[System]: ...
    def __getitem__(self, number: int | slice) -> System | list[System]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        entry = self.catalogue.entry(number)
        return System(
            name=_named(entry.paths[0], entry.stated),
            paths=entry.paths,
            snapshot=_Checked(entry, self._vectors),
            frames=FrameSelection(range(entry.n_frames)),
            atoms=None,
            n_atoms=entry.n_atoms,
            times=None,
            entry=entry,
            group=entry.stated.get("particles", ""),
            node_cache=self._node_cache,
        )

    def times(self, number: int) -> NDArray[np.float64]:
        """(frames,) times of a system in ps."""
        return np.asarray(self.catalogue.entry(number).open().times, np.float64)


@dataclass(frozen=True)
class _Checked:
    """A trajectory of a catalogue; opening it checks that it has the vectors."""

    entry: Entry
    vectors: tuple[str, ...]

    def open(self, pool: _core.FilePool | None = None) -> _core.Trajectory:
        core = self.entry.kept.open(pool)
        missing = [name for name in self.vectors if name not in core.fields]
        if missing:
            raise ArgumentError(f"has no {missing[0]}; it holds {', '.join(core.fields)}", at=self.entry.paths[0])
        return core


class OpenTrajectories:
    """The trajectories of a data set as open in one process, each opened when it is needed; no file is scanned.

    If there are very many, those used last stay open.
    """

    def __init__(self, systems: Sequence[System]) -> None:
        self._systems = systems
        self._opened: OrderedDict[int, tuple[System, _core.Trajectory]] = OrderedDict()
        self._lock = threading.Lock()

    def core(self, number: int) -> _core.Trajectory:
        """The trajectory of a system."""
        return self.get(number)[1]

    def get(self, number: int) -> tuple[System, _core.Trajectory]:
        """A system, and its trajectory."""
        with self._lock:
            found = self._opened.get(number)
            if found is not None:
                self._opened.move_to_end(number)
                return found
        system = self._systems[number]
        found = system, system.snapshot.open(file_pool(system.node_cache))
        with self._lock:
            found = self._opened.setdefault(number, found)
            while len(self._opened) > _MOST_OPENED:
                self._opened.popitem(last=False)
        return found


def systems_of(
    trajectories: Any, select: AtomChoice, vectors: tuple[str, ...], node_cache: NodeCache | None = None
) -> list[tuple[System, Trajectory]]:
    """The systems that users name, and their trajectories.

    `node_cache`: for trajectories that were not opened with one. Raises ArgumentError if there are no trajectories, or
    one lacks a vector.
    """
    one = isinstance(trajectories, (Trajectory, str, os.PathLike, TrajectoryEntry))
    given = [trajectories] if one else trajectories
    if isinstance(given, Catalogue):
        given = [given.entry(number) for number in range(len(given))]
    if isinstance(given, bytes) or not isinstance(given, Sequence) or not given:
        raise ArgumentError(f"trajectories are a list of trajectories or paths, found {type(trajectories).__name__}")
    return [_system(item, select, vectors, node_cache) for item in given]


def _system(
    item: Any, select: AtomChoice, vectors: tuple[str, ...], node_cache: NodeCache | None
) -> tuple[System, Trajectory]:
    entry: TrajectoryEntry | None = None
    if isinstance(item, Trajectory):
        trajectory = item
    elif isinstance(item, (str, os.PathLike)):
        trajectory = open_trajectory(item, node_cache=node_cache)
    elif isinstance(item, TrajectoryEntry):
        trajectory, entry = item.open(), item
    else:
        raise ArgumentError(f"a trajectory is a path or what kinema.open gives, found {type(item).__name__}")
    trajectory.scan()
    if vectors:
        trajectory.check_fields(vectors)
    own = cache_of(trajectory.core)
    if own is None and node_cache is not None:
        own = sized_for(node_cache, trajectory.core)
    sent = SentTrajectory(*TrajectorySnapshot.take(trajectory.core, absolute=True))
    if trajectory is not item:
        # of thousands of files that are opened here, only as many stay open as the pool has
        trajectory = trajectory.with_core(sent.open(file_pool(own)))
    frames = trajectory.choose()
    atoms = None if select is None else trajectory.select(select).indices
    system = System(
        name=_named(trajectory.paths[0], trajectory.stated),
        paths=trajectory.paths,
        snapshot=sent,
        frames=frames,
        atoms=atoms,
        n_atoms=trajectory.n_atoms if atoms is None else len(atoms),
        times=np.asarray(trajectory.times, np.float64),
        entry=entry,
        group=trajectory.stated.get("particles", ""),
        node_cache=own,
        transforms=tuple(transform.identity for transform in trajectory.core.transforms),
    )
    return system, trajectory


def _named(path: str, stated: Mapping[str, str]) -> str:
    group = stated.get("particles")
    return path + (f" ({group})" if group else "")

"""`TrajectorySnapshot`: headers, indices and HDF5 structures of a trajectory's files, as bytes for other processes.

With it they open the same trajectory and touch no file but the parts that they read.
"""

from __future__ import annotations

import functools
import os
import pickle
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass

# in a folder of `kinema.cache` on a node's disk: folders of files that were published there, or fetched to it, and the
# file with the node's number
PUBLISHED, FETCHED, NODE = "published", "fetched", "node"


class _CachedDescriptions:
    """The function that describes HDF5 files, with the descriptions that are already known."""

    def __init__(self, describe: Callable[[str], Any], known: dict[str, Any]) -> None:
        self.describe = describe
        self._known = known

    def __call__(self, path: str | os.PathLike[str]) -> Any:
        known = self._known.get(os.fspath(path))
        return self.describe(os.fspath(path)) if known is None else known


def fresh_recipe(trajectory: _core.Trajectory) -> dict[str, Any]:
    """The arguments with which the files of a trajectory are opened as they are now, without what a snapshot knew."""
    recipe = trajectory.recipe()
    if isinstance(recipe["describe"], _CachedDescriptions):
        recipe["describe"] = recipe["describe"].describe
    return recipe


def opened_again(
    trajectory: _core.Trajectory, paths: Sequence[str] | None = None, *, settled: bool = False, finished: bool = False
) -> _core.Trajectory:
    """The files, or `paths` in their place, as they are now; what is known of them stays known unless `finished`.

    `settled`: they have not changed for long. Raises what opening and scanning them raises.
    """
    recipe = fresh_recipe(trajectory) | ({} if paths is None else {"paths": list(paths)})
    # a file that is being written is not searched for frames in any other way
    damaged = trajectory.scanned and any(part["damaged"] for part in trajectory.parts())
    core = _core.Trajectory(**recipe, settled=settled, previous=None if finished or damaged else trajectory)
    core.scan(skip_damaged=damaged)
    return core


def _node_that_keeps(path: str) -> str | None:
    """The node on whose disk a file is that was published there or fetched to it; None for any other file.

    It is the number that `kinema.cache` gives to the folder of such files.
    """
    folder, kind = os.path.split(os.path.dirname(os.path.dirname(os.path.abspath(path))))
    if kind not in (PUBLISHED, FETCHED):
        return None
    try:
        with open(os.path.join(folder, NODE), encoding="ascii") as file:
            return file.read(32)
    except (OSError, UnicodeDecodeError):
        return None


class KeptFile(NamedTuple):
    """A published file on the disk of the node that opened it: other processes read it on that node alone."""

    path: str
    node: str
    host: str

    @classmethod
    def from_path(cls, path: str) -> KeptFile | None:
        """The published file at `path`; None for any other file."""
        node = _node_that_keeps(path)
        return None if node is None else cls(path, node, os.uname().nodename)

    def check(self) -> None:
        """Raises ArgumentError if this process is on another node."""
        if _node_that_keeps(self.path) != self.node:
            raise ArgumentError(
                f"this published file is on {self.host}, the node that opened it, and a worker or rank is "
                f"on {os.uname().nodename}, to which it was not fetched; use workers and ranks of one node, or publish "
                "it on the shared file system, without local=",
                at=self.path,
            )


class Undescribed(NamedTuple):
    """Stands in for a description that cannot be sent: workers make it themselves."""

    known: Any
    """This process's knowledge of the file's structure, so that workers need no walk; it has a method `remember`."""


@dataclass(frozen=True)
class TrajectorySnapshot:
    """Description of a trajectory for all workers.

    It has the recipe, the sizes of the two runs of bytes, and the files that are on the disk of one node.
    """

    recipe: dict[str, Any]
    core_bytes: int
    described_bytes: int
    kept: tuple[KeptFile, ...] = ()

    @property
    def size(self) -> int:
        """Number of bytes that each node is sent once."""
        return self.core_bytes + self.described_bytes

    @classmethod
    def take(
        cls, trajectory: _core.Trajectory, change: Callable[[Any], Any] | None = None, *, absolute: bool = False
    ) -> tuple[TrajectorySnapshot, NDArray[np.uint8]]:
        """The snapshot and its bytes; `change` replaces descriptions of HDF5 files by others.

        `absolute`: with whole paths, for processes that have another working folder.
        """
        packed = trajectory.snapshot()
        recipe, describe = fresh_recipe(trajectory), trajectory.recipe()["describe"]
        if absolute:
            recipe["paths"] = [os.path.abspath(path) for path in recipe["paths"]]
        hdf5 = [path for path, part in zip(recipe["paths"], trajectory.parts(), strict=True) if part["hdf5"]]
        descriptions = _descriptions(hdf5, describe, change)
        recipe["describe"] = _disable_stored(recipe["describe"])
        described = np.frombuffer(pickle.dumps(descriptions, protocol=5), np.uint8)
        kept = tuple(one for path in recipe["paths"] if (one := KeptFile.from_path(path)) is not None)
        return cls(recipe, len(packed), len(described), kept), np.concatenate([packed, described])

    def descriptions(self, data: NDArray[np.uint8]) -> dict[str, Any]:
        """The description of each HDF5 file, by its path, if it can be sent."""
        sent: dict[str, Any] = pickle.loads(data[self.core_bytes : self.core_bytes + self.described_bytes].tobytes())
        for one in sent.values():
            if isinstance(one, Undescribed):
                one.known.remember()
        return {path: one for path, one in sent.items() if not isinstance(one, Undescribed)}

    def open(
        self,
        data: NDArray[np.uint8],
        descriptions: dict[str, Any] | None = None,
        pool: _core.FilePool | None = None,
        catalogue: str | None = None,
    ) -> _core.Trajectory:
        """Opens the trajectory with the bytes of this node; no file is touched.

        `descriptions`: used instead of the ones in the bytes. `pool`: open files, shared with others. `catalogue`: the
        file that holds the bytes, for errors. Raises ArgumentError on a node other than the one that keeps a published
        file, or has fetched it.
        """
        for file in self.kept:
            file.check()
        recipe = dict(self.recipe)
        if pool is not None:
            # the pool has a node cache itself, if files are read through one
            recipe["node_cache"] = None
        if descriptions is None:
            descriptions = self.descriptions(data)
        if descriptions:
            recipe["describe"] = _CachedDescriptions(recipe["describe"], descriptions)
        return _core.Trajectory(**recipe, snapshot=data[: self.core_bytes], pool=pool, catalogue=catalogue)


class SentTrajectory:
    """A snapshot with its bytes, as sent to workers: each process opens its trajectory once, for all threads."""

    def __init__(self, snapshot: TrajectorySnapshot, data: NDArray[np.uint8]) -> None:
        self._sent = (snapshot, data)
        self._lock = threading.Lock()
        self._core: _core.Trajectory | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return SentTrajectory, self._sent

    def open(self, pool: _core.FilePool | None = None) -> _core.Trajectory:
        """A trajectory of its own; no file is touched. `pool`: open files, shared with others."""
        snapshot, data = self._sent
        return snapshot.open(data, pool=pool)

    def get(self) -> _core.Trajectory:
        """The trajectory; no file is touched."""
        with self._lock:
            if self._core is None:
                self._core = self.open()
            return self._core


def _disable_stored(describe: Any) -> Any:
    """The function for workers, which look for no chunk maps: thousands of them would ask one file server."""
    if isinstance(describe, functools.partial) and "index" in describe.keywords:
        return functools.partial(describe, index="memory")
    return describe


def _descriptions(
    paths: Iterable[str], describe: Callable[[str], Any] | None, change: Callable[[Any], Any] | None
) -> dict[str, Any]:
    """The description of each HDF5 file; if it cannot be pickled, what is known of the file's structure."""
    descriptions: dict[str, Any] = {}
    if describe is None:
        return descriptions
    for path in paths:
        description = describe(path)
        if change is not None:
            description = change(description)
        try:
            pickle.dumps(description)
        except Exception:
            # pickle raises errors of any class
            description = Undescribed(description.known_structures())
        descriptions[path] = description
    return descriptions

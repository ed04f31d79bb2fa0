"""What rank 0 knows of the files, once on each node: headers, indices, structures of HDF5 files.

With it the other ranks open the same trajectory and touch no file but the parts that they read.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema import _core
from kinema.runners.mpi_ranks import Ranks, sleep_between

__all__ = ["KnownFiles", "NodeBytes"]


class _Described:
    """The function that describes HDF5 files, with what it has said already."""

    def __init__(self, describe: Callable[[str], Any], found: dict[str, Any]) -> None:
        self._describe = describe
        self._found = found

    def __call__(self, path: str | os.PathLike[str]) -> Any:
        found = self._found.get(os.fspath(path))
        return self._describe(os.fspath(path)) if found is None else found


@dataclass(frozen=True)
class KnownFiles:
    """What is broadcast of a trajectory: its recipe, and the sizes of the two runs of bytes that each node is given."""

    recipe: dict[str, Any]
    core_bytes: int
    described_bytes: int

    @property
    def size(self) -> int:
        """Bytes that each node is given."""
        return self.core_bytes + self.described_bytes

    @classmethod
    def of(cls, trajectory: _core.Trajectory) -> tuple[KnownFiles, NDArray[np.uint8]]:
        """What is known, and the bytes for `NodeBytes`."""
        packed = trajectory.pack()
        recipe = trajectory.recipe()
        described = np.frombuffer(pickle.dumps(_descriptions(trajectory, recipe["describe"]), protocol=5), np.uint8)
        return cls(recipe, len(packed), len(described)), np.concatenate([packed, described])

    def open(self, data: NDArray[np.uint8]) -> _core.Trajectory:
        """The trajectory, opened with the bytes of this node; no file is touched."""
        recipe = dict(self.recipe)
        found = pickle.loads(data[self.core_bytes : self.core_bytes + self.described_bytes].tobytes())
        if found:
            recipe["describe"] = _Described(recipe["describe"], found)
        return _core.Trajectory(**recipe, known=data[: self.core_bytes])


def _descriptions(trajectory: _core.Trajectory, describe: Callable[[str], Any] | None) -> dict[str, Any]:
    """What is said of each HDF5 file, where it can travel: what reads through h5py opens the file on its rank."""
    found: dict[str, Any] = {}
    for part in trajectory.parts():
        if part["format"] != "H5MD" or describe is None:
            continue
        said = describe(part["path"])
        try:
            pickle.dumps(said)
        except Exception:
            # pickle raises what it likes; the rank asks libhdf5 itself
            continue
        found[part["path"]] = said
    return found


class NodeBytes:
    """Bytes of rank 0 in memory that the ranks of a node share: sent to each node once. Made and freed by all together.

    Attributes
    ----------
    array : (size,) uint8
    """

    def __init__(self, ranks: Ranks, size: int, data: NDArray[np.uint8] | None) -> None:
        first = ranks.node.Get_rank() == 0
        self._window = MPI.Win.Allocate_shared(size if first else 0, 1, comm=ranks.node)
        memory, _ = self._window.Shared_query(0)
        self.array: NDArray[np.uint8] = np.asarray(memory, np.uint8)[:size]
        self._window.Lock_all()
        if data is not None:
            self.array[:] = data
        if first:
            sleep_between(ranks.leaders.Ibcast(self.array, 0))
        self._window.Sync()
        sleep_between(ranks.node.Ibarrier())
        self._window.Sync()

    def free(self) -> None:
        """Gives the memory back."""
        self._window.Unlock_all()
        self._window.Free()

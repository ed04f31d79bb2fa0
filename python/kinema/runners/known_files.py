"""What one process knows of the files of a trajectory, for others: headers, indices, structures of HDF5 files.

With it they open the same trajectory and touch no file but the parts that they read. How it travels is the runner's
business.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core

__all__ = ["KnownFiles"]


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
    """What travels of a trajectory to every worker: its recipe, and the sizes of the two runs of bytes."""

    recipe: dict[str, Any]
    core_bytes: int
    described_bytes: int

    @property
    def size(self) -> int:
        """Bytes that each node is given once."""
        return self.core_bytes + self.described_bytes

    @classmethod
    def of(
        cls, trajectory: _core.Trajectory, change: Callable[[Any], Any] | None = None, *, absolute: bool = False
    ) -> tuple[KnownFiles, NDArray[np.uint8]]:
        """What is known, and the bytes for `NodeBytes`; with `change`, what it makes of descriptions of HDF5 files.

        `absolute`: with whole paths, for processes that have another working folder.
        """
        packed = trajectory.pack()
        recipe = trajectory.recipe()
        if absolute:
            recipe["paths"] = [os.path.abspath(path) for path in recipe["paths"]]
        hdf5 = [
            path for path, part in zip(recipe["paths"], trajectory.parts(), strict=True) if part["format"] == "H5MD"
        ]
        found = _descriptions(hdf5, recipe["describe"], change)
        described = np.frombuffer(pickle.dumps(found, protocol=5), np.uint8)
        return cls(recipe, len(packed), len(described)), np.concatenate([packed, described])

    def descriptions(self, data: NDArray[np.uint8]) -> dict[str, Any]:
        """What is said of each HDF5 file, by its path."""
        found: dict[str, Any] = pickle.loads(data[self.core_bytes : self.core_bytes + self.described_bytes].tobytes())
        return found

    def open(self, data: NDArray[np.uint8], found: dict[str, Any] | None = None) -> _core.Trajectory:
        """The trajectory, opened with the bytes of this node; no file is touched.

        `found`: descriptions to take instead of those that the bytes hold.
        """
        recipe = dict(self.recipe)
        found = self.descriptions(data) if found is None else found
        if found:
            recipe["describe"] = _Described(recipe["describe"], found)
        return _core.Trajectory(**recipe, known=data[: self.core_bytes])


def _descriptions(
    paths: Iterable[str], describe: Callable[[str], Any] | None, change: Callable[[Any], Any] | None
) -> dict[str, Any]:
    """What is said of each HDF5 file, where it can travel: what reads through h5py opens the file on its rank."""
    found: dict[str, Any] = {}
    if describe is None:
        return found
    for path in paths:
        said = describe(path)
        if change is not None:
            said = change(said)
        try:
            pickle.dumps(said)
        except Exception:
            # pickle raises what it likes; the rank asks libhdf5 itself
            continue
        found[path] = said
    return found

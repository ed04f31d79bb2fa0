"""Readers of the ranks of a pass: each rank reads by itself through the core, or with an access method's reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.model.snapshot import TrajectorySnapshot
from kinema.runners.access import AccessMethod
from kinema.runners.mpi.communicator import Ranks


class RankReader:
    """Reads of one rank in one pass; this class opens files through the core, and waits for no other rank.

    Access methods name subclasses (`AccessMethod.rank_reader`); each rank that takes part in a pass makes a reader.

    `n_ranks`: the first `n_ranks` ranks take part.
    `own`: a trajectory that this rank already has open.

    `describe`: changes the descriptions of HDF5 files before they are sent to the ranks; None: they stay as they are.
    """

    describe: Callable[[Any], Any] | None = None

    def __init__(self, ranks: Ranks, n_ranks: int, own: _core.Trajectory | None = None) -> None:
        self._own = own

    @classmethod
    def check(cls, method: AccessMethod, trajectory: _core.Trajectory) -> None:
        """Raises ArgumentError if a file or the MPI library is not suitable; called on rank 0 before the pass."""

    @property
    def ended_by_another(self) -> bool:
        """Whether another rank has failed, so that this one must stop reading. The other rank reports why."""
        return False

    def open(self, files: TrajectorySnapshot, data: NDArray[np.uint8]) -> _core.Trajectory:
        """The trajectory; called by all ranks that take part before the first of them reads."""
        return files.open(data) if self._own is None else self._own

    def finish(self) -> None:
        """Called when this rank has finished reading. Returns at once."""

    def stop(self) -> None:
        """Stops this rank's reading, and that of other ranks unless all have finished. Returns at once."""

    def wait(self) -> None:
        """Waits until all ranks have finished, or one has stopped."""

    def close(self) -> None:
        """Called by all ranks that take part when none of them reads any more."""


def rank_reader(method: AccessMethod) -> type[RankReader]:
    """Imports and returns the reader class of an access method."""
    if method.rank_reader is None:
        return RankReader
    module, _, name = method.rank_reader.partition(":")
    found: type[RankReader] = getattr(import_module(module), name)
    return found


@contextmanager
def reading(
    ranks: Ranks, method: AccessMethod, n_ranks: int, own: _core.Trajectory | None = None
) -> Iterator[RankReader]:
    """Context with the reader of this rank for a pass of the first `n_ranks` ranks; closed at the end.

    `own`: a trajectory that this rank already has open.
    """
    made = rank_reader(method) if ranks.rank < n_ranks else RankReader
    reader = made(ranks, n_ranks, own)
    try:
        yield reader
    finally:
        # this waits for all ranks that take part
        if ranks.silent is None:
            reader.close()

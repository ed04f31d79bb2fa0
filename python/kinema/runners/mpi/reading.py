"""How the ranks of a pass read the frames: each by itself through the core, or with the reader of an access method."""

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

__all__ = ["RankReader", "rank_reader", "reading"]


class RankReader:
    """Reads of one rank in one pass; this one opens what it needs through the core, and waits for no other rank.

    Subclasses are named by access methods (`AccessMethod.rank_reader`); ranks that take part in a pass make one each.

    Parameters
    ----------
    ranks : Ranks
    n_ranks : int
        The first so many ranks take part.
    own : _core.Trajectory, optional
        A trajectory that this rank has open already.

    Attributes
    ----------
    describe : function, optional
        What becomes of the descriptions of HDF5 files before they are sent to the ranks; None: they stay as they are.
    """

    describe: Callable[[Any], Any] | None = None

    def __init__(self, ranks: Ranks, n_ranks: int, own: _core.Trajectory | None = None) -> None:
        self._own = own

    @classmethod
    def check(cls, method: AccessMethod, trajectory: _core.Trajectory) -> None:
        """ArgumentError where a file or the MPI library does not serve; called on rank 0 before the pass."""

    @property
    def ended_by_another(self) -> bool:
        """Whether another rank has failed, so that this one may read no more. That rank reports why."""
        return False

    def open(self, files: TrajectorySnapshot, data: NDArray[np.uint8]) -> _core.Trajectory:
        """The trajectory; called by all ranks that take part before the first of them reads."""
        return files.open(data) if self._own is None else self._own

    def finish(self) -> None:
        """This rank has read all that it is to read. The call returns at once."""

    def stop(self) -> None:
        """This rank reads no more, and nor shall others, unless all have finished. The call returns at once."""

    def wait(self) -> None:
        """Until all ranks have finished, or one has stopped."""

    def close(self) -> None:
        """Called by all ranks that take part when none of them reads any more."""


def rank_reader(method: AccessMethod) -> type[RankReader]:
    """The class of reader of an access method, imported now."""
    if method.rank_reader is None:
        return RankReader
    module, _, name = method.rank_reader.partition(":")
    found: type[RankReader] = getattr(import_module(module), name)
    return found


@contextmanager
def reading(
    ranks: Ranks, method: AccessMethod, n_ranks: int, own: _core.Trajectory | None = None
) -> Iterator[RankReader]:
    """The reader of this rank while a pass lasts, where the first `n_ranks` ranks take part; closed at the end.

    `own`: a trajectory that this rank has open already.
    """
    made = rank_reader(method) if ranks.rank < n_ranks else RankReader
    reader = made(ranks, n_ranks, own)
    try:
        yield reader
    finally:
        # it waits for all ranks that take part
        if ranks.silent is None:
            reader.close()

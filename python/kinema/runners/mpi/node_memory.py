"""Memory that the ranks of a node share, filled by rank 0: one copy of a trajectory snapshot per node."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema.runners.mpi.communicator import Ranks, sleep_between


class NodeBytes:
    """Bytes of rank 0 in memory that the ranks of a node share, sent to each node once. Making and freeing are
    collective.

    `array`: (size,) uint8.
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
        """Frees the memory; collective."""
        self._window.Unlock_all()
        self._window.Free()

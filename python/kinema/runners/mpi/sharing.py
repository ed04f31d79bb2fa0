"""Bytes of rank 0 once on each node, in memory that its ranks share: above all what it knows of the files of a run.

It does not know what the bytes say; see `known_files`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema.errors import InternalError
from kinema.runners.known_files import KnownFiles
from kinema.runners.mpi.ranks import Ranks, sleep_between

__all__ = ["FilesOfRun", "NodeBytes", "files_of_round"]


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


@dataclass(frozen=True, eq=False)
class FilesOfRun:
    """What all rounds of a run need to know of its files; `run` is None on ranks other than 0, which are told."""

    run: object
    known: KnownFiles
    data: NodeBytes


def files_of_round(
    ranks: Ranks, sent: KnownFiles | None, run: object = None, data: NDArray[np.uint8] | None = None
) -> FilesOfRun:
    """What was sent with this round, or with an earlier one of the run; called by all ranks together.

    Parameters
    ----------
    sent : KnownFiles or None
        None: what an earlier round has brought serves this one.
    run, data : on rank 0
    """
    if sent is not None:
        if ranks.files is not None:
            before, ranks.files = ranks.files, None
            before.data.free()
        ranks.files = FilesOfRun(run, sent, NodeBytes(ranks, sent.size, data))
    if ranks.files is None:
        raise InternalError("a rank was told of no files")
    return ranks.files

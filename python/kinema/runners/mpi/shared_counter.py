"""A counter that the ranks of an MPI program share, in an MPI window: each number goes to one rank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from mpi4py import MPI

from kinema.base.errors import ArgumentError
from kinema.cache.mpi.progress import progressing


class Counter:
    """Counts from 0 on, by MPI's `Fetch_and_op` on a window of one integer that rank 0 owns.

    On one node the window is shared memory, which works without the owner. Between nodes most MPI libraries carry out
    one-sided operations only when the owner calls MPI, which a computing rank does ten times a second: so a thread of
    rank 0 calls MPI every half millisecond during a pass (`serving`).

    Making and freeing are collective.
    """

    def __init__(self, comm: MPI.Intracomm, node: MPI.Intracomm) -> None:
        self._comm = comm
        self._one_node = node.Get_size() == comm.Get_size()
        size = 8 if comm.Get_rank() == 0 else 0
        # ranks of the node communicator have the same order as in the other: its first rank is the owner there, too
        make = MPI.Win.Allocate_shared if self._one_node else MPI.Win.Allocate
        self._window = make(size, 8, comm=node if self._one_node else comm)
        self._window.Lock_all()
        self._one = np.ones(1, np.int64)
        self._value = np.zeros(1, np.int64)
        if comm.Get_rank() == 0:
            self.reset(used=False)

    def reset(self, *, used: bool = True) -> None:
        """Restarts from 0; called on rank 0, before it broadcasts a pass whose ranks take numbers.

        Raises ArgumentError if the counter is `used` on several nodes and MPI was not started with MPI_THREAD_MULTIPLE.
        """
        if used and not self._one_node and MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise ArgumentError(
                "the dynamic schedule on several nodes needs an MPI library with MPI_THREAD_MULTIPLE; use "
                "schedule='static', or leave mpi4py.rc.thread_level as it is"
            )
        self._window.Accumulate(np.zeros(1, np.int64), 0, op=MPI.REPLACE)
        self._window.Flush(0)

    def next(self) -> int:
        """A number that no other rank has."""
        self._window.Fetch_and_op(self._one, self._value, 0, op=MPI.SUM)
        self._window.Flush(0)
        return int(self._value[0])

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Context in which a progress thread serves the ranks of other nodes; on rank 0 of several nodes only."""
        if self._one_node or self._comm.Get_rank() != 0:
            yield
            return
        with progressing(self._comm):
            yield

    def free(self) -> None:
        """Frees the window; collective."""
        self._window.Unlock_all()
        self._window.Free()

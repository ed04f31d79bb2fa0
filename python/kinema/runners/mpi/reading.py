"""How the ranks of a round come by the frames: each directly, or HDF5 files through libhdf5 and MPI-IO.

It says who reads in which way; reading through MPI-IO is `hdf5`, which nothing else loads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema import _core
from kinema.access import MPIO, Access
from kinema.errors import ArgumentError
from kinema.h5md.description import H5mdDescription
from kinema.runners.known_files import KnownFiles
from kinema.runners.mpi.ranks import Ranks

__all__ = ["RankReads", "check_mpio", "described_for", "reading"]


def check_mpio(trajectory: _core.Trajectory, access: Access) -> None:
    """ArgumentError where a part is no HDF5 file, or threads may not call MPI."""
    for part in trajectory.parts():
        if part["format"] != "H5MD":
            raise ArgumentError(f"{part['path']}: access {access!r} is for HDF5 files, found {part['format']}")
    if MPI.Query_thread() != MPI.THREAD_MULTIPLE:
        raise ArgumentError(f"access {access!r} needs an MPI library whose threads may all call it (THREAD_MULTIPLE)")


def described_for(access: Access) -> Callable[[H5mdDescription], H5mdDescription] | None:
    """What becomes of the descriptions of HDF5 files before they travel; None where they stay as they are."""
    if access not in MPIO:
        return None
    from kinema.h5md.mpio import through_mpio

    return through_mpio


@contextmanager
def reading(ranks: Ranks, access: Access, n_ranks: int, own: _core.Trajectory | None = None) -> Iterator[RankReads]:
    """What this rank reads with while a round lasts, where the first `n_ranks` ranks take part.

    `own`: a trajectory that it has open already.
    """
    reads = RankReads(own)
    if access in MPIO and ranks.rank < n_ranks:
        from kinema.runners.mpi.hdf5 import MpioReads

        reads = MpioReads(ranks, n_ranks, collective=access == "hdf5-mpio-collective")
    try:
        yield reads
    finally:
        reads.close()


class RankReads:
    """Each rank reads by itself, and opens what it needs when it needs it."""

    def __init__(self, own: _core.Trajectory | None = None) -> None:
        self._own = own

    @property
    def ended_by_another(self) -> bool:
        """Whether another rank has failed, so that this one may read no more. That rank says why."""
        return False

    def open(self, files: KnownFiles, data: NDArray[np.uint8]) -> _core.Trajectory:
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

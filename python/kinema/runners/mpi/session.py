"""The MPI session: state of the ranks for all passes of a run, with distributed rows and the trajectory snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema.base.errors import InternalError
from kinema.model.selection.frames import FrameSelection
from kinema.model.snapshot import TrajectorySnapshot
from kinema.runners.mpi.communicator import Ranks, RemoteError
from kinema.runners.mpi.global_array import GlobalRows
from kinema.runners.mpi.node_memory import NodeBytes


@dataclass(frozen=True)
class RunEnded:
    """Message of rank 0: the run is over, with its value (if all ranks get it) or its error, and the rows that stay."""

    value: Any = None
    error: RemoteError | None = None
    retained: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Shutdown:
    """Message of rank 0: the runner's block has ended."""


@dataclass(frozen=True, eq=False)
class RunSnapshot:
    """The snapshot of a run's trajectory, with its bytes in node memory. `run` is None on ranks other than 0."""

    run: object
    snapshot: TrajectorySnapshot
    data: NodeBytes


class MPISession(Ranks):
    """The ranks of a run or of a block of the runner. Making and freeing are collective.

    `arrays`: all rows that were made, in the same order on all ranks.
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        super().__init__(comm)
        self.arrays: list[GlobalRows] = []
        self._files: RunSnapshot | None = None

    def new_rows(self, frames: FrameSelection, values: np.dtype[Any]) -> GlobalRows:
        """Makes rows for these frames, distributed over the ranks; collective. `values`: type and shape of a row."""
        rows = GlobalRows(self, len(self.arrays), frames, values)
        self.arrays.append(rows)
        return rows

    def has_snapshot_of(self, run: object) -> bool:
        """Whether an earlier pass has brought the snapshot of this run; on rank 0."""
        return self._files is not None and self._files.run is run

    def snapshot_of_pass(
        self, sent: TrajectorySnapshot | None, run: object = None, data: NDArray[np.uint8] | None = None
    ) -> RunSnapshot:
        """The snapshot sent with this pass, else that of an earlier pass of the run; collective.

        `sent`: if None, an earlier pass has brought it.
        `run`, `data`: only on rank 0.
        """
        if sent is not None:
            if self._files is not None:
                before, self._files = self._files, None
                before.data.free()
            self._files = RunSnapshot(run, sent, NodeBytes(self, sent.size, data))
        if self._files is None:
            raise InternalError("a pass has no snapshot of its trajectory")
        return self._files

    def free(self, retained: frozenset[int] = frozenset()) -> None:
        """Frees everything but the rows of these numbers; collective."""
        for rows in self.arrays:
            if rows.number in retained:
                rows.detach()
            else:
                rows.free_here()
        if self._files is not None:
            self._files.data.free()
        super().free()

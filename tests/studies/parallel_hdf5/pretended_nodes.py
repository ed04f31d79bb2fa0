"""`RunnerTests` as if every second rank were on another node: run by `mpiexec -n 3 python FILE`.

MPICH can pretend that by a variable of its environment; here the communicator does.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mpi4py import MPI

from kinema.runners.mpi.runner import MPIRunner

sys.path.insert(0, str(Path(__file__).parents[2] / "runners"))
import mpi_cases


class TwoNodes(MPI.Intracomm):
    """A communicator whose ranks are, in turn, on the one and on the other node."""

    def Dup(self, *_: Any) -> TwoNodes:  # noqa: N802
        """As every Dup."""
        return TwoNodes(super().Dup())

    def Split_type(self, _kind: int, key: int = 0, *_: Any) -> MPI.Intracomm:  # noqa: N802
        """The ranks of one node."""
        return self.Split(self.Get_rank() % 2, key)


_made = MPIRunner.__init__


def _pretend_two_nodes(self: MPIRunner, comm: Any = None, **options: Any) -> None:
    _made(self, TwoNodes(MPI.COMM_WORLD) if comm is None else comm, **options)


if __name__ == "__main__":
    MPIRunner.__init__ = _pretend_two_nodes  # type: ignore[method-assign]
    # where the cases look for what has started them
    sys.modules["__main__"] = mpi_cases
    sys.exit(mpi_cases._run(sys.argv[1:]))

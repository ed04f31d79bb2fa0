"""How long ranks wait for a number of the counter while its owner computes: `mpiexec -n 4 python mpi_counter.py`.

Prints percentiles in microseconds, for ranks on the owner's node and on others; asserts nothing.
`MPIR_CVAR_ODD_EVEN_CLIQUES=1` makes MPICH treat every second rank as one of another node; real ones are made by
`tests/runners/test_mpi_nodes.py`. `plain` is the same window without the thread that makes progress.
"""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext

import numpy as np
from mpi4py import MPI

from kinema.runners.mpi_ranks import Ranks

SECONDS = 2.0


def main() -> None:
    """Measures with and without the thread of rank 0."""
    ranks = Ranks(MPI.COMM_WORLD)
    for name in ("serving", "plain"):
        if ranks.leads:
            ranks.counter.reset()
        ranks.comm.Barrier()
        waited: list[float] = []
        with ranks.counter.serving() if name == "serving" else nullcontext():
            until = time.monotonic() + SECONDS
            if ranks.leads:
                matrix = np.ones((400, 400))
                while time.monotonic() < until:
                    matrix @ matrix
            else:
                while time.monotonic() < until:
                    begun = time.perf_counter()
                    ranks.counter.next()
                    waited.append(time.perf_counter() - begun)
                    time.sleep(0.001)
            ranks.comm.Barrier()
        # ranks of the owner's node are told apart: they share memory with it
        near = ranks.node.bcast(ranks.leads if ranks.node.Get_rank() == 0 else None)
        everyone = ranks.comm.gather((near, waited))
        if ranks.leads and everyone is not None:
            for where, wanted in (("on its node", True), ("on others", False)):
                found = 1e6 * np.array([one for near, some in everyone if near == wanted for one in some])
                if len(found):
                    shares = "  ".join(f"p{p:g} {np.percentile(found, p):,.0f}" for p in (50, 90, 99, 100))
                    print(f"{name:8} {ranks.size} ranks, {where}: {len(found):,} numbers, waited us: {shares}")
            sys.stdout.flush()
    ranks.free()


if __name__ == "__main__":
    main()

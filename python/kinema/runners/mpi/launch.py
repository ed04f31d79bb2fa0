"""Whether this process is one of several that an MPI launcher started, told by the launcher's environment variables.

It does not import mpi4py: programs that were not started by a launcher never load an MPI library.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Launch", "launched", "own_environment"]

# number of ranks and this one's number, as launchers call them; the first that are there count.
# PMI: MPICH, Intel MPI, MVAPICH, Cray's ALPS and PALS, srun --mpi=pmi2; OMPI: Open MPI's mpiexec;
# FLUX: flux run; JSM: jsrun; SLURM_STEP: srun with any plugin (a batch script outside srun has no step of its own)
_VARIABLES = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("PMI_SIZE", "PMI_RANK"),
    ("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"),
    ("PALS_SIZE", "PALS_RANKID"),
    ("FLUX_JOB_SIZE", "FLUX_TASK_RANK"),
    ("JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK"),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
)
# "off": this process was started by a rank, as a program of its own
_SWITCH = "KINEMA_MPI"


@dataclass(frozen=True)
class Launch:
    """What a launcher says: so many ranks, of which this is one. `variable` said it."""

    size: int
    rank: int
    variable: str


def launched(environment: Mapping[str, str] | None = None) -> Launch | None:
    """What the launcher says, or None where no launcher started this process, or KINEMA_MPI=off says not to ask."""
    found = os.environ if environment is None else environment
    if found.get(_SWITCH, "").lower() in ("off", "0", "no"):
        return None
    for size, rank in _VARIABLES:
        if found.get(size, "").isdecimal() and found.get(rank, "").isdecimal() and int(found[size]) > 0:
            return Launch(int(found[size]), int(found[rank]), size)
    return None


def own_environment() -> dict[str, str]:
    """The environment for a program that this process starts and that is no rank, also where this one is."""
    return {**os.environ, _SWITCH: "off"}

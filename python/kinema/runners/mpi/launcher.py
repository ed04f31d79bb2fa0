"""The environment variables of MPI launchers: whether one started this process, and with how many ranks.

The module does not import mpi4py: programs that no launcher has started never load an MPI library.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from kinema.base.frozen_dataclass import dataclass

# number of ranks and rank of this process, as launchers name them; the first pair that is set counts.
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
    """Number of ranks that a launcher started, and the rank of this process, from `variable` and its companion."""

    size: int
    rank: int
    variable: str


def launched(environment: Mapping[str, str] | None = None) -> Launch | None:
    """The launch of this process; None if no launcher started it, and with KINEMA_MPI=off."""
    variables = os.environ if environment is None else environment
    if variables.get(_SWITCH, "").lower() in ("off", "0", "no"):
        return None
    for size, rank in _VARIABLES:
        n_ranks, number = variables.get(size, ""), variables.get(rank, "")
        if n_ranks.isdecimal() and number.isdecimal() and int(n_ranks) > 0:
            return Launch(int(n_ranks), int(number), size)
    return None


def own_environment() -> dict[str, str]:
    """The environment for a program that this process starts and that is not a rank, even if this process is one."""
    return {**os.environ, _SWITCH: "off"}

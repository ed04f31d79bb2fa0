"""Runners spread the leaves of a plan over workers and merge what comes back.

They know no analysis by name and choose no frames. `ProcessesRunner`, `Dask`, `MPI` and `GlobalArray` are imported when
they are chosen: most runs do without what they need.
"""

from typing import TYPE_CHECKING, Any

from kinema.runners.base import (
    CalledByAll,
    Outcome,
    RoundRequest,
    Runner,
    RunnerOptions,
    TaskRunner,
    choose_runner,
    session,
)
from kinema.runners.gathering import Gathering, PieceLimit
from kinema.runners.serial import SerialRunner
from kinema.runners.threads import ThreadsRunner
from kinema.runners.timings import RoundTimings, Timings, WorkerTimings

if TYPE_CHECKING:
    from kinema.runners.dask.runner import Dask
    from kinema.runners.mpi.arrays import GlobalArray
    from kinema.runners.mpi.runner import MPIRunner as MPI  # noqa: N814
    from kinema.runners.processes import ProcessesRunner

__all__ = [
    "MPI",
    "CalledByAll",
    "Dask",
    "Gathering",
    "GlobalArray",
    "Outcome",
    "PieceLimit",
    "ProcessesRunner",
    "RoundRequest",
    "RoundTimings",
    "Runner",
    "RunnerOptions",
    "SerialRunner",
    "TaskRunner",
    "ThreadsRunner",
    "Timings",
    "WorkerTimings",
    "choose_runner",
    "session",
]

# public names of runners that are imported when they are asked for
_LATER = {
    "Dask": ("kinema.runners.dask.runner", "Dask"),
    "GlobalArray": ("kinema.runners.mpi.arrays", "GlobalArray"),
    "MPI": ("kinema.runners.mpi.runner", "MPIRunner"),
    "ProcessesRunner": ("kinema.runners.processes", "ProcessesRunner"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, class_name = _LATER[name]
    return getattr(import_module(module), class_name)

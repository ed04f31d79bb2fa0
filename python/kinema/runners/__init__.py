"""Runners: distribute the leaves of a plan over workers and merge their partials.

`ProcessesRunner`, `Dask`, `MPI` and `GlobalArray` are imported on first use, with the packages that they need.
"""

from typing import TYPE_CHECKING, Any

from kinema.base.timings import PassTimings, Timings, WorkerTimings
from kinema.runners.base import PassRequest, PassResult, Runner
from kinema.runners.local.serial import SerialRunner
from kinema.runners.local.threads import ThreadsRunner
from kinema.runners.reduction import PieceLimit, Reduction
from kinema.runners.registry import RunnerOptions, choose_runner

if TYPE_CHECKING:
    from kinema.runners.dask.runner import Dask
    from kinema.runners.local.processes import ProcessesRunner
    from kinema.runners.mpi.global_array import GlobalArray
    from kinema.runners.mpi.runner import MPIRunner as MPI  # noqa: N814

__all__ = [
    "MPI",
    "Dask",
    "GlobalArray",
    "PassRequest",
    "PassResult",
    "PassTimings",
    "PieceLimit",
    "ProcessesRunner",
    "Reduction",
    "Runner",
    "RunnerOptions",
    "SerialRunner",
    "ThreadsRunner",
    "Timings",
    "WorkerTimings",
    "choose_runner",
]

# public names that are imported on first use
_LATER = {
    "Dask": ("kinema.runners.dask.runner", "Dask"),
    "GlobalArray": ("kinema.runners.mpi.global_array", "GlobalArray"),
    "MPI": ("kinema.runners.mpi.runner", "MPIRunner"),
    "ProcessesRunner": ("kinema.runners.local.processes", "ProcessesRunner"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, class_name = _LATER[name]
    return getattr(import_module(module), class_name)


def __dir__() -> list[str]:
    return sorted(__all__)

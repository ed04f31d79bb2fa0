"""The machine of a report: processor, cores, memory, load, operating system, versions of libraries, batch job.

It covers one machine of a run; a worker's `node` names its own.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import numpy as np

from kinema import _core
from kinema.base.resources import default_workers, physical_memory

__all__ = ["LIBRARIES", "hdf5_library", "machine_facts", "mpi_library"]

LIBRARIES = ("mpi", "mpi4py", "hdf5", "h5py", "dask", "MDAnalysis", "compiler")
"""Names of facts that are versions of libraries, besides Kinema, Python and NumPy."""

# variables of Slurm, PBS, LSF and Grid Engine
_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")


def machine_facts() -> dict[str, str | int | float | list[str]]:
    """Facts about this machine, by name; memory in bytes. Facts that are not known are left out.

    "mpi" and "hdf5" are the libraries that this process has loaded. "compiler" is that of Python; "load" is the mean
    number of processes that wanted to run during the last minute.
    """
    facts: dict[str, str | int | float | list[str]] = {
        "host": platform.node(),
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "cores": os.cpu_count() or 1,
        "allowed_cores": default_workers(),
        "instructions": _core.cpu_features(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "kinema": _core.__version__,
    }
    cpu = Path("/proc/cpuinfo")
    if cpu.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", cpu.read_text(errors="replace"), re.MULTILINE)
        if found:
            facts["processor"] = found.group(1)
    if (memory := physical_memory()) is not None:
        facts["memory"] = memory
    loaded = {"mpi": mpi_library(), "hdf5": hdf5_library(), "compiler": platform.python_compiler()}
    facts |= {name: found for name, found in loaded.items() if found}
    facts |= dict(_packages())
    with suppress(OSError):
        facts["load"] = round(os.getloadavg()[0], 2)
    return facts | dict(_job())


def mpi_library() -> str:
    """The MPI library, "Open MPI v4.1.4, ..."; "" if this process has not loaded one."""
    if "mpi4py.MPI" not in sys.modules:
        return ""
    from mpi4py import MPI

    return " ".join(MPI.Get_library_version().replace("\0", "").splitlines()[0].split())


def hdf5_library() -> str:
    """The HDF5 library of h5py, "1.14.2, with MPI"; "" if this process has not loaded it."""
    if "h5py" not in sys.modules:
        return ""
    import h5py

    return f"{h5py.version.hdf5_version}, {'with' if h5py.get_config().mpi else 'without'} MPI"


def _packages() -> Iterator[tuple[str, str]]:
    """Versions of the packages, which are looked up and not imported."""
    for name in ("mpi4py", "h5py", "dask", "MDAnalysis"):
        with suppress(metadata.PackageNotFoundError):
            yield name, metadata.version(name)


def _job() -> Iterator[tuple[str, str]]:
    """The number of the batch job that this process belongs to, and the name of the cluster."""
    for fact, names in (("job", _JOBS), ("cluster", ("SLURM_CLUSTER_NAME",))):
        if found := next(filter(None, map(os.environ.get, names)), None):
            yield fact, found

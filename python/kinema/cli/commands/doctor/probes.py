"""Probes of `kinema doctor`. Each is a function; `python -m` this module with its name runs one by itself.

A probe gives `ProbeResult`s. It may raise, and it may hang in an MPI or on a dead mount: `doctor` runs each in its own
process.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Literal

import kinema
from kinema import _core
from kinema.base.resources import default_memory, default_open_files, default_workers, physical_memory
from kinema.report.machine import hdf5_library, mpi_library

State = Literal["ok", "absent", "trouble"]


@dataclass(frozen=True)
class ProbeResult:
    """One line of the report.

    `state`: "ok", "absent" (an optional part that is not installed) or "trouble".
    `value`: a version, a number, or what went wrong.
    `remedy`: advice; empty if nothing is to be done.
    """

    name: str
    state: State
    value: str
    remedy: str = ""


def versions() -> Iterator[ProbeResult]:
    """Kinema, Python, the system, and the packages that Kinema needs."""
    installed = "" if _requirements() else ", not installed: versions of packages are not checked"
    yield ProbeResult("kinema", "ok", f"{kinema.__version__}{installed}")
    yield ProbeResult("python", "ok", f"{platform.python_version()} ({platform.python_implementation()})")
    libc = " ".join(platform.libc_ver()).strip()
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    yield ProbeResult("system", "ok", f"{system}, {libc}" if libc else system)
    yield from _packages("", "pip install kinema")


def extras() -> Iterator[ProbeResult]:
    """The optional packages, by the extra that brings them."""
    for extra in ("parquet", "pandas", "cluster", "dask", "ml", "mpi"):
        yield from _packages(extra, f"pip install 'kinema[{extra}]'")


def _requirements() -> list[str]:
    """Requirements of the installed package; empty if it runs from a folder without being installed."""
    try:
        return metadata.requires("kinema") or []
    except metadata.PackageNotFoundError:
        return []


def _packages(extra: str, remedy: str) -> Iterator[ProbeResult]:
    """The packages of an extra, or those always needed for "", with their versions."""
    from packaging.requirements import Requirement

    for line in _requirements():
        wanted = Requirement(line)
        by_extra = wanted.marker is not None and not wanted.marker.evaluate({"extra": ""})
        if by_extra != bool(extra) or (wanted.marker is not None and not wanted.marker.evaluate({"extra": extra})):
            continue
        name = f"{wanted.name} [{extra}]" if extra else wanted.name
        try:
            found = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            yield ProbeResult(name, "absent" if extra else "trouble", "not installed", remedy)
            continue
        if wanted.specifier.contains(found, prereleases=True):
            yield ProbeResult(name, "ok", found)
        else:
            yield ProbeResult(name, "trouble", f"{found}; kinema needs {wanted.specifier}", f"{remedy} --upgrade")


def limits() -> Iterator[ProbeResult]:
    """Cores, memory and open files that a run may use."""
    workers, cores = default_workers(), os.cpu_count() or 1
    lower = "" if workers == cores else "; affinity, SLURM_CPUS_PER_TASK or a control group allows no more"
    yield ProbeResult("cores", "ok", f"{workers} of {cores}{lower}")
    total = physical_memory()
    of = f" of {total / (1 << 30):.1f} GiB" if total else ""
    yield ProbeResult(
        "memory", "ok", f"a run takes {default_memory() / (1 << 30):.1f} GiB{of}; --memory sets another limit"
    )
    yield ProbeResult("open files", "ok", f"a trajectory keeps at most {default_open_files()} open")


def temporary_files() -> Iterator[ProbeResult]:
    """The folder of temporary files, and the shared memory of the system."""
    yield _writable("temporary files", tempfile.gettempdir(), "set TMPDIR to a folder with space that you may write to")
    if os.path.isdir("/dev/shm"):
        yield _writable("shared memory", "/dev/shm", "ask for a larger /dev/shm (docker run --shm-size)")


def stored_files() -> Iterator[ProbeResult]:
    """The folder of stored indices."""
    folder = _core.cache_folder()
    remedy = "set XDG_CACHE_HOME to a folder that you may write to; without one, each run looks for the frames again"
    if folder is None:
        yield ProbeResult("cache folder", "trouble", "none", remedy)
        return
    folder = os.fspath(folder)
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)  # it is made when something is stored
    yield _writable("cache folder", folder, remedy)


# less than this is trouble soon
_LITTLE_SPACE = 64 << 20


def _writable(name: str, folder: str, remedy: str) -> ProbeResult:
    """Whether a file can be made in a folder, and how much space is left there."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".kinema-doctor-"):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        return ProbeResult(name, "trouble", f"{folder}: {error.strerror}", remedy)
    value = f"{folder}, {free / (1 << 30):.1f} GiB free"
    return ProbeResult(name, "ok", value) if free >= _LITTLE_SPACE else ProbeResult(name, "trouble", value, remedy)


def hdf5() -> Iterator[ProbeResult]:
    """The HDF5 library of h5py, whether it has MPI, and the filters of hdf5plugin."""
    import h5py
    import hdf5plugin

    more = "" if h5py.get_config().mpi else ", which --format h5md on ranks does not need"
    yield ProbeResult("HDF5 of h5py", "ok", f"{hdf5_library()}{more}")
    usable = [name for name, number in sorted(hdf5plugin.FILTERS.items()) if h5py.h5z.filter_avail(number)]
    remedy = "" if usable else "pip install --force-reinstall hdf5plugin"
    yield ProbeResult(
        "filters of HDF5", "ok" if usable else "trouble", ", ".join(usable) or "none can be loaded", remedy
    )


def mpi() -> Iterator[ProbeResult]:
    """The MPI library, started and ended; nothing if mpi4py is not installed."""
    try:
        metadata.version("mpi4py")
    except metadata.PackageNotFoundError:
        return
    from mpi4py import MPI

    major, minor = MPI.Get_version()
    value = f"{mpi_library()}, standard {major}.{minor}"
    # the extra mpi-local installs its launcher beside Python
    places = os.pathsep.join((os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable)))
    launcher = shutil.which("mpiexec", path=places) or shutil.which("srun", path=places)
    if launcher is None:
        remedy = "load the module of your MPI, or add its mpiexec to PATH"
        yield ProbeResult("MPI", "trouble", f"{value}, but neither mpiexec nor srun is there", remedy)
    else:
        yield ProbeResult("MPI", "ok", f"{value}, started by {launcher}")


PROBES: dict[str, Callable[[], Iterator[ProbeResult]]] = {
    probe.__name__: probe for probe in (versions, extras, limits, temporary_files, stored_files, hdf5, mpi)
}


if __name__ == "__main__":
    # a marker tells the findings from what libraries print
    print("findings:" + json.dumps([asdict(one) for one in PROBES[sys.argv[1]]()]), flush=True)
    # no end of MPI, or of a library, that may hang
    os._exit(0)

"""SNCW of the DL_POLY paper: rank 0 gathers each field and writes it with the netCDF4 library, in DL_POLY's convention.

A classic file with 64-bit offsets, as that library wrote then, with float64 values.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, MissingPackageError, os_errors
from kinema.formats.h5md.read.netcdf4.conventions import DL_POLY, VECTORS
from kinema.storage.output_file import OutputFile
from kinema.studies.write_strategies.pyrochlore import CHARGES, MASSES, NAMES, OwnAtoms, Pyrochlore

_FIELDS = tuple(VECTORS)


def load_library() -> Any:
    """The module netCDF4; raises MissingPackageError without it."""
    try:
        import netCDF4
    except ImportError:
        raise MissingPackageError("the netCDF4 library is not installed: pip install netCDF4") from None
    return netCDF4


def write_with_library(path: str, comm: MPI.Intracomm, system: Pyrochlore, own: OwnAtoms) -> dict[str, float]:
    """Writes the configuration; collective. Returns the seconds of this rank: sort, communicate, write, sync."""
    times = dict.fromkeys(("sort", "communicate", "write", "sync"), 0.0)
    clock = _Clock(times)
    is_root = comm.Get_rank() == 0
    if not is_root:
        for values in (own.ids, *(getattr(own, name) for name in _FIELDS)):
            _gathered(comm, values)
            clock.add("communicate")
        comm.Barrier()
        return times
    with OutputFile(path) as output:
        ids = _gathered(comm, own.ids)
        clock.add("communicate")
        if not np.array_equal(np.bincount(ids, minlength=system.n_atoms), np.ones(system.n_atoms)):
            raise ArgumentError("ids of all ranks are not each atom once")
        clock.add("sort")
        with load_library().Dataset(output.temporary, "w", format="NETCDF3_64BIT_OFFSET") as file:
            _begin(file, system)
            clock.add("write")
            for name in _FIELDS:
                values = _gathered(comm, getattr(own, name))
                clock.add("communicate")
                ordered = np.empty_like(values)
                ordered[ids] = values
                clock.add("sort")
                file[VECTORS[name]][0] = ordered / DL_POLY.size(name)
                clock.add("write")
        _sync(output.temporary)
        clock.add("sync")
    comm.Barrier()
    return times


class _Clock:
    """Adds the time since the last call to a phase."""

    def __init__(self, times: dict[str, float]) -> None:
        self._times = times
        self._last = time.perf_counter()

    def add(self, phase: str) -> None:
        now = time.perf_counter()
        self._times[phase] += now - self._last
        self._last = now


def _gathered(comm: MPI.Intracomm, values: NDArray[Any]) -> NDArray[Any]:
    """Values of all ranks, concatenated on rank 0."""
    counts = comm.gather(values.size)
    if counts is None:
        comm.Gatherv(values, None)
        return values[:0]
    found = np.empty((sum(counts) // int(np.prod(values.shape[1:])), *values.shape[1:]), values.dtype)
    comm.Gatherv(values, [found, counts])
    return found


def _begin(file: Any, system: Pyrochlore) -> None:
    """Defines dimensions and variables, and writes everything except the vectors of the atoms."""
    file.setncatts(
        {
            "title": "Gd2Zr2O7", "application": "kinema bench-write", "program": "Kinema",
            "programVersion": "0", "Conventions": DL_POLY.title, "ConventionVersion": DL_POLY.version,
        }
    )  # fmt: skip
    for name, size in (("frame", None), ("atom", system.n_atoms), ("spatial", 3), ("cell_spatial", 3), ("label", 8)):
        file.createDimension(name, size)
    names = np.array([name.encode() for name in NAMES], "S8").view("S1").reshape(len(NAMES), 8)
    kinds = system.kinds()
    of_frame = (
        ("time", "f8", 0.0), ("step", "i4", 0), ("datalevel", "i4", 2), ("imageconvention", "i4", 2),
    )  # fmt: skip
    of_atoms = (
        ("atomnames", "S1", ("atom", "label"), names[kinds]),
        ("indices", "i4", ("atom",), np.arange(1, system.n_atoms + 1)),
        ("masses", "f8", ("atom",), MASSES[kinds]),
        ("charges", "f8", ("atom",), CHARGES[kinds]),
    )
    for name, kind, dimensions, _ in of_atoms:
        file.createVariable(name, kind, dimensions)
    for name, kind, _ in of_frame:
        file.createVariable(name, kind, ("frame",))
    file.createVariable("cell", "f8", ("frame", "cell_spatial", "spatial")).units = DL_POLY.units["cell"]
    for field, name in VECTORS.items():
        file.createVariable(name, "f8", ("frame", "atom", "spatial")).units = DL_POLY.units[field]
    for name, _, _, values in of_atoms:
        file[name][:] = values
    for name, _, value in of_frame:
        file[name][0] = value
    file["cell"][0] = system.box


def _sync(path: str) -> None:
    with os_errors("cannot write", path):
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_with_library(path: str, start: int, stop: int) -> dict[str, NDArray[np.float64]]:
    """{"positions": (n, 3), ...} of atoms start..stop in Kinema's units."""
    with load_library().Dataset(path) as file:
        file.set_auto_mask(False)
        return {field: file[name][0, start:stop] * DL_POLY.size(field) for field, name in VECTORS.items()}

"""The program of one cell of an experiment on writing: `mpiexec -n N python -m kinema.studies.write_strategies.one_cell
settings.json`. Each rank makes its own atoms, then all write one file; rank 0 writes the measurements.

An error on one rank ends all ranks; the error is left in a file that the driver reads.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from kinema.base.errors import MissingPackageError
from kinema.base.notes import collected
from kinema.base.resources import peak_memory
from kinema.parallel.placers import FilePlacer
from kinema.studies.write_strategies.design import FIELDS, NETCDF_LIBRARY, PLACER, WITHOUT_ATOMS
from kinema.studies.write_strategies.outcome import files_of
from kinema.studies.write_strategies.pyrochlore import OwnAtoms, Pyrochlore

_STEP, _TIME = 1000, 0.49
# block size of plain writes
_BLOCK = 8 << 20
_FAILED = 3

Write = Callable[[], dict[str, float]]


def main() -> None:
    """Carries out the cell that the first argument describes."""
    comm = MPI.COMM_WORLD
    with open(sys.argv[1], encoding="utf-8") as file:
        settings = json.load(file)
    # if the driver is killed, nothing else ends the ranks
    watch = threading.Timer(settings["time_limit"] + 60.0, os._exit, [_FAILED])
    watch.daemon = True
    watch.start()
    try:
        carry_out(comm, settings)
    except BaseException as error:
        notes = " ".join(getattr(error, "__notes__", ()))
        reason = f"{error or type(error).__name__}{f' ({notes})' if notes else ''}"
        with suppress(OSError):
            # whole or not at all: another rank may end this one at any moment
            kind = "missing" if isinstance(error, MissingPackageError) else "reason"
            place = Path(settings["reasons"]) / f"{kind}-{comm.Get_rank():06}"
            made = place.with_suffix(".part")
            made.write_text(reason, encoding="utf-8", errors="replace")
            made.rename(place)
        comm.Abort(_FAILED)


def carry_out(comm: MPI.Intracomm, settings: dict[str, Any]) -> None:
    """Runs one cell, as its settings.json describes it; collective. Rank 0 writes the result."""
    if settings["strategy"] in WITHOUT_ATOMS:
        base, share, write = _resident(), 0, _plain_writer(comm, settings)
    else:
        system = Pyrochlore(tuple(settings["cells"]), settings["seed"])
        call = _call(comm, settings, system)
        base = _resident()
        grid = MPI.Compute_dims(comm.Get_size(), 3)
        own = system.atoms(comm.Get_rank(), (grid[0], grid[1], grid[2]))
        share, write = own.nbytes, partial(call, own)
    _warm_up(comm, settings)
    _forget_peak()
    comm.Barrier()
    began, of_cpu = time.perf_counter(), time.process_time()
    phases = write()
    seconds, cpu = time.perf_counter() - began, time.process_time() - of_cpu
    measured = {"seconds": seconds, "cpu": cpu, "phases": phases, "peak": peak_memory(), "base": base, "share": share}
    found = comm.gather(measured | {"node": MPI.Get_processor_name()})
    if found is not None:
        from kinema.report.machine import mpi_library

        size = sum(map(os.path.getsize, files_of(settings["path"])))
        result = {"ranks": found, "bytes": size, "mpi": mpi_library()}
        Path(settings["result"]).write_text(json.dumps(result), encoding="utf-8")


def _call(comm: MPI.Intracomm, settings: dict[str, Any], system: Pyrochlore) -> Callable[[OwnAtoms], dict[str, float]]:
    """A function that writes a rank's atoms; everything else it needs is loaded here, before the clock starts."""
    records = settings["records"]
    if settings["strategy"] == NETCDF_LIBRARY:
        from kinema.studies.write_strategies.netcdf_library import load_library, write_with_library

        load_library()
        return partial(write_with_library, settings["path"], comm, system)
    from kinema.studies.write_strategies.calls import atoms_of, write_binary, writer_of

    if records == "binary":
        return partial(write_binary, comm, settings, system, _STEP)
    atoms = atoms_of(records, system) if comm.Get_rank() == 0 else None
    fields = list(FIELDS.get(records, ("positions", "velocities", "forces")))

    def write(own: OwnAtoms) -> dict[str, float]:
        given = {name: getattr(own, name) for name in fields[1:]}
        with collected(), writer_of(comm, settings, system.n_atoms, fields, atoms) as out:
            out.write(own.positions, ids=own.ids, step=_STEP, time=_TIME, cell=system.box, **given)
        return dict(out.timings)

    return write


def _plain_writer(comm: MPI.Intracomm, settings: dict[str, Any]) -> Write:
    """Writes as many bytes as the file has, without atoms, each rank its own part from one buffer: by the calls of
    "direct", or as any program writes and syncs."""
    rank, size = comm.Get_rank(), comm.Get_size()
    first, last = (settings["bytes"] * one // size for one in (rank, rank + 1))
    block = np.random.default_rng(rank).bytes(min(_BLOCK, max(1, last - first)))

    def write() -> dict[str, float]:
        if rank == 0:
            os.close(os.open(settings["path"], os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        comm.Barrier()
        kind = FilePlacer if settings["strategy"] == PLACER else _PlainFile
        placer = kind(settings["path"], settings["path"])
        began = time.perf_counter()
        for offset in range(first, last, len(block)):
            placer.write_at(offset, memoryview(block)[: last - offset])
        written = time.perf_counter()
        placer.sync()
        synced = time.perf_counter()
        placer.close()
        comm.Barrier()
        return {"write": written - began, "sync": synced - written}

    return write


class _PlainFile:
    """pwrite and fdatasync, and nothing else."""

    def __init__(self, path: str, _name: str) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)

    def write_at(self, offset: int, data: memoryview) -> None:
        while data:
            written = os.pwrite(self._handle, data, offset)
            data, offset = data[written:], offset + written

    def sync(self) -> None:
        os.fdatasync(self._handle)

    def close(self) -> None:
        os.close(self._handle)


def _warm_up(comm: MPI.Intracomm, settings: dict[str, Any]) -> None:
    """Writes more than the run will, into files that are then removed, before the clock starts.

    Memory pages that a host has yet to lend to a virtual machine cost many times more than filling them. So all runs,
    including those without atoms, get pages that were just used.
    """
    path = f"{settings['path']}.warm-{comm.Get_rank():06}"
    with open(path, "xb", buffering=0) as file:
        os.unlink(path)
        block = bytes(_BLOCK)
        for _ in range(0, settings["warm_bytes"] // comm.Get_size(), _BLOCK):
            file.write(block)


def _resident() -> int:
    """Resident bytes of this process now; if the system does not give them, the largest number so far."""
    with suppress(OSError):
        found = re.search(r"^VmRSS:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
        if found:
            return int(found.group(1)) * 1024
    return peak_memory()


def _forget_peak() -> None:
    """Restarts the count of the peak of memory here, if Linux can do that; otherwise it counts from the start."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    main()

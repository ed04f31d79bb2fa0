"""The calls that an experiment makes: `kinema.Writer(comm=)`, and the same strategies for native binary records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from mpi4py import MPI

from kinema.selection.atom_table import Atoms
from kinema.studies.write_strategies.binary import BinaryRecords
from kinema.studies.write_strategies.design import KINDS
from kinema.studies.write_strategies.pyrochlore import NAMES, OwnAtoms, Pyrochlore
from kinema.writing.output_file import OutputFile
from kinema.writing.parallel.agreement import Agreement, WriterTimings
from kinema.writing.parallel.exchange import Exchange, even_owners
from kinema.writing.parallel.placers import FilePlacer, MpiPlacer, Placer
from kinema.writing.parallel.strategies import Hints, hints_of, uses_mpiio
from kinema.writing.parallel.writer import ParallelWriter
from kinema.writing.writer import Writer

__all__ = ["atoms_of", "write_binary", "writer_of"]

_NAMED = ("ascii",)


def atoms_of(records: str, system: Pyrochlore) -> Atoms | None:
    """The table of atoms for kinds of files that have their names; rank 0 gives it."""
    return Atoms(system.n_atoms, names=np.array(NAMES)[system.kinds()]) if records in _NAMED else None


def writer_of(
    comm: MPI.Intracomm, settings: Mapping[str, Any], n_atoms: int, fields: list[str], atoms: Atoms | None
) -> ParallelWriter:
    """The writer of a cell. One thread a rank: as many cores work as there are ranks, whatever the strategy."""
    records = settings["records"]
    options: dict[str, Any] = {"fields": fields} if records not in _NAMED else {"fields": fields, "atoms": atoms}
    out = Writer(
        settings["path"], n_atoms, format=KINDS[records].format, comm=comm, strategy=settings["strategy"],
        hints=settings["hints"], verify=settings["verify"], workers=1, **options,
    )  # fmt: skip
    assert isinstance(out, ParallelWriter)  # what comm= gives
    return out


def write_binary(
    comm: MPI.Intracomm, settings: Mapping[str, Any], system: Pyrochlore, step: int, own: OwnAtoms
) -> dict[str, float]:
    """Writes native binary records by "serial", "direct", "mpiio" or "mpiio-collective"; collective.

    Gives the seconds of this rank, as `ParallelWriter.timings`.
    """
    timings = WriterTimings()
    agreement = Agreement(comm.Dup(), timings)
    hints = hints_of(settings["hints"], settings["strategy"])
    output = OutputFile(settings["path"]) if agreement.is_root else None
    temporary = agreement.on_root(lambda: "" if output is None else output.temporary)
    placer = _placer(agreement.comm, temporary, settings, hints)
    try:
        _write_batches(agreement, placer, hints, settings["strategy"], system, own, step)
    finally:
        placer.close()
    agreement.on_root(lambda: None if output is None else output.commit())
    agreement.comm.Free()
    return dict(timings)


def _placer(comm: MPI.Intracomm, temporary: str, settings: Mapping[str, Any], hints: Hints) -> Placer:
    path = settings["path"]
    if uses_mpiio(settings["strategy"]):
        collective = settings["strategy"] == "mpiio-collective"
        return MpiPlacer(comm, temporary, path, collective=collective, hints=hints.info)
    return FilePlacer(temporary, path)


def _write_batches(
    agreement: Agreement,
    placer: Placer,
    hints: Hints,
    strategy: str,
    system: Pyrochlore,
    own: OwnAtoms,
    step: int,
) -> None:
    timings = agreement.timings
    fields = ["positions", "velocities", "forces"]
    records = BinaryRecords(system.n_atoms, fields, NAMES, system.kinds())
    layout = records.frame(0, step, 0.0, system.box)
    ((place, width),) = layout.planes
    writers = 1 if strategy == "serial" else hints.writers or agreement.size
    owners = even_owners(system.n_atoms, agreement.size, writers)
    route = Exchange(agreement, system.n_atoms).route(own.ids, owners)
    for offset, data in layout.pieces:
        if agreement.is_root or placer.is_collective:
            placer.write_at(offset, data if agreement.is_root else b"")
    for batch in route.batches(max(1, hints.batch_bytes // width)):
        vectors = [batch.values(getattr(own, name)) for name in fields]
        n = len(batch.atoms)
        with timings.of("encode"):
            out = np.empty(n * width, np.uint8)
            records.encode(vectors, 0, n, None, batch.atoms.start, [out])
        if n or placer.is_collective:
            with timings.of("write"):
                placer.write_at(place + batch.atoms.start * width, out)
    with timings.of("sync"):
        placer.sync()
    agreement.check(None)

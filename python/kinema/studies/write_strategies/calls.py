"""The writes of an experiment: `kinema.Writer(comm=)`, and the same strategies for native binary records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from mpi4py import MPI

from kinema.formats.all_writers import Writer
from kinema.formats.strategies import hints_of
from kinema.model.atom_table import Atoms
from kinema.parallel.agreement import Agreement, WriterTimings
from kinema.parallel.rank_file import FileRequest
from kinema.parallel.rank_frames import RankFrame
from kinema.parallel.record_files.base import RecordsFile
from kinema.parallel.record_files.placed import PlacedRecords
from kinema.parallel.record_files.shared_records import SharedRecords
from kinema.parallel.writer import ParallelWriter
from kinema.studies.write_strategies.binary import BinaryRecords
from kinema.studies.write_strategies.design import KINDS
from kinema.studies.write_strategies.pyrochlore import NAMES, OwnAtoms, Pyrochlore

_NAMED = ("ascii",)


def atoms_of(records: str, system: Pyrochlore) -> Atoms | None:
    """The table of atoms, for kinds of files with atom names; rank 0 gives it."""
    return Atoms(system.n_atoms, names=np.array(NAMES)[system.kinds()]) if records in _NAMED else None


def writer_of(
    comm: MPI.Intracomm, settings: Mapping[str, Any], n_atoms: int, fields: list[str], atoms: Atoms | None
) -> ParallelWriter:
    """The writer of a cell, with one thread per rank, so that every strategy uses as many cores as there are ranks."""
    records = settings["records"]
    options: dict[str, Any] = {"fields": fields} if records not in _NAMED else {"fields": fields, "atoms": atoms}
    format = KINDS[records].format
    options |= KINDS[records].options
    out = Writer(
        settings["path"], n_atoms, format=format, comm=comm, strategy=settings["strategy"],
        hints=settings["hints"], verify=settings["verify"], workers=1, **options,
    )  # fmt: skip
    assert isinstance(out, ParallelWriter)  # the result of comm=
    return out


def write_binary(
    comm: MPI.Intracomm, settings: Mapping[str, Any], system: Pyrochlore, step: int, own: OwnAtoms
) -> dict[str, float]:
    """Writes native binary records by a strategy that places atoms; with "serial", rank 0 writes all of them, in order.

    Collective. Returns the seconds of this rank, as `ParallelWriter.timings`.
    """
    timings = WriterTimings()
    agreement = Agreement(comm.Dup(), timings)
    serial = settings["strategy"] == "serial"
    strategy = "direct" if serial else settings["strategy"]
    hints = hints_of({**settings["hints"], **({"cb_nodes": 1} if serial else {})}, strategy)
    format = KINDS["binary"].format
    request = FileRequest(
        settings["path"], system.n_atoms, format, strategy, hints, "w", False, True, 1, "sorted", settings["verify"],
        None, None, {"format": format},
    )  # fmt: skip
    counts = agreement.gathered(np.array([len(own.ids)], np.int64))[:, 0]
    vectors = {"positions": own.positions, "velocities": own.velocities, "forces": own.forces}

    def placed(shared: SharedRecords) -> PlacedRecords:
        # instead of the records of CONFIG: one frame, of an unregistered format
        return PlacedRecords(
            shared, lambda fields, *_: BinaryRecords(system.n_atoms, list(fields), NAMES, system.kinds())
        )

    file = RecordsFile(request, agreement, placed)
    file.take(RankFrame(own.ids, vectors, counts, step, None, system.box))
    file.close()
    agreement.comm.Free()
    return dict(timings)

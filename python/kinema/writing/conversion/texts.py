"""Text files (PDB, GRO) by MDAnalysis' writers: the trajectory is read in blocks on threads, ahead of the writer."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.errors import ArgumentError, UnsupportedFormatError
from kinema.frame import VECTOR_FIELDS, block_length
from kinema.notes import emit
from kinema.prefetch import prefetched
from kinema.progress import ProgressChoice, reporting
from kinema.resources import default_memory
from kinema.selection.frames import FrameSelection
from kinema.writing.conversion.compare import Verification
from kinema.writing.conversion.frames import SourceFrames
from kinema.writing.conversion.outputs import WrittenFile
from kinema.writing.writer import Writer

__all__ = ["write_text"]

_BLOCKS = 64 << 20


def write_text(
    source: SourceFrames,
    name: str,
    format: str,
    options: Mapping[str, Any],
    *,
    verify: Verification,
    workers: int,
    memory: int,
    progress: ProgressChoice,
) -> WrittenFile:
    """Writes the frames as the file `name`, which appears when it is whole. It is not read back: ArgumentError for
    verify="all". Else raises as `kinema.convert`."""
    if verify == "all":
        raise ArgumentError(f"{name}: {format} files are not compared with their source; leave out verify='all'")
    atoms = source.atoms_table
    if atoms is None:
        raise ArgumentError(f"{name}: {format} needs names of atoms; open the input with topology=")
    held = ("positions", "velocities") if format == "GRO" else ("positions",)
    wanted = source.fields if source.fields is not None else [one for one in held if one in source.trajectory.fields]
    unknown = [one for one in wanted if one not in held]
    if unknown or "positions" not in wanted:
        raise ArgumentError(f"{name}: {format} files hold positions{' and velocities' * ('velocities' in held)}")
    source.trajectory.check_fields(tuple(wanted))
    fields = tuple(one for one in VECTOR_FIELDS if one in wanted)
    limit = min(memory or default_memory(), _BLOCKS)
    length, working = block_length(limit, source.n_atoms, len(fields), 4, path=source.trajectory.paths[0])
    reads: list[_core.RunTimings] = []

    def read(frames: FrameSelection) -> dict[str, NDArray[Any]]:
        return source.trajectory.core.read(
            frames, atoms=source.atoms, fields=fields, workers=workers, memory=working, timings=reads
        )

    lost = tuple(f"{name}: {loss}" for loss in (*source.extras_lost, *source.observables_lost))
    emit(lost)
    began = time.perf_counter()
    with (
        Writer(
            name, format=format, overwrite=True, keep_partial=False, n_frames=len(source), atoms=atoms, **options
        ) as writer,
        reporting(progress, f"writing {os.path.basename(name)}", len(source)) as report,
    ):
        done = 0
        for block in prefetched(read, source.frames.split(length)):
            for row in range(len(block["steps"])):
                _write(writer, block, row, fields, source, done, name)
                done += 1
            if report is not None:
                report(done, len(source))
    return WrittenFile(
        path=name,
        fields=fields,
        size=os.path.getsize(name),
        seconds=time.perf_counter() - began,
        workers=workers,
        timings={},
        compared=0,
        losses=(*lost, *writer.losses),
        notes=tuple(note for note in writer.notes if note not in writer.losses),
    )


def _write(
    writer: Writer,
    block: Mapping[str, NDArray[Any]],
    row: int,
    fields: tuple[str, ...],
    source: SourceFrames,
    number: int,
    name: str,
) -> None:
    present = block["present"][row]
    if not present["positions"]:
        raise UnsupportedFormatError(
            f"{name}: {writer.format} frame {number}: the source has no positions in its frame {source.frames[number]}",
            path=name,
            format=writer.format,
            frame=number,
        )
    values = {field: block[field][row] for field in fields if present[field]}
    cell = block["cells"][row] if present["cells"] else None
    at = float(block["times"][row])
    writer.write(**values, cell=cell, step=int(block["steps"][row]), time=None if np.isnan(at) else at)

"""Writing frame by frame, from blocks that are read ahead: text files (PDB, GRO), and appended frames."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, UnsupportedFormatError
from kinema.base.notes import emit
from kinema.base.prefetch import prefetched
from kinema.base.progress import ProgressChoice, reporting
from kinema.base.resources import default_memory
from kinema.files.conversion.compare import Verification
from kinema.files.conversion.outputs import WrittenFile
from kinema.files.conversion.source_frames import SourceFrames
from kinema.formats.all_formats import format_named
from kinema.formats.all_writers import Writer
from kinema.formats.external.writer import AtomsAsText
from kinema.model.frame import VECTOR_FIELDS, block_length
from kinema.model.selection.frames import FrameSelection

_BLOCKS = 64 << 20


def write_text(
    source: SourceFrames,
    name: str,
    format: str,
    options: Mapping[str, Any],
    *,
    atoms: AtomsAsText,
    verify: Verification,
    workers: int,
    memory: int,
    progress: ProgressChoice,
) -> WrittenFile:
    """Writes the frames of these atoms as the file `name`, which appears when it is complete.

    The file is not read back: raises ArgumentError for verify="all"; else raises as `kinema.convert`.
    """
    if verify == "all":
        raise ArgumentError(f"{name}: {format} files are not compared with their source; leave out verify='all'")
    held = format_named(format).written_fields
    wanted = source.fields if source.fields is not None else [one for one in held if one in source.trajectory.fields]
    unknown = [one for one in wanted if one not in held]
    if unknown or "positions" not in wanted:
        raise ArgumentError(f"{name}: {format} files hold positions{' and velocities' * ('velocities' in held)}")
    source.trajectory.check_fields(tuple(wanted))
    fields = tuple(one for one in VECTOR_FIELDS if one in wanted)
    lost = tuple(f"{name}: {loss}" for loss in (*source.extras_lost, *source.observables_lost))
    emit(lost)
    began = time.perf_counter()
    with Writer(
        name, format=format, overwrite=True, keep_partial=False, n_frames=len(source), atoms=atoms, **options
    ) as writer:
        write_through(writer, source, fields, "float32", workers=workers, memory=memory, progress=progress)
    return written_by(writer, fields, lost, time.perf_counter() - began, workers)


def written_by(
    writer: Writer, fields: tuple[str, ...], lost: tuple[str, ...], seconds: float, workers: int
) -> WrittenFile:
    """The result of a closed writer; `lost` are the losses that the writer does not know of."""
    return WrittenFile(
        path=writer.path,
        fields=fields,
        size=os.path.getsize(writer.path),
        seconds=seconds,
        workers=workers,
        timings={},
        compared=0,
        losses=(*lost, *writer.losses),
        notes=tuple(note for note in writer.notes if note not in writer.losses),
    )


def write_through(
    writer: Writer,
    source: SourceFrames,
    fields: tuple[str, ...],
    dtype: str,
    *,
    workers: int,
    memory: int,
    progress: ProgressChoice,
) -> None:
    """Gives a writer the frames one by one, from blocks that are read ahead."""
    limit = min(memory or default_memory(), _BLOCKS)
    item = np.dtype(dtype).itemsize
    length, working = block_length(limit, source.n_atoms, len(fields), item, path=source.trajectory.paths[0])

    def read(frames: FrameSelection) -> dict[str, NDArray[Any]]:
        return source.trajectory.core.read(
            frames, atoms=source.atoms, fields=fields, dtype=dtype, workers=workers, memory=working
        )

    with reporting(progress, f"writing {os.path.basename(writer.path)}", len(source)) as report:
        done = 0
        for block in prefetched(read, source.frames.split(length)):
            for row in range(len(block["steps"])):
                _write(writer, block, row, fields, source, done)
                done += 1
            if report is not None:
                report(done, len(source))


def atoms_as_text(source: SourceFrames, name: str, format: str) -> AtomsAsText:
    """The atom records that all files share; raises ArgumentError without a topology."""
    table = source.atoms_table
    if table is None:
        raise ArgumentError(f"{name}: {format} needs names of atoms; open the input with topology=")
    return AtomsAsText(table, format)


def _write(
    writer: Writer,
    block: Mapping[str, NDArray[Any]],
    row: int,
    fields: tuple[str, ...],
    source: SourceFrames,
    number: int,
) -> None:
    present = block["present"][row]
    if not present["positions"]:
        raise UnsupportedFormatError(
            f"{writer.format} frame {writer.n_frames}: the source has no positions in its frame "
            f"{source.frames[number]}",
            at=writer.path,
            format=writer.format,
            frame=writer.n_frames,
        )
    values = {field: block[field][row] for field in fields if present[field]}
    cell = block["cells"][row] if present["cells"] else None
    at = float(block["times"][row])
    writer.write(**values, cell=cell, step=int(block["steps"][row]), time=None if np.isnan(at) else at)

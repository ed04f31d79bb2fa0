"""Appending of a trajectory's frames to an existing file, by the writer of its format."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from kinema.base.errors import ArgumentError
from kinema.base.notes import collected, emit
from kinema.base.printable import counted
from kinema.base.progress import ProgressChoice
from kinema.files.conversion.compare import Verification
from kinema.files.conversion.frame_by_frame import write_through, written_by
from kinema.files.conversion.outputs import WrittenFile
from kinema.files.conversion.source_frames import SourceFrames
from kinema.formats.all_formats import format_named
from kinema.formats.all_writers import Writer
from kinema.model.frame import VECTOR_FIELDS
from kinema.runners.workers import CallWorkers
from kinema.trajectory import opening


def check_append(format: str, on: CallWorkers, strategy: str, verify: Verification, others: Mapping[str, Any]) -> None:
    """Raises ArgumentError if `append=True` cannot be combined with an argument; none of `others` may be given."""
    given = [name for name, value in others.items() if value not in (None, False)]
    if given:
        raise ArgumentError(f"append= adds to one file that is there, and {given[0]}= is given; leave one out")
    if format_named(format).written_through_mdanalysis:
        raise ArgumentError(f"{format} files are not appended to; leave out append=")
    if verify == "all":
        raise ArgumentError("append= reads nothing back; leave out verify='all'")
    if not on.is_local or strategy != "auto":
        raise ArgumentError("append= is done by this process; leave out runner= and strategy=")


def append_frames(
    source: SourceFrames,
    name: str,
    format: str,
    options: Mapping[str, Any],
    *,
    workers: int,
    memory: int,
    progress: ProgressChoice,
) -> WrittenFile:
    """Appends the frames to the file `name`; they must have its fields, and are not read back.

    Existing frames are not touched. After an error the file keeps the frames that were appended before it; a note on
    the error gives their number. Raises as `kinema.convert`.
    """
    held = _look_at(name, format, source)
    emit(lost := tuple(f"{name}: {loss}" for loss in (*source.extras_lost, *source.observables_lost)))
    began = time.perf_counter()
    writer = Writer(name, source.n_atoms, format=format, mode="a", workers=workers, **options)
    n_before = writer.n_frames
    try:
        with writer:
            fields = _fields(source, name, held)
            dtype = "float64" if source.trajectory.wide_fields & set(fields) else "float32"
            write_through(writer, source, fields, dtype, workers=workers, memory=memory, progress=progress)
    except BaseException as error:
        n_added = writer.n_flushed - n_before
        error.add_note(f"{name}: {counted(n_added, 'frame')} of {len(source):,} added")
        raise
    return written_by(writer, fields, lost, time.perf_counter() - began, workers)


def _look_at(name: str, format: str, source: SourceFrames) -> tuple[str, ...]:
    """The fields in the file, none if it has no frames; notes if the file ends later than the new frames begin."""
    with collected():
        there = opening.open(name, format=format)
        there.scan()
    if not len(there):
        return ()
    stamps = there.core.read(there.choose(start=len(there) - 1), fields=(), atoms=np.zeros(0, np.uint32))
    last, first = stamps["times"][0], source.times[0]
    last_step, first_step = int(stamps["steps"][0]), int(source.steps[0])
    if format_named(format).rising_steps and first_step <= last_step:
        raise ArgumentError(
            f"ends at step {last_step}, and the first frame to be added is of step {first_step}; steps of "
            f"{format} files rise from frame to frame",
            at=name,
        )
    if first <= last:
        emit([f"{name}: ends at {last:g} ps, and the first frame that is added is of {first:g} ps"])
    return tuple(there.fields)


def _fields(source: SourceFrames, name: str, held: tuple[str, ...]) -> tuple[str, ...]:
    """The fields of the frames to be appended: those that the file holds."""
    wanted = source.fields or tuple(one for one in VECTOR_FIELDS if one in source.trajectory.fields)
    fields = tuple(one for one in VECTOR_FIELDS if one in (held or wanted))
    if not set(fields) <= set(source.trajectory.fields) or (source.fields and set(source.fields) != set(fields)):
        raise ArgumentError(f"its frames hold {', '.join(fields)}; those to be added have {', '.join(wanted)}", at=name)
    source.trajectory.check_fields(fields)
    return fields

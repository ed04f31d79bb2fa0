"""H5MD to H5MD with nothing left out: the file is repacked, which keeps everything else in it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from kinema.base.notes import emit
from kinema.base.progress import ProgressChoice
from kinema.files.conversion.compare import Verification
from kinema.files.conversion.outputs import WrittenFile
from kinema.files.conversion.source_frames import SourceFrames
from kinema.files.repack import repack
from kinema.formats.all_formats import format_named
from kinema.model.frame import VECTOR_FIELDS
from kinema.model.selection.frames import FrameSelection
from kinema.runners.workers import CallWorkers

_OPTIONS = frozenset(
    {"layout", "compression", "level", "shuffle", "checksum", "max_error", "unit", "chunk_bytes", "align"}
)
_MEMORY = 512 << 20


def is_whole_file(source: SourceFrames, format: str, options: Mapping[str, Any]) -> bool:
    """Whether all of one H5MD file is written as H5MD, without transforms, and only with options that `repack` has."""
    trajectory = source.trajectory
    parts = trajectory.parts
    return (
        format_named(format).chunked
        and len(parts) == 1
        and parts[0].variant.startswith(format)
        and parts[0].truncation is None
        and not trajectory.stated
        and not trajectory.transforms
        and source.atoms is None
        and source.fields is None
        and source.frames == FrameSelection(range(trajectory.core.n_frames))
        and options.keys() <= _OPTIONS
    )


def write_repacked(
    source: SourceFrames,
    name: str,
    options: Mapping[str, Any],
    *,
    verify: Verification,
    on: CallWorkers,
    memory: int,
    progress: ProgressChoice,
) -> WrittenFile:
    """Calls `kinema.repack` with a note that says so; raises its errors."""
    trajectory = source.trajectory
    emit([f"{name}: all of {trajectory.paths[0]} is written, as by kinema repack: observables and all else are kept"])
    began = time.perf_counter()
    done = repack(
        trajectory.paths[0],
        name,
        **options,
        overwrite=True,
        verify=bool(verify),
        runner=on.runner,
        workers=on.workers,
        memory=memory or _MEMORY,
        progress=progress,
    )
    losses: tuple[str, ...] = ()
    if options.get("max_error") is not None:
        unit = options.get("unit") or "angstrom"
        losses = (f"{name}: positions are rounded, none by more than {options['max_error']:g} {unit}",)
    return WrittenFile(
        path=name,
        fields=tuple(field for field in VECTOR_FIELDS if field in trajectory.fields),
        size=os.path.getsize(name),
        seconds=time.perf_counter() - began,
        workers=on.threads,
        timings={},
        compared=len(source) if done.verified else 0,
        losses=losses,
    )

"""Files of records (XTC, DCD): frames are read, encoded and placed by `_core.Encoder`, here or on workers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kinema import _core
from kinema.base.errors import CorruptFileError
from kinema.base.notes import emit
from kinema.base.progress import ProgressChoice, reporting
from kinema.execution.checkpoint import Checkpoint
from kinema.execution.checkpoint.file import IdentityItem
from kinema.files.conversion.compare import ComparedFile, Verification, check_memory, compare
from kinema.files.conversion.outputs import WrittenFile
from kinema.files.conversion.resumable import items_of_convert, record_file
from kinema.files.conversion.source_frames import SourceFrames
from kinema.files.conversion.workers import EncoderRecipe, write_on_workers
from kinema.formats.all_formats import format_named
from kinema.formats.all_writers import options_of
from kinema.formats.dlpoly.atoms import labels_of
from kinema.runners.workers import CallWorkers


def write_records(
    source: SourceFrames,
    name: str,
    format: str,
    *,
    options: Mapping[str, Any],
    verify: Verification,
    checkpoint: Checkpoint | None,
    on: CallWorkers,
    memory: int,
    progress: ProgressChoice,
) -> WrittenFile:
    """Writes the frames as the file `name`, which appears when it is complete and, unless `verify` is False, compared.

    Losses are emitted before the first byte. Raises as `kinema.convert`.
    """

    def items(checkpoint: Checkpoint) -> list[IdentityItem]:
        how = {"format": format, "fields": source.fields, "precision": None, **options}
        return items_of_convert(name, checkpoint, source.trajectory, source.frames, source.atoms, **how)

    with record_file(name, checkpoint, items) as output:
        encoder = encoder_of(source, format, options)
        copy = ComparedFile(
            source,
            name,
            encoder.format,
            tuple(encoder.fields),
            largest_rounding=encoder.largest_rounding,
            same_bits=tuple(encoder.fields) == format_named(encoder.format).exact_copy,
        )
        check_memory(copy, verify, memory)
        losses = tuple(f"{name}: {loss}" for loss in (*encoder.losses, *source.observables_lost))
        emit(losses)
        began = time.perf_counter()
        shown = reporting(progress, f"writing {os.path.basename(name)}", len(source), launched=on.runner.launched)
        with shown as report:
            how: Callable[..., _core.Written]
            if on.is_local:
                how = partial(encoder.write, workers=on.threads, memory=memory)
            else:
                recipe = EncoderRecipe.from_source(source, encoder_arguments(source, format, options))
                how = partial(write_on_workers, source.trajectory.core, encoder, recipe, on, memory=memory)
            written = output.write(how, progress=report)
        seconds = time.perf_counter() - began
        try:
            compared = compare(copy, output.temporary, verify, workers=on.threads, memory=memory, progress=progress)
        except CorruptFileError as error:
            if error.path == name:
                output.reject()
            raise
    stored = output.store_index() if source.trajectory.core.stores else ()
    emit(stored)
    return WrittenFile(
        path=name,
        fields=tuple(encoder.fields),
        size=written["bytes"],
        seconds=seconds,
        workers=written["workers"],
        timings=written["phases"],
        compared=compared,
        losses=losses,
        n_restored=output.n_restored,
        notes=stored,
    )


def encoder_of(source: SourceFrames, format: str, options: Mapping[str, Any]) -> _core.Encoder:
    """The encoder of these frames, with the format's options; raises if the format cannot hold the frames."""
    return _core.Encoder(source.trajectory.core, **encoder_arguments(source, format, options))


def encoder_arguments(source: SourceFrames, format: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `_core.Encoder` besides the trajectory."""
    # if a format's records name the atoms, its writer takes `atoms`
    table = source.atoms_table if "atoms" in options_of(format, variants=False) else None
    return {
        "frames": source.frames,
        "format": format,
        "steps": source.steps,
        "times": source.times,
        "atoms": source.atoms,
        "fields": source.fields,
        "labels": None if table is None else labels_of(table, of_source=source.has_own_atoms),
        **options,
    }

"""Files that `kn.Writer` writes (H5MD, NetCDF-4): threads read the trajectory in blocks, ahead of the writer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as made_with
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, CorruptFileError
from kinema.base.notes import emit
from kinema.base.prefetch import prefetched
from kinema.base.progress import ProgressChoice, Report, reporting
from kinema.base.resources import default_memory
from kinema.execution.checkpoint import Checkpoint
from kinema.execution.checkpoint.file import IdentityItem
from kinema.files.conversion.compare import ComparedFile, Verification, check_memory, compare
from kinema.files.conversion.content import FileContent, check_block, content_of
from kinema.files.conversion.encoded_blocks import given_frames, phase_seconds, read_block, write_from_workers
from kinema.files.conversion.outputs import WrittenFile
from kinema.files.conversion.resumable import block_file, item_of_atoms, items_of_convert
from kinema.files.conversion.source_frames import SourceFrames
from kinema.files.conversion.subfiles import write_subfiles
from kinema.formats.all_formats import format_named
from kinema.formats.all_writers import Writer
from kinema.formats.frame_sink import FrameSink
from kinema.formats.given_frames import FrameArrays
from kinema.formats.h5md.write.options import bound_of
from kinema.formats.h5md.write.units import LENGTHS, FileUnits
from kinema.formats.h5md.writer import H5mdWriter
from kinema.formats.hdf5.series import buffered_rows
from kinema.formats.hdf5.writer import Hdf5Writer
from kinema.model.frame import WORKING_MEMORY, block_length, frame_bytes
from kinema.model.selection.frames import FrameSelection
from kinema.runners.workers import CallWorkers
from kinema.storage.hdf5.filters import Compression
from kinema.storage.hdf5.output import OutputPart
from kinema.storage.hdf5.storage import CHUNK_BYTES, Layout
from kinema.storage.provenance import Provenance

# size of blocks, if that is enough: larger blocks are read more slowly
_BLOCKS = 64 << 20
# The writer gets the same runs of frames whatever block size memory allows, because chunks of several data sets lie in
# the file in the order in which they fill up.
_RUN_BYTES = 1 << 20


def write_blocks(
    source: SourceFrames,
    name: str,
    format: str,
    options: Mapping[str, Any],
    provenance: Provenance,
    *,
    verify: Verification,
    checkpoint: Checkpoint | None,
    on: CallWorkers,
    memory: int,
    progress: ProgressChoice,
) -> WrittenFile:
    """Writes the frames as the file `name`, which appears when it is complete and, unless `verify` is False, compared.

    `options` are the writer's. Losses are emitted before the first byte. Raises as `kinema.convert`.
    """
    # the kind of NetCDF that is stored in HDF5
    strategy, _ = on.chosen(format_named(format).written_kind({}, by_library=True))
    workers = on.threads
    by = None if on.is_local else on
    stored = content_of(source, name, format, options)
    copy = _copy(source, name, format, stored, options)
    check_memory(copy, verify, memory)
    losses = tuple(f"{name}: {loss}" for loss in stored.losses)
    emit(losses)
    given: dict[str, Any] = {
        **options,
        "format": format,
        "fields": stored.fields,
        "dtype": stored.dtype,
        "n_frames": len(source),
        "atoms": source.atoms_table,
        "native": True,
        "workers": workers,
    }
    if isinstance(stored.units, FileUnits):
        if options.get("dialect") is None:
            note = "MDAnalysis' own reader does not read this file; dialect='mdanalysis' makes one that it reads"
            emit([f"{name}: {note}"])
        given |= {
            "length_unit": stored.units.length,
            "time_unit": stored.units.time,
            "provenance": provenance.with_notes(losses).json(),
        }
        if stored.has_cells and options.get("boundary") is None:
            given["boundary"] = _boundary(source)
    work = _Work(source, stored, name, options, workers, memory, losses, by, strategy != "serial")
    began, n_restored, size = time.perf_counter(), 0, 0
    with reporting(progress, f"writing {os.path.basename(name)}", len(source)) as report:
        if strategy == "subfiles":
            size = _write_subfiles(work, copy, given, verify, report, progress, checkpoint)
        elif checkpoint is None:
            _write_at_once(work, copy, given, verify, report, progress)
        else:
            n_restored = _write_resumably(work, copy, given, verify, report, progress, checkpoint)
    return WrittenFile(
        path=name,
        fields=stored.fields,
        size=size or os.path.getsize(name),
        seconds=time.perf_counter() - began - work.comparing,
        workers=workers if by is None else by.n_workers,
        timings=_timings(work),
        compared=work.compared,
        losses=losses,
        n_restored=n_restored,
    )


def _boundary(source: SourceFrames) -> list[str]:
    """Kinds of the first frame's cell edges; the file stores them once."""
    first = source.trajectory.core.read(source.frames[:1], atoms=np.zeros(0, np.uint32), workers=1, mark_absent=True)
    return ["periodic" if one else "none" for one in first["periodic"][0].tolist()]


@dataclass
class _Work:
    """Settings for making one file, with its counts and timings."""

    source: SourceFrames
    stored: FileContent
    name: str
    options: Mapping[str, Any]
    workers: int
    memory: int
    losses: tuple[str, ...]
    by: CallWorkers | None = None
    encode: bool = True
    of_workers: dict[str, float] = made_with(default_factory=dict)
    reads: list[_core.RunTimings] = made_with(default_factory=list)
    writing: float = 0.0
    comparing: float = 0.0
    compared: int = 0

    def write(self, sink: FrameSink, *, in_runs: bool, taken: Callable[[], None]) -> None:
        """Gives a sink the frames after those it already has; `taken` is called after each run.

        `in_runs`: use the run length of the thread runner, whichever workers make the frames.
        """
        if self.by is None:
            for frames in _runs(self, sink.n_frames):
                before = time.perf_counter()
                sink.rows(frames)
                self.writing += time.perf_counter() - before
                taken()
            return
        self.of_workers = write_from_workers(
            sink, self.source, self.stored, self.by, self.name,
            encode=self.encode, run=_run_length(self.source, self.stored), in_runs=in_runs, memory=self.memory,
            taken=taken,
        )  # fmt: skip

    def compare(self, copy: ComparedFile, path: str, verify: Verification, progress: ProgressChoice) -> None:
        """Compares the file at `path` with the source."""
        begun = time.perf_counter()
        self.compared = compare(copy, path, verify, workers=self.workers, memory=self.memory, progress=progress)
        self.comparing = time.perf_counter() - begun


def _write_at_once(
    work: _Work,
    copy: ComparedFile,
    given: Mapping[str, Any],
    verify: Verification,
    report: Report | None,
    progress: ProgressChoice,
) -> None:
    """Makes the file in one call; if the call raises, nothing of the file stays."""
    total = len(work.source)
    with Writer(work.name, work.source.n_atoms, overwrite=True, keep_partial=False, **given) as writer:
        assert isinstance(writer, Hdf5Writer)
        # those were noted already
        writer.losses = work.losses

        def advance() -> None:
            if report is not None:
                report(writer.n_frames, total)

        work.write(writer, in_runs=True, taken=advance)
        before = time.perf_counter()
        writer.finish(lambda path: work.compare(copy, path, verify, progress))
        work.writing += time.perf_counter() - before - work.comparing


def _write_subfiles(
    work: _Work,
    copy: ComparedFile,
    given: Mapping[str, Any],
    verify: Verification,
    report: Report | None,
    progress: ProgressChoice,
    checkpoint: Checkpoint | None,
) -> int:
    """Makes one file per worker and the virtual file on top; returns the bytes of all."""
    if checkpoint is not None:
        raise ArgumentError("strategy='subfiles' has no checkpoint; leave out checkpoint=, or use 'gather'")
    if given.get("layout") == "contiguous":
        raise ArgumentError("strategy='subfiles' is for data sets in chunks, found layout='contiguous'; leave one out")
    assert work.by is not None  # threads use other strategies

    def taken(n_frames: int) -> None:
        if report is not None:
            report(n_frames, len(work.source))

    def check(path: str) -> None:
        work.compare(copy, path, verify, progress)

    made = write_subfiles(
        work.source, work.stored, work.by, work.name, given, losses=work.losses, check=check, taken=taken
    )
    work.of_workers = made.seconds
    return made.size


def _write_resumably(
    work: _Work,
    copy: ComparedFile,
    given: Mapping[str, Any],
    verify: Verification,
    report: Report | None,
    progress: ProgressChoice,
    checkpoint: Checkpoint,
) -> int:
    """Makes the file, or continues one from an earlier call; returns the number of frames that it had."""
    source, total = work.source, len(work.source)
    if given.get("layout") == "contiguous":
        raise ArgumentError("layout='contiguous' cannot be written with checkpoint=, choose another layout")

    def items(checkpoint: Checkpoint) -> list[IdentityItem]:
        decided = {"format": copy.format, "fields": source.fields, "units": copy.scales}
        chosen = {name: value for name, value in sorted(work.options.items()) if value is not None}
        found = items_of_convert(
            work.name, checkpoint, source.trajectory, source.frames, source.atoms, **decided, **chosen
        )
        return [*found, item_of_atoms(given["atoms"])]

    def opened(part: OutputPart) -> H5mdWriter:
        return H5mdWriter(part, source.n_atoms, mode="a", **given)

    def advance(n_frames: int) -> None:
        if report is not None:
            report(n_frames, total)

    with block_file(work.name, checkpoint, items) as output:
        output.write(opened, lambda writer, taken: work.write(writer, in_runs=False, taken=taken), progress=advance)
        try:
            work.compare(copy, output.temporary, verify, progress)
        except CorruptFileError as error:
            if error.path == work.name:
                output.reject()
            raise
    return output.n_restored


def _run_length(source: SourceFrames, stored: FileContent) -> int:
    """Frames that the writer is given at a time; depends only on the size of a frame."""
    needed = frame_bytes(source.n_atoms, len(stored.fields), np.dtype(stored.dtype).itemsize)
    return min(max(1, _RUN_BYTES // needed), len(source))


def _runs(work: _Work, first: int) -> Iterator[FrameArrays]:
    """The frames from row `first` on, in runs."""
    source, stored = work.source, work.stored
    item = np.dtype(stored.dtype).itemsize
    needed = frame_bytes(source.n_atoms, len(stored.fields), item)
    run = _run_length(source, stored)
    # the writer's buffers
    reserved = _buffer_bytes(source, stored, work.options)
    limit = min(work.memory or default_memory(), reserved + max(_BLOCKS, WORKING_MEMORY + 4 * (run + 1) * needed))
    length, working = block_length(
        limit, source.n_atoms, len(stored.fields), item, path=source.trajectory.paths[0], least=run, reserved=reserved
    )
    core = source.trajectory.core

    def read(frames: FrameSelection) -> dict[str, NDArray[Any]]:
        return read_block(core, frames, source.atoms, stored, workers=work.workers, memory=working, timings=work.reads)

    for arrays in prefetched(read, source.frames[first:].split(length - length % run)):
        frames = given_frames(stored, arrays)
        check_block(source.frames, stored, arrays["present"], first, work.name)
        for at in range(0, len(frames), run):
            yield frames[at : at + run]
        first += len(frames)


def _buffer_bytes(source: SourceFrames, stored: FileContent, options: Mapping[str, Any]) -> int:
    """Bytes that the writer buffers: unwritten rows of all fields, and the encoded bytes of one field."""
    kind = np.dtype(stored.dtype)
    chosen = {name: options.get(name) for name in ("level", "shuffle")}
    compression = Compression(options.get("compression"), **chosen, checksum=bool(options.get("checksum")))
    layout = Layout(options.get("layout") or "frames", compression, options.get("chunk_bytes") or CHUNK_BYTES)
    field = layout.new_field(source.n_atoms, kind, len(source))
    item, filtered = (source.n_atoms, 3), bool(field.filters)
    rows = buffered_rows(field.chunks, item, kind.itemsize, filtered=filtered)
    return min(rows, len(source)) * field.row_bytes * (len(stored.fields) + filtered)


def _copy(
    source: SourceFrames, name: str, format: str, stored: FileContent, options: Mapping[str, Any]
) -> ComparedFile:
    """The expected content of the file when it is read back."""
    rounding = 0.0
    if options.get("max_error") is not None and isinstance(stored.units, FileUnits):
        bound = bound_of(options["max_error"], options.get("unit", "angstrom"), stored.units)
        rounding = bound.value * LENGTHS[bound.unit][1] / LENGTHS[stored.units.length][1]
    return ComparedFile(
        source,
        name,
        format,
        stored.fields,
        dtype=stored.dtype,
        scales=(*stored.scales[:3], stored.units.size("times")),
        largest_rounding=rounding,
        same_bits=True,
        same_cells=isinstance(stored.units, FileUnits) or stored.units.has_vectors_of_cells,
        steps=source.steps if stored.steps else np.arange(len(source), dtype=np.int64),
        same_times=stored.times and (isinstance(stored.units, FileUnits) or np.dtype(stored.units.times).itemsize == 8),
        source_scales=stored.scales,
    )


def _timings(work: _Work) -> dict[str, float]:
    """Seconds of all readers by phase, and of the writer, which also encodes if no worker does."""
    return {**(work.of_workers or phase_seconds(work.reads)), "write": work.writing}

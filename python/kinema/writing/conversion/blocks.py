"""Files that `kn.Writer` writes (H5MD, NetCDF-4): the trajectory is read in blocks on threads, ahead of the writer."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as made_with
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.errors import ArgumentError, CorruptFileError, UnsupportedFormatError
from kinema.execution.checkpoint import Checkpoint
from kinema.execution.checkpoint.file import IdentityItem
from kinema.formats.h5md.write.options import bound_of
from kinema.formats.h5md.write.series import buffered_rows
from kinema.formats.h5md.write.units import LENGTHS, TIMES, FileUnits
from kinema.formats.hdf5.filters import Compression
from kinema.formats.hdf5.output import OutputPart
from kinema.formats.hdf5.storage import CHUNK_BYTES, Layout
from kinema.formats.netcdf4.conventions import Convention, convention_named
from kinema.formats.netcdf4.write import NOT_COUNTED
from kinema.frame import VECTOR_FIELDS, WORKING_MEMORY, block_length, float_name, frame_bytes
from kinema.notes import emit
from kinema.prefetch import prefetched
from kinema.progress import ProgressChoice, Report, reporting
from kinema.resources import default_memory
from kinema.selection.frames import FrameSelection
from kinema.writing.conversion.compare import ComparedFile, Scales, Verification, check_memory, compare
from kinema.writing.conversion.frames import SourceFrames
from kinema.writing.conversion.outputs import WrittenFile
from kinema.writing.h5md import H5mdWriter
from kinema.writing.hdf5 import Hdf5Writer
from kinema.writing.provenance import Provenance
from kinema.writing.resumable import block_file, item_of_atoms, items_of_convert
from kinema.writing.writer import Writer

__all__ = ["write_blocks"]

# of blocks, where that is enough: larger ones are read more slowly
_BLOCKS = 64 << 20
# A writer is given the same runs of frames whatever the blocks are that memory allows: chunks of several data sets
# lie in a file in the order in which they are full.
_RUN_BYTES = 1 << 20
# of what is stated of a trajectory, what changes its times
_STATED_TIMES = frozenset({"dt", "t0", "time_offset"})


@dataclass(frozen=True)
class _FileContent:
    """What a file will hold of its source.

    Attributes
    ----------
    format : str
    fields : tuple of str
    dtype : {"float32", "float64"}
    units : FileUnits, or the convention of a NetCDF file
    scales : tuple
        Of the blocks: the units of the file, but for times that were stated, which are in ps.
    steps, times : whether the source's are kept
    has_cells : bool
    losses : tuple of str
    """

    format: str
    fields: tuple[str, ...]
    dtype: str
    units: FileUnits | Convention
    scales: Scales
    steps: bool
    times: bool
    has_cells: bool
    losses: tuple[str, ...]

    @property
    def time_size(self) -> float:
        """What times of a block are divided by."""
        return self.units.size("times") / self.scales[3]


def write_blocks(
    source: SourceFrames,
    name: str,
    format: str,
    options: Mapping[str, Any],
    provenance: Provenance,
    *,
    verify: Verification,
    checkpoint: Checkpoint | None,
    workers: int,
    memory: int,
    progress: ProgressChoice,
) -> WrittenFile:
    """Writes the frames as the file `name`, which appears when it is whole and, unless `verify` is False, compared.

    `options` are those of the writer. Losses are emitted before the first byte. Raises as `kinema.convert`.
    """
    stored = _stored(source, name, format, options)
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
        given |= {
            "length_unit": stored.units.length,
            "time_unit": stored.units.time,
            "provenance": provenance.with_notes(losses).json(),
        }
    work = _Work(source, stored, name, options, workers, memory, losses)
    began, n_restored = time.perf_counter(), 0
    with reporting(progress, f"writing {os.path.basename(name)}", len(source)) as report:
        if checkpoint is None:
            _write_at_once(work, copy, given, verify, report, progress)
        else:
            n_restored = _write_resumably(work, copy, given, verify, report, progress, checkpoint)
    return WrittenFile(
        path=name,
        fields=stored.fields,
        size=os.path.getsize(name),
        seconds=time.perf_counter() - began - work.comparing,
        workers=workers,
        timings=_timings(work.reads, work.writing),
        compared=work.compared,
        losses=losses,
        n_restored=n_restored,
    )


@dataclass
class _Work:
    """How one file is made, and what was counted and timed of it."""

    source: SourceFrames
    stored: _FileContent
    name: str
    options: Mapping[str, Any]
    workers: int
    memory: int
    losses: tuple[str, ...]
    reads: list[_core.RunTimings] = made_with(default_factory=list)
    writing: float = 0.0
    comparing: float = 0.0
    compared: int = 0

    def runs(self, first: int = 0) -> Iterator[dict[str, Any]]:
        """Arguments of `Writer.write` for the frames from `first` on; the time until the next is that of writing."""
        for frames in _runs(self, first):
            before = time.perf_counter()
            yield frames
            self.writing += time.perf_counter() - before

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
    """Makes the file in one call: nothing of it stays where that raises."""
    total = len(work.source)
    with Writer(work.name, work.source.n_atoms, overwrite=True, keep_partial=False, **given) as writer:
        assert isinstance(writer, Hdf5Writer)
        # those that are noted already
        writer.losses = work.losses
        for frames in work.runs():
            writer.write(**frames)
            if report is not None:
                report(writer.n_frames, total)
        before = time.perf_counter()
        writer.close(lambda path: work.compare(copy, path, verify, progress))
        work.writing += time.perf_counter() - before - work.comparing


def _write_resumably(
    work: _Work,
    copy: ComparedFile,
    given: Mapping[str, Any],
    verify: Verification,
    report: Report | None,
    progress: ProgressChoice,
    checkpoint: Checkpoint,
) -> int:
    """Makes the file, or goes on with what an earlier call has left of it; returns the frames that were there."""
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
        output.write(opened, work.runs, progress=advance)
        try:
            work.compare(copy, output.temporary, verify, progress)
        except CorruptFileError as error:
            if error.path == work.name:
                output.reject()
            raise
    return output.n_restored


def _stored(source: SourceFrames, name: str, format: str, options: Mapping[str, Any]) -> _FileContent:
    """What of the source the file holds; UnsupportedFormatError where a frame lacks something that others have."""
    trajectory = source.trajectory
    fields = source.fields
    if fields is None:
        fields = tuple(field for field in VECTOR_FIELDS if field in trajectory.fields)
    trajectory.check_fields(fields)
    fields = tuple(field for field in VECTOR_FIELDS if field in fields)
    parts = trajectory.core.parts()
    wide = {field for part in parts for field in part["wide_fields"]} & set(fields)
    dtype = float_name(options["dtype"] if options.get("dtype") is not None else "float64" if wide else "float32")
    units = convention_named(options.get("convention")) if format == "NetCDF" else _units(parts[0], options)
    stated = bool(_STATED_TIMES & trajectory.stated.keys())
    positions, velocities, forces = (units.size(field) for field in VECTOR_FIELDS)
    scales = (positions, velocities, forces, 1.0 if stated else units.size("times"))
    losses = []
    if wide and dtype == "float32":
        losses += [f"{field} are rounded from float64 to float32" for field in fields if field in wide]
    for field, number in zip(VECTOR_FIELDS, range(3), strict=True):
        # as of classic NetCDF, whose units are what they are
        if (
            isinstance(units, FileUnits)
            and field in fields
            and any(part["scales"][number] != scales[number] for part in parts)
        ):
            losses.append(f"{field} are converted to {units.text(field)}, and rounded once")
    if options.get("max_error") is not None:
        losses.append(
            f"positions are rounded, none by more than {options['max_error']:g} {options.get('unit', 'angstrom')}"
        )
    holds_steps = isinstance(units, FileUnits) or units.has_steps
    steps = holds_steps and bool((source.steps[1:] > source.steps[:-1]).all())
    if not steps and not np.array_equal(source.steps, np.arange(len(source))):
        why = "steps are not kept, as they do not rise: frames are counted from 0"
        losses.append(why if holds_steps else NOT_COUNTED)
    known = ~np.isnan(source.times)
    times = bool(known.all() and (source.times[1:] >= source.times[:-1]).all())
    if not times and known.any():
        losses.append(f"times are not kept, as {'they fall' if known.all() else 'some frames have none'}")
    narrow = isinstance(units, Convention) and np.dtype(units.times).itemsize == 4
    if times and narrow and not np.array_equal(source.times.astype(np.float32), source.times):
        losses.append("times are rounded to float32")
    losses += source.extras_lost + source.observables_lost
    has_cells = _check_present(source, fields, name, format)
    return _FileContent(format, fields, dtype, units, scales, steps, times, has_cells, tuple(losses))


def _units(part: Mapping[str, Any], options: Mapping[str, Any]) -> FileUnits:
    """Those that are asked for, or those of the source where a file can have them, or angstrom and ps."""
    length, _, _, time = part["scales"]
    lengths = {size: known for known, (_, size) in LENGTHS.items()}
    times = {size: known for known, size in TIMES.items()}
    return FileUnits(
        options.get("length_unit") or lengths.get(length, "angstrom"), options.get("time_unit") or times.get(time, "ps")
    )


def _check_present(source: SourceFrames, fields: tuple[str, ...], name: str, format: str) -> bool:
    """Whether frames have cells. UnsupportedFormatError where a frame lacks what the file shall have of all."""
    core = source.trajectory.core
    no_atoms = np.zeros(0, np.uint32)
    if not source.may_lack_fields:
        first = core.read(source.frames[:1], atoms=no_atoms, fields=fields, workers=1, mark_absent=True)
        return bool(first["present"]["cells"][0])
    present = core.read(source.frames, atoms=no_atoms, fields=fields, mark_absent=True)["present"]
    for field in fields:
        _refuse_absent(source, present[field], 0, field, name, format)
    cells = present["cells"]
    if cells.any():
        _refuse_absent(source, cells, 0, "cell", name, format)
    return bool(cells.any())


def _refuse_absent(
    source: SourceFrames, there: NDArray[np.bool_], first: int, what: str, name: str, format: str
) -> None:
    if not there.all():
        row = first + int(np.argmin(there))
        hint = "" if what == "cell" else "; choose other frames, or with fields= what all of them have"
        raise UnsupportedFormatError(
            f"{name}: {format} frame {row}: the source has no {what} in its frame {source.frames[row]}, and a file has "
            f"one for each frame{hint}",
            path=name,
            format=format,
            frame=row,
        )


def _runs(work: _Work, first: int) -> Iterator[dict[str, Any]]:
    """Arguments of `Writer.write`, for runs of frames that depend on the size of a frame alone."""
    source, stored = work.source, work.stored
    item = np.dtype(stored.dtype).itemsize
    needed = frame_bytes(source.n_atoms, len(stored.fields), item)
    run = min(max(1, _RUN_BYTES // needed), len(source))
    # of the writer
    reserved = _buffer_bytes(source, stored, work.options)
    limit = min(work.memory or default_memory(), reserved + max(_BLOCKS, WORKING_MEMORY + 4 * (run + 1) * needed))
    length, working = block_length(limit, source.n_atoms, len(stored.fields), item, least=run, reserved=reserved)
    core = source.trajectory.core

    def read(frames: FrameSelection) -> dict[str, NDArray[Any]]:
        return core.read(
            frames,
            atoms=source.atoms,
            fields=stored.fields,
            dtype=stored.dtype,
            scales=stored.scales,
            workers=work.workers,
            memory=working,
            mark_absent=True,
            timings=work.reads,
        )

    for arrays in prefetched(read, source.frames[first:].split(length - length % run)):
        n_frames = len(arrays["steps"])
        _check_block(source, stored, arrays["present"], first, work.name)
        for at in range(0, n_frames, run):
            rows = slice(at, at + run)
            values: dict[str, Any] = {field: arrays[field][rows] for field in stored.fields}
            values["cell"] = arrays["cells"][rows] if stored.has_cells else None
            values["step"] = arrays["steps"][rows] if stored.steps else None
            values["time"] = _times(stored, arrays["times"][rows]) if stored.times else None
            yield values
        first += n_frames


def _buffer_bytes(source: SourceFrames, stored: _FileContent, options: Mapping[str, Any]) -> int:
    """What the writer holds of the fields before it is written, and of one of them encoded."""
    kind = np.dtype(stored.dtype)
    chosen = {name: options.get(name) for name in ("level", "shuffle")}
    compression = Compression(options.get("compression"), **chosen, checksum=bool(options.get("checksum")))
    layout = Layout(options.get("layout") or "frames", compression, options.get("chunk_bytes") or CHUNK_BYTES)
    field = layout.new_field(source.n_atoms, kind, len(source))
    item, filtered = (source.n_atoms, 3), bool(field.filters)
    rows = buffered_rows(field.chunks, item, kind.itemsize, filtered=filtered)
    return min(rows, len(source)) * field.row_bytes * (len(stored.fields) + filtered)


def _check_block(source: SourceFrames, stored: _FileContent, present: NDArray[np.void], first: int, name: str) -> None:
    for field in stored.fields:
        _refuse_absent(source, present[field], first, field, name, stored.format)
    if stored.has_cells:
        _refuse_absent(source, present["cells"], first, "cell", name, stored.format)
    elif present["cells"].any():
        # those of the first frame decide
        _refuse_absent(source, np.zeros(1, np.bool_), 0, "cell", name, stored.format)


def _times(stored: _FileContent, times: NDArray[np.float64]) -> NDArray[np.float64]:
    return times if stored.time_size == 1.0 else times / stored.time_size


def _copy(
    source: SourceFrames, name: str, format: str, stored: _FileContent, options: Mapping[str, Any]
) -> ComparedFile:
    """What the file must be when it is read back."""
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


def _timings(reads: list[_core.RunTimings], written: float) -> dict[str, float]:
    """Seconds of all readers by phase, and of the writer, which encodes as well."""
    workers = [worker for read in reads for worker in read["workers"]]
    return {
        "open": sum(worker["open"] for worker in workers),
        "io": sum(worker["io"] for worker in workers),
        "decode": sum(worker["decode"] for worker in workers),
        "wait": sum(worker["wait"] for worker in workers),
        "write": written,
    }

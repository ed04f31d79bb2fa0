"""Content that a file in HDF5 takes from its source: fields, types, units, steps, times, cells, and the losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import UnsupportedFormatError
from kinema.files.conversion.compare import Scales
from kinema.files.conversion.source_frames import SourceFrames
from kinema.formats.all_formats import format_named
from kinema.formats.h5md.read.netcdf4.conventions import Convention, convention_named
from kinema.formats.h5md.write.units import LENGTHS, TIMES, FileUnits
from kinema.formats.netcdf4.write import NOT_COUNTED
from kinema.model.frame import VECTOR_FIELDS, float_name
from kinema.model.selection.frames import FrameSelection

# the stated options that change a trajectory's times
_STATED_TIMES = frozenset({"dt", "t0", "time_offset"})


@dataclass(frozen=True)
class FileContent:
    """Content that a file takes from its source.

    `dtype`: {"float32", "float64"}.
    `units`: FileUnits, or the convention of a NetCDF file.
    `scales`: units of the blocks: the file's units, except that stated times are in ps.
    `steps`, `times`: whether the source's are kept.
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
        """Divisor of the times of a block."""
        return self.units.size("times") / self.scales[3]


def content_of(source: SourceFrames, name: str, format: str, options: Mapping[str, Any]) -> FileContent:
    """The content taken from the source; raises UnsupportedFormatError if a frame lacks something that others have."""
    trajectory = source.trajectory
    fields = source.fields
    if fields is None:
        fields = tuple(field for field in VECTOR_FIELDS if field in trajectory.fields)
    trajectory.check_fields(fields)
    fields = tuple(field for field in VECTOR_FIELDS if field in fields)
    parts = trajectory.core.parts()
    wide = trajectory.wide_fields & set(fields)
    dtype = float_name(options["dtype"] if options.get("dtype") is not None else "float64" if wide else "float32")
    units = (
        convention_named(options.get("convention")) if format_named(format).conventions else _units(parts[0], options)
    )
    stated = bool(_STATED_TIMES & trajectory.stated.keys())
    positions, velocities, forces = (units.size(field) for field in VECTOR_FIELDS)
    scales = (positions, velocities, forces, 1.0 if stated else units.size("times"))
    losses = []
    if wide and dtype == "float32":
        losses += [f"{field} are rounded from float64 to float32" for field in fields if field in wide]
    for field, number in zip(VECTOR_FIELDS, range(3), strict=True):
        # as in classic NetCDF, whose units are fixed
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
    return FileContent(format, fields, dtype, units, scales, steps, times, has_cells, tuple(losses))


def _units(part: Mapping[str, Any], options: Mapping[str, Any]) -> FileUnits:
    """The units asked for, else the source's if a file can have them, else angstrom and ps."""
    length, _, _, time = part["scales"]
    lengths = {size: known for known, (_, size) in LENGTHS.items()}
    times = {size: known for known, size in TIMES.items()}
    return FileUnits(
        options.get("length_unit") or lengths.get(length, "angstrom"), options.get("time_unit") or times.get(time, "ps")
    )


def _check_present(source: SourceFrames, fields: tuple[str, ...], name: str, format: str) -> bool:
    """Whether frames have cells. Raises UnsupportedFormatError if a frame lacks something that all must have."""
    core = source.trajectory.core
    no_atoms = np.zeros(0, np.uint32)
    if not source.may_lack_fields:
        first = core.read(source.frames[:1], atoms=no_atoms, fields=fields, workers=1, mark_absent=True)
        return bool(first["present"]["cells"][0])
    present = core.read(source.frames, atoms=no_atoms, fields=fields, mark_absent=True)["present"]
    for field in fields:
        _refuse_absent(source.frames, present[field], 0, field, name, format)
    cells = present["cells"]
    if cells.any():
        _refuse_absent(source.frames, cells, 0, "cell", name, format)
    return bool(cells.any())


def _refuse_absent(
    frames: FrameSelection, there: NDArray[np.bool_], first: int, what: str, name: str, format: str
) -> None:
    if not there.all():
        row = first + int(np.argmin(there))
        hint = "" if what == "cell" else "; choose other frames, or with fields= what all of them have"
        raise UnsupportedFormatError(
            f"{format} frame {row}: the source has no {what} in its frame {frames[row]}, and a file has "
            f"one for each frame{hint}",
            at=name,
            format=format,
            frame=row,
        )


def check_block(frames: FrameSelection, stored: FileContent, present: NDArray[np.void], first: int, name: str) -> None:
    """Raises UnsupportedFormatError if a frame of the block, which starts at row `first`, lacks what others have."""
    for field in stored.fields:
        _refuse_absent(frames, present[field], first, field, name, stored.format)
    if stored.has_cells:
        _refuse_absent(frames, present["cells"], first, "cell", name, stored.format)
    elif present["cells"].any():
        # the first frame, which has no cell, decides
        _refuse_absent(frames, np.zeros(1, np.bool_), 0, "cell", name, stored.format)


def times_of(stored: FileContent, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Times of a block in the file's unit."""
    return times if stored.time_size == 1.0 else times / stored.time_size

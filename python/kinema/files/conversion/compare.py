"""Comparison of a written file with its source, before it gets its final name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, CorruptFileError, Error, MemoryLimitError, with_name
from kinema.base.notes import collected
from kinema.base.progress import ProgressChoice, reporting
from kinema.files.conversion.source_frames import SourceFrames
from kinema.model.frame import WORKING_MEMORY, frame_bytes
from kinema.model.selection.frames import FrameSelection
from kinema.trajectory import Trajectory, opening

# some frames (True), all frames, or none (False)
Verification: TypeAlias = bool | Literal["all"]
# units of length, velocity, force and time, in angstrom, angstrom/ps, kJ/(mol angstrom) and ps
Scales: TypeAlias = tuple[float, float, float, float]

# number of frames that are compared if not all are
_SOME = 16
# relative error of values that were multiplied twice, each product rounded to float32
_ROUNDING = 4 * 2.0**-24
# error of products of cell vectors, relative to the largest: lengths and angles are float32
_CELL_ROUNDING = 1e-5
# working memory if no limit is given
_MEMORY = 64 << 20
# bytes per value besides both files' own: masks of equal values; value, difference and bound in float64
_MASKS, _DIFFERENCES = 3, 24


@dataclass(frozen=True)
class ComparedFile:
    """A written file, and how closely it must match its source.

    `name`, `format`: the file's name in messages, and its format.
    `fields`: per-atom fields in the file.
    `dtype`: {"float32", "float64"}.
    `scales`: units of the compared values; None: angstrom and ps.
    `largest_rounding`: largest rounding of positions in these units, besides that to float32.
    `same_bits`: whether values, cells included, must be equal to the bit apart from this rounding.
    `same_cells`: whether cells must be equal to the bit; otherwise formats may rotate them.
    `steps`: (frames,), or None; steps that the file must have; None: steps are not compared.
    `same_times`: whether times must equal the source's to the bit.
    `source_scales`: units of the source, if its times come in another unit and are divided.
    """

    source: SourceFrames
    name: str
    format: str
    fields: tuple[str, ...]
    dtype: str = "float32"
    scales: Scales | None = None
    largest_rounding: float = 0.0
    same_bits: bool = False
    same_cells: bool = False
    steps: NDArray[np.int64] | None = None
    same_times: bool = False
    source_scales: Scales | None = None


def check_verification(verify: Any) -> Verification:
    """`verify` if it is True, False or "all"; raises ArgumentError for anything else."""
    if verify is True or verify is False or verify == "all":
        chosen: Verification = verify
        return chosen
    raise ArgumentError(f"verify is True for some frames, 'all', or False, found {verify!r}")


def check_memory(copy: ComparedFile, verify: Verification, memory: int) -> None:
    """Raises MemoryLimitError if not even one frame can be compared; to be called before anything is written."""
    if verify == "all":
        _frames_at_once(copy, memory or _MEMORY)


def compare(
    copy: ComparedFile, path: str, verify: Verification, *, workers: int, memory: int, progress: ProgressChoice
) -> int:
    """Compares frames of the file at `path` with the source; returns the number of frames compared.

    Compares up to 16 frames, or all, in `memory` bytes (0: 64 MiB). Raises CorruptFileError, which names the frame,
    and as `check_memory`.
    """
    if verify is False:
        return 0
    try:
        return _compare(copy, path, verify, workers=workers, memory=memory, progress=progress)
    except Error as error:
        if error.path == path != copy.name:
            raise with_name(error, path, copy.name) from None
        raise


def _compare(
    copy: ComparedFile, path: str, verify: Verification, *, workers: int, memory: int, progress: ProgressChoice
) -> int:
    source = copy.source
    with collected(), opening.files_stay():
        written = opening.open(path, stored=False)
        written.scan()
    _check_number(copy, "frames", len(source), written.n_frames)
    _check_number(copy, "atoms", source.n_atoms, written.n_atoms)
    if verify == "all":
        rows = _runs(copy, memory or _MEMORY)
    else:
        some = np.linspace(0, len(source) - 1, min(_SOME, len(source))).astype(np.int64)
        rows = (range(row, row + 1) for row in np.unique(some).tolist())
    total = len(source) if verify == "all" else min(_SOME, len(source))
    compared = 0
    with reporting(progress, f"comparing {os.path.basename(copy.name)}", total) as report:
        for run in rows:
            _compare_rows(copy, written, run, workers)
            compared += len(run)
            if report is not None:
                report(compared, total)
    return compared


def _runs(copy: ComparedFile, memory: int) -> Iterator[range]:
    """Ranges of rows that are compared together."""
    length, n_frames = _frames_at_once(copy, memory), len(copy.source)
    return (range(first, min(first + length, n_frames)) for first in range(0, n_frames, length))


def _frames_at_once(copy: ComparedFile, memory: int) -> int:
    """Number of frames that fit in `memory`: both files' values and the buffers of the comparison."""
    both = 2 * frame_bytes(copy.source.n_atoms, len(copy.fields), np.dtype(copy.dtype).itemsize)
    exact = copy.same_bits and copy.largest_rounding == 0
    one = both + 3 * copy.source.n_atoms * (_MASKS + (0 if exact else _DIFFERENCES))
    length = (memory - WORKING_MEMORY) // one
    if length < 1:
        raise MemoryLimitError(
            f"comparing a frame of {copy.source.n_atoms} atoms needs {one + WORKING_MEMORY} bytes, memory allows "
            f"{memory}; raise memory=, or leave out verify='all'"
        )
    return length


def _check_number(copy: ComparedFile, what: str, expected: int, found: int) -> None:
    if expected != found:
        raise CorruptFileError(f"number of {what} when read back, expected {expected}, found {found}", at=copy.name)


def _compare_rows(copy: ComparedFile, written: Trajectory, rows: range, workers: int) -> None:
    source = copy.source
    options: dict[str, Any] = {"fields": copy.fields, "dtype": copy.dtype, "mark_absent": True}
    threads = workers if len(rows) > 1 else 1
    chosen = source.frames[rows.start : rows.stop]
    scales = copy.source_scales or copy.scales
    expected = source.trajectory.core.read(chosen, atoms=source.atoms, scales=scales, workers=threads, **options)
    found = written.core.read(FrameSelection(rows), scales=copy.scales, workers=threads, **options)
    wrong: NDArray[np.bool_] = ~_same_cells(copy, expected, found)
    for field in copy.fields:
        wrong |= ~_same_values(copy, field, expected[field], found[field])
    _refuse(copy, rows, wrong, f"{' or '.join(copy.fields)} or cell")
    if copy.steps is not None:
        _refuse(copy, rows, found["steps"] != copy.steps[rows.start : rows.stop], "step")
    if copy.same_times:
        divisor = 1.0 if scales is None or copy.scales is None else copy.scales[3] / scales[3]
        times = expected["times"] if divisor == 1.0 else expected["times"] / divisor
        _refuse(copy, rows, found["times"] != times, "time")


def _refuse(copy: ComparedFile, rows: range, wrong: NDArray[np.bool_], what: str) -> None:
    """Raises CorruptFileError for the first wrong frame, if any."""
    if wrong.any():
        row = rows[int(np.argmax(wrong))]
        raise CorruptFileError(
            f"{copy.format} frame {row}: {what} read back are not those of the source",
            at=copy.name,
            format=copy.format,
            frame=row,
        )


def _same_values(copy: ComparedFile, field: str, expected: NDArray[Any], found: NDArray[Any]) -> NDArray[np.bool_]:
    """(frames,) whether values equal the source's as far as the format can hold them."""
    rounding = copy.largest_rounding if field == "positions" or not copy.same_bits else 0.0
    same = (expected == found) | (np.isnan(expected) & np.isnan(found))
    if not (copy.same_bits and rounding == 0) and not same.all():
        wide = expected.astype(np.float64)
        tolerance = rounding if copy.same_bits else _ROUNDING * np.abs(wide) + rounding
        with np.errstate(invalid="ignore"):  # equal infinities have passed already
            same |= np.abs(wide - found) <= tolerance
    whole: NDArray[np.bool_] = same.all(axis=(1, 2))
    return whole


def _same_cells(
    copy: ComparedFile, source: Mapping[str, NDArray[Any]], found: Mapping[str, NDArray[Any]]
) -> NDArray[np.bool_]:
    """(frames,) whether both have no cell, or equal cells.

    If the format may rotate cells, their lengths, angles and handedness are compared instead.
    """
    there = source["present"]["cells"]
    same: NDArray[np.bool_] = there == found["present"]["cells"]
    if copy.same_cells:
        same &= ~there | (source["cells"] == found["cells"]).all(axis=(1, 2))
        return same
    # for a frame without a cell the format may store zeros
    same |= ~there
    expected, copied = source["cells"], found["cells"]
    # products of the vectors do not change when the cell rotates
    products, read = (np.einsum("fik,fjk->fij", one, one) for one in (expected, copied))
    largest = np.abs(products).max(axis=(1, 2))
    same &= ~there | (np.abs(products - read).max(axis=(1, 2)) <= _CELL_ROUNDING * largest)
    same &= ~there | (_core.mirrored_by_lengths(expected) == _core.mirrored_by_lengths(copied))
    return same

"""`salvage`: copies the decodable frames of a damaged XTC, TRR, NetCDF, DCD or HISTORY file, byte for byte."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import UnsupportedFormatError
from kinema.base.input_files import file_names
from kinema.base.notes import emit, returns_notes
from kinema.base.printable import counted
from kinema.base.progress import ProgressChoice
from kinema.base.resources import parse_memory
from kinema.formats.all_formats import FORMATS, format_named
from kinema.formats.splice import FrameRange, write_frames
from kinema.model.selection.frames import FrameSelection
from kinema.model.selection.readable_frames import decode_frames
from kinema.storage.output_checks import check_format, check_not_input, check_target
from kinema.trajectory.opening import open


@dataclass(frozen=True)
class Salvaged:
    """The result of `salvage`.

    Attributes
    ----------
    path : str
        The file that was made.
    n_frames : int
        Number of frames in the new file.
    damaged : tuple of int
        Numbers, from 0, of the damaged file's frames that are not in the new file. Neighbouring XTC and TRR frames with
        damaged headers count as one.
    notes : tuple of str
    """

    path: str
    n_frames: int
    damaged: tuple[int, ...]
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        left_out = f", {counted(len(self.damaged), 'damaged frame')} left out" if self.damaged else ""
        return f"{self.path}: {self.n_frames:,} frames{left_out}"


@returns_notes
def salvage(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    format: str | None = None,
    stored: bool = True,
    workers: int | None = None,
    memory: int | str | None = None,
    progress: ProgressChoice = False,
) -> Salvaged:
    """Makes a file of all frames that can be decoded, byte for byte; an incomplete last frame is left out too.

    Parameters
    ----------
    path : file name
        XTC, TRR, NetCDF, DCD or DL_POLY HISTORY.
    target : file name
        Appears complete or not at all.
    overwrite : bool
        Whether to replace an existing file.
    format, stored : as `kinema.open`
    workers, memory, progress : as in `Trajectory.blocks`

    Raises
    ------
    UnsupportedFormatError
        For other formats, DCD files with fixed atoms, NetCDF restarts.
    CorruptFileError
        If the file's first header is damaged.
    ArgumentError
        Also if no frame can be decoded.
    """
    (name,) = file_names(path)
    out = os.fspath(target)
    check_not_input(out, name)
    check_target(out, overwrite=overwrite)
    traj = open(name, format=format, stored=stored)
    traj.scan(workers=workers, skip_damaged=True)
    (part,) = traj.parts
    format_of_file = format_named(part.format)
    if not format_of_file.spliced:
        known = ", ".join(one.name for one in FORMATS.values() if one.spliced)
        raise UnsupportedFormatError(
            f"frames of {known} files can be copied alone, and this is {part.format}", at=name, format=part.format
        )
    check_format(out, part.format)
    head = format_of_file.head_of(name)
    everything = FrameSelection(range(part.file_frames))
    limit = 0 if memory is None else parse_memory(memory)
    decoded = decode_frames(traj.core, everything, workers=workers, memory=limit, progress=progress)
    frames = decoded.readable().numbers()
    emit(decoded.notes())
    offsets, lengths = traj.core.extents(0)
    gaps = np.flatnonzero(np.diff(frames.astype(np.int64)) > 1)
    if format_of_file.evenly_timed and len(gaps):
        early = f"those from frame {int(gaps[0]) + 1} on are too early"
        emit([f"{out}: {part.format} has no times of single frames: {early}"])
    header = head.encode(lambda: int(traj.steps[int(frames[0])]), len(frames))
    write_frames(out, header, _ranges(name, frames, offsets, lengths), lambda _: None)
    return Salvaged(out, len(frames), tuple(one.number for one in decoded.damaged))


def _ranges(
    path: str, frames: NDArray[np.uint64], offsets: NDArray[np.uint64], lengths: NDArray[np.uint64]
) -> list[FrameRange]:
    """The byte ranges of the frames; neighbouring frames share one range."""
    numbers = frames.astype(np.int64)
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return [FrameRange(path, int(offsets[run[0]]), int(offsets[run[-1]] + lengths[run[-1]])) for run in runs]

"""Frames that can be decoded: a pass over the frames that finds the damaged ones, so that a run can leave them out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, CorruptFileError, TruncatedFileError
from kinema.base.printable import printable
from kinema.base.progress import ProgressChoice, reporting
from kinema.base.resources import worker_count
from kinema.model.selection.decoded_frames import DamagedBytes, Verdict, Verdicts
from kinema.model.selection.frames import FrameSelection

# positions decoded at a time, if memory allows; few frames, because each is decoded again alone if one is damaged
_WINDOW_BYTES = 64 << 20
_WINDOW_FRAMES = 128
_LISTED = 10


@dataclass(frozen=True)
class DamagedFrame:
    """A frame of a trajectory, from 0, that cannot be decoded, its bytes in the file and the error that says why."""

    number: int
    first_byte: int
    last_byte: int
    error: CorruptFileError | TruncatedFileError

    def __str__(self) -> str:
        return f"{self.error}; the frame has bytes {self.first_byte} to {self.last_byte}"


@dataclass(frozen=True)
class DecodedFrames:
    """Result of decoding some frames of a trajectory.

    `damaged`: frames that cannot be decoded, in the order of `frames`, each once.
    `not_finite`: numbers of frames that can be decoded but have infinite or NaN coordinates.
    """

    frames: FrameSelection
    damaged: tuple[DamagedFrame, ...]
    not_finite: tuple[int, ...]

    def readable(self) -> FrameSelection:
        """The frames without the damaged ones, in their order; raises ArgumentError if none is left."""
        if not self.damaged:
            return self.frames
        numbers = self.frames.numbers()
        left = numbers[~np.isin(numbers, np.array([one.number for one in self.damaged], np.uint64))]
        if len(left) == 0:
            raise ArgumentError(f"all {len(self.frames)} frames are damaged; the first: {self.damaged[0]}")
        return FrameSelection(left)

    def notes(self) -> tuple[str, ...]:
        """One line each on the frames that are left out, and on those that are kept although they may be of no use."""
        notes = []
        if self.damaged:
            listed = _listed([one.number for one in self.damaged])
            notes.append(
                f"{len(self.damaged)} of {len(self.frames)} frames are damaged and left out, {listed}; the first: "
                f"{self.damaged[0]}"
            )
        if self.not_finite:
            notes.append(
                f"{len(self.not_finite)} of {len(self.frames)} frames hold coordinates that are not finite and are not "
                f"left out, {_listed(self.not_finite)}"
            )
        return tuple(notes)


def decode_frames(
    trajectory: _core.Trajectory,
    frames: FrameSelection,
    *,
    fields: tuple[str, ...] = ("positions",),
    workers: int | None = None,
    memory: int = 0,
    progress: ProgressChoice = False,
    stored: bool = True,
) -> DecodedFrames:
    """Decodes all atoms of the frames and lists the frames that cannot be decoded.

    `fields`: the fields to decode; with others than positions nothing is kept: give `stored=False`. Frames with a
    stored verdict are not decoded again, and the result is kept (see `Verdicts`); with `stored=False` all are decoded
    and nothing is kept. `memory` in bytes; 0 for the default. Coordinates changed by a bit flip may still decode.
    Raises what reading raises, except CorruptFileError and TruncatedFileError of a frame.
    """
    # the verdict is on the files, whatever transforms do to their frames
    trajectory = trajectory.with_transforms([])
    verdicts = Verdicts(trajectory) if stored else None
    parts = trajectory.parts()
    wanted = frames.numbers()
    todo = frames
    damaged: dict[int, DamagedFrame] = {}
    not_finite: set[int] = set()
    if verdicts is not None:
        covered = np.zeros(len(wanted), bool)
        for number, part in enumerate(parts):
            if (verdict := verdicts[number]) is not None:
                covered |= _add_known(part, verdict, wanted, damaged, not_finite)
        if covered.any():
            todo = FrameSelection(wanted[~covered])
    if len(todo):
        # reopens the files if a verdict is kept: it must hold for the files that have these names now
        anew = verdicts is not None and verdicts.kept
        core = _core.Trajectory(**trajectory.recipe(), snapshot=trajectory.snapshot()) if anew else trajectory
        _decode(core, todo, workers, memory, progress, damaged, not_finite, fields)
        if verdicts is not None:
            _keep(verdicts, parts, frames, damaged.values(), not_finite)
    return DecodedFrames(
        frames,
        tuple(damaged[number] for number in dict.fromkeys(wanted.tolist()) if number in damaged),
        tuple(number for number in dict.fromkeys(wanted.tolist()) if number in not_finite),
    )


def keep_verdicts(verdicts: Verdicts, trajectory: _core.Trajectory, found: DecodedFrames) -> None:
    """Keeps the result of decoding, whoever decoded the frames; `verdicts` was made before the files were opened."""
    _keep(verdicts, trajectory.parts(), found.frames, found.damaged, set(found.not_finite))


def not_finite_rows(positions: NDArray[np.floating]) -> NDArray[np.intp]:
    """Rows of (frames, atoms, 3) that have infinite or NaN values."""
    # a sum is finite only if all its terms are; it needs no array of the size of the positions
    rows = np.flatnonzero(~np.isfinite(positions.sum(axis=(1, 2), dtype=np.float64)))
    return np.array([row for row in rows if not np.isfinite(positions[row]).all()], np.intp)


def _decode(
    core: _core.Trajectory,
    frames: FrameSelection,
    workers: int | None,
    memory: int,
    progress: ProgressChoice,
    damaged: dict[int, DamagedFrame],
    not_finite: set[int],
    fields: tuple[str, ...],
) -> None:
    """Adds damaged frames to `damaged` and frames with coordinates that are not finite to `not_finite`."""
    budget = min(_WINDOW_BYTES, memory // 4) if memory else _WINDOW_BYTES
    window = max(1, min(_WINDOW_FRAMES, budget // max(1, 12 * len(fields) * core.n_atoms)))
    threads = worker_count(workers)
    done = 0
    title = f"decoding {os.path.basename(core.paths[0])}"
    with reporting(progress, title, len(frames)) as report:
        for some in frames.split(window):
            if _error(core, some, fields, threads, memory, not_finite) is not None:
                # an error names one frame; others of the window may be damaged as well
                for number in dict.fromkeys(some):
                    alone = FrameSelection(range(number, number + 1))
                    error = _error(core, alone, fields, 1, memory, not_finite)
                    if error is not None:
                        _, _, offset, length = core.locate(number)
                        damaged[number] = DamagedFrame(number, offset, offset + length - 1, error)
            done += len(some)
            if report is not None:
                report(done, len(frames))


def _error(
    core: _core.Trajectory,
    frames: FrameSelection,
    fields: tuple[str, ...],
    workers: int,
    memory: int,
    not_finite: set[int],
) -> CorruptFileError | TruncatedFileError | None:
    try:
        arrays = core.read(frames, fields=fields, workers=workers, memory=memory, mark_absent=True)
    except (CorruptFileError, TruncatedFileError) as error:
        return error
    if "positions" not in fields:
        return None
    # a frame written without positions is not damaged
    there = arrays["present"]["positions"]
    not_finite.update(frames[int(row)] for row in not_finite_rows(arrays["positions"]) if there[row])
    return None


def _add_known(
    part: _core.PartInfo,
    verdict: Verdict,
    wanted: NDArray[np.uint64],
    damaged: dict[int, DamagedFrame],
    not_finite: set[int],
) -> NDArray[np.bool_]:
    """Adds a verdict's findings on a file's frames; returns which of the `wanted` frames it covers."""
    start = max(verdict.start, part["kept"][0])
    stop = max(start, min(verdict.stop, part["kept"][1]))
    shift = part["first_frame"] - part["kept"][0]
    asked = {*wanted.tolist()} if verdict.damaged or verdict.not_finite else set()
    path = part["path"]
    for one in verdict.damaged:
        number = one.frame + shift
        if start <= one.frame < stop and number in asked:
            kind = TruncatedFileError if one.truncated else CorruptFileError
            error = kind(
                f"{printable(path)}{one.message}", path=path, format=part["format"], frame=one.frame, offset=one.offset
            )
            damaged[number] = DamagedFrame(number, one.first_byte, one.last_byte, error)
    not_finite.update(frame + shift for frame in verdict.not_finite if start <= frame < stop and frame + shift in asked)
    covered: NDArray[np.bool_] = (wanted >= start + shift) & (wanted < stop + shift)
    return covered


def _keep(
    verdicts: Verdicts,
    parts: Sequence[_core.PartInfo],
    frames: FrameSelection,
    damaged: Iterable[DamagedFrame],
    not_finite: set[int],
) -> None:
    """Keeps the verdict on each file whose decoded frames form a run without gaps."""
    numbers = np.unique(frames.numbers()).astype(np.int64)
    found = sorted(damaged, key=lambda one: one.number)
    for at, part in enumerate(parts):
        first, length = part["first_frame"], part["kept"][1] - part["kept"][0]
        own = numbers[(numbers >= first) & (numbers < first + length)]
        if len(own) == 0 or int(own[-1]) - int(own[0]) + 1 != len(own):
            continue
        shift = part["kept"][0] - first
        start, stop = int(own[0]) + shift, int(own[-1]) + 1 + shift
        mine = [one for one in found if start <= one.number + shift < stop]
        verdict = Verdict(
            start,
            stop,
            tuple(_damaged_bytes(part["path"], one.number + shift, one) for one in mine),
            tuple(sorted(frame + shift for frame in not_finite if start <= frame + shift < stop)),
        )
        verdicts.add(at, verdict)


def _damaged_bytes(path: str, frame: int, one: DamagedFrame) -> DamagedBytes:
    # the file may have had another name
    message = str(one.error).removeprefix(printable(path))
    truncated = isinstance(one.error, TruncatedFileError)
    return DamagedBytes(frame, one.first_byte, one.last_byte, message, truncated, one.error.offset)


def _listed(numbers: Sequence[int]) -> str:
    return "numbers " + ", ".join(map(str, numbers[:_LISTED])) + (", ..." if len(numbers) > _LISTED else "")

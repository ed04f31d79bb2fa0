"""Lists of frames as people write them: `1,5,9-20`, or a text file of frame numbers or of times."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import numpy as np

from kinema.errors import ArgumentError, CorruptFileError, OutOfRangeError
from kinema.files import read_regular
from kinema.printable import shortest
from kinema.selection.frames import FrameSelection, resolve
from kinema.selection.time_range import RELATIVE_ERROR

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

__all__ = ["frames_listed"]

_LIST = re.compile(r"\s*\d+\s*(-\s*\d+\s*)?(,\s*\d+\s*(-\s*\d+\s*)?)*\Z")
_MOST_BYTES = 1 << 30


def frames_listed(trajectory: Trajectory, text: str) -> FrameSelection:
    """The frames of a list, in its order.

    Parameters
    ----------
    text : str
        Frame numbers from 0, and ranges of them with both ends: "1,5,9-20". Else the name of a file with numbers,
        separated by spaces, commas or ends of lines; what follows # or ; is no number. If all are whole numbers they
        are frames; if each has a decimal point they are times in ps, compared within the rounding of float32.

    Raises
    ------
    FileNotFound, FileAccessError
    CorruptFileError
        For words of a file that are no such numbers; it names the line.
    OutOfRangeError
        For frames that are not there, and times that no frame has.
    """
    if _LIST.match(text):
        ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
        for first, *last in ends:
            if last and last[0] < first:
                raise ArgumentError(f"the range {first}-{last[0]} ends before it begins; write {last[0]}-{first}")
            _check(trajectory, last[0] if last else first, text)
        numbers = [number for first, *last in ends for number in range(first, (last or [first])[0] + 1)]
        return resolve(numbers, trajectory.n_frames)
    if not os.path.exists(text):
        raise ArgumentError(f"frames are a list of numbers, such as 1,5,9-20, or a file of them, found {text!r}")
    return _of_file(trajectory, text)


def _check(trajectory: Trajectory, number: int, where: str) -> None:
    if number >= trajectory.n_frames:
        raise OutOfRangeError(
            f"{where}: frame {number} is out of range, the trajectory has {trajectory.n_frames} frames "
            f"(0 to {trajectory.n_frames - 1})"
        )


def _of_file(trajectory: Trajectory, path: str) -> FrameSelection:
    words: list[tuple[int, str]] = []
    for number, line in enumerate(read_regular(path, "file of frames", most=_MOST_BYTES).split(b"\n"), start=1):
        text = re.split(rb"[#;]", line)[0].decode("latin-1")
        words += [(number, word) for word in text.replace(",", " ").split()]
    if not words:
        raise CorruptFileError(f"{path}: expected numbers of frames or times, found none", path=path)
    by_time = not words[0][1].isdigit()
    kind = r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?\Z" if by_time else r"\d{1,18}\Z"
    for number, word in words:
        if not re.match(kind, word):
            expected = "a time in ps with a decimal point" if by_time else "a frame number from 0"
            raise CorruptFileError(
                f"{path}: line {number}: expected {expected}, as the first number of the file, found {word!r}",
                path=path,
            )
    if not by_time:
        for number, word in words:
            _check(trajectory, int(word), f"{path}: line {number}")
        return resolve([int(word) for _, word in words], trajectory.n_frames)
    times = trajectory.times
    frames = []
    for number, word in words:
        wanted = float(word)
        away = np.abs(times - wanted)
        nearest = -1 if np.isnan(away).all() else int(np.nanargmin(away))
        if nearest < 0 or away[nearest] > RELATIVE_ERROR * max(1.0, abs(wanted)):
            there = "no frame has a time" if nearest < 0 else f"the nearest is {shortest(float(times[nearest]))} ps"
            raise OutOfRangeError(f"{path}: line {number}: no frame is at {word} ps, {there}")
        frames.append(nearest)
    return resolve(frames, trajectory.n_frames)

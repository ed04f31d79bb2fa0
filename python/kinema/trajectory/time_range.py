"""Selection of frames by time, as with GROMACS' -b, -e and -dt, and by lists: `1,5,9-20`, or a text file of them.

Times come from the index, or from the frames' headers if the index has none; no coordinates are read.
"""

from __future__ import annotations

import math
import os
import re

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, CorruptFileError, OutOfRangeError
from kinema.base.input_files import read_regular
from kinema.base.notes import emit
from kinema.base.printable import shortest
from kinema.model.selection.frames import FrameSelection, resolve
from kinema.trajectory import Trajectory

# most formats store times as float32, with an error of one part in 2^23; differences of two times have more
_RELATIVE_ERROR = 4.0 * 2.0**-23
_LIST = re.compile(r"\s*\d+\s*(-\s*\d+\s*)?(,\s*\d+\s*(-\s*\d+\s*)?)*\Z")
_MOST_BYTES = 1 << 30


def frames_between(
    trajectory: Trajectory, begin: float | None = None, end: float | None = None, every: float | None = None
) -> FrameSelection:
    """The frames whose time is in [begin, end] and a multiple of `every` after the first of these.

    Parameters
    ----------
    begin, end : float, ps
        First and last time, both inclusive; None: no limit.
    every : float, ps
        Time between the chosen frames; None: all frames. A note reports multiples at which there is no frame.

    Returns
    -------
    FrameSelection
        Ascending; a stride if the frames are evenly spaced. Times are compared within the rounding of float32. A frame
        at an infinite time is in no window, which is noted.

    Raises
    ------
    ArgumentError
        For `every` not above zero, or an end before the beginning; for arguments and times of frames that are not
        numbers.
    OutOfRangeError
        If no frame is in the window; the message gives the trajectory's times.

    Examples
    --------
    >>> window = kn.frames_between(traj, begin=1000.0, end=9000.0, every=500.0)
    >>> kn.analysis.RMSD(traj, select="name CA").run(frames=window).results.time[:3]
    array([1000., 1500., 2000.])
    """
    for value, what in ((begin, "first time"), (end, "last time"), (every, "time between frames")):
        if value is not None and math.isnan(value):
            raise ArgumentError(f"the {what} must be a number, found {value}")
    if every is not None and not 0 < every < math.inf:
        raise ArgumentError(f"the time between frames must be above 0 ps and finite, found {shortest(every)}")
    if begin is not None and end is not None and end < begin:
        raise ArgumentError(f"the last time is before the first, found {shortest(begin)} to {shortest(end)} ps")
    times = trajectory.times
    unknown = np.isnan(times)
    if unknown.any():
        raise ArgumentError(
            f"{trajectory.paths[0]}: frame {int(unknown.argmax())} has no time (nan), as {int(unknown.sum())} of "
            f"{len(times)} frames; choose frames by number"
        )
    wanted = np.isfinite(times)
    if not wanted.all():
        first = int(wanted.argmin())
        emit(
            [
                f"{trajectory.paths[0]}: frame {first} has the time {times[first]} ps, {int((~wanted).sum())} of "
                f"{len(times)} frames have infinite times and are in no window of time"
            ]
        )
    tolerance = _RELATIVE_ERROR * np.maximum(np.abs(times, where=wanted, out=np.zeros_like(times)), 1.0)
    early = np.zeros(len(times), bool) if begin is None else times < begin - tolerance
    late = np.zeros(len(times), bool) if end is None else times > end + tolerance
    _compare_borders(trajectory, late.astype(np.int8) - early)
    chosen = np.flatnonzero(wanted & ~early & ~late)
    if chosen.size == 0:
        finite = times[np.isfinite(times)]
        there = (
            f"its times are {shortest(finite.min())} to {shortest(finite.max())} ps"
            if len(finite)
            else "no frame has a time"
        )
        raise OutOfRangeError(f"{trajectory.paths[0]}: no frame {_window(begin, end)}, {there}")
    if every is not None:
        in_window = chosen
        since = times[chosen] - times[chosen[0]]
        off = np.abs(since - np.round(since / every) * every)
        chosen = chosen[off <= tolerance[chosen] + tolerance[chosen[0]]]
        _note_on_spacing(trajectory, in_window, chosen, every)
    return FrameSelection.from_ascending(chosen)


def _compare_borders(trajectory: Trajectory, sides: NDArray[np.int8]) -> None:
    """Compares stored times with the first frame, the last, and the frames on both sides of each end of the window.

    `sides`: -1 before the window, 0 in it, 1 after it. Frames that are read later are compared then; frames that stored
    times leave out are not read, which are all frames if the window is empty.
    """
    if len(sides) == 0:
        return
    after = np.flatnonzero(np.diff(sides)) + 1
    borders = np.unique(np.concatenate([after - 1, after, [0, len(sides) - 1]]))
    trajectory.core.compare_frames(trajectory.frame_numbers[borders].astype(np.uint64))


def _note_on_spacing(
    trajectory: Trajectory, in_window: NDArray[np.intp], chosen: NDArray[np.intp], every: float
) -> None:
    """Notes that frames at multiples of `every` are missing, for example because frames are farther apart."""
    times = trajectory.times[in_window]
    expected = math.floor((times.max() - times[0]) / every * (1 + _RELATIVE_ERROR)) + 1
    # times that go back, or start again, have no spacing
    if len(chosen) >= expected or (np.diff(times) <= 0).any():
        return
    apart = shortest(float(np.median(np.diff(times))), 6) if len(times) > 1 else "0"
    emit(
        [
            f"{trajectory.paths[0]}: {len(chosen)} frames are used where one every {shortest(every)} ps would be "
            f"{expected}: the others have no frame at their time, frames are {apart} ps apart"
        ]
    )


def _window(begin: float | None, end: float | None) -> str:
    """ "between 1 and 5 ps", "from 1 ps on", "up to 5 ps", or "in time"."""
    if begin is not None and end is not None:
        return f"between {shortest(begin)} and {shortest(end)} ps"
    if begin is not None:
        return f"from {shortest(begin)} ps on"
    return "at a finite time" if end is None else f"up to {shortest(end)} ps"


def frames_listed(trajectory: Trajectory, text: str) -> FrameSelection:
    """The frames of a list, in its order.

    `text`: frame numbers from 0, and ranges that include both ends: "1,5,9-20". Otherwise the name of a file with
        numbers, separated by spaces, commas or ends of lines; text after # or ; is ignored. If all are whole numbers,
        they are frames; if each has a decimal point, they are times in ps, compared within the rounding of float32.

    Raises FileNotFound, FileAccessError.
    Raises CorruptFileError for words of a file that are not such numbers; the error names the line.
    Raises OutOfRangeError for frames that do not exist, and times that no frame has.
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
    return _read_file(trajectory, text)


def _check(trajectory: Trajectory, number: int, where: str) -> None:
    if number >= trajectory.n_frames:
        raise OutOfRangeError(
            f"{where}: frame {number} is out of range, the trajectory has {trajectory.n_frames} frames "
            f"(0 to {trajectory.n_frames - 1})"
        )


def _read_file(trajectory: Trajectory, path: str) -> FrameSelection:
    words: list[tuple[int, str]] = []
    for number, line in enumerate(read_regular(path, "file of frames", most=_MOST_BYTES).split(b"\n"), start=1):
        text = re.split(rb"[#;]", line)[0].decode("latin-1")
        words += [(number, word) for word in text.replace(",", " ").split()]
    if not words:
        raise CorruptFileError("expected numbers of frames or times, found none", at=path)
    by_time = not words[0][1].isdigit()
    kind = r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?\Z" if by_time else r"\d{1,18}\Z"
    for number, word in words:
        if not re.match(kind, word):
            expected = "a time in ps with a decimal point" if by_time else "a frame number from 0"
            raise CorruptFileError(
                f"line {number}: expected {expected}, as the first number of the file, found {word!r}", at=path
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
        if nearest < 0 or away[nearest] > _RELATIVE_ERROR * max(1.0, abs(wanted)):
            there = "no frame has a time" if nearest < 0 else f"the nearest is {shortest(float(times[nearest]))} ps"
            raise OutOfRangeError(f"{path}: line {number}: no frame is at {word} ps, {there}")
        frames.append(nearest)
    return resolve(frames, trajectory.n_frames)

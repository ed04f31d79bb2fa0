"""Problems in frame headers: truncation, gaps and repeated times, within a file and between parts of a trajectory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kinema.base.errors import ArgumentError, CorruptFileError, TruncatedFileError
from kinema.base.printable import shortest
from kinema.files.check.problems import Problem, kind_of
from kinema.formats.all_formats import format_named
from kinema.trajectory import Trajectory

# Times are compared within float32 rounding, because formats store them so.
_SPACING_TOLERANCE = 0.01


def header_problems(part: Trajectory, *, decoded: bool) -> Iterator[Problem]:
    """Truncation, and times in one file that repeat, run backwards or leave a gap.

    With `decoded`, another check decodes the frames and reports those that fail, which may hold the times.
    """
    (facts,) = part.parts
    if facts.truncation:
        yield Problem("truncated", facts.path, facts.file_frames, facts.truncation)
    try:
        times = part.times
    except (CorruptFileError, TruncatedFileError) as error:
        if not decoded:
            yield Problem(kind_of(error), facts.path, error.frame, str(error))
        return
    # a DCD header has a time step; if no times follow from it, the step is wrong
    if not format_named(facts.format).evenly_timed and np.isnan(times).all() and "time" not in part.fields:
        return  # XYZ, a bare data set, NetCDF of cpptraj: no times to judge
    numbers, finite = np.arange(len(times)), np.isfinite(times)
    # a frame that cannot be read has no time and is a separate problem
    hidden = np.isin(numbers, [frame for frame, _, _ in facts.damaged])
    numbers, times, finite = numbers[~hidden], times[~hidden], finite[~hidden]
    if len(times) and not finite.any():
        yield Problem(
            "nan",
            facts.path,
            int(numbers[0]),
            f"the times of all {len(times)} frames are not finite, the first is {times[0]}",
        )
        return
    for i in np.flatnonzero(~finite):
        yield Problem("nan", facts.path, int(numbers[i]), f"time is not finite, found {times[i]}")
    # only frames with a time are judged below
    numbers, times = numbers[finite], times[finite]
    spacing = np.diff(times)
    if spacing.size == 0:
        return
    usual = float(np.median(spacing / np.diff(numbers)))
    # if all times are equal, the file has none: one problem
    if not times.any() or (spacing == 0).all():
        yield Problem("duplicate", facts.path, None, f"all {len(times)} frames have the time {shortest(times[0])} ps")
        return
    for i in np.flatnonzero(spacing == 0):
        yield Problem(
            "duplicate", facts.path, int(numbers[i + 1]), f"time {shortest(times[i])} ps is that of the frame before"
        )
    for i in np.flatnonzero(spacing < 0):
        message = f"time goes back from {shortest(times[i])} to {shortest(times[i + 1])} ps"
        yield Problem("order", facts.path, int(numbers[i + 1]), message)
    if usual > 0:
        # frames without a time do not make a gap
        for i in np.flatnonzero(spacing > usual * (np.diff(numbers) + 0.5 + _SPACING_TOLERANCE)):
            around = f"from {shortest(times[i])} to {shortest(times[i + 1])} ps"
            message = f"time goes {around}, frames are {shortest(usual, 6)} ps apart"
            yield Problem("gap", facts.path, int(numbers[i + 1]), message)


def problems_between_parts(whole: Trajectory, workers: int | None) -> Iterator[Problem]:
    """Gaps between files in the given order; frames that the next file repeats are not a problem."""
    paths = whole.paths
    try:
        whole.scan(workers=workers, skip_damaged=True)
        gaps = whole.gaps
    except ArgumentError as error:  # a file does not continue the previous one
        yield Problem("order", error.path or paths[0], None, str(error))
        return
    for gap in gaps:
        if gap.turns_back:
            yield Problem("order", paths[gap.part], None, str(gap))
            continue
        if gap.time_before is not None and gap.time_after is not None:
            missing = f"between {shortest(gap.time_before)} and {shortest(gap.time_after)} ps"
        else:
            missing = f"between steps {gap.step_before} and {gap.step_after}"
        message = f"frames {missing} are missing after {paths[gap.part - 1]}"
        yield Problem("gap", paths[gap.part], None, message)


def damaged_headers(part: Trajectory) -> Iterator[Problem]:
    """Byte ranges that the scan skipped."""
    (facts,) = part.parts
    for frame, first, last in facts.damaged:
        yield Problem("corrupt", facts.path, frame, f"no frame is found in bytes {first} to {last}")

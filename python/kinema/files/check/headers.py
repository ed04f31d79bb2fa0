"""What headers of frames say: truncation, gaps, repeated times, within a file and between the parts of a trajectory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kinema.base.errors import ArgumentError, CorruptFileError, TruncatedFileError
from kinema.base.printable import shortest
from kinema.files.check.problems import Problem, kind_of
from kinema.formats.all_formats import format_named
from kinema.trajectory import Trajectory

__all__ = ["damaged_headers", "header_problems", "problems_between_parts"]

# Spacing of times is compared within rounding of float32, as formats store them.
_SPACING_TOLERANCE = 0.01


def header_problems(part: Trajectory, *, decoded: bool) -> Iterator[Problem]:
    """Truncation, and times that stand still, run backwards or leave something out, within one file.

    `decoded`: frames are decoded as well, and those that cannot be, which may hold the times, are problems of that.
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
    # a DCD header has a time step, which is wrong where no time follows from it
    if not format_named(facts.format).evenly_timed and np.isnan(times).all() and "time" not in part.fields:
        return  # XYZ, a bare data set, NetCDF of cpptraj: there is nothing to judge
    numbers, finite = np.arange(len(times)), np.isfinite(times)
    # what cannot be read has no time, and is a problem of its own
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
    # what follows is about the frames that have a time
    numbers, times = numbers[finite], times[finite]
    spacing = np.diff(times)
    if spacing.size == 0:
        return
    usual = float(np.median(spacing / np.diff(numbers)))
    # where all times are the same the file has none; that is one problem
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
        # frames without a time are no gap
        for i in np.flatnonzero(spacing > usual * (np.diff(numbers) + 0.5 + _SPACING_TOLERANCE)):
            around = f"from {shortest(times[i])} to {shortest(times[i + 1])} ps"
            message = f"time goes {around}, frames are {shortest(usual, 6)} ps apart"
            yield Problem("gap", facts.path, int(numbers[i + 1]), message)


def problems_between_parts(whole: Trajectory, workers: int | None) -> Iterator[Problem]:
    """Gaps between files in the order given; frames that are repeated in the next file are no problem."""
    paths = whole.paths
    try:
        whole.scan(workers=workers, skip_damaged=True)
        gaps = whole.gaps
    except ArgumentError as error:  # no file continues the one before
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
    """What the scan stepped over."""
    (facts,) = part.parts
    for frame, first, last in facts.damaged:
        yield Problem("corrupt", facts.path, frame, f"no frame is found in bytes {first} to {last}")

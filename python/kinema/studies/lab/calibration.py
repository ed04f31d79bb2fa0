"""CPU time of a frame: measured once on this machine, taken from the publication of 2020, or stated.

A measured time differs a little from run to run, so it is part of each report; given as numbers it leads to the same
report to the bit.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from kinema.analysis import RMSD
from kinema.base.errors import ArgumentError
from kinema.base.notes import collected
from kinema.studies.files import convert_to
from kinema.studies.lab.operations import ReadBytes, StoredFile
from kinema.studies.lab.platform import Platform
from kinema.studies.lab.programs import FrameCost, FrameFile
from kinema.studies.lab.replay import emulate
from kinema.trajectory import Trajectory

# frames that are measured, and times: the fastest counts
_FRAMES, _TIMES = 1000, 3
_NS_PER_MICROSECOND = 1000
# (frames, bytes of the XTC file, atoms, atoms of the RMSD, ns of I/O with decoding, ns of computing) of the publication
PAPER_2020 = (2_512_200, 30_000_000_000, 3341, 146, 300_000, 90_000)


def frame_cost(
    words: str, trajectory: Trajectory, select: str | None, platform: Platform, written: str = ""
) -> FrameCost:
    """The cost of a frame: "measured", "paper", or two numbers of microseconds, decoding and computing.

    `written`: the frames are written as a file of this format, and computing is encoding them.

    Raises ArgumentError for other words; raises as reading the frames does.
    """
    if words == "measured":
        return _measured_writing(trajectory, written) if written else _measured(trajectory, select)
    if words == "paper" and written:
        raise ArgumentError(
            "CPU time of a frame: the publication has none for writing; expected measured, or microseconds as in 20.5,3"
        )
    n_selected = trajectory.n_atoms if select is None else len(trajectory.select(select).indices)
    if words == "paper":
        return paper_cost(platform, trajectory.n_atoms, n_selected)
    try:
        decode, compute = (float(word) for word in words.split(","))
    except ValueError:
        raise ArgumentError(
            f"CPU time of a frame: expected measured, paper, or microseconds as in 20.5,3, found {words!r}"
        ) from None
    if not (0 <= decode < math.inf and 0 <= compute < math.inf):
        raise ArgumentError(f"CPU time of a frame: expected numbers of microseconds from 0 on, found {words!r}")
    return FrameCost(round(decode * _NS_PER_MICROSECOND), round(compute * _NS_PER_MICROSECOND), "stated")


def paper_cost(platform: Platform, n_atoms: int | None = None, n_selected: int | None = None) -> FrameCost:
    """The publication's times, in proportion to atoms: 0.3 ms of I/O and decoding, 0.09 ms of computing a frame.

    The time to read a frame on the idle platform is not CPU time, and is subtracted from the first.
    """
    n_frames, size, paper_atoms, paper_selected, reading, computing = PAPER_2020
    file = FrameFile(StoredFile("paper.xtc", size, platform.stripes), n_frames)
    _, block = file.extent(0, n_frames * platform.request_bytes // size)
    alone = emulate(lambda _rank: iter([ReadBytes(file.file, 0, block)]), 1, platform, 1)
    transfer = round(alone.seconds * 1e9) * size // n_frames // block
    source = "Concurrency Computat. 2020: 0.3 ms of I/O with decoding, 0.09 ms of computing a frame on one rank"
    return FrameCost(
        max(0, reading - transfer) * (n_atoms or paper_atoms) // paper_atoms,
        computing * (n_selected or paper_selected) // paper_selected,
        source,
    )


def _measured(trajectory: Trajectory, select: str | None) -> FrameCost:
    n = min(_FRAMES, trajectory.n_frames)
    found = []
    for _ in range(_TIMES):
        timings = RMSD(trajectory, select).run(stop=n, runner="serial", progress=False).timings
        found.append((timings.totals["decode"] / n, timings.totals["compute"] / n))
    decode, compute = (round(min(times) * 1e9) for times in zip(*found, strict=True))
    return FrameCost(decode, compute, f"measured on one core of this machine, {n} frames, fastest of {_TIMES}")


def _measured_writing(trajectory: Trajectory, format: str) -> FrameCost:
    n = min(_FRAMES, trajectory.n_frames)
    found = []
    for _ in range(_TIMES):
        with tempfile.TemporaryDirectory() as folder, collected():
            timings = convert_to(trajectory[:n], Path(folder), format, runner="serial", verify=False).timings
        found.append((timings.get("decode", 0.0) / n, timings["encode"] / n))
    decode, encode = (round(min(times) * 1e9) for times in zip(*found, strict=True))
    return FrameCost(decode, encode, f"measured on one core of this machine, {n} frames, fastest of {_TIMES}")

"""`check`: problems of trajectory files: truncation, gaps, repeated times, NaN, jumps, atom counts.

It changes no file, and it does not judge the physics.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as made_with
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.cache.node_cache import NodeCacheChoice
from kinema.errors import ArgumentError, CorruptFileError, TruncatedFileError
from kinema.notes import collected, emit
from kinema.opening import open
from kinema.printable import counted, printable, shortest
from kinema.progress import ProgressChoice, reporting
from kinema.resources import parse_memory
from kinema.selection.broken import find_broken
from kinema.selection.frames import FrameSelection
from kinema.selection.readable import DamagedFrame, DecodedFrames, decode_frames, keep_verdicts, not_finite_rows
from kinema.selection.verdicts import Verdicts
from kinema.trajectory import Trajectory

__all__ = ["CheckReport", "Problem", "check"]

# Motion is judged by atoms spread evenly over the system; more of them say no more about a jump.
_ATOMS_FOR_MOTION = 5000
# A jump is measured against the median step of at least this many steps.
_STEPS_FOR_A_MEDIAN = 5
# The text of a report names no more than this many problems of a kind; the report itself holds all.
_SHOWN_OF_A_KIND = 10
_DEFAULT_MEMORY = "128 MiB"
# Spacing of times is compared within rounding of float32, as formats store them.
_SPACING_TOLERANCE = 0.01


@dataclass(frozen=True)
class Problem:
    """Something that is wrong with a file.

    Attributes
    ----------
    kind : {"truncated", "corrupt", "atoms", "gap", "order", "duplicate", "nan", "jump"}
    path : str
    frame : int or None
        Number in the file, from 0.
    message : str
    """

    kind: str
    path: str
    frame: int | None
    message: str

    def __str__(self) -> str:
        place = f"{self.path}: " if self.frame is None else f"{self.path}: frame {self.frame}: "
        # an error of the reader names the file itself
        return printable(self.message if self.message.startswith(printable(self.path)) else f"{place}{self.message}")


@dataclass(frozen=True)
class CheckReport:
    """The result of `check`.

    Attributes
    ----------
    paths : tuple of str
    n_frames, n_atoms : int
        Of all files; of the first file that could be read.
    problems : tuple of Problem
    notes : tuple of str
        What is odd but no problem: a count in a header that is not that of the file, fields that are left out.
    """

    paths: tuple[str, ...]
    n_frames: int
    n_atoms: int
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        """The report in plain types, for JSON."""
        return {**dataclasses.asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        count = len(self.problems)
        found = "no problems" if self.ok else f"{count} problem{'s' if count > 1 else ''}"
        files = f"{len(self.paths)} files" if len(self.paths) > 1 else self.paths[0]
        head = f"{files}: {counted(self.n_frames, 'frame')} of {counted(self.n_atoms, 'atom')}, {found}"
        lines = [head]
        for kind in dict.fromkeys(problem.kind for problem in self.problems):
            same = [problem for problem in self.problems if problem.kind == kind]
            lines += [f"  {kind}: {problem}" for problem in same[:_SHOWN_OF_A_KIND]]
            if len(same) > _SHOWN_OF_A_KIND:
                lines.append(f"  {kind}: {len(same) - _SHOWN_OF_A_KIND:,} more")
        return "\n".join(map(printable, lines))


def check(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    topology: str | os.PathLike[str] | None = None,
    *,
    coordinates: bool = True,
    jump: float = 10.0,
    particles: str | None = None,
    external: str = "folder",
    units: Mapping[str, str] | None = None,
    dt: float | None = None,
    time_offset: float | None = None,
    t0: float | None = None,
    stored: bool = True,
    node_cache: NodeCacheChoice = None,
    workers: int | None = None,
    memory: int | str | None = None,
    progress: ProgressChoice = False,
) -> CheckReport:
    """Finds what is wrong with files, which may be the parts of one trajectory.

    Parameters
    ----------
    paths : path or list of paths
    topology : path, optional
        Its number of atoms is compared.
    coordinates : bool
        Whether all coordinates are read, to find NaN, jumps and corrupt frames; else frame headers only.
    jump : float
        A step between frames is a jump where the root-mean-square displacement of the atoms, with the nearest
        periodic image, is more than this many times its median over the file.
    particles, external, units, dt, time_offset, t0, stored, node_cache : as `kinema.open`
        With `dt` times within a file are as they were stated, and what the file says of them is not judged.
    workers, memory, progress : as in `Trajectory.blocks` and `run`

    Returns
    -------
    CheckReport

    Raises
    ------
    FileNotFound, FileAccessError, UnsupportedFormatError, ArgumentError
        For what cannot be checked at all. Truncated and corrupt files are problems, not errors.
    """
    if not jump > 1:
        raise ArgumentError(f"jump must be above 1 times the usual step, found {jump:g}")
    names = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    if not names:
        raise ArgumentError("there is no file to check; give at least one")
    stated = {
        "particles": particles,
        "external": external,
        "units": units,
        "dt": dt,
        "stored": stored,
        "node_cache": node_cache,
    }
    shift = {"time_offset": time_offset, "t0": t0}
    judged = _Judged(topology, coordinates, jump, workers, memory, progress)
    # of the notes of opening those about truncation and gaps are problems here
    with collected():
        for name in names:
            shift = judged.add(name, stated, shift)
        judged.compare_parts(stated | shift)
    emit(dict.fromkeys(judged.notes))
    return judged.report(names)


@dataclass
class _Judged:
    """What was found of files so far, and how it is looked for."""

    topology: str | os.PathLike[str] | None
    coordinates: bool
    jump: float
    workers: int | None
    memory: int | str | None
    progress: ProgressChoice
    problems: list[Problem] = made_with(default_factory=list)
    parts: list[Trajectory] = made_with(default_factory=list)
    notes: list[str] = made_with(default_factory=list)

    def add(self, name: str, stated: Mapping[str, Any], shift: dict[str, Any]) -> dict[str, Any]:
        """Opens a file and judges it; returns by what the times of the next are shifted."""
        try:
            part = open(name, self.topology, **stated, **shift)
            part.scan(workers=self.workers, progress=self.progress, skip_damaged=True)
        except (CorruptFileError, TruncatedFileError) as error:
            self.problems.append(Problem(_kind(error), name, error.frame, str(error)))
            return shift
        if not self.parts and shift["t0"] is not None:
            # the first frame of all is meant, and the other files are shifted as its file is
            shift = {"time_offset": part.core.time_shift(), "t0": None}
        self.parts.append(part)
        self.notes += [f"{facts.path}: {warning}" for facts in part.parts for warning in facts.warnings]
        if part.core.hdf5:
            # it imports h5py
            from kinema.formats.hdf5.trust.other_files import note_drawn_in

            self.notes += note_drawn_in(name, stated["external"], stored=stated["stored"])
        self.problems += _headers(part)
        self.problems += _atom_counts(part, self.parts[0], self.topology)
        if self.coordinates and len(part):
            self.problems += _coordinates(part, self.jump, self.workers, self.memory, self.progress, self.notes)
        else:
            self.problems += _damaged_headers(part)
        if self.coordinates and self.topology is not None and part.n_atoms == self.parts[0].n_atoms:
            self.notes += _broken(part)
        return shift

    def compare_parts(self, opened: Mapping[str, Any]) -> None:
        """Judges what lies between the files, where they can be parts of one trajectory."""
        if len(self.parts) > 1 and len({part.n_atoms for part in self.parts}) == 1:
            self.problems += _between_parts(open([part.paths[0] for part in self.parts], **opened), self.workers)

    def report(self, names: Sequence[str]) -> CheckReport:
        """All that was found."""
        return CheckReport(
            paths=tuple(names),
            n_frames=sum(len(part) for part in self.parts),
            n_atoms=self.parts[0].n_atoms if self.parts else 0,
            problems=tuple(self.problems),
            notes=tuple(dict.fromkeys(self.notes)),
        )


def _broken(part: Trajectory) -> Iterator[str]:
    """A note where molecules are broken at the faces of the cell, in a sample of frames."""
    try:
        found = find_broken(part, None)
    except ArgumentError:
        return  # the topology is of other atoms, which is a problem of its own
    if found is not None:
        yield f"{part.paths[0]}: {found}"


def _kind(error: Exception) -> str:
    return "truncated" if isinstance(error, TruncatedFileError) else "corrupt"


def _atom_counts(part: Trajectory, first: Trajectory, topology: object) -> Iterator[Problem]:
    path = part.paths[0]
    if part.n_atoms != first.n_atoms:
        message = f"has {part.n_atoms} atoms, but {first.paths[0]} has {first.n_atoms}"
        yield Problem("atoms", path, None, message)
    if topology is not None:
        try:
            _ = part.topology
        except ArgumentError as error:
            yield Problem("atoms", path, None, str(error))


def _headers(part: Trajectory) -> Iterator[Problem]:
    """Truncation, and times that stand still, run backwards or leave something out, within one file."""
    (facts,) = part.parts
    if facts.truncation:
        yield Problem("truncated", facts.path, facts.file_frames, facts.truncation)
    times = part.times
    # a DCD header has a time step, which is wrong where no time follows from it
    if facts.format != "DCD" and np.isnan(times).all() and "time" not in part.fields:
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


def _between_parts(whole: Trajectory, workers: int | None) -> Iterator[Problem]:
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


def _damaged_headers(part: Trajectory) -> Iterator[Problem]:
    """What the scan stepped over."""
    (facts,) = part.parts
    for frame, first, last in facts.damaged:
        yield Problem("corrupt", facts.path, frame, f"no frame is found in bytes {first} to {last}")


def _coordinates(
    part: Trajectory,
    jump: float,
    workers: int | None,
    memory: int | str | None,
    progress: ProgressChoice,
    notes: list[str],
) -> Iterator[Problem]:
    """Coordinates that are no numbers, motion beyond the usual, and frames that cannot be decoded.

    Which frames those are is kept for runs that leave them out. Frames for which no positions were written (TRR) are no
    problem: a note is added.
    """
    path = part.paths[0]
    everything = FrameSelection(range(len(part)))
    verdicts = Verdicts(part.core)
    motion = _Motion(part)
    damaged: list[DamagedFrame] = []
    not_finite: list[int] = []
    absent: list[int] = []
    todo = everything
    with reporting(progress, os.path.basename(path), len(part)) as report:
        while len(todo):
            done = 0
            try:
                for block in part.blocks(memory=memory or _DEFAULT_MEMORY, workers=workers, frames=todo):
                    assert block.positions is not None, "positions are what blocks read by default"
                    positions, cells, frames = block.positions, block.cells, block.frames
                    there = block.present["positions"]
                    if not there.all():
                        absent += frames[~there].tolist()
                        positions, cells, frames = positions[there], cells[there], frames[there]
                    not_finite += [int(frames[row]) for row in not_finite_rows(positions)]
                    yield from _not_finite(path, positions, cells, frames)
                    motion.add(positions, cells, frames, absent)
                    done += len(block.frames)
                    if report is not None:
                        report(int(block.frames[-1]) + 1, len(part))
                break
            except (CorruptFileError, TruncatedFileError) as error:
                # an error names one frame; the others behind the last good block are decoded for themselves
                limit = 0 if memory is None else parse_memory(memory)
                found = decode_frames(part.core, todo[done:], workers=workers, memory=limit, stored=False)
                if not found.damaged:
                    yield Problem(_kind(error), path, error.frame, str(error))
                    return
                damaged += found.damaged
                todo = FrameSelection(range(0)) if len(found.damaged) == len(todo) - done else found.readable()
    if absent:
        notes.append(
            f"{path}: {len(absent):,} of {len(part):,} frames have no positions, the first is frame {absent[0]}; "
            "analyses need frames= or step= that choose others"
        )
    yield from (Problem(_kind(one.error), path, one.number, str(one)) for one in damaged)
    yield from _jumps(path, motion.steps, jump)
    keep_verdicts(verdicts, part.core, DecodedFrames(everything, tuple(damaged), tuple(not_finite)))


def _not_finite(
    path: str, positions: NDArray[Any], cells: NDArray[Any], frames: NDArray[np.uint64]
) -> Iterator[Problem]:
    for i in not_finite_rows(positions):
        bad = np.flatnonzero(~np.isfinite(positions[i]).all(axis=1))
        message = f"coordinates of {bad.size} atoms are not finite, the first is atom {bad[0] + 1} (counted from 1)"
        yield Problem("nan", path, int(frames[i]), message)
    for i in np.flatnonzero(~np.isfinite(cells).all(axis=(1, 2))):
        yield Problem("nan", path, int(frames[i]), "cell is not finite")


class _Motion:
    """Displacements from frame to frame, angstrom: `steps` has one a frame, NaN where the frame before is not known."""

    def __init__(self, part: Trajectory) -> None:
        n_atoms = part.n_atoms
        self._atoms = np.unique(np.linspace(0, n_atoms - 1, min(n_atoms, _ATOMS_FOR_MOTION)).astype(np.int64))
        self._last: tuple[NDArray[Any], NDArray[np.int64]] | None = None
        self.steps = np.full(len(part), np.nan)

    def add(
        self, positions: NDArray[Any], cells: NDArray[Any], frames: NDArray[np.uint64], absent: Sequence[int]
    ) -> None:
        """The next frames, in ascending order; `absent` frames up to here have no positions, and lie between none."""
        if not len(frames):
            return
        chain, numbers = positions[:, self._atoms].astype(np.float64), frames.astype(np.int64)
        last = (chain[-1:], numbers[-1:])
        if self._last is not None:
            chain, numbers = (np.concatenate(pair) for pair in zip(self._last, (chain, numbers), strict=True))
        moved = _displacement(chain, cells)
        # over frames that are left out a step is longer than usual
        ranks = numbers - np.searchsorted(np.array(absent, np.int64), numbers)
        moved[np.diff(ranks) != 1] = np.nan
        self.steps[numbers[1:]] = moved
        self._last = last


def _displacement(chain: NDArray[np.float64], cells: NDArray[Any]) -> NDArray[np.float64]:
    """Root-mean-square displacement from frame to frame, angstrom: (frames - 1,), nearest images in the cell."""
    moved = np.diff(chain, axis=0)
    of_frames = cells[len(cells) - len(moved) :].astype(np.float64)
    volume = np.linalg.det(of_frames)
    with np.errstate(all="ignore"):  # NaN is reported by itself
        periodic = np.isfinite(volume) & (np.abs(volume) > 1e-6)
        if periodic.any():
            inside = moved[periodic] @ np.linalg.inv(of_frames[periodic])
            moved[periodic] = (inside - np.round(inside)) @ of_frames[periodic]
        rms: NDArray[np.float64] = np.sqrt((moved**2).sum(axis=2).mean(axis=1))
    return rms


def _jumps(path: str, steps: NDArray[np.float64], jump: float) -> Iterator[Problem]:
    known = steps[np.isfinite(steps)]
    if known.size < _STEPS_FOR_A_MEDIAN:
        return
    usual = float(np.median(known))
    if usual == 0:
        return
    # what is not finite is reported by itself
    for i in np.flatnonzero(np.where(np.isfinite(steps), steps, 0.0) > jump * usual):
        message = f"atoms moved by {steps[i]:.3g} angstrom since the frame before, {usual:.3g} is usual"
        yield Problem("jump", path, int(i), message)

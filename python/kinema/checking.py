"""`check`: looks for what is wrong with trajectory files: truncation, gaps, repeated times, NaN, jumps, atom counts.

It mends nothing, and it does not judge the physics.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.errors import ArgumentError, CorruptFileError, TruncatedFileError
from kinema.opening import open
from kinema.progress import ProgressChoice, reporting
from kinema.trajectory import Trajectory

__all__ = ["CheckReport", "Problem", "check"]

# Motion is judged by atoms spread evenly over the system; more of them say no more about a jump.
_ATOMS_FOR_MOTION = 5000
# A jump is told from the median step of at least this many steps.
_STEPS_FOR_A_MEDIAN = 5
# The text of a report names no more than this many problems of a kind; the report itself holds all.
_TOLD_OF_A_KIND = 10
_DEFAULT_MEMORY = "128 MiB"
# Spacing of times is compared within rounding of float32, as formats store them.
_SPACING_TOLERANCE = 0.01


@dataclass(frozen=True)
class Problem:
    """Something that is wrong with a file.

    Attributes
    ----------
    kind : {"truncated", "corrupt", "header", "atoms", "gap", "order", "duplicate", "nan", "jump"}
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
        return self.message if self.message.startswith(self.path) else f"{place}{self.message}"


@dataclass(frozen=True)
class CheckReport:
    """What `check` found.

    Attributes
    ----------
    paths : tuple of str
    n_frames, n_atoms : int
        Of all files together; of the first file that could be read.
    problems : tuple of Problem
    """

    paths: tuple[str, ...]
    n_frames: int
    n_atoms: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        """The report in plain types, for JSON."""
        return {**dataclasses.asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        count = len(self.problems)
        found = "no problems" if self.ok else f"{count} problem{'s' if count > 1 else ''}"
        files = f"{len(self.paths)} files" if len(self.paths) > 1 else self.paths[0]
        head = f"{files}: {self.n_frames:,} frames of {self.n_atoms:,} atoms, {found}"
        lines = [head]
        for kind in dict.fromkeys(problem.kind for problem in self.problems):
            same = [problem for problem in self.problems if problem.kind == kind]
            lines += [f"  {kind}: {problem}" for problem in same[:_TOLD_OF_A_KIND]]
            if len(same) > _TOLD_OF_A_KIND:
                lines.append(f"  {kind}: {len(same) - _TOLD_OF_A_KIND:,} more")
        return "\n".join(lines)


def check(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    topology: str | os.PathLike[str] | None = None,
    *,
    coordinates: bool = True,
    jump: float = 10.0,
    workers: int | None = None,
    memory: int | str | None = None,
    progress: ProgressChoice = False,
) -> CheckReport:
    """Looks for what is wrong with files, which may be the parts of one trajectory.

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
    problems: list[Problem] = []
    parts: list[Trajectory] = []
    for name in names:
        try:
            part = open(name, topology, on_truncated="drop")
            part.scan(workers=workers, progress=progress)
        except (CorruptFileError, TruncatedFileError) as error:
            problems.append(Problem(_kind(error), name, error.frame, str(error)))
            continue
        parts.append(part)
        problems += _headers(part)
        problems += _atom_counts(part, parts[0], topology)
        if coordinates and len(part):
            problems += _coordinates(part, jump, workers, memory, progress)
    if len(parts) > 1 and len({part.n_atoms for part in parts}) == 1:
        problems += _between_parts([part.paths[0] for part in parts])
    return CheckReport(
        paths=tuple(names),
        n_frames=sum(len(part) for part in parts),
        n_atoms=parts[0].n_atoms if parts else 0,
        problems=tuple(problems),
    )


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
    for warning in facts.warnings:
        yield Problem("header", facts.path, None, warning)
    times = part.times
    spacing = np.diff(times)
    if spacing.size == 0:
        return
    usual = float(np.median(spacing))
    # where all times are the same the file has none; that is said once
    if not times.any() or (spacing == 0).all():
        yield Problem("duplicate", facts.path, None, f"all {len(times)} frames have the time {times[0]:g} ps")
        return
    for i in np.flatnonzero(spacing == 0):
        yield Problem("duplicate", facts.path, int(i) + 1, f"time {times[i]:g} ps is that of the frame before")
    for i in np.flatnonzero(spacing < 0):
        message = f"time goes back from {times[i]:g} to {times[i + 1]:g} ps"
        yield Problem("order", facts.path, int(i) + 1, message)
    if usual > 0:
        for i in np.flatnonzero(spacing > usual * (1.5 + _SPACING_TOLERANCE)):
            message = f"time goes from {times[i]:g} to {times[i + 1]:g} ps, frames are {usual:g} ps apart"
            yield Problem("gap", facts.path, int(i) + 1, message)


def _between_parts(paths: list[str]) -> Iterator[Problem]:
    """Gaps between files in the order given; frames that are repeated in the next file are no problem."""
    whole = open(paths, on_truncated="drop")
    try:
        gaps = whole.gaps
    except ArgumentError as error:  # no file continues the one before
        yield Problem("order", paths[0], None, str(error))
        return
    for gap in gaps:
        if gap.time_before is not None and gap.time_after is not None:
            missing = f"between {gap.time_before:g} and {gap.time_after:g} ps"
        else:
            missing = f"between steps {gap.step_before} and {gap.step_after}"
        message = f"frames {missing} are missing after {paths[gap.part - 1]}"
        yield Problem("gap", paths[gap.part], None, message)


def _coordinates(
    part: Trajectory, jump: float, workers: int | None, memory: int | str | None, progress: ProgressChoice
) -> Iterator[Problem]:
    """Coordinates that are no numbers, motion beyond the usual, and frames that cannot be decoded."""
    path = part.paths[0]
    atoms = np.unique(np.linspace(0, part.n_atoms - 1, min(part.n_atoms, _ATOMS_FOR_MOTION)).astype(np.int64))
    steps = np.full(len(part), np.nan)
    last: NDArray[Any] | None = None
    try:
        with reporting(progress, os.path.basename(path), len(part)) as report:
            for block in part.blocks(memory=memory or _DEFAULT_MEMORY, workers=workers):
                assert block.positions is not None, "positions are what blocks read by default"
                yield from _not_finite(path, block.positions, block.cells, block.frames)
                some = block.positions[:, atoms].astype(np.float64)
                chain = some if last is None else np.concatenate([last, some])
                moved = _displacement(chain, block.cells)
                first = int(block.frames[0])
                steps[first + len(some) - len(moved) : first + len(some)] = moved
                last = some[-1:]
                if report is not None:
                    report(first + len(some), len(part))
    except (CorruptFileError, TruncatedFileError) as error:
        yield Problem(_kind(error), path, error.frame, str(error))
    yield from _jumps(path, steps, jump)


def _not_finite(
    path: str, positions: NDArray[Any], cells: NDArray[Any], frames: NDArray[np.uint64]
) -> Iterator[Problem]:
    # a sum is finite only where all its terms are: no array of the size of the positions is made
    for i in np.flatnonzero(~np.isfinite(positions.sum(axis=(1, 2), dtype=np.float64))):
        bad = np.flatnonzero(~np.isfinite(positions[i]).all(axis=1))
        if bad.size:
            message = f"coordinates of {bad.size} atoms are not finite, first atom {bad[0]}"
            yield Problem("nan", path, int(frames[i]), message)
    for i in np.flatnonzero(~np.isfinite(cells).all(axis=(1, 2))):
        yield Problem("nan", path, int(frames[i]), "cell is not finite")


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
    for i in np.flatnonzero(np.nan_to_num(steps) > jump * usual):
        message = f"atoms moved by {steps[i]:.3g} angstrom since the frame before, {usual:.3g} is usual"
        yield Problem("jump", path, int(i), message)

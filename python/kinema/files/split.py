"""`split`: cuts one trajectory file between frames into several; H5MD keeps its storage, others are copied as bytes."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import cast

from kinema import _core, trajectory
from kinema.base.choices import renamed, whole_number
from kinema.base.errors import ArgumentError, FileNotFound, os_errors
from kinema.base.notes import returns_notes
from kinema.base.printable import printable
from kinema.base.progress import ProgressChoice
from kinema.base.resources import parse_memory
from kinema.files.h5md.atom_subset import check_columns
from kinema.files.h5md.elements import axis_of, contents_of
from kinema.files.h5md.rewrite import counting, total_bytes, write
from kinema.files.h5md.tasks import Changes, Tasks, plan
from kinema.files.h5md.window import FrameWindow
from kinema.files.h5md.workers import copying
from kinema.formats import h5md
from kinema.formats.all_formats import format_named
from kinema.formats.external.frames import refuse_external
from kinema.formats.h5md.description import H5mdReading
from kinema.formats.h5md.file import opened
from kinema.formats.splice import FrameRange, write_frames
from kinema.runners import Runner, choose_runner
from kinema.runners.workers import CallWorkers
from kinema.storage.hdf5.storage import KEEP, Layout
from kinema.storage.output_checks import check_not_input
from kinema.storage.output_file import temporary_folder
from kinema.trajectory import opening

_LEAST_MEMORY = 16 << 20


@dataclass(frozen=True)
class Split:
    """The result of `split`.

    Attributes
    ----------
    paths : the files, in order
    frames : (first, stop) of each file in the whole trajectory
    notes : notes for users of the files (`kinema.base.notes`)
    """

    paths: tuple[str, ...]
    frames: tuple[tuple[int, int], ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = zip(self.paths, self.frames, strict=True)
        return "\n".join(
            f"{printable(path)}: " + (f"frames {first:,} to {stop - 1:,}" if stop - first > 1 else f"frame {first:,}")
            for path, (first, stop) in rows
        )


@renamed(**H5mdReading.old_names)
@returns_notes
def split(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    parts: int | None = None,
    frames_per_part: int | None = None,
    format: str | None = None,
    particles: str | None = None,
    axis: str | None = None,
    root: str | None = None,
    units: Mapping[str, str] | None = None,
    external: str = "folder",
    on_truncated: str = "drop",
    stored: bool = True,
    overwrite: bool = False,
    verify: bool = True,
    runner: str | Runner | None = None,
    workers: int | None = None,
    memory: int | str = "512 MiB",
    progress: ProgressChoice = False,
) -> Split:
    """Cuts a trajectory file between frames into NAME.000.xtc, NAME.001.xtc, ... in a folder.

    Opened as a list, the parts equal the whole trajectory bit for bit in coordinates, cells, steps and times. Times of
    DCD are the exception: they are computed from the header and may differ in the last bit.

    Frames of XTC, TRR, NetCDF, DCD and HISTORY are copied unchanged. Each part of an H5MD file is complete: elements
    are cut by step, so velocities at another stride and observables go to the part of their step; data that do not
    change with time are in every part.

    Parameters
    ----------
    source : file name
    folder : folder name
        Created if it does not exist. All files appear in it, or none.
    parts : int
        Number of files. Give this or `frames_per_part`.
        frames_per_part : int
            Number of frames in each file; the last may have fewer.
    particles : str, optional
        For an H5MD file with several particles groups, the group whose frames are counted.
    format, axis, root, units, external, on_truncated, stored : as `kinema.open`
    overwrite : bool
        Whether to replace existing files of these names.
    verify : bool
        H5MD: whether to read everything back and compare.
    runner, workers, memory : as `repack`

    Raises
    ------
    ArgumentError, FileNotFound, FileAccessError, FileIOError
    UnsupportedFormatError
        For DCD files with fixed atoms, and NetCDF restarts.
    """
    on = CallWorkers(choose_runner(runner), workers)
    on.check()

    def whole_call() -> Split:
        path, out = os.fspath(source), os.fspath(folder).rstrip("/") or "/"
        limit = max(_LEAST_MEMORY, parse_memory(memory))
        traj = opening.open(
            path,
            format=format,
            particles=particles,
            axis=axis,
            root=root,
            units=units,
            external=external,
            on_truncated=on_truncated,
            stored=stored,
        )
        refuse_external(path, traj.format, "cut")
        runs = _runs(traj.n_frames, parts, frames_per_part)
        names = _names(path, traj.format, len(runs))
        for name in names:
            check_not_input(os.path.join(out, name), path)
        with _folder(out, names, overwrite=overwrite) as temporary:
            targets = [os.path.join(temporary, name) for name in names]
            if format_named(traj.format).spliced:
                _copy_frames(traj, runs, targets, on, progress)
                notes: tuple[str, ...] = ()
            else:
                quantity = cast("h5md.Quantity | None", axis)
                options = h5md.H5mdOptions(
                    particles=particles, axis=quantity, root=root, units=units, external=external, stored=stored
                )
                check_columns(h5md.describe(path, options).positions, path)
                notes = _cut_h5md(path, options, traj.n_frames, runs, targets, verify, on, limit, progress)
        return Split(tuple(os.path.join(out, name) for name in names), runs, notes)

    return on.lead(whole_call)


def _runs(n_frames: int, parts: int | None, frames_per_part: int | None) -> tuple[tuple[int, int], ...]:
    if (parts is None) == (frames_per_part is None):
        raise ArgumentError("give either parts= or frames_per_part=, the number of files or of frames in each")
    if parts is not None:
        count = whole_number("parts", parts)
        if count > n_frames:
            raise ArgumentError(f"{n_frames} frames cannot be cut into {count} parts of one frame at least")
        edges = [n_frames * i // count for i in range(count + 1)]
    else:
        length = whole_number("frames_per_part", frames_per_part)
        edges = [*range(0, n_frames, length), n_frames]
    return tuple(itertools.pairwise(edges))


def _names(path: str, format: str, count: int) -> list[str]:
    """Names of the parts; if the file's suffix does not fit its format, they take one that does."""
    stem, suffix = os.path.splitext(os.path.basename(path))
    endings = next(one["extensions"] for one in _core.formats() if one["name"] == format)
    if suffix[1:].lower() not in endings:
        suffix = f".{endings[0]}"
    digits = max(3, len(str(count - 1)))
    return [f"{stem}.{number:0{digits}d}{suffix}" for number in range(count)]


@contextmanager
def _folder(path: str, names: list[str], *, overwrite: bool) -> Iterator[str]:
    """A temporary folder beside `path`; its files are moved there at the end of the block."""
    above = os.path.dirname(os.path.abspath(path))
    if os.path.exists(path) and not os.path.isdir(path):
        raise ArgumentError("is a file, expected a folder for the parts", at=path)
    there = [name for name in names if os.path.exists(os.path.join(path, name))]
    if there and not overwrite:
        raise ArgumentError(f"{os.path.join(path, there[0])}: exists already; overwrite=True replaces it", path=path)
    if not os.path.isdir(above):
        raise FileNotFound("the folder it should be in does not exist, make it first", at=path)
    with temporary_folder(path) as temporary, os_errors("cannot write", path):
        yield temporary
        os.makedirs(path, exist_ok=True)
        for name in names:
            os.replace(os.path.join(temporary, name), os.path.join(path, name))


def _copy_frames(
    traj: trajectory.Trajectory,
    runs: tuple[tuple[int, int], ...],
    targets: list[str],
    on: CallWorkers,
    progress: ProgressChoice,
) -> None:
    path = traj.paths[0]
    head = format_named(traj.format).head_of(path)
    offsets, lengths = (values.tolist() for values in traj.core.extents(0))
    total = offsets[-1] + lengths[-1] - offsets[0]
    with on.reporting(progress, f"splitting {os.path.basename(path)}", total) as report:
        advance = counting(report, total)
        for (first, stop), target in zip(runs, targets, strict=True):
            bytes_of_run = FrameRange(path, offsets[first], offsets[stop - 1] + lengths[stop - 1])
            write_frames(
                target,
                head.encode(partial(_step, traj, first), stop - first),
                [bytes_of_run],
                advance,
                copying(on, target, advance),
            )


def _step(traj: trajectory.Trajectory, frame: int) -> int:
    return int(traj.steps[frame])


def _cut_h5md(
    path: str,
    options: h5md.H5mdOptions,
    n_frames: int,
    runs: tuple[tuple[int, int], ...],
    targets: list[str],
    verify: bool,
    on: CallWorkers,
    memory: int,
    progress: ProgressChoice,
) -> tuple[str, ...]:
    notes: list[str] = []
    with opened(path, options) as whole:
        contents = contents_of(whole)
        axis = axis_of(whole, contents)
        planned: list[Tasks] = []
        for first, stop in runs:
            window = FrameWindow(axis, first, stop, n_frames)
            planned.append(plan(whole, contents, Changes(Layout(KEEP), window=window, memory=memory)))
        total = sum(total_bytes(tasks, verify=verify) for tasks in planned)
        with on.reporting(progress, f"splitting {os.path.basename(path)}", total) as report:
            advance = counting(report, total)
            for tasks, target in zip(planned, targets, strict=True):
                done = write(
                    whole,
                    tasks,
                    target,
                    overwrite=False,
                    verify=verify,
                    on=on,
                    memory=memory,
                    advance=advance,
                )
                notes += [note for note in done.notes if note not in notes]
    return tuple(notes)

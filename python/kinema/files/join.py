"""`join`: makes one trajectory file of several; H5MD by reference (virtual data sets) or copied, others as bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinema import trajectory
from kinema.base.choices import check_choice, renamed
from kinema.base.errors import ArgumentError, CorruptFileError
from kinema.base.input_files import file_names
from kinema.base.notes import collected, emit, returns_notes
from kinema.base.printable import counted, printable
from kinema.base.progress import ProgressChoice
from kinema.base.resources import parse_memory
from kinema.files.h5md.atom_subset import check_columns
from kinema.files.h5md.concatenate import JoinedPart, join_tasks
from kinema.files.h5md.elements import axis_of, contents_of
from kinema.files.h5md.rewrite import counting, write
from kinema.files.h5md.window import FrameWindow
from kinema.files.h5md.workers import copying
from kinema.files.repack import repack_with
from kinema.formats import h5md
from kinema.formats.all_formats import format_named
from kinema.formats.external.frames import refuse_external
from kinema.formats.h5md.description import H5mdReading
from kinema.formats.h5md.file import opened
from kinema.formats.splice import FrameRange, write_frames
from kinema.runners import Runner, ThreadsRunner, choose_runner
from kinema.runners.workers import CallWorkers
from kinema.storage.hdf5.filters import Filters
from kinema.storage.hdf5.storage import Layout
from kinema.storage.hdf5.trust.other_files import is_within
from kinema.storage.output_checks import check_format, check_not_input, check_target
from kinema.storage.output_file import temporary_folder
from kinema.trajectory import opening

__all__ = ["Joined", "join"]


@dataclass(frozen=True)
class Joined:
    """The result of `join`.

    Attributes
    ----------
    path : the file
    n_frames, n_atoms : int
    size : bytes of the file itself
    refers_to : files that it needs to be read; empty if everything was copied
    notes : notes for users of the file (`kinema.base.notes`)
    """

    path: str
    n_frames: int
    n_atoms: int
    size: int
    refers_to: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        needed = f"; it needs its {len(self.refers_to)} parts where they are" if self.refers_to else ""
        return (
            f"{printable(self.path)}: {counted(self.n_frames, 'frame')} of {counted(self.n_atoms, 'atom')}, "
            f"{self.size:,} bytes{needed}"
        )


@renamed(**H5mdReading.old_names)
@returns_notes
def join(
    parts: Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    copy: bool = False,
    overlap: str = "last",
    renumber: bool = False,
    format: str | None = None,
    particles: str | None = None,
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
) -> Joined:
    """Makes one file of several that follow each other.

    For H5MD, the new file holds steps, times, boxes and observables, and refers to positions, velocities and forces
    in the parts by virtual data sets (HDF5 1.10): it is made at once, is small, and is read at the same speed. Paths of
    the parts are stored relative to the file. XTC, TRR, NetCDF, DCD and HISTORY files are always copied, byte for byte.

    Parameters
    ----------
    parts : file names, in the order of time
    target : file name
    copy : bool
        H5MD: copy all frames, in chunks of whole frames, with the compression of the first part.
    overlap : {"last", "first", "all"}
        Which frames are used if a part begins before the previous part ends. For DCD files, which hold no step per
        frame, "all" requires that steps continue from part to part, or that the headers have no time step.
    renumber : bool
        H5MD: the steps and times of each part continue from those of the previous one, as for parts that all begin at
        0. All frames are used.
    format, particles, root, units, external, on_truncated, stored : as `kinema.open`
    overwrite, verify, runner, workers, memory : as `repack`

    Raises
    ------
    ArgumentError
        If parts differ in atoms, fields, units or types; if frames are missing between DCD files; if headers of NetCDF
        files differ.
    UnsupportedFormatError, FileNotFound, FileAccessError, FileIOError, CorruptFileError

    Examples
    --------
    >>> joined = kn.join(["md1.xtc", "md2.xtc"], "joined.xtc")
    >>> kn.open("joined.xtc").n_frames
    196
    """
    on = CallWorkers(choose_runner(runner), workers)
    on.check()

    def whole_call() -> Joined:
        out = os.fspath(target)
        names = file_names(parts)
        limit = parse_memory(memory)
        check_not_input(out, *names)
        check_target(out, overwrite=overwrite)
        stated: dict[str, Any] = {"particles": particles, "root": root, "units": units, "external": external}
        used = overlap
        if renumber:
            # steps decide nothing then
            check_choice("overlap", overlap, ("last", "all"))
            used = "all"
        traj = opening.open(names, format=format, overlap=used, on_truncated=on_truncated, stored=stored, **stated)
        kinds = sorted({part.format for part in traj.parts})
        if len(kinds) > 1:
            raise ArgumentError(f"parts are of one format, found {' and '.join(kinds)}")
        refuse_external(names[0], kinds[0], "joined")
        check_format(out, kinds[0])
        if format_named(kinds[0]).spliced:
            if renumber:
                raise ArgumentError(f"only steps of H5MD files can be renumbered, found {kinds[0]}", path=names[0])
            _join_bytes(traj, out, on, progress)
            return Joined(out, traj.n_frames, traj.n_atoms, os.path.getsize(out))
        options = h5md.H5mdOptions(particles=particles, root=root, units=units, external=external, stored=stored)
        if not copy:
            refers_to = _refer(traj, out, options, overwrite=overwrite, renumber=renumber)
            _note_outside(out, refers_to)
            return Joined(out, traj.n_frames, traj.n_atoms, os.path.getsize(out), refers_to)
        stem, suffix = os.path.splitext(os.path.abspath(out))
        with temporary_folder(f"{stem}.virtual{suffix}") as folder:
            virtual = os.path.join(folder, os.path.basename(out))
            _refer(traj, virtual, options, overwrite=False, renumber=renumber)
            layout = Layout("frames", _compression_of(names[0], options))
            repack_with(
                virtual, out, layout, replace(options, external="any"), overwrite=overwrite, verify=verify, on=on,
                memory=limit, progress=progress,
            )  # fmt: skip
        return Joined(out, traj.n_frames, traj.n_atoms, os.path.getsize(out))

    with collected() as notes:
        done = on.lead(whole_call)
    emit([note for note in notes if not (renumber and note.startswith("time goes back"))])
    return done


def _join_bytes(traj: trajectory.Trajectory, out: str, on: CallWorkers, progress: ProgressChoice) -> None:
    format, parts = format_named(traj.format), traj.parts
    first = format.head_of(parts[0].path)
    first.check_first(lambda: traj.steps, parts)
    header = first.encode(lambda: int(traj.steps[0]), traj.n_frames)
    ranges = []
    for number, part in enumerate(parts):
        if number:
            format.head_of(part.path).check_next(first, traj.n_frames)
        offsets, lengths = traj.core.extents(number)
        start, stop = part.kept
        if start < stop:
            ranges.append(FrameRange(part.path, int(offsets[start]), int(offsets[stop - 1] + lengths[stop - 1])))
    total = sum(one.stop - one.start for one in ranges)
    with on.reporting(progress, f"joining {os.path.basename(out)}", total) as report:
        advance = counting(report, total)
        write_frames(out, header, ranges, advance, copying(on, out, advance))


def _refer(
    traj: trajectory.Trajectory, out: str, options: h5md.H5mdOptions, *, overwrite: bool, renumber: bool
) -> tuple[str, ...]:
    """Makes the file that refers to the parts."""
    described = traj.parts
    for part in described:
        check_columns(h5md.describe(part.path, options).positions, part.path)
    with ExitStack() as stack:
        joined = []
        for number, part in enumerate(described):
            source = stack.enter_context(opened(part.path, options))
            contents = contents_of(source)
            first, stop = part.kept
            window = FrameWindow(axis_of(source, contents), first, stop, part.file_frames)
            joined.append(JoinedPart(source, contents, window, number == 0, number + 1 == len(described)))
        tasks = join_tasks(joined, os.path.dirname(os.path.abspath(out)), renumber=renumber)
        write(
            joined[0].opened, tasks, out, overwrite=overwrite, verify=True, on=CallWorkers(ThreadsRunner(), 1),
            memory=1 << 26,
            advance=lambda _: None,
        )  # fmt: skip
    # it draws in only files that the user named
    whole = opening.open(
        out, particles=options.particles, root=options.root, units=options.units, external="any", stored=False
    )
    if whole.n_frames != traj.n_frames or not (renumber or np.array_equal(whole.steps, traj.steps)):
        raise CorruptFileError(f"{out}: has other frames than its parts, expected {traj.n_frames}", path=out)
    return tuple(dict.fromkeys(part.path for part in described))


def _note_outside(out: str, parts: tuple[str, ...]) -> None:
    """Notes files outside its folder that a file refers to: others need external="any" to read them."""
    outside = [part for part in parts if not is_within(os.path.dirname(os.path.realpath(out)), part)]
    if outside:
        more = f" and {len(outside) - 1} more" if len(outside) > 1 else ""
        emit(
            [
                f'{out}: refers to {outside[0]}{more}, outside of its folder, which is read with external="any" '
                "(--external any) alone; copy=True (--copy) makes a file that needs no other"
            ]
        )


def _compression_of(path: str, options: h5md.H5mdOptions) -> Filters:
    """The filters of a part's frames, in the order of writing."""
    with opened(path, options) as source:
        value = axis_of(source, contents_of(source)).value
        storage, _ = Layout().existing_field(value, value.shape, 1 << 28)
        return storage.filters

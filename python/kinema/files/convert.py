"""`convert`: writes frames of any trajectory to another format, or to the same one with other frames or atoms.

This module has the names, checks of arguments and the result; `kinema.files.conversion` writes the files.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinema._core import __version__
from kinema.base.choices import whole_number
from kinema.base.errors import ArgumentError
from kinema.base.notes import collected, emit, merge_file_notes, returns_notes
from kinema.base.printable import counted, printable
from kinema.base.progress import ProgressChoice
from kinema.base.resources import parse_memory
from kinema.execution.checkpoint import Checkpoint, CheckpointChoice
from kinema.files.conversion.append import append_frames, check_append
from kinema.files.conversion.blocks import write_blocks
from kinema.files.conversion.compare import Verification, check_verification
from kinema.files.conversion.frame_by_frame import atoms_as_text, write_text
from kinema.files.conversion.outputs import (
    ConvertingOptions,
    WrittenFile,
    is_written_in_blocks,
    numbered,
    own_options,
    target_format,
)
from kinema.files.conversion.records import write_records
from kinema.files.conversion.resumable import is_published
from kinema.files.conversion.source_frames import SourceFrames, chosen_frames, rotated
from kinema.files.conversion.structure import check_structure, write_first
from kinema.files.conversion.whole_file import is_whole_file, write_repacked
from kinema.formats.all_formats import format_named
from kinema.formats.all_writers import all_options, check_options, is_option
from kinema.formats.declared import chosen, documented, names_of, unknown_option
from kinema.formats.external.writer import AtomsAsText
from kinema.formats.options import CONVERT_TABLE
from kinema.model.frame import VECTOR_FIELDS
from kinema.model.selection.atoms import AtomChoice
from kinema.model.selection.frames import FrameChoice
from kinema.model.selection.readable_frames import decode_frames
from kinema.runners import Runner, choose_runner
from kinema.runners.workers import CallWorkers
from kinema.storage.output_checks import check_not_input, check_target
from kinema.storage.output_file import OutputFile
from kinema.storage.provenance import Input, Provenance
from kinema.trajectory import Trajectory, opening
from kinema.trajectory.transform import transforms_in_words

if TYPE_CHECKING:
    from typing import Unpack

    from kinema.formats.options import ConvertOptions


@dataclass(frozen=True)
class Converted:
    """The result of `convert`.

    Attributes
    ----------
    path : str
        As given.
    format : str
    n_frames, n_atoms : int
    fields : tuple of str
        Per-atom fields in the file.
    paths : tuple of str
        The files: `path`, or several with `split`.
    size : int
        Bytes of all files.
    seconds : float
        Wall time from the first byte to the last, including the sync, but not the search for frames or the comparison.
    gib_per_second : float
        GiB of output per second.
    workers : int
    timings : mapping of str to float
        Seconds of all workers: "open", "io", "decode", "encode", "write", "wait". For H5MD, "write" is the time of the
        one writer and includes "encode". Empty if the file was repacked.
    topology_out : str or None
        The topology file that was written.
    compared : int
        Number of frames that were read back and found equal to the source.
    n_restored : int
        Number of frames that an earlier call had written, according to the checkpoint.
    losses : tuple of str
        Parts of the source that the file lacks or holds inexactly; known and noted before the first byte is written.
    notes : tuple of str
        Notes for users of the file (`kinema.base.notes`), including the losses.
    """

    path: str
    format: str
    n_frames: int
    n_atoms: int
    fields: tuple[str, ...]
    paths: tuple[str, ...]
    size: int
    seconds: float
    workers: int
    timings: Mapping[str, float]
    compared: int
    n_restored: int = 0
    topology_out: str | None = None
    losses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def gib_per_second(self) -> float:
        """GiB of output per second."""
        return self.size / self.seconds / 2**30 if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        compared = f"; {counted(self.compared, 'frame')} compared with the source" if self.compared else ""
        if self.n_restored:
            compared = f"; {counted(self.n_restored, 'frame')} were there already{compared}"
        files = "" if self.paths == (self.path,) else f" in {counted(len(self.paths), 'file')}"
        return (
            f"{printable(self.path)}: {self.format}, {counted(self.n_frames, 'frame')} of "
            f"{counted(self.n_atoms, 'atom')} ({', '.join(self.fields)}){files}, {self.size:,} bytes in "
            f"{self.seconds:.2f} s, {self.gib_per_second:.2f} GiB/s on {counted(self.workers, 'worker')}{compared}"
            + ("" if self.topology_out is None else f"; its topology is {printable(self.topology_out)}")
        )


@documented(CONVERT_TABLE)
@returns_notes
def convert(
    source: Trajectory | str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Any,
    out: str | os.PathLike[str],
    *,
    topology: str | os.PathLike[str] | Any | None = None,
    start: int | None = None,
    stop: int | None = None,
    step: int | None = None,
    frames: FrameChoice = None,
    select: AtomChoice = None,
    fields: str | Sequence[str] | None = None,
    format: str | None = None,
    runner: str | Runner | None = None,
    workers: int | None = None,
    overwrite: bool = False,
    progress: ProgressChoice = False,
    **options: Unpack[ConvertOptions],
) -> Converted:
    """Writes frames of a trajectory in any format to one file or several.

    If the units are equal, values are written bit for bit; otherwise they are multiplied and rounded once. A file
    appears under its name when it is complete. Its bytes are the same on any runner, for any number of workers and any
    memory limit. If all MPI ranks call this with the runner "mpi", rank 0 leads, and all get the result.

    Parameters
    ----------
    source : Trajectory, or what `kinema.open` takes
    out : path
        Its suffix gives the format.
    topology : as `kinema.open`
        For selection strings, and for the atom data of an H5MD file; not with a Trajectory, which has its own.
    start, stop, step, frames : as `Trajectory.choose`
        Written in the order of `frames`; all by default.
    select : as `Trajectory.select`
        Written in the order asked for; all by default.
    fields : str or list of str, optional
        "positions", "velocities", "forces"; by default those that files of the format usually hold, if the source has
        them. All frames must have them.
    format : str, optional
        "DCD", ...; by default the suffix of `out` decides.
    runner : str or Runner, optional
        Workers that encode and write: "threads" (default), "serial", "processes", "dask", "mpi", or a Runner. Workers
        must see the inputs and the folder of the output under the same paths.
    workers : int, optional
        By default all that are available.
    overwrite : bool
        Whether to replace existing files.
    progress : bool, None or function
    **options
        The options listed below, arguments of `kinema.open` (`units`, `dt`, `t0`, `overlap`, `particles`, ...), and
        options of the format, as for `kinema.Writer`. Defaults come from the source: for HISTORY and CONFIG the first
        line of a source of the same format; for XTC the `precision` of an XTC source, so that nothing is rounded; for
        H5MD its `length_unit`, `time_unit` and `dtype`. Records of TRR sources are copied with their own precision.
        PDB and GRO are written through MDAnalysis and not read back. If all of an H5MD file is written as H5MD, it is
        repacked (`kinema.repack`), with a note.

    Raises
    ------
    ArgumentError
        For frames, atoms and fields as in `run` and `read`; if an output exists or is an input; if the format does not
        have an option; if the checkpoint belongs to another call, with the differences.
    UnsupportedFormatError
        If Kinema does not write the format, or the format cannot hold a value.
    MemoryLimitError, OutOfRangeError, CorruptFileError, FileIOError, ...
        From reading and writing. An existing `out` stays; no other file is left, except what a checkpoint names.

    Examples
    --------
    >>> done = kn.convert(["md1.xtc", "md2.xtc"], "ca.dcd", topology="top.psf", select="name CA", step=10)
    >>> kn.open("ca.dcd")
    <Trajectory ca.dcd: DCD, 214 atoms>
    >>> done = kn.convert("md.xtc", "small.h5md", compression="zstd", max_error=0.01)
    """
    own = ConvertingOptions(**chosen(ConvertingOptions, options))
    on = CallWorkers(choose_runner(runner), workers, own.strategy, own.hints)
    split, topology_out, index_file = own.split, own.topology_out, own.index_file

    def whole_call() -> Converted:
        name, how = os.fspath(out), check_verification(own.verify)
        target = target_format(out, format)
        opened, made = _sorted(options, target, name)
        saved = Checkpoint.from_choice(own.checkpoint, own.checkpoint_interval)
        appends = own.append and os.path.exists(name)
        if own.append:
            others = {"split": split, "overwrite": overwrite, "checkpoint": saved, "topology_out": topology_out}
            check_append(target, on, own.strategy, how, others)
        check_output(out, format, overwrite=overwrite or appends or split is not None, checkpoint=saved)
        on.chosen(format_named(target).written_kind({}, by_library=is_written_in_blocks(name, target, made)))
        on.check()
        length = None if split is None else whole_number("split", split)
        if saved is not None and (format_named(target).written_through_mdanalysis or length is not None):
            what = f"{target} files" if format_named(target).written_through_mdanalysis else "several files"
            raise ArgumentError(f"checkpoint= is for one file that is not text, found {what}; leave it out")
        if saved is not None and not format_named(target).chunked and is_written_in_blocks(name, target, made):
            raise ArgumentError(f"checkpoint= is not for {target} files in HDF5; leave it out")
        limit = 0 if own.memory is None else parse_memory(own.memory)
        trajectory = _opened(source, topology, opened)
        if own.rotate_cell:
            trajectory = rotated(trajectory, name)
        trajectory.scan(
            workers=on.threads, progress=progress, search=on.runner.find_frames, skip_damaged=own.skip_damaged
        )
        wanted = chosen_frames(trajectory, start, stop, step, frames, own.dump)
        if own.skip_damaged:
            decoded = decode_frames(trajectory.core, wanted, workers=on.threads, memory=limit, progress=progress)
            emit(decoded.notes())
            wanted = decoded.readable()
        atoms = _atoms(trajectory, select, index_file, own.group)
        whole = SourceFrames.from_trajectory(trajectory, wanted, atoms, _fields(fields))
        parts = [whole] if length is None else [whole[at : at + length] for at in range(0, len(whole), length)]
        names = [name] if length is None else numbered(name, len(parts))
        inputs = [*trajectory.paths, trajectory.topology_name, index_file]
        replaces = overwrite or appends or is_published(name, saved)
        _check_names(names, topology_out, inputs, overwrite=replaces)
        shared = atoms_as_text(whole, name, target) if format_named(target).written_through_mdanalysis else None
        call = _Call(target, made, how, on, limit, saved, progress, shared, appends)
        provenance = _provenance(trajectory, select, index_file, own.group, made)
        with ExitStack() as stack:
            stack.enter_context(on.runner.session())
            if topology_out is not None:
                # renamed last
                structure = check_structure(topology_out, whole, overwrite=overwrite)
                write_first(whole, stack.enter_context(OutputFile(structure, alone=True)).temporary, structure)
            with collected() if len(parts) > 1 else nullcontext(list[str]()) as noted:
                written = [call.write(part, one, provenance) for part, one in zip(parts, names, strict=True)]
            trajectory.note_frames()
            emit(merge_file_notes(noted, names))
        return _converted(name, target, whole, written, None if topology_out is None else os.fspath(topology_out))

    return on.runner.broadcast_from_root(whole_call)


def check_output(
    out: str | os.PathLike[str],
    format: str | None = None,
    *,
    overwrite: bool = False,
    checkpoint: CheckpointChoice = None,
) -> str:
    """The format that `convert` would write as `out`; raises any refusal that can be known without reading an input."""
    found = target_format(out, format)
    check_target(out, overwrite=overwrite or is_published(os.fspath(out), Checkpoint.from_choice(checkpoint, None)))
    return found


@dataclass(frozen=True)
class _Call:
    """Settings that all files of a call share."""

    format: str
    options: Mapping[str, Any]
    verify: Verification
    on: CallWorkers
    memory: int
    checkpoint: Checkpoint | None
    progress: ProgressChoice
    atoms: AtomsAsText | None
    appends: bool

    def write(self, source: SourceFrames, name: str, provenance: Provenance) -> WrittenFile:
        """Makes one file in the way of its format, or appends to it."""
        if self.appends:
            threads, memory = self.on.threads, self.memory
            return append_frames(
                source, name, self.format, self.options, workers=threads, memory=memory, progress=self.progress
            )
        shared: dict[str, Any] = {
            "verify": self.verify,
            "memory": self.memory,
            "progress": self.progress,
        }
        if is_whole_file(source, self.format, self.options):
            if self.checkpoint is not None:
                raise ArgumentError(
                    f"{name}: all of {source.trajectory.paths[0]} is repacked, which has no checkpoint; leave out "
                    "checkpoint=, or write with fields= what is read of it"
                )
            return write_repacked(source, name, self.options, on=self.on, **shared)
        if self.atoms is not None:
            shared |= {"atoms": self.atoms, "workers": self.on.threads}
            return write_text(source, name, self.format, self.options, **shared)
        if is_written_in_blocks(name, self.format, self.options):
            made = replace(provenance, frames=str(source.frames))
            shared |= {"checkpoint": self.checkpoint, "on": self.on}
            return write_blocks(source, name, self.format, self.options, made, **shared)
        shared |= {"checkpoint": self.checkpoint, "on": self.on}
        return write_records(source, name, self.format, options=self.options, **shared)


def _sorted(options: Mapping[str, Any], format: str, out: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of `kinema.open`, and options of the format; raises ArgumentError for any other that is not None."""
    of_opening, taken, own = opening.open_arguments(), own_options(format), names_of(ConvertingOptions)
    opened = {name: value for name, value in options.items() if name in of_opening}
    made = {name: value for name, value in options.items() if name not in (*of_opening, *own)}
    made = {name: value for name, value in made.items() if name in taken or value is not None}
    if made.get("unit") is not None and made.get("max_error") is None:
        raise ArgumentError("unit= is that of max_error; give both, or none")
    for name in made:
        if name in taken:
            continue
        if not is_option(name):
            named = [one.name for one in inspect.signature(convert).parameters.values()]
            raise unknown_option("convert", name, (*named, *own, *of_opening, *all_options()))
        takes = ", ".join(f"{option}=" for option in taken) or "no options"
        raise ArgumentError(f"{format} files do not have {name}=; convert to {format} takes {takes}")
    check_options(out, format, made)
    return opened, made


def _opened(source: Any, topology: Any, opened: Mapping[str, Any]) -> Trajectory:
    if not isinstance(source, Trajectory):
        trajectory: Trajectory = opening.open(source, topology, **opened)
        return trajectory
    given = [*opened, *([] if topology is None else ["topology"])]
    if given:
        raise ArgumentError(
            f"the trajectory is open already; give {given[0]}= to kn.open, or the names of the files here"
        )
    return source


def _atoms(
    trajectory: Trajectory, select: AtomChoice, index_file: str | os.PathLike[str] | None, group: str | None
) -> NDArray[np.uint32] | None:
    if select is None and index_file is None and group is None:
        return None
    return trajectory.select(select, index_file=index_file, group=group).indices


def _fields(fields: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if fields is None:
        return None
    names = (fields,) if isinstance(fields, str) else tuple(fields)
    for field in names:
        if field not in VECTOR_FIELDS:
            raise ArgumentError(f"field {field!r} is none of {', '.join(VECTOR_FIELDS)}")
    if not names:
        raise ArgumentError("fields names nothing to write; give 'positions'")
    return names


def _check_names(
    names: Sequence[str],
    topology_out: str | os.PathLike[str] | None,
    inputs: Sequence[str | os.PathLike[str] | None],
    *,
    overwrite: bool,
) -> None:
    """Raises ArgumentError if an output is an input, exists already, or is named twice."""
    for name in names:
        check_target(name, overwrite=overwrite)
        check_not_input(name, *inputs)
    if topology_out is not None:
        structure = os.fspath(topology_out)
        if os.path.abspath(structure) in map(os.path.abspath, names):
            raise ArgumentError("is the trajectory and its topology; name two files", at=structure)
        check_not_input(structure, *inputs)


def _provenance(
    trajectory: Trajectory,
    select: AtomChoice,
    index_file: str | os.PathLike[str] | None,
    group: str | None,
    options: Mapping[str, Any],
) -> Provenance:
    """Origin of a file except its frames and losses; holds only what the same call would repeat."""
    files = [Input(part.path, part.size, part.fingerprint) for part in trajectory.parts]
    others = [trajectory.topology_name, None if index_file is None else os.fspath(index_file)]
    files += [Input.from_path(path) for path in others if path is not None and path not in trajectory.paths]
    named = select if isinstance(select, str) else f"group {group!r}" if group is not None else "chosen by number"
    everything = select is None and index_file is None
    plain = {name: str(value) for name, value in options.items() if isinstance(value, (str, int, float, tuple))}
    return Provenance(
        version=__version__,
        call="kinema.convert",
        inputs=tuple(files),
        selection="all atoms" if everything else named,
        parameters={**trajectory.stated, **transforms_in_words(trajectory), **plain},
        date="",
    )


def _converted(
    name: str, format: str, source: SourceFrames, written: Sequence[WrittenFile], topology_out: str | None
) -> Converted:
    """The files of a call as one result."""
    paths = tuple(one.path for one in written)
    losses = merge_file_notes((loss for one in written for loss in one.losses), paths)
    phases = dict.fromkeys(phase for one in written for phase in one.timings)
    return Converted(
        path=name,
        format=format,
        n_frames=len(source),
        n_atoms=source.n_atoms,
        fields=written[0].fields,
        paths=paths,
        size=sum(one.size for one in written),
        seconds=sum(one.seconds for one in written),
        workers=max(one.workers for one in written),
        timings={phase: sum(one.timings[phase] for one in written) for phase in phases},
        compared=sum(one.compared for one in written),
        n_restored=sum(one.n_restored for one in written),
        topology_out=topology_out,
        losses=losses,
        notes=merge_file_notes((*losses, *(note for one in written for note in one.notes)), paths),
    )

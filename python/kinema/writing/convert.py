"""`convert`: frames of any trajectory as a file of another format, or of the same with other frames or atoms.

Frames are read, encoded and placed by `_core.Encoder`; this is names, checks and the comparison with the source.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core, opening
from kinema.errors import ArgumentError, CorruptFileError, UnsupportedFormatError
from kinema.execution.checkpoint import Checkpoint, CheckpointChoice
from kinema.execution.checkpoint.file import IdentityItem
from kinema.frame import VECTOR_FIELDS
from kinema.notes import collected, emit, returns_notes
from kinema.printable import counted, printable
from kinema.progress import ProgressChoice, reporting
from kinema.resources import parse_memory, worker_count
from kinema.selection.atoms import AtomChoice
from kinema.selection.frames import FrameChoice, FrameSelection
from kinema.selection.readable import decode_frames
from kinema.trajectory import Trajectory
from kinema.writing.output_checks import check_not_input, check_target, is_stream
from kinema.writing.resumable import is_published, items_of_convert, record_file

__all__ = ["Converted", "check_output", "convert"]

# frames that are read back and compared
_COMPARED = 16
# of values that were multiplied twice, each product rounded to float32
_ROUNDING = 4 * 2.0**-24


@dataclass(frozen=True)
class Converted:
    """What `convert` has made.

    Attributes
    ----------
    path : str
    format : str
    n_frames, n_atoms : int
    fields : tuple of str
        What the file holds of the atoms.
    size : int
        Bytes of the file.
    seconds : float
        Wall time from the first byte to the last, with the file synced; finding frames and comparing are no part of it.
    workers : int
    timings : mapping of str to float
        Seconds of all workers: "open", "io", "decode", "encode", "write", "wait".
    compared : int
        Frames that were read back and are those of the source.
    n_restored : int
        Frames that an earlier call had written, by the checkpoint.
    losses : tuple of str
        What of the source the file does not hold, or not exactly; known, and noted, before the first byte.
    notes : tuple of str
        What a user of the file should know (`kinema.notes`), losses included.
    """

    path: str
    format: str
    n_frames: int
    n_atoms: int
    fields: tuple[str, ...]
    size: int
    seconds: float
    workers: int
    timings: Mapping[str, float]
    compared: int
    n_restored: int = 0
    losses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def gib_per_second(self) -> float:
        """GiB of the file in a second."""
        return self.size / self.seconds / 2**30 if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        compared = f"; {counted(self.compared, 'frame')} compared with the source" if self.compared else ""
        if self.n_restored:
            compared = f"; {counted(self.n_restored, 'frame')} were there already{compared}"
        return (
            f"{printable(self.path)}: {self.format}, {counted(self.n_frames, 'frame')} of "
            f"{counted(self.n_atoms, 'atom')} ({', '.join(self.fields)}), {self.size:,} bytes in {self.seconds:.2f} s, "
            f"{self.gib_per_second:.2f} GiB/s on {counted(self.workers, 'worker')}{compared}"
        )


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
    index_file: str | os.PathLike[str] | None = None,
    group: str | None = None,
    fields: str | Sequence[str] | None = None,
    precision: float | None = None,
    format: str | None = None,
    runner: str = "threads",
    workers: int | None = None,
    memory: int | str | None = None,
    overwrite: bool = False,
    verify: bool = True,
    checkpoint: CheckpointChoice = None,
    checkpoint_interval: float | None = None,
    skip_damaged: bool = False,
    progress: ProgressChoice = False,
    **opened: Any,
) -> Converted:
    """Writes frames of a trajectory, of whatever format, as one file.

        kn.convert("md.xtc", "md.dcd")
        kn.convert(["a.xtc", "b.xtc"], "ca.dcd", topology="top.psf", select="name CA", step=10)

    Values between equal units are written bit for bit, others are multiplied and rounded once. The file appears under
    its name when it is whole. It has the same bytes for any number of workers and any memory limit.

    Parameters
    ----------
    source : Trajectory, or what `kinema.open` takes
    out : path
        Its suffix says the format.
    topology : as `kinema.open`
        For selection strings; not with a Trajectory, which has its own.
    start, stop, step, frames : as `Trajectory.choose`
        In the order of `frames`; all by default.
    select, index_file, group : as `Trajectory.select`
        In the order asked for; all by default.
    fields : str or list of str, optional
        "positions" or "velocities"; by default what files of the format usually hold, if the source has it.
    precision : float, optional
        Of XTC: numbers to a nm; by default that of an XTC source, which nothing rounds then, or 1000.
    format : str, optional
        "DCD", ...; by default by the suffix of `out`.
    runner : {"threads"}
    workers : int, optional
        Threads; by default as many as this process may use.
    memory : int or str, optional
        Limit of working memory, "256 MiB".
    overwrite : bool
        Replace a file that is there.
    verify : bool
        Read some frames back, and compare them with the source, before the file gets its name.
    checkpoint : path or Checkpoint, optional
        A file that says how far the work is: after any end the same call goes on behind the frames that are written,
        and makes the same bytes. It is removed when the output is whole.
    checkpoint_interval : float, optional
        Seconds between two saves; 30 by default.
    skip_damaged : bool
        Leave out frames that cannot be decoded, with a note that names them; without it they are an error. All are
        decoded once more to find them, unless that was done before.
    progress : bool, None or function
    **opened
        Arguments of `kinema.open`: `units`, `dt`, `t0`, `overlap`, ...

    Raises
    ------
    ArgumentError
        For frames, atoms and fields as `run` and `read` do; for an output that exists or is an input; for the
        checkpoint of another call, with what differs.
    UnsupportedFormatError
        For a format that is not written here, and values that it cannot hold.
    MemoryLimitError, OutOfRangeError, CorruptFileError, FileIOError, ...
        Of reading and writing. The file that `out` was stays, and no other is left but what a checkpoint names.
    """
    if runner != "threads":
        raise ArgumentError(f"convert works on threads, found runner {runner!r}; other runners are not supported yet")
    name, target = os.fspath(out), check_output(out, format, overwrite=overwrite, checkpoint=checkpoint)
    n_workers, limit = worker_count(workers), 0 if memory is None else parse_memory(memory)
    trajectory = _opened(source, topology, opened)
    check_not_input(name, *trajectory.paths, trajectory.topology_name, index_file)
    trajectory.scan(workers=n_workers, progress=progress, skip_damaged=skip_damaged)
    chosen = trajectory.choose(start, stop, step, frames)
    if skip_damaged:
        decoded = decode_frames(trajectory.core, chosen, workers=n_workers, memory=limit, progress=progress)
        emit(decoded.notes())
        chosen = decoded.readable()
    atoms = _atoms(trajectory, select, index_file, group)
    wanted = _fields(fields)

    def items(checkpoint: Checkpoint) -> list[IdentityItem]:
        options = {"format": target, "fields": wanted, "precision": precision}
        return items_of_convert(name, checkpoint, trajectory, chosen, atoms, **options)

    with record_file(name, Checkpoint.of(checkpoint, checkpoint_interval), items) as output:
        encoder = _encoder(trajectory, chosen, target, atoms, wanted, precision)
        losses = tuple(f"{name}: {loss}" for loss in encoder.losses)
        emit(losses)
        began = time.perf_counter()
        with reporting(progress, f"writing {os.path.basename(name)}", len(chosen)) as report:
            written = output.write(encoder, workers=n_workers, memory=limit, progress=report)
        seconds = time.perf_counter() - began
        compared = 0
        if verify:
            try:
                compared = _compare(trajectory, chosen, atoms, encoder, output.temporary, name)
            except CorruptFileError as error:
                if error.path == name:
                    output.reject()
                raise
    stored = output.store_index() if trajectory.core.stores else ()
    emit(stored)
    return Converted(
        path=name,
        format=encoder.format,
        n_frames=len(chosen),
        n_atoms=trajectory.n_atoms if atoms is None else len(atoms),
        fields=tuple(encoder.fields),
        size=written["bytes"],
        seconds=seconds,
        workers=written["workers"],
        timings=written["phases"],
        compared=compared,
        n_restored=output.n_restored,
        losses=losses,
        notes=(*losses, *stored),
    )


def check_output(
    out: str | os.PathLike[str],
    format: str | None = None,
    *,
    overwrite: bool = False,
    checkpoint: CheckpointChoice = None,
) -> str:
    """The format that `convert` would write as `out`; raises what keeps it from that and needs no input to be read."""
    found = _format_of(out, format)
    check_target(out, overwrite=overwrite or is_published(os.fspath(out), Checkpoint.of(checkpoint, None)))
    return found


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


def _format_of(out: str | os.PathLike[str], format: str | None) -> str:
    """The name of the format to write, by its name or the suffix of the file."""
    name = os.fspath(out)
    known = _core.formats()
    made = {one["name"]: [f".{ending}" for ending in one["extensions"]] for one in known if one["encodes"]}
    if is_stream(name):
        raise ArgumentError(f"{name}: trajectories are written to files, not into streams; name a file", path=name)
    suffix = os.path.splitext(name)[1]
    wanted = (format if format is not None else suffix).lstrip(".").lower()
    found = [one["name"] for one in known if wanted in (one["name"].lower(), *one["extensions"])]
    if not found or found[0] not in made:
        endings = ", ".join(f"{kind} ({', '.join(suffixes)})" for kind, suffixes in made.items())
        hint = "; kinema.Writer and kinema repack write H5MD" if found == ["H5MD"] else ""
        raise UnsupportedFormatError(
            f"{name}: convert writes {endings}, found {format or suffix or 'a name without suffix'}{hint}",
            path=name,
            format=found[0] if found else None,
        )
    if suffix and suffix.lower() not in made[found[0]]:
        raise ArgumentError(
            f"{name}: the suffix is none of {found[0]}, expected {' or '.join(made[found[0]])}, found {suffix}",
            path=name,
        )
    return found[0]


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


def _encoder(
    trajectory: Trajectory,
    chosen: FrameSelection,
    format: str,
    atoms: NDArray[np.uint32] | None,
    fields: tuple[str, ...] | None,
    precision: float | None,
) -> _core.Encoder:
    core = trajectory.core
    steps, times = core.steps(), core.times()
    if steps is None or times is None:
        stamps = core.read(chosen, fields=())
        steps, times = stamps["steps"], stamps["times"]
    else:
        numbers = chosen.numbers()
        steps, times = steps[numbers], times[numbers]
    return _core.Encoder(
        core, chosen, format, steps=steps, times=times, atoms=atoms, fields=fields, precision=precision
    )


def _compare(
    trajectory: Trajectory,
    chosen: FrameSelection,
    atoms: NDArray[np.uint32] | None,
    encoder: _core.Encoder,
    temporary: str,
    name: str,
) -> int:
    """Reads some frames back and compares them with those of the source; the number of them. CorruptFileError."""
    with collected():
        written = opening.open(temporary, stored=False)
        written.scan()
    n_atoms = trajectory.n_atoms if atoms is None else len(atoms)
    for what, expected, found in (
        ("frames", len(chosen), written.n_frames),
        ("atoms", n_atoms, written.n_atoms),
    ):
        if expected != found:
            raise CorruptFileError(
                f"{name}: number of {what} when read back, expected {expected}, found {found}", path=name
            )
    rows = np.unique(np.linspace(0, len(chosen) - 1, min(_COMPARED, len(chosen))).astype(np.int64))
    (field,) = encoder.fields
    for row in rows.tolist():
        source = trajectory.core.read(chosen[row : row + 1], atoms=atoms, fields=(field,), workers=1)
        copy = written.core.read(FrameSelection(range(row, row + 1)), fields=(field,), workers=1)
        if not _equal(source, copy, field, encoder):
            raise CorruptFileError(
                f"{name}: {encoder.format} frame {row}: {field} or cell read back are not those of the source",
                path=name,
                format=encoder.format,
                frame=row,
            )
    return len(rows)


def _equal(
    source: Mapping[str, NDArray[Any]], copy: Mapping[str, NDArray[Any]], field: str, encoder: _core.Encoder
) -> bool:
    """Whether values are those of the source as far as the format can hold them, and cells have their volume."""
    expected, found = source[field].astype(np.float64), copy[field].astype(np.float64)
    tolerance = _ROUNDING * np.abs(expected) + encoder.largest_rounding
    same = (expected == found) | (np.abs(expected - found) <= tolerance) | (np.isnan(expected) & np.isnan(found))
    if not same.all():
        return False
    if encoder.format == "DCD" and field == "positions" and not np.array_equal(expected, found, equal_nan=True):
        return False
    there = source["present"]["cells"]
    if not np.array_equal(there, copy["present"]["cells"]):
        return not there.any()
    volume, copied = (np.abs(np.linalg.det(one["cells"][there])) for one in (source, copy))
    return bool(np.allclose(volume, copied, rtol=1e-5, atol=0))

"""`repack`: an H5MD file with its frames in another layout, compressed, rounded, or of fewer atoms.

It changes no value that it was not asked to change, and keeps everything else that is in the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import h5md, opening
from kinema.errors import ArgumentError
from kinema.h5md.creation import MAX_ERROR, MAX_ERROR_UNIT, ROUNDING
from kinema.h5md.creation_files import check_target
from kinema.h5md.creation_options import whole_number
from kinema.h5md.creation_rounding import Rounding, rounding_within
from kinema.h5md.creation_storage import CHUNK_BYTES, LAYOUTS, Compression
from kinema.h5md.creation_units import LENGTHS
from kinema.h5md.opening import OpenFile, opened
from kinema.h5md.text import text_attribute
from kinema.progress import ProgressChoice, reporting
from kinema.resources import parse_memory, worker_count
from kinema.rewriting.elements import Contents, ParticlesGroup, contents_of, group_of
from kinema.rewriting.job import Finish, check_output, counting, total_bytes, write
from kinema.rewriting.reduction import check_columns, reduce_to, write_names
from kinema.rewriting.storage import KEEP, Layout
from kinema.rewriting.tasks import Changes, plan
from kinema.selection import AtomChoice

__all__ = ["Repacked", "repack", "repack_with"]

# the least that a tile, its chunks and the reader work with
_LEAST_MEMORY = 16 << 20


@dataclass(frozen=True)
class Repacked:
    """What `repack` has done.

    Attributes
    ----------
    path : the new file
    n_frames, n_atoms : of the group that was repacked, or of the first
    size_before, size_after : bytes
    verified : whether all that was written was read back and compared
    largest_change : how far rounding has moved a position at most, in the file's unit; 0 without
    notes : what is not as one may expect
    """

    path: str
    n_frames: int
    n_atoms: int
    size_before: int
    size_after: int
    verified: bool
    largest_change: float
    notes: tuple[str, ...]

    def __str__(self) -> str:
        ratio = self.size_after / max(1, self.size_before)
        lines = [
            f"{self.path}: {self.n_frames:,} frames of {self.n_atoms:,} atoms, {self.size_after:,} bytes "
            f"({ratio:.2f} of what it was), {'read back and compared' if self.verified else 'not verified'}"
        ]
        if self.largest_change:
            lines.append(f"rounding has moved no coordinate by more than {self.largest_change:g} (in the file's unit)")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def repack(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    layout: str | Sequence[int] = "frames",
    compression: str | None = KEEP,
    level: int | None = None,
    max_error: float | None = None,
    unit: str = "angstrom",
    select: AtomChoice = None,
    topology: str | os.PathLike[str] | Any | None = None,
    group: str | None = None,
    root: str | None = None,
    units: Mapping[str, str] | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    align: int | None = None,
    overwrite: bool = False,
    verify: bool = True,
    workers: int | None = None,
    memory: int | str = "512 MiB",
    progress: ProgressChoice = False,
) -> Repacked:
    """Writes an H5MD file anew, with the frames stored in another way.

    Everything that has a row for each frame and a column for each atom (positions, velocities, forces, images, ...) of
    all particles groups, or of `group`, is stored anew; numbers keep their type and, unless rounded, every bit. Series
    in crumbs (steps in chunks of one element, as GROMACS writes) are stored in chunks of 32 KiB. All else is copied as
    it is: observables, parameters, unknown groups, attributes, hard, soft and external links. Virtual data sets and
    external storage become data of the new file, which needs no other one then.

    Parameters
    ----------
    source, target : file names
        The target appears whole, when all is done, or not at all.
    layout : {"frames", "atoms", "contiguous", "keep"} or (frames, atoms, components)
        Chunks of whole frames, about 1 MiB; of few atoms over many frames, for time series; none; as they are; or of
        this shape.
    compression : {"keep", None, "gzip", "zstd", "lz4", "bitshuffle-lz4", "bitshuffle-zstd"}
        "keep": as it was, but none where `layout` is "contiguous".
    level : int
        Of gzip (1 to 9; 4), zstd and bitshuffle-zstd (1 to 22; 3).
    max_error : float
        Round positions so that none moves by more than this, in `unit`; they compress better then. The bound is
        recorded as attributes of the data set; it adds to that of an earlier rounding.
    unit : {"angstrom", "nm", "pm"}
    select : as `Trajectory.select`
        Only these atoms, in this order; needs `group` where there are several. See docs/repair.md for what becomes of
        masses, ids, bonds and GROMACS' topology.
    topology : path or MDAnalysis Universe, optional
        For a selection string, where the file has no names itself.
    group, root, units : as `kinema.open`
    chunk_bytes, align : int
        About how large chunks are, and at multiples of how many bytes they begin.
    overwrite : bool
        Replace an existing target.
    verify : bool
        Read everything back from the new file, before it gets its name, and compare.
    workers : int
        Threads that read, encode and decode; by default as many as the process may use.
    memory : int or str
        What is held at a time. Chunks of layout "atoms" become shorter where it is small.

    Raises
    ------
    ArgumentError, UnsupportedFormatError, FileNotFound, FileAccessError, FileIOError, CorruptFileError
    """
    path, out = os.fspath(source), os.fspath(target)
    wanted = _layout(layout, compression, level, chunk_bytes)
    options = h5md.H5mdOptions(group=group, root=root, units=units)
    rounding = None
    if max_error is not None:
        _angstrom(max_error, unit)
        rounding = max_error, unit
    return repack_with(
        path, out, wanted, options, rounding=rounding, select=select, topology=topology, overwrite=overwrite,
        verify=verify, workers=worker_count(workers), memory=parse_memory(memory), progress=progress,
        align=None if align is None else whole_number("align", align),
    )  # fmt: skip


def repack_with(
    path: str,
    out: str,
    layout: Layout,
    options: h5md.H5mdOptions,
    *,
    rounding: tuple[float, str] | None = None,
    select: AtomChoice = None,
    topology: Any = None,
    overwrite: bool,
    verify: bool,
    workers: int,
    memory: int,
    progress: ProgressChoice,
    align: int | None = None,
) -> Repacked:
    """`repack` with checked arguments; `rounding` is a bound and its unit."""
    memory = max(_LEAST_MEMORY, memory)
    check_output(path, out, overwrite=overwrite)
    check_target(out, overwrite=overwrite)
    with opened(path, options) as found:
        contents = contents_of(found)
        chosen = _chosen(found, contents, options.group, only_one=select is not None)
        columns: dict[str, NDArray[np.int64]] = {}
        finish: Finish | None = None
        if select is not None:
            columns, finish = _selected(path, options, chosen[0], select, topology)
        changes = Changes(
            layout=layout,
            groups=None if options.group is None else frozenset(one.path for one in chosen),
            columns=columns,
            roundings={} if rounding is None else _roundings(found, options, chosen, *rounding),
            memory=memory,
        )
        tasks = plan(found, contents, changes)
        for one in chosen:
            if one.path in columns:
                reduce_to(found, contents, one, columns[one.path], tasks)
        total = total_bytes(tasks, verify=verify)
        with reporting(progress, f"repacking {os.path.basename(path)}", total, "bytes") as report:
            done = write(
                found, tasks, out, overwrite=overwrite, verify=verify, workers=workers, memory=memory,
                advance=counting(report, total), align=align, finish=finish,
            )  # fmt: skip
        first = chosen[0]
        n_atoms = len(columns[first.path]) if columns else first.n_atoms
        return Repacked(
            out, first.n_frames, n_atoms, found.size, done.size, done.verified, done.largest_change, done.notes
        )


def _layout(layout: str | Sequence[int], compression: str | None, level: int | None, chunk_bytes: int) -> Layout:
    known = (*LAYOUTS, KEEP)
    if isinstance(layout, str):
        if layout not in known:
            raise ArgumentError(
                f"layout is one of {', '.join(known)} or a chunk shape (frames, atoms, components), found {layout!r}"
            )
        shape: str | tuple[int, ...] = layout
    else:
        shape = tuple(layout)
        if len(shape) != 3 or any(isinstance(n, bool) or not hasattr(n, "__index__") or int(n) < 1 for n in shape):
            raise ArgumentError(f"a chunk shape is (frames, atoms, components) from 1 on, found {layout!r}")
        shape = tuple(int(n) for n in shape)
    if compression == KEEP:
        if level is not None:
            raise ArgumentError(f"level={level} needs compression=, which is kept as it was")
        how: Compression | str = Compression() if shape == "contiguous" else KEEP
    else:
        how = Compression(compression, level)
    return Layout(shape, how, whole_number("chunk_bytes", chunk_bytes))


def _chosen(found: OpenFile, contents: Contents, group: str | None, *, only_one: bool) -> tuple[ParticlesGroup, ...]:
    """The groups to be changed; ArgumentError where there is none, or where one must be named."""
    names = ", ".join(one.path.strip("/") for one in contents.groups)
    if group is not None:
        return (group_of(found, contents, group),)
    if not contents.groups:
        raise ArgumentError(
            f"{found.path}: no particles group holds positions, velocities or forces", path=found.path, format="H5MD"
        )
    if only_one and len(contents.groups) > 1:
        raise ArgumentError(
            f"{found.path}: select= needs group= where there are several particles groups: {names}",
            path=found.path,
            format="H5MD",
        )
    return contents.groups


def _selected(
    path: str, options: h5md.H5mdOptions, group: ParticlesGroup, select: AtomChoice, topology: Any
) -> tuple[dict[str, NDArray[np.int64]], Finish | None]:
    """The atoms by path of their group, and what is to be written of them besides."""
    traj = opening.open(path, topology, index="memory", group=options.group, root=options.root, units=options.units)
    check_columns(h5md.describe(path, options).positions, path)
    atoms = traj.select(select).indices.astype(np.int64)
    if len(np.unique(atoms)) < len(atoms):
        raise ArgumentError("select names an atom twice, and a file has each atom once")
    told = h5md.topology_of(path, options)

    def finish(file: Any) -> None:
        if told is not None and _had_module(path, options):
            write_names(file, group.path, told, atoms)

    return {group.path: atoms}, finish


def _had_module(path: str, options: h5md.H5mdOptions) -> bool:
    with opened(path, options) as found:
        return f"h5md/modules/{h5md.molecules.MODULE}" in contents_of(found).root


def _angstrom(max_error: float, unit: str) -> float:
    if unit not in LENGTHS:
        raise ArgumentError(f"unit of max_error is one of {', '.join(LENGTHS)}, found {unit!r}")
    rounding_within(max_error)
    return float(max_error) * LENGTHS[unit][1]


def _roundings(
    found: OpenFile, options: h5md.H5mdOptions, groups: tuple[ParticlesGroup, ...], max_error: float, unit: str
) -> dict[str, tuple[Rounding, dict[str, Any]]]:
    """How the positions of each group are rounded, and what is noted there."""
    result = {}
    for group in groups:
        one = h5md.H5mdOptions(group=group.path.rsplit("/", 1)[1], root=options.root, units=options.units)
        positions = h5md.describe(found.path, one).positions
        if positions is None:
            raise ArgumentError(
                f"{found.path}: max_error is for positions, and {group.path.strip('/')} has none",
                path=found.path,
                format="H5MD",
            )
        node = found.file[group.path].get("position", found.file[group.path].get("positions"))
        value = node["value"] if hasattr(node, "keys") else node
        if value.dtype.kind != "f" or value.dtype.itemsize not in (4, 8):
            raise ArgumentError(
                f"{found.path}: {value.name} holds {value.dtype}, and only float32 and float64 are rounded",
                path=found.path,
                format="H5MD",
            )
        rounding = rounding_within(_angstrom(max_error, unit) / positions.scale)
        result[group.path] = (rounding, _record(value, rounding, max_error, unit, positions.unit or "angstrom"))
    return result


def _record(value: Any, rounding: Rounding, max_error: float, unit: str, file_unit: str) -> dict[str, Any]:
    """Attributes that tell of the rounding; an earlier one counts as well."""
    total = float(max_error)
    earlier, earlier_unit = value.attrs.get(MAX_ERROR), text_attribute(value, MAX_ERROR_UNIT)
    if earlier is not None and earlier_unit in LENGTHS:
        total += float(earlier) * LENGTHS[earlier_unit][1] / LENGTHS[unit][1]
    how = f"multiples of 2^{rounding.exponent} {file_unit}, to the nearest"
    return {
        MAX_ERROR: np.float64(total),
        MAX_ERROR_UNIT: np.bytes_(unit.encode()),
        ROUNDING: np.bytes_(how.encode()),
    }

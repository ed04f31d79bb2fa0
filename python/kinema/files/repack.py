"""`repack`: rewrites an H5MD file in another layout, compressed, rounded, or with fewer atoms; all else is kept."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.choices import renamed, whole_number
from kinema.base.errors import ArgumentError
from kinema.base.notes import returns_notes
from kinema.base.printable import counted, printable
from kinema.base.progress import ProgressChoice
from kinema.base.resources import parse_memory
from kinema.files.h5md.atom_subset import check_columns, reduce_to, write_columns
from kinema.files.h5md.elements import Contents, ParticlesGroup, contents_of, group_of
from kinema.files.h5md.rewrite import Finish, counting, total_bytes, write
from kinema.files.h5md.tasks import Changes, plan
from kinema.formats import h5md
from kinema.formats.h5md.description import H5mdReading
from kinema.formats.h5md.file import H5mdFile, check_hdf5, opened
from kinema.formats.h5md.schema import GROMACS_TOPOLOGY, MAX_ERROR, MAX_ERROR_UNIT, ROUNDING
from kinema.formats.h5md.write.units import LENGTHS
from kinema.model.selection.atoms import AtomChoice
from kinema.runners import Runner, choose_runner
from kinema.runners.workers import CallWorkers
from kinema.storage.hdf5.filters import Compression
from kinema.storage.hdf5.rounding import Rounding, rounding_within
from kinema.storage.hdf5.storage import CHUNK_BYTES, KEEP, LAYOUTS, Layout
from kinema.storage.hdf5.text import text_attribute
from kinema.storage.hdf5.trust.other_files import note_drawn_in
from kinema.storage.output_checks import check_format, check_not_input, check_target
from kinema.trajectory import opening

# least memory for a tile, its chunks and the reader
_LEAST_MEMORY = 16 << 20


@dataclass(frozen=True)
class Repacked:
    """The result of `repack`.

    Attributes
    ----------
    path : the new file
    n_frames, n_atoms : of the repacked group, or of the first
    size_before, size_after : bytes
    verified : whether all written data were read back and compared
    largest_change : largest change of a position by rounding, in the file's unit; 0 without rounding
    notes : notes for users of the file (`kinema.base.notes`)
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
            f"{printable(self.path)}: {counted(self.n_frames, 'frame')} of {counted(self.n_atoms, 'atom')}, "
            f"{self.size_after:,} bytes ({ratio:.2f} of what it was), "
            f"{'read back and compared' if self.verified else 'not verified'}"
        ]
        if self.largest_change:
            lines.append(f"rounding has moved no coordinate by more than {self.largest_change:g} (in the file's unit)")
        return "\n".join(lines)


@renamed(**H5mdReading.old_names)
@returns_notes
def repack(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    layout: str | Sequence[int] = "frames",
    compression: str | tuple[int, Sequence[int]] | None = KEEP,
    level: int | None = None,
    shuffle: bool | None = None,
    checksum: bool = False,
    max_error: float | None = None,
    unit: str | None = None,
    select: AtomChoice = None,
    topology: str | os.PathLike[str] | Any | None = None,
    particles: str | None = None,
    root: str | None = None,
    units: Mapping[str, str] | None = None,
    external: str = "folder",
    chunk_bytes: int = CHUNK_BYTES,
    align: int | None = None,
    overwrite: bool = False,
    verify: bool = True,
    runner: str | Runner | None = None,
    workers: int | None = None,
    memory: int | str = "512 MiB",
    progress: ProgressChoice = False,
) -> Repacked:
    """Rewrites an H5MD file with another storage layout of its frames.

    All data with a row per frame and a column per atom (positions, velocities, forces, images, ...) in all particles
    groups, or in `particles`, are stored again; numbers keep their type and, unless rounded, every bit. Series in tiny
    chunks (steps in chunks of one element, as GROMACS writes) are stored in chunks of 32 KiB. Everything else is copied
    unchanged: observables, parameters, unknown groups, attributes, hard, soft and external links. Virtual data sets
    become data of the new file. A note lists the files that are drawn in.

    Parameters
    ----------
    source, target : file names
        The target appears complete, at the end, or not at all.
    layout : {"frames", "atoms", "contiguous", "keep"} or (frames, atoms, components)
        Chunks of whole frames, about 1 MiB; chunks of few atoms over many frames, for time series; no chunks; chunks as
        they are; or chunks of this shape.
    compression : "keep", or as `kinema.Writer`
        "keep": as before, but none if `layout` is "contiguous".
    level, shuffle, checksum
        As `kinema.Writer`; not with "keep".
    max_error : float
        Round positions so that none moves by more than this, in `unit`; they compress better then. The bound is
        recorded as attributes of the data set and added to the bound of an earlier rounding.
    unit : {"angstrom", "nm", "pm"}, optional
        Unit of `max_error`; angstrom by default.
    select : as `Trajectory.select`
        Keep only these atoms, in this order; needs `particles` if there are several groups. docs/repair.md describes
        the effect on masses, ids, bonds and GROMACS' topology.
    topology : path or MDAnalysis Universe, optional
        For a selection string, if the file itself has no names. Its data on the selected atoms (names, residues;
        masses, charges and elements that are not guessed) are written into the new file.
    particles, root, units, external : as `kinema.open`
    chunk_bytes, align : int
        Approximate size of chunks, and the multiple of bytes at which they begin.
    overwrite : bool
        Whether to replace an existing target.
    verify : bool
        Whether to read everything back from the new file, before it gets its name, and compare.
    runner : str or Runner, optional
        Workers that read, encode and decode: "threads" (default), "serial", "processes", "dask", "mpi", or a Runner. If
        all MPI ranks call this with "mpi", rank 0 leads and all get the result.
    workers : int
        By default all that are available.
    memory : int or str
        Memory held at a time. Chunks of layout "atoms" become shorter if it is small.

    Raises
    ------
    ArgumentError, UnsupportedFormatError, FileNotFound, FileAccessError, FileIOError, CorruptFileError
    """
    path, out = os.fspath(source), os.fspath(target)
    wanted = _layout(layout, compression, level, chunk_bytes, shuffle=shuffle, checksum=checksum)
    options = h5md.H5mdOptions(particles=particles, root=root, units=units, external=external)
    rounding = None
    if max_error is not None:
        rounding = max_error, unit or "angstrom"
        _angstrom(*rounding)
    elif unit is not None:
        raise ArgumentError("unit= is that of max_error; give both, or none")
    on = CallWorkers(choose_runner(runner), workers)
    on.check()
    how: dict[str, Any] = {
        "rounding": rounding,
        "select": select,
        "topology": topology,
        "overwrite": overwrite,
        "verify": verify,
        "memory": parse_memory(memory),
        "progress": progress,
        "align": None if align is None else whole_number("align", align),
    }
    return on.lead(lambda: repack_with(path, out, wanted, options, on=on, **how))


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
    on: CallWorkers,
    memory: int,
    progress: ProgressChoice,
    align: int | None = None,
) -> Repacked:
    """`repack` with checked arguments; `rounding` is a bound and its unit."""
    memory = max(_LEAST_MEMORY, memory)
    check_not_input(out, path, topology if isinstance(topology, (str, os.PathLike)) else None)
    check_hdf5(path, "repack")
    check_format(out, "H5MD")
    check_target(out, overwrite=overwrite)
    with opened(path, options) as source:
        contents = contents_of(source)
        chosen = _chosen(source, contents, options.particles, only_one=select is not None)
        columns: dict[str, NDArray[np.int64]] = {}
        finish: Finish | None = None
        if select is not None:
            columns, finish = _selected(path, options, chosen[0], select, topology)
        changes = Changes(
            layout=layout,
            groups=None if options.particles is None else frozenset(one.path for one in chosen),
            columns=columns,
            roundings={} if rounding is None else _roundings(source, options, chosen, *rounding),
            memory=memory,
        )
        tasks = plan(source, contents, changes)
        for one in chosen:
            if one.path in columns:
                reduce_to(source, contents, one, columns[one.path], tasks)
        total = total_bytes(tasks, verify=verify)
        with on.reporting(progress, f"repacking {os.path.basename(path)}", total) as report:
            done = write(
                source, tasks, out, overwrite=overwrite, verify=verify, on=on, memory=memory,
                advance=counting(report, total), align=align, finish=finish,
            )  # fmt: skip
        first = chosen[0]
        n_atoms = len(columns[first.path]) if columns else first.n_atoms
        notes = (*note_drawn_in(path, options.external, stored=options.stored), *done.notes)
        return Repacked(out, first.n_frames, n_atoms, source.size, done.size, done.verified, done.largest_change, notes)


def _layout(
    layout: str | Sequence[int],
    compression: str | tuple[int, Sequence[int]] | None,
    level: int | None,
    chunk_bytes: int,
    *,
    shuffle: bool | None,
    checksum: bool,
) -> Layout:
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
        for option, value in {"level": level, "shuffle": shuffle, "checksum": checksum or None}.items():
            if value is not None:
                raise ArgumentError(f"{option}={value} needs compression=, which is kept as it was")
        how: Compression | str = Compression() if shape == "contiguous" else KEEP
    else:
        how = Compression(compression, level, shuffle, checksum)
    return Layout(shape, how, whole_number("chunk_bytes", chunk_bytes))


def _chosen(source: H5mdFile, contents: Contents, group: str | None, *, only_one: bool) -> tuple[ParticlesGroup, ...]:
    """The groups to be changed; raises ArgumentError if there is none, or if one must be named."""
    names = ", ".join(one.path.strip("/") for one in contents.groups)
    if group is not None:
        return (group_of(source, contents, group),)
    if not contents.groups:
        raise ArgumentError("no particles group holds positions, velocities or forces", at=source.path, format="H5MD")
    if only_one and len(contents.groups) > 1:
        raise ArgumentError(
            f"select= needs particles= if there are several particles groups: {names}", at=source.path, format="H5MD"
        )
    return contents.groups


def _selected(
    path: str, options: h5md.H5mdOptions, group: ParticlesGroup, select: AtomChoice, topology: Any
) -> tuple[dict[str, NDArray[np.int64]], Finish | None]:
    """The selected atoms by path of their group, and the atom data to be written."""
    traj = opening.open(
        path,
        topology,
        stored=False,
        particles=options.particles,
        root=options.root,
        units=options.units,
        external=options.external,
    )
    check_columns(h5md.describe(path, options).positions, path)
    atoms = traj.select(select).indices.astype(np.int64)
    if len(np.unique(atoms)) < len(atoms):
        raise ArgumentError("select names an atom twice, and a file has each atom once")
    own = h5md.atoms_of(path, options)
    given = None if topology is None else traj.atoms
    had_module = _had_module(path, options)

    def finish(file: Any) -> None:
        if own is not None:
            write_columns(file, group.path, own[atoms], residues_alone=not had_module)
        if given is not None:
            write_columns(file, group.path, given[atoms])

    return {group.path: atoms}, finish


def _had_module(path: str, options: h5md.H5mdOptions) -> bool:
    with opened(path, options) as source:
        return GROMACS_TOPOLOGY in contents_of(source).root


def _angstrom(max_error: float, unit: str) -> float:
    if unit not in LENGTHS:
        raise ArgumentError(f"unit of max_error is one of {', '.join(LENGTHS)}, found {unit!r}")
    rounding_within(max_error)
    return float(max_error) * LENGTHS[unit][1]


def _roundings(
    source: H5mdFile, options: h5md.H5mdOptions, groups: tuple[ParticlesGroup, ...], max_error: float, unit: str
) -> dict[str, tuple[Rounding, dict[str, Any]]]:
    """The rounding of each group's positions, with the attributes that record it."""
    result = {}
    for group in groups:
        one = replace(options, particles=group.path.rsplit("/", 1)[1])
        positions = h5md.describe(source.path, one).positions
        if positions is None:
            raise ArgumentError(
                f"max_error is for positions, and {group.path.strip('/')} has none", at=source.path, format="H5MD"
            )
        node = source.file[group.path].get("position", source.file[group.path].get("positions"))
        value = node["value"] if hasattr(node, "keys") else node
        if value.dtype.kind != "f" or value.dtype.itemsize not in (4, 8):
            raise ArgumentError(
                f"{value.name} holds {value.dtype}, and only float32 and float64 are rounded",
                at=source.path,
                format="H5MD",
            )
        rounding = rounding_within(_angstrom(max_error, unit) / positions.scale)
        result[group.path] = (rounding, _record(value, rounding, max_error, unit, positions.unit or "angstrom"))
    return result


def _record(value: Any, rounding: Rounding, max_error: float, unit: str, file_unit: str) -> dict[str, Any]:
    """Attributes that record the rounding; its bound is added to that of an earlier one."""
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

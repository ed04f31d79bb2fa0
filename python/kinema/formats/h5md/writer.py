"""`H5mdWriter`: trajectories as H5MD, in new files, which appear whole or not at all, and in growing files.

A growing file survives a killed process. The elements of a file are in `kinema.formats.h5md.write`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kinema.base.choices import whole_number
from kinema.base.errors import ArgumentError
from kinema.base.resources import worker_count
from kinema.formats import h5md
from kinema.formats.atoms import topology_of
from kinema.formats.given_frames import FrameArrays
from kinema.formats.h5md.options import H5mdWriting
from kinema.formats.h5md.write.append import ExistingFile, check_atoms
from kinema.formats.h5md.write.atoms import file_atoms
from kinema.formats.h5md.write.metadata import Dialect, Origin, write_head
from kinema.formats.h5md.write.observables import ObservableWriter, create_fixed_observable, open_observable
from kinema.formats.h5md.write.options import (
    FileOptions,
    bound_of,
    boundary_of,
    field_names,
    fixed_cell,
    float_type,
    group_name,
)
from kinema.formats.h5md.write.particles_group import TrajectoryGroup
from kinema.formats.h5md.write.units import FileUnits
from kinema.formats.hdf5.series import set_rows
from kinema.formats.hdf5.writer import GrowingData, Hdf5Writer
from kinema.formats.writer import Target
from kinema.model.atom_table import Atoms
from kinema.model.topology import Topology, is_atom_group
from kinema.storage.hdf5.filters import Compression
from kinema.storage.hdf5.output import LIBVER, GrowingFile, NewFile, OutputPart, OutputPartFile, damaged_file_errors
from kinema.storage.hdf5.rounding import NOT_COMPRESSED
from kinema.storage.hdf5.storage import Layout
from kinema.storage.output_checks import check_not_input, check_target


class H5mdWriter(Hdf5Writer, format="H5MD"):
    """Writes frames into an H5MD file (specification 1.1).

        with kn.Writer("out.h5md", n_atoms=3341) as out:
            for block in traj.blocks():
                out.write(block)

    With the default units of the file values are stored as they are, bit for bit (float64 is rounded to float32 unless
    dtype="float64"). With mode="a" an existing file keeps its layout, compression and topology; `atoms`, `fields`,
    `dtype`, units, `max_error` and `cell`, if given, must agree with it. Steps must rise and times must not fall. The
    first frame decides whether each frame has a cell, and whether each has a time.

    The suffix is one of H5MD: .h5md, .h5, .hdf5. Options are those of `H5mdWriting`; `n_atoms` may be left out if
    `atoms` are given.

    Raises
    ------
    ArgumentError, FileNotFound, FileAccessError, FileIOError
        From each method as well. UnsupportedFormatError and CorruptFileError for files that cannot be appended to.
    """

    takes = H5mdWriting
    # whether rows of fields are in other files, which others write; and the versions of HDF5's format
    _is_virtual = False
    _libver = LIBVER
    # of a growing file: its particles group, and the box that does not change
    _opened_as: tuple[str, NDArray[Any] | None] | None = None

    def _start(self, target: Target, options: H5mdWriting) -> None:
        target.check_cut(options.resume_from)
        self._observables: dict[str, ObservableWriter] = {}
        self._workers, self._native = worker_count(target.workers), options.native
        self._asked_fields = field_names(options.fields)
        if options.atoms is not None:
            options = replace(options, atoms=table_of(options.atoms, options.topology))
            if target.n_atoms is None and options.atoms is not None:
                target = replace(target, n_atoms=options.atoms.n_atoms)
        kind = None if options.dtype is None else float_type(options.dtype)
        # for `convert` the file has a temporary name, which this writer does not change
        part = target.path if isinstance(target.path, OutputPart) else None
        if part is not None and os.path.getsize(part.temporary):
            self._open_existing(options.particles, {}, None, part.temporary)
        elif part is None and target.is_there:
            self._continue(target, options, kind)
        else:
            self._create(target, part, options, kind)
        self._closed = False

    def _continue(self, target: Target, options: H5mdWriting, kind: np.dtype[Any] | None) -> None:
        """Opens an existing file; the given values must agree with it."""
        given = {
            "n_atoms": target.n_atoms,
            "fields": self._asked_fields,
            "dtype": kind,
            "length_unit": options.length_unit,
            "time_unit": options.time_unit,
            "max_error": None if options.max_error is None else (options.max_error, options.unit),
        }
        if options.atoms is not None:
            known = h5md.atoms_of(self.path, h5md.H5mdOptions(particles=options.particles))
            check_atoms(self.path, known, options.atoms)
        cell = None if options.cell is None else fixed_cell(options.cell)
        self._open_existing(options.particles, given, cell, cut=options.resume_from)

    def _create(
        self, target: Target, part: OutputPart | None, options: H5mdWriting, kind: np.dtype[Any] | None
    ) -> None:
        """Makes a new file with its metadata."""
        self._options = self._checked_options(target, options, kind)
        self.n_atoms = self._options.n_atoms
        self._units, self._dialect = self._options.units, self._options.dialect
        if isinstance(options.topology, (str, os.PathLike)):
            check_not_input(self.path, options.topology)
        if part is not None:
            self._file = OutputPartFile(part, align=options.align)
        else:
            check_target(self.path, overwrite=target.overwrite, or_else=", mode='a' appends to it")
            self._file = NewFile(self.path, overwrite=target.overwrite, align=options.align, libver=self._libver)
        self._h5 = self._file.h5
        self._closed = False
        try:
            with self._all_or_nothing():
                write_head(self._h5, self._options.origin, self._dialect)
        except BaseException:
            self.abort()
            raise
        notes = self._options.atoms.notes()
        if options.max_error is not None and options.compression is None:
            notes.append(NOT_COMPRESSED)
        self._note(notes)

    def _checked_options(self, target: Target, options: H5mdWriting, kind: np.dtype[Any] | None) -> FileOptions:
        """The choices made before the first frame of a new file."""
        if target.n_atoms is None:
            raise ArgumentError("n_atoms is needed to make a file")
        units = FileUnits(options.length_unit or "angstrom", options.time_unit or "ps", options.native)
        return FileOptions(
            n_atoms=whole_number("n_atoms", target.n_atoms),
            group=group_name(options.particles),
            fields=self._asked_fields,
            dtype=kind or np.dtype("<f4"),
            layout=Layout(
                options.layout,
                Compression(options.compression, options.level, options.shuffle, options.checksum),
                whole_number("chunk_bytes", options.chunk_bytes),
            ),
            n_frames=None if options.n_frames is None else whole_number("n_frames", options.n_frames),
            align=None if options.align is None else whole_number("align", options.align),
            bound=None if options.max_error is None else bound_of(options.max_error, options.unit, units),
            units=units,
            cell=None if options.cell is None else fixed_cell(options.cell),
            boundary=boundary_of(options.boundary),
            atoms=file_atoms(
                target.n_atoms,
                atoms=table_of(options.atoms, options.topology),
                masses=options.masses,
                charges=options.charges,
                species=options.species,
                ids=options.ids,
                bonds=options.bonds,
            ),
            origin=Origin(
                options.author, options.author_email, options.creator, options.creator_version, options.provenance
            ),
            dialect=Dialect(options.dialect),
            workers=self._workers,
            grows=target.mode == "a",
        )

    def add_observable(
        self,
        name: str,
        value: ArrayLike | None = None,
        *,
        shape: tuple[int, ...] = (),
        dtype: DTypeLike | None = None,
        unit: str | None = None,
    ) -> None:
        """Makes an observable, "potential_energy" or "group/name": one with steps of its own, or a fixed `value`.

        `shape` and `dtype` (float64) are those of the value of one step, `unit` its text, "kJ mol-1". In a file that is
        appended to, an existing observable is continued if shape and unit agree.
        """
        self._require_open()
        if not name or any(part in ("", ".", "..") for part in name.split("/")):
            raise ArgumentError(f"name of an observable is a word, or several between '/', found {name!r}")
        if name in self._observables:
            raise ArgumentError(f"observable {name} was added already")
        with self._all_or_nothing(unless=ArgumentError):
            if value is not None:
                create_fixed_observable(self._h5, name, value, unit, self._dialect)
                return
            self._observables[name] = self._open_observable(name, tuple(shape), dtype, unit)

    def write_observable(
        self, name: str, value: ArrayLike, *, step: ArrayLike | None = None, time: ArrayLike | None = None
    ) -> None:
        """Takes the value of an observable at a step, or (rows, ...) values at `step` (rows,) and `time` (rows,).

        Without `step` the value belongs to the last frame, with the frame's time.
        """
        self._require_open()
        if name not in self._observables:
            raise ArgumentError(f"observable {name} is unknown, add it first with add_observable")
        if step is None:
            if self._group is None or self._group.last_step is None:
                raise ArgumentError("step is needed, as no frame was written whose step could be meant")
            step = self._group.last_step
            time = self._group.last_time if time is None else time
        values, steps, times = self._observables[name].frame_arrays(value, step, time)
        with self._all_or_nothing():
            self._observables[name].extend(values, steps, times)

    # for others who write values into the file

    @property
    def particles(self) -> str:
        """Name of the particles group of a new file."""
        return self._options.group

    def allocate_early(self) -> None:
        """Field data sets made from now on get all their space at once, so that others can write into it."""
        self._options = replace(self._options, allocate_early=True)

    def make_room(self, rows: int) -> None:
        """Gives fields of a growing file at least this many rows, whose values others write before they count."""
        with self._all_or_nothing():
            for dataset in self.datasets.values():
                if len(dataset) < rows:
                    set_rows(dataset, rows)

    def trim(self) -> None:
        """Removes the rows after the last frame from the fields of a growing file, all of which is committed."""
        assert isinstance(self._file, GrowingFile)
        with self._all_or_nothing():
            for dataset in self.datasets.values():
                set_rows(dataset, self.n_frames)
            self._file.commit(shrinks=True)

    def places_of_fields(self, first: FrameArrays) -> dict[str, int]:
        """The byte at which the values of each field begin, with layout "contiguous".

        Call it before any frame is taken: data sets are made for frames such as `first`, and `leave_fields` holds from
        then on.
        """
        self.allocate_early()
        self.begin(first)
        self.leave_fields()
        return {name: int(dataset.id.get_offset()) for name, dataset in self.datasets.items()}

    def _open_existing(
        self,
        group: str | None,
        given: dict[str, Any],
        cell: NDArray[Any] | None,
        path: str | None = None,
        cut: int | None = None,
    ) -> None:
        """Opens the file after its last whole frame, or after step `cut`; the given values must agree with it."""
        growing = GrowingFile(path or self.path)
        try:
            with damaged_file_errors(self.path):
                existing = ExistingFile(growing.h5, self.path, group, native=self._native, virtual=self._is_virtual)
                existing.check(given)
                if cut is not None:
                    existing.cut(cut, lambda: growing.commit(shrinks=True))
                self._group = existing.open_group(self._workers, growing.commit)
                self._group.set_cell(cell)
        except BaseException:
            growing.discard()
            raise
        self._file, self._h5 = growing, growing.h5
        self.n_atoms, self._units, self._dialect = existing.n_atoms, existing.units, existing.dialect
        self._n_flushed = self._group.rows
        self._opened_as = existing.group, cell

    def _open_observable(
        self, name: str, shape: tuple[int, ...], dtype: DTypeLike | None, unit: str | None
    ) -> ObservableWriter:
        return open_observable(
            self._h5,
            name,
            shape,
            dtype,
            unit,
            dialect=self._dialect,
            units=self._units,
            explicit=self._mode == "a",
        )

    def _parts(self) -> list[GrowingData]:
        return [*super()._parts(), *self._observables.values()]

    def _check_first(self, first: FrameArrays | None) -> None:
        TrajectoryGroup.check_first(self._options, first)

    def _make_group(self, first: FrameArrays | None) -> TrajectoryGroup:
        return TrajectoryGroup.create(self._h5, self._options, first, explicit=self._mode == "a")

    def _go_on_in(self, path: str) -> None:
        names = {name: (o.shape, o.unit) for name, o in self._observables.items()}
        group, cell = self._opened_as or (self._options.group, self._options.cell)
        self._open_existing(group, {}, cell, path)
        for name, (shape, unit) in names.items():
            self._observables[name] = self._open_observable(name, shape, None, unit)

    def _check_announced(self, n_frames: int, *, complete: bool) -> None:
        self._options.check_announced(n_frames, complete=complete)

    @property
    def _can_grow(self) -> bool:
        return super()._can_grow and not self._options.layout.contiguous


def table_of(atoms: Atoms | None, topology: Any) -> Atoms | None:
    """The given table, or that of an AtomGroup, a Universe, a `Topology` or a file's name."""
    if atoms is not None and topology is not None:
        raise ArgumentError("atoms= and topology= cannot be combined; give one of them")
    if atoms is not None and not isinstance(atoms, Atoms):
        raise ArgumentError(
            f"atoms is a table of the class Atoms, found {type(atoms).__name__}; a Universe, an AtomGroup or a file is "
            "given as topology="
        )
    if atoms is not None or topology is None:
        return atoms
    if is_atom_group(topology):
        return Atoms.from_mdanalysis(topology)
    return (topology if isinstance(topology, Topology) else topology_of(topology)).atoms

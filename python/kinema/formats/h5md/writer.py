"""`H5mdWriter`: trajectories as H5MD, in new files, which appear whole or not at all, and in files that grow.

A file that grows survives a killed process. The elements of a file are in `kinema.formats.h5md.write`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kinema._core import __version__
from kinema.base.choices import renamed
from kinema.base.errors import ArgumentError
from kinema.base.resources import worker_count
from kinema.formats import h5md
from kinema.formats.atoms import topology_of
from kinema.formats.given_frames import FrameArrays
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
    whole_number,
)
from kinema.formats.h5md.write.particles_group import TrajectoryGroup
from kinema.formats.h5md.write.units import FileUnits
from kinema.formats.hdf5_writer import GrowingData, Hdf5Writer
from kinema.model.atom_table import Atoms
from kinema.model.topology import Topology, is_atom_group
from kinema.storage.hdf5.filters import Compression
from kinema.storage.hdf5.output import LIBVER, GrowingFile, NewFile, OutputPart, OutputPartFile, damaged_file_errors
from kinema.storage.hdf5.rounding import NOT_COMPRESSED
from kinema.storage.hdf5.storage import CHUNK_BYTES, Layout
from kinema.storage.output_checks import check_not_input, check_target

__all__ = ["H5mdWriter", "table_of"]


class H5mdWriter(Hdf5Writer, format="H5MD"):
    """Writes frames into an H5MD file (specification 1.1).

        with kn.Writer("out.h5md", n_atoms=3341) as out:
            for block in traj.blocks():
                out.write(block)

    With the default units of the file values are stored as they are, bit for bit (float64 is rounded to float32 unless
    dtype="float64"). A file that mode="a" finds keeps its layout, compression and topology; `atoms`, `fields`, `dtype`,
    units, `max_error` and `cell` must agree with it where given. Steps must rise and times must not fall; each frame
    has a cell and a time, or none: the first one decides.

    Parameters
    ----------
    path, n_atoms, format, mode, overwrite, keep_partial, workers : as `Writer`
        The suffix is one of H5MD: .h5md, .h5, .hdf5. `n_atoms` may be left out where `atoms` are given.
    fields : names out of "positions", "velocities", "forces"
        Which each frame has; by default those of the first.
    particles : str
        Name below `particles`; "trajectory" by default.
    layout : {"frames", "atoms", "contiguous"} or (frames, atoms, components)
        Chunks of whole frames, of few atoms over many frames, none at all (needs `n_frames`), or of this shape.
    n_frames : int
        How many frames will be written, where that is known.
    chunk_bytes : int
        About how large chunks are; 1 MiB.
    align : int
        Chunks begin at multiples of this many bytes: the stripe of a parallel file system, or a page.
    compression : None, "gzip", "zstd", "lz4", "bitshuffle-lz4", "bitshuffle-zstd", "lzf", "szip", or (number, values)
        Only files with gzip (or none) are read by every HDF5, and with szip by most; LZF is h5py's own; the others need
        its plugins (package hdf5plugin). A registered filter may be named by its number with its client values:
        (32001, (0, 0, 0, 0, 5, 1, 1)) is Blosc. LZF, szip and those are encoded by libhdf5, on one thread.
    level : int
        Of gzip (1 to 9; 1), zstd and bitshuffle-zstd (1 to 22; 3).
    shuffle : bool
        HDF5's shuffle before the compression; by default with gzip, zstd, lz4 and LZF.
    checksum : bool
        A Fletcher32 checksum of every chunk, which each reader compares.
    max_error : float
        Round positions so that none moves by more than this, in `unit`; they compress better then.
    unit : {"angstrom", "nm", "pm"}
    dtype : {"float32", "float64"}
    length_unit : {"angstrom", "nm", "pm"}
    time_unit : {"ps", "fs", "ns"}
        Units of the file.
    native : bool
        Values are given in the units of the file, and not divided.
    cell : (3,) or (3, 3), angstrom
        A box that does not change; otherwise each frame brings its own, or none does.
    boundary : "periodic", "none", or three of these
        By default periodic where there is a cell.
    atoms : kinema.Atoms
        Names, residues, masses, charges, species (elements, or else types), identifiers and bonds of the atoms.
        `Trajectory.atoms` and `read_atoms` give back the same table. Guessed columns are marked as such, with a note.
    topology : MDAnalysis Universe or AtomGroup, kinema.Topology, or file name
        Where these are taken from instead.
    masses, charges, species, ids, bonds : arrays
        (n_atoms,) in u; in elementary charges; numbers or names; unique numbers; (bonds, 2) atom numbers from 0.
    author, author_email, creator, creator_version : str
    provenance : str
        What made the file, as text: the data set `parameters/kinema/provenance`.
    resume_from : int
        With mode="a": cut the file behind the last frame whose step is not greater; ArgumentError if there is none.
    dialect : {"h5md", "mdanalysis"}
        "h5md" follows the specification. "mdanalysis" leaves it in one point, for MDAnalysis' own reader: strings have
        variable length. Also steps and boxes are then stored one by one where they could be stored once.

    Raises
    ------
    ArgumentError, FileNotFound, FileAccessError, FileIOError
        From each method as well. UnsupportedFormatError and CorruptFileError for files that cannot be appended to.
    """

    # whether rows of fields are in other files, which others write; and the versions of HDF5's format
    _is_virtual = False
    _libver = LIBVER
    # of a file that grows: its particles group, and the box that does not change
    _opened_as: tuple[str, NDArray[Any] | None] | None = None

    @renamed(group="particles")
    def __init__(
        self,
        path: str | os.PathLike[str],
        n_atoms: int | None = None,
        *,
        format: str | None = None,
        mode: Literal["w", "a"] = "w",
        overwrite: bool = False,
        keep_partial: bool = True,
        workers: int | None = None,
        fields: Sequence[str] | None = None,
        particles: str | None = None,
        layout: str | Sequence[int] = "frames",
        n_frames: int | None = None,
        chunk_bytes: int = CHUNK_BYTES,
        align: int | None = None,
        compression: str | tuple[int, Sequence[int]] | None = None,
        level: int | None = None,
        shuffle: bool | None = None,
        checksum: bool = False,
        max_error: float | None = None,
        unit: str = "angstrom",
        dtype: DTypeLike | None = None,
        length_unit: str | None = None,
        time_unit: str | None = None,
        native: bool = False,
        cell: ArrayLike | None = None,
        boundary: str | Sequence[str] | None = None,
        atoms: Atoms | None = None,
        topology: Any = None,
        masses: ArrayLike | None = None,
        charges: ArrayLike | None = None,
        species: ArrayLike | Sequence[str] | None = None,
        ids: ArrayLike | None = None,
        bonds: ArrayLike | None = None,
        author: str = "N/A",
        author_email: str | None = None,
        creator: str = "Kinema",
        creator_version: str = __version__,
        provenance: str | None = None,
        dialect: str = "h5md",
        resume_from: int | None = None,
    ) -> None:
        super().__init__(path, format=format, mode=mode, overwrite=overwrite, keep_partial=keep_partial)
        if resume_from is not None and (mode != "a" or not os.path.exists(self.path)):
            raise ArgumentError(f"{self.path}: resume_from= is for mode='a' and a file that is there", path=self.path)
        self._observables: dict[str, ObservableWriter] = {}
        self._workers, self._native = worker_count(workers), native
        self._asked_fields = field_names(fields)
        if atoms is not None:
            atoms = table_of(atoms, topology)
            n_atoms = atoms.n_atoms if atoms is not None and n_atoms is None else n_atoms
        named = self._asked_fields
        kind = None if dtype is None else float_type(dtype)
        # of `convert`: the file has a temporary name, which this writer does not change
        part = path if isinstance(path, OutputPart) else None
        if part is not None and os.path.getsize(part.temporary):
            self._open_existing(particles, {}, None, part.temporary)
            self._closed = False
            return
        if part is None and mode == "a" and os.path.exists(self.path):
            given = {
                "n_atoms": n_atoms,
                "fields": named,
                "dtype": kind,
                "length_unit": length_unit,
                "time_unit": time_unit,
                "max_error": None if max_error is None else (max_error, unit),
            }
            if atoms is not None:
                known = h5md.atoms_of(self.path, h5md.H5mdOptions(particles=particles))
                check_atoms(self.path, known, atoms)
            self._open_existing(particles, given, None if cell is None else fixed_cell(cell), cut=resume_from)
            self._closed = False
            return
        if n_atoms is None:
            raise ArgumentError("n_atoms is needed to make a file")
        units = FileUnits(length_unit or "angstrom", time_unit or "ps", native)
        self._options = FileOptions(
            n_atoms=whole_number("n_atoms", n_atoms),
            group=group_name(particles),
            fields=named,
            dtype=kind or np.dtype("<f4"),
            layout=Layout(
                layout, Compression(compression, level, shuffle, checksum), whole_number("chunk_bytes", chunk_bytes)
            ),
            n_frames=None if n_frames is None else whole_number("n_frames", n_frames),
            align=None if align is None else whole_number("align", align),
            bound=None if max_error is None else bound_of(max_error, unit, units),
            units=units,
            cell=None if cell is None else fixed_cell(cell),
            boundary=boundary_of(boundary),
            atoms=file_atoms(
                n_atoms,
                atoms=table_of(atoms, topology),
                masses=masses,
                charges=charges,
                species=species,
                ids=ids,
                bonds=bonds,
            ),
            origin=Origin(author, author_email, creator, creator_version, provenance),
            dialect=Dialect(dialect),
            workers=self._workers,
            grows=mode == "a",
        )
        self.n_atoms = self._options.n_atoms
        self._units, self._dialect = units, self._options.dialect
        if isinstance(topology, (str, os.PathLike)):
            check_not_input(self.path, topology)
        if part is not None:
            self._file = OutputPartFile(part, align=align)
        else:
            check_target(self.path, overwrite=overwrite, or_else=", mode='a' appends to it")
            self._file = NewFile(self.path, overwrite=overwrite, align=align, libver=self._libver)
        self._h5 = self._file.h5
        self._closed = False
        try:
            with self._all_or_nothing():
                write_head(self._h5, self._options.origin, self._dialect)
        except BaseException:
            self.abort()
            raise
        notes = self._options.atoms.notes()
        if max_error is not None and compression is None:
            notes.append(NOT_COMPRESSED)
        self._note(notes)

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

        `shape` and `dtype` (float64) are those of the value of one step, `unit` its text, "kJ mol-1". In a file that
        is appended to, an observable that is there is continued where shape and unit agree.
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

        Without `step` it is that of the last frame, with the frame's time.
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

    # how

    def _open_existing(
        self,
        group: str | None,
        given: dict[str, Any],
        cell: NDArray[Any] | None,
        path: str | None = None,
        cut: int | None = None,
    ) -> None:
        """Opens the file behind its last whole frame, or behind step `cut`; what was given must agree with it."""
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
    """The table that was given, or that of an AtomGroup, a Universe, a `Topology` or a file's name."""
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

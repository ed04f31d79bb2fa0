"""Writes trajectories as H5MD: new files, which appear whole or not at all, and files that grow and survive a killed
process.

It decides what goes where and when; how values lie in a file is in `kinema.h5md.creation*`. It converts no files.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kinema._core import __version__
from kinema.blocks import Block, Frame
from kinema.errors import ArgumentError, Error, FileNotFound
from kinema.h5md.creation import TrajectoryGroup
from kinema.h5md.creation_append import ExistingFile
from kinema.h5md.creation_files import GrowingFile, NewFile, check_target, damaged_file_errors, hdf5_errors
from kinema.h5md.creation_frames import Frames, gather
from kinema.h5md.creation_observables import Observable, create_fixed_observable, open_observable
from kinema.h5md.creation_options import (
    FileOptions,
    bound_of,
    boundary_of,
    field_names,
    fixed_cell,
    float_type,
    group_name,
    whole_number,
)
from kinema.h5md.creation_storage import CHUNK_BYTES, Compression
from kinema.h5md.creation_text import Dialect, Origin, write_head
from kinema.h5md.creation_topology import particles
from kinema.h5md.creation_units import FileUnits
from kinema.resources import worker_count
from kinema.topology import Topology, is_atom_group, is_universe

__all__ = ["Writer"]


class Writer:
    """Writes frames into an H5MD file (specification 1.1).

        with kn.Writer("out.h5md", n_atoms=3341) as out:
            for block in traj.blocks():
                out.write(block)

    Values are given in Kinema's units: angstrom, ps, angstrom/ps, kJ/(mol angstrom). With the default units of the file
    they are stored as they are, bit for bit (float64 is rounded to float32 unless dtype="float64").

    With mode="w" the file appears under its name when it is closed, whole; an exception inside `with` leaves nothing.
    With mode="a" the frames up to the last `flush()` are in the file whatever happens to the process afterwards, and
    a later Writer goes on behind them. (A power cut is another matter.)

    Parameters
    ----------
    path : file name
    n_atoms : int
        May be left out where mode="a" finds a file.
    mode : {"w", "a"}
        "w" makes a new file; "a" appends to it, and makes it where there is none. One that is there keeps its layout,
        compression and topology; `fields`, `dtype`, units, `max_error` and `cell` must agree with it where given.
    overwrite : bool
        Let mode="w" replace an existing file.
    fields : names out of "positions", "velocities", "forces"
        Which each frame has; by default those of the first.
    group : str
        Name below `particles`; "trajectory" by default.
    layout : {"frames", "atoms", "contiguous"} or (frames, atoms, components)
        Chunks of whole frames, of few atoms over many frames, none at all (needs `n_frames`), or of this shape.
    n_frames : int
        How many frames will be written, where that is known.
    chunk_bytes : int
        About how large chunks are; 1 MiB.
    align : int
        Chunks begin at multiples of this many bytes: the stripe of a parallel file system, or a page.
    compression : None, "gzip", "zstd", "lz4", "bitshuffle-lz4" or "bitshuffle-zstd"
        Only files with gzip (or none) are read by every HDF5; the others need its plugins (package hdf5plugin).
    level : int
        Of gzip (1 to 9; 1), zstd and bitshuffle-zstd (1 to 22; 3).
    max_error : float
        Round positions so that none moves by more than this, in `unit`; they compress better then.
    unit : {"angstrom", "nm", "pm"}
    dtype : {"float32", "float64"}
    length_unit : {"angstrom", "nm", "pm"}
    time_unit : {"ps", "fs", "ns"}
        Units of the file.
    cell : (3,) or (3, 3), angstrom
        A box that does not change; otherwise each frame brings its own, or none does.
    boundary : "periodic", "none", or three of these
        By default periodic where there is a cell.
    topology : MDAnalysis Universe or AtomGroup, kinema.Topology, or file name
        Where masses, charges, species (elements, or else types) and bonds are taken from.
    masses, charges, species, ids, bonds : arrays
        (n_atoms,) in u; in elementary charges; numbers or names; unique numbers; (bonds, 2) atom numbers from 0.
    author, author_email, creator, creator_version : str
    dialect : {"h5md", "mdanalysis"}
        "h5md" follows the specification. "mdanalysis" leaves it in one point, for MDAnalysis' own reader: strings have
        variable length. Also steps and boxes are then stored one by one where they could be told once.
    workers : int
        Threads that encode chunks; by default as many as the process may use.

    Raises
    ------
    ArgumentError, FileNotFound, FileAccessError, FileIOError
        From each method as well. UnsupportedFormatError and CorruptFileError for files that cannot be appended to.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        n_atoms: int | None = None,
        *,
        mode: Literal["w", "a"] = "w",
        overwrite: bool = False,
        fields: Sequence[str] | None = None,
        group: str | None = None,
        layout: str | Sequence[int] = "frames",
        n_frames: int | None = None,
        chunk_bytes: int = CHUNK_BYTES,
        align: int | None = None,
        compression: str | None = None,
        level: int | None = None,
        max_error: float | None = None,
        unit: str = "angstrom",
        dtype: DTypeLike | None = None,
        length_unit: str | None = None,
        time_unit: str | None = None,
        cell: ArrayLike | None = None,
        boundary: str | Sequence[str] | None = None,
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
        dialect: str = "h5md",
        workers: int | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self._closed, self._broken = True, False  # until all is well
        self._file: NewFile | GrowingFile
        self._group: TrajectoryGroup | None = None
        self._observables: dict[str, Observable] = {}
        self._n_flushed = 0
        self._workers = worker_count(workers)
        if mode not in ("w", "a"):
            raise ArgumentError(f"mode is 'w' for a new file or 'a' to append, found {mode!r}")
        self._mode = mode
        named = field_names(fields)
        kind = None if dtype is None else float_type(dtype)
        if mode == "a" and overwrite:
            raise ArgumentError("overwrite=True is for mode='w'; mode='a' keeps the frames that are there")
        if mode == "a" and os.path.exists(self.path):
            given = {
                "n_atoms": n_atoms,
                "fields": named,
                "dtype": kind,
                "length_unit": length_unit,
                "time_unit": time_unit,
                "max_error": None if max_error is None else (max_error, unit),
            }
            self._open_existing(group, given, None if cell is None else fixed_cell(cell))
            self._closed = False
            return
        if n_atoms is None:
            raise ArgumentError("n_atoms is needed to make a file")
        units = FileUnits(length_unit or "angstrom", time_unit or "ps")
        self._options = FileOptions(
            n_atoms=whole_number("n_atoms", n_atoms),
            group=group_name(group),
            fields=named,
            dtype=kind or np.dtype("<f4"),
            layout=layout,
            n_frames=None if n_frames is None else whole_number("n_frames", n_frames),
            chunk_bytes=whole_number("chunk_bytes", chunk_bytes),
            align=None if align is None else whole_number("align", align),
            compression=Compression(compression, level),
            bound=None if max_error is None else bound_of(max_error, unit, units),
            units=units,
            cell=None if cell is None else fixed_cell(cell),
            boundary=boundary_of(boundary),
            particles=particles(
                n_atoms,
                atoms=None if topology is None else _atoms(topology),
                masses=masses,
                charges=charges,
                species=species,
                ids=ids,
                bonds=bonds,
            ),
            origin=Origin(author, author_email, creator, creator_version),
            dialect=Dialect(dialect),
            workers=self._workers,
            grows=mode == "a",
        )
        self.n_atoms = self._options.n_atoms
        self._units, self._dialect = units, self._options.dialect
        check_target(self.path, overwrite=overwrite)
        self._file = NewFile(self.path, overwrite=overwrite, align=align)
        self._h5 = self._file.h5
        self._closed = False
        with self._all_or_nothing():
            write_head(self._h5, self._options.origin, self._dialect)

    @classmethod
    def append(cls, path: str | os.PathLike[str], n_atoms: int | None = None, **options: Any) -> Writer:
        """`Writer(path, n_atoms, mode="a", ...)` for a file that must exist."""
        if not os.path.exists(path):
            name = os.fspath(path)
            raise FileNotFound(f"{name}: no such file to append to; mode='a' makes it", path=name)
        return cls(path, n_atoms, mode="a", **options)

    @property
    def n_frames(self) -> int:
        """Frames taken so far, with those that the file had."""
        return 0 if self._group is None else self._group.rows

    @property
    def n_flushed(self) -> int:
        """Frames that are in the file whatever happens to this process: 0 for a new file until it is closed."""
        return self._n_flushed

    @property
    def fields(self) -> tuple[str, ...] | None:
        """Fields of each frame; None before the first frame tells."""
        return self._options.fields if self._group is None else tuple(self._group.fields)

    def write(
        self,
        positions: ArrayLike | Frame | Block | None = None,
        *,
        velocities: ArrayLike | None = None,
        forces: ArrayLike | None = None,
        cell: ArrayLike | None = None,
        step: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> None:
        """Takes one frame, or a block of frames.

        Parameters
        ----------
        positions : (atoms, 3) or (frames, atoms, 3) in angstrom, or a `Frame` or `Block` with all that it has
        velocities, forces : likewise, in angstrom/ps and kJ/(mol angstrom)
        cell : (3, 3) or (3,) for a frame, (frames, 3, 3) or (frames, 3) for a block
            Box vectors as rows in angstrom, or edge lengths.
        step : whole number, or (frames,); by default counted on from the last frame by 1, from 0
        time : ps, or (frames,); the first frame decides whether the file has times

        Nothing is taken where it raises ArgumentError: for other shapes and types, steps that do not rise, times that
        fall, a field, cell or time that the file has and this frame has not (or the other way round).
        """
        self._require_open()
        if isinstance(positions, (Frame, Block)):
            given = (velocities, forces, cell, step, time)
            if any(value is not None for value in given):
                raise ArgumentError(
                    f"a {type(positions).__name__} is written with all it has, expected nothing beside it"
                )
            velocities, forces = positions.velocities, positions.forces
            if isinstance(positions, Frame):
                cell, step, time = positions.cell, positions.step, positions.time
            else:
                cell, step, time = positions.cells, positions.steps, positions.times
            cell = cell if np.any(cell) else None  # zeros: no box
            positions = positions.positions
        values = {"positions": positions, "velocities": velocities, "forces": forces}
        frames = gather(self.n_atoms, values, cell, step, time)
        if not len(frames):
            return
        self._begin(frames)
        assert self._group is not None
        self._group.check(frames)
        if isinstance(self._file, NewFile):
            self._options.check_announced(self.n_frames + len(frames), complete=False)
        with self._all_or_nothing():
            self._group.extend(frames)

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
        values, steps, times = self._observables[name].gather(value, step, time)
        with self._all_or_nothing():
            self._observables[name].extend(values, steps, times)

    def flush(self) -> None:
        """Brings all frames taken so far into the file.

        With mode="a" they are there when it returns, and stay there when the process is killed at any later moment. A
        new file (mode="w") gets the frames that fill whole chunks, and is still not seen until it is closed.
        """
        self._require_open()
        if self._mode == "a":
            self._begin(None)
        with self._all_or_nothing():
            if not isinstance(self._file, GrowingFile):
                self._h5.flush()
                return
            for part in self._parts():
                part.flush()
            self._file.commit()
        self._n_flushed = self.n_frames

    def close(self) -> None:
        """Writes what is left and closes the file; a new one appears under its name now. Closing twice does nothing."""
        if self._closed:
            return
        if self._broken:
            self.abort()
            raise ArgumentError(
                f"{self.path}: an earlier error broke the writer; what was not flushed is lost", path=self.path
            )
        try:
            self._begin(None)
            if isinstance(self._file, GrowingFile):
                self.flush()
            else:
                self._options.check_announced(self.n_frames, complete=True)
                with hdf5_errors(self.path):
                    for part in self._parts():
                        part.finish()
            self._file.finish()
        except BaseException:
            self.abort()
            raise
        self._n_flushed = self.n_frames
        self._closed = True

    def abort(self) -> None:
        """Closes without writing more: a new file is removed, an appended one stays as it was last flushed."""
        if self._closed:
            return
        self._closed = True
        self._file.discard()

    def __enter__(self) -> Writer:
        self._require_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif isinstance(self._file, GrowingFile) and not self._broken:
            # the frames that were taken are whole, whatever stopped the caller
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            warnings.warn(f"{self.path}: the writer was not closed, its file is lost", ResourceWarning, stacklevel=2)
            self.abort()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<Writer of {self.path}: {self.n_frames} frames, {state}>"

    # how

    def _open_existing(self, group: str | None, given: dict[str, Any], cell: NDArray[Any] | None) -> None:
        """Opens the file behind its last whole frame; what was given must agree with it."""
        growing = GrowingFile(self.path)
        try:
            with damaged_file_errors(self.path):
                existing = ExistingFile(growing.h5, self.path, group)
                existing.check(given)
                self._group = existing.open_group(self._workers, growing.commit)
                self._group.agree_on_cell(cell)
        except BaseException:
            growing.discard()
            raise
        self._file, self._h5 = growing, growing.h5
        self.n_atoms, self._units, self._dialect = existing.n_atoms, existing.units, existing.dialect
        self._n_flushed = self._group.rows

    def _begin(self, first: Frames | None) -> None:
        """Makes the particles group, with what the first frame has; a file to append to gets its name then."""
        if self._group is not None:
            return
        grows = self._mode == "a"
        TrajectoryGroup.check_first(self._options, first)
        with self._all_or_nothing():
            group = TrajectoryGroup.create(self._h5, self._options, first, explicit=grows)
        if not grows:
            self._group = group
            return
        with self._all_or_nothing():
            names = {name: (o.shape, o.unit) for name, o in self._observables.items()}
            group.flush()
            for observable in self._observables.values():
                observable.flush()
            self._file.finish()
            self._open_existing(self._options.group, {}, self._options.cell)
            for name, (shape, unit) in names.items():
                self._observables[name] = self._open_observable(name, shape, None, unit)

    def _open_observable(
        self, name: str, shape: tuple[int, ...], dtype: DTypeLike | None, unit: str | None
    ) -> Observable:
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

    def _parts(self) -> list[TrajectoryGroup | Observable]:
        return [*([] if self._group is None else [self._group]), *self._observables.values()]

    @contextmanager
    def _all_or_nothing(self, unless: type[Error] | None = None) -> Iterator[None]:
        """Whatever is raised inside, also Ctrl-C, leaves parts of frames behind: nothing more is written then."""
        try:
            with hdf5_errors(self.path):
                yield
        except BaseException as error:
            self._broken = unless is None or not isinstance(error, unless)
            raise

    def _require_open(self) -> None:
        if self._closed:
            raise ArgumentError(f"{self.path}: the writer is closed", path=self.path)
        if self._broken:
            raise ArgumentError(f"{self.path}: an earlier error broke the writer", path=self.path)


def _atoms(topology: Any) -> Any:
    """The AtomGroup of an AtomGroup, a Universe, a `Topology` or a file's name."""
    if is_atom_group(topology):
        return topology
    if is_universe(topology):
        return topology.atoms
    return (topology if isinstance(topology, Topology) else Topology(topology)).universe.atoms

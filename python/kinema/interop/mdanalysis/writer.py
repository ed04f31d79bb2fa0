"""`KinemaWriter`: a writer for MDAnalysis of every format that `kinema.Writer` writes.

It derives from MDAnalysis' base class by import; `kinema.Writer` decides how a file is laid out and compressed.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

import numpy as np
from MDAnalysis.coordinates.base import WriterBase
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.formats.all_formats import format_named
from kinema.formats.all_writers import OPTIONS_OF_RANKS, RanksWriter, Writer, format_of, is_variant, options_of
from kinema.interop.mdanalysis.recorded import OWN_DATA
from kinema.model.atom_table import Atoms
from kinema.model.frame import VECTOR_FIELDS, frame_bytes

# memory of the frames that are written with one call
_BLOCK_MEMORY = 4 << 20
_BLOCK_FRAMES = 256
# formats whose files hold several vectors of an atom; files of other formats with records hold one


class KinemaWriter(WriterBase):  # type: ignore[misc]
    """Writes H5MD, XTC, TRR, NetCDF, DCD, by the suffix.

        u.atoms.write("x.h5md", frames="all", file_format="KINEMA")
        mda.Writer("x.h5md", n_atoms, format="KINEMA")

    H5MD files get the positions, velocities and forces that the first frame has, its box, step and time, names,
    residues, masses, charges, species and bonds of its atoms, and numbers in `ts.data` as observables. XTC files get
    positions; DCD files positions or velocities; NetCDF files positions, velocities and forces if the first frame has
    them; TRR files those that each frame has, with box, step and time. All else is noted. The file appears whole, under
    its name, when the writer is closed. After an exception inside `with`, the frames so far stay under a temporary
    name, as with `kinema.Writer`.

    Parameters
    ----------
    filename : path
    n_atoms : int
    convert_units : bool
        Only True: values are in MDAnalysis' units; `length_unit` and `time_unit` give the file's.
    dt : float, optional
        Frame i gets the time i * dt in ps instead of its own.
    positions, velocities, forces : bool, optional
        Whether to write them; by default if the first frame has them (TRR: if a frame has them).
    observables : bool
        Whether to write the values in `ts.data`; H5MD.
    topology : bool
        Whether to write what is known of the atoms of the first frame (`kinema.Atoms`); H5MD.
    overwrite : bool
        Replace an existing file, as MDAnalysis' writers do.
    dialect : {"mdanalysis", "h5md"}
        Dialect of H5MD; by default the one that MDAnalysis' own reader needs; "h5md" follows the specification to the
        letter.
    comm : mpi4py intracommunicator, optional
        All its ranks write the file together: each passes an AtomGroup of the atoms that it has, by their indices in
        the Universe; `n_atoms` is the number of all. `strategy`, `hints`, `order`, `verify`, `buffer_frames` are the
        same as for `kinema.Writer(comm=)`; observables are not written.
    start, step, multiframe : ignored; MDAnalysis passes them to all writers
    **options
        `layout`, `compression`, `max_error`, `precision` and all others of `kinema.Writer` for the format.

    Raises
    ------
    ArgumentError
        If `kinema.Writer` does not know an option, the number of atoms differs, steps do not rise (a frame is written
        twice), or a frame lacks what the first one had.
    kinema.Error
        The errors of `kinema.Writer`.
    """

    format = "KINEMA"
    multiframe = True
    units = {"time": "ps", "length": "Angstrom", "velocity": "Angstrom/ps", "force": "kJ/(mol*Angstrom)"}  # noqa: RUF012

    # until __init__ has succeeded; the base class calls close() even if it has not
    _closed = True

    def __init__(
        self,
        filename: str | os.PathLike[str],
        n_atoms: int,
        convert_units: bool = True,
        dt: float | None = None,
        positions: bool | None = None,
        velocities: bool | None = None,
        forces: bool | None = None,
        observables: bool = True,
        topology: bool = True,
        overwrite: bool = True,
        dialect: str | None = None,
        comm: Any = None,
        start: int | None = None,
        step: int | None = None,
        multiframe: bool | None = None,
        **options: Any,
    ) -> None:
        self._writer: Writer | None = None
        self._pending: _PendingFrames | None = None
        if not convert_units:
            raise ArgumentError(
                "convert_units=False is not for writing; say which units the file has: length_unit='nm'"
            )
        self._format = format_of(filename)
        of_ranks = OPTIONS_OF_RANKS if comm is not None else ()
        known = {*options_of(self._format), *of_ranks, "keep_partial", "workers"} - {"resume_from"}
        unknown = set(options) - known | set(options) & {"fields"}
        if unknown:
            raise ArgumentError(f"no such option of the writer: {', '.join(sorted(unknown))}")
        self.filename = os.fspath(filename)
        self.n_atoms = n_atoms
        self._dt = dt
        self._wanted = {"positions": positions, "velocities": velocities, "forces": forces}
        self._with_observables, self._with_topology = observables, topology
        self._options = {"overwrite": overwrite, **options}
        self._comm = comm
        if dialect is not None or "dialect" in options_of(self._format):
            self._options["dialect"] = dialect or "mdanalysis"
        self._closed = False

    def _write_next_frame(self, obj: Any) -> None:
        """Takes the current frame of an AtomGroup or a Universe. Raises TypeError for anything else."""
        atoms = getattr(obj, "atoms", None)
        if atoms is None:
            raise TypeError(f"a writer takes an AtomGroup or a Universe, found {type(obj).__name__}")
        if self._closed:
            raise ArgumentError("the writer is closed", at=self.filename)
        if self._comm is not None:
            self._write_part(atoms)
            return
        if len(atoms) != self.n_atoms:
            raise ArgumentError(f"the frame has {len(atoms)} atoms, expected {self.n_atoms} as the writer was made for")
        ts = atoms.universe.trajectory.ts
        if self._pending is None:
            self._begin(atoms, ts)
        assert self._pending is not None and self._writer is not None
        if format_named(self._format).fields_of_each_frame and (fields := self._fields_of(ts)) != self._pending.fields:
            self._pending.write_to(self._writer)
            self._pending = _PendingFrames(self.n_atoms, fields, (), series=False)
        self._pending.add(ts, atoms.indices, ts.time if self._dt is None else ts.frame * self._dt)
        if self._pending.full:
            self._pending.write_to(self._writer)

    def _write_part(self, atoms: Any) -> None:
        """Writes a frame of which this rank has `atoms`; collective."""
        ts = atoms.universe.trajectory.ts
        if self._writer is None:
            options = {**self._table_of(atoms.universe), **self._options}
            self._writer = Writer(self.filename, self.n_atoms, comm=self._comm, **options)
        assert isinstance(self._writer, RanksWriter)
        try:
            vectors = {name: getattr(ts, name)[atoms.indices] for name in self._fields_of(ts)}
        except Exception as error:
            self._writer.fail(error)
        time = ts.time if self._dt is None else ts.frame * self._dt
        step, cell = int(ts.data.get("step", ts.frame)), ts.triclinic_dimensions
        positions = vectors.pop("positions", None)
        self._writer.write(positions, ids=atoms.indices, **vectors, cell=cell, step=step, time=time)

    def _table_of(self, universe: Any) -> dict[str, Any]:
        """Rank 0's table of all atoms, as an option of the format, if the Universe has all of them."""
        if self._comm.Get_rank() != 0 or len(universe.atoms) != self.n_atoms or not self._with_topology:
            return {}
        if format_named(self._format).observables:
            return {"topology": universe.atoms}
        known = options_of(self._format, variants=is_variant(self.filename, self._format, self._options))
        return {"atoms": Atoms.from_mdanalysis(universe.atoms)} if "atoms" in known else {}

    def _begin(self, atoms: Any, ts: Any) -> None:
        """Makes the file for the fields of the first frame."""
        fields = self._fields_of(ts)
        numbers = self._numbers_of(ts.data) if self._with_observables else {}
        if format_named(self._format).observables:
            table = atoms if self._with_topology else None
            self._writer = Writer(self.filename, self.n_atoms, fields=fields, topology=table, **self._options)
            for name, array in numbers.items():
                self._writer.add_observable(name, shape=array.shape, dtype=array.dtype)
            self._pending = _PendingFrames(self.n_atoms, fields, tuple(numbers))
            return
        format = format_named(self._format)
        held = format.usual_fields(fields)
        stated = None if format.fields_of_each_frame else held
        options = self._options
        if "atoms" in options_of(self._format, variants=is_variant(self.filename, self._format, options)):
            options = {"atoms": Atoms.from_mdanalysis(atoms), **options}
        self._writer = Writer(self.filename, self.n_atoms, fields=stated, **options)
        self._pending = _PendingFrames(self.n_atoms, held, (), series=False)
        left_out = [*fields[len(held) :], *numbers]
        if left_out:
            emit([f"{self.filename}: {', '.join(left_out)} are not written: the file holds {', '.join(held)}"])

    def _fields_of(self, ts: Any) -> tuple[str, ...]:
        """Fields of a frame to write. Raises ArgumentError if there are none, or one that was asked for is missing."""
        fields = tuple(name for name in VECTOR_FIELDS if self._is_written(name, ts))
        if not fields:
            raise ArgumentError(f"frame {ts.frame} has no positions, velocities or forces to write")
        return fields

    def _is_written(self, name: str, ts: Any) -> bool:
        wanted, there = self._wanted[name], bool(getattr(ts, f"has_{name}"))
        if wanted and not there:
            raise ArgumentError(f"the frame has no {name}, but {name}=True asks for them")
        return there if wanted is None else wanted

    @staticmethod
    def _numbers_of(data: Any) -> dict[str, NDArray[Any]]:
        """Numeric values in `ts.data`, except those that Kinema's readers put there themselves."""
        arrays = {name: np.asarray(value) for name, value in data.items() if name not in OWN_DATA}
        return {name: array for name, array in arrays.items() if array.dtype.kind in "biuf"}

    def close(self) -> None:
        """Writes the buffered frames; the file appears under its name. Without a single frame no file is made."""
        if self._closed:
            return
        self._closed = True
        if self._writer is None:
            return
        try:
            if self._pending is not None:
                self._pending.write_to(self._writer)
            self._writer.close()
        except BaseException as error:
            self._writer.__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._writer is not None and not self._closed:
            self._closed = True
            try:
                if self._pending is not None:
                    self._pending.write_to(self._writer)
            except Exception as second:
                error.add_note(f"and the last frames are lost: {second}")
            self._writer.__exit__(kind, error, trace)
        self.close()


class _PendingFrames:
    """A buffer of frames that are not yet written."""

    def __init__(
        self, n_atoms: int, fields: tuple[str, ...], observables: tuple[str, ...], *, series: bool = True
    ) -> None:
        """`series`: whether steps must rise and either all frames have a box, or none."""
        room = min(_BLOCK_FRAMES, max(1, _BLOCK_MEMORY // frame_bytes(n_atoms, len(fields), 4)))
        self._vectors = {name: np.empty((room, n_atoms, 3), dtype=np.float32) for name in fields}
        self._cells: list[NDArray[np.float32]] = []
        self._steps: list[int] = []
        self._times: list[float] = []
        # rows of the buffer, and values
        self._observables: dict[str, list[tuple[int, Any]]] = {name: [] for name in observables}
        self._room, self._series = room, series
        self._last_step: int | None = None
        self._has_cell: bool | None = None

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def fields(self) -> tuple[str, ...]:
        """The vectors of each frame."""
        return tuple(self._vectors)

    @property
    def full(self) -> bool:
        return len(self) == self._room

    def add(self, ts: Any, indices: NDArray[np.int64], time: float) -> None:
        """Copies these atoms of a frame. If it raises ArgumentError, the buffer is unchanged."""
        row = len(self)
        for name in self._vectors:
            if not getattr(ts, f"has_{name}"):
                raise ArgumentError(f"frame {ts.frame} has no {name}, which the first frame had")
        step = int(ts.data.get("step", ts.frame))
        if self._series and self._last_step is not None and step <= self._last_step:
            raise ArgumentError(
                f"steps must rise, the last was {self._last_step}, found {step} in frame {ts.frame}; "
                "set ts.data['step'] where the trajectory's own do not rise"
            )
        cell = ts.triclinic_dimensions
        if self._series and self._has_cell not in (None, cell is not None):
            change = (
                "has a box, which earlier frames had not"
                if cell is not None
                else "has no box, which earlier frames had"
            )
            raise ArgumentError(f"frame {ts.frame} {change}")
        for name, values in self._vectors.items():
            np.take(getattr(ts, name), indices, axis=0, out=values[row], mode="clip")
        if cell is not None or not self._series:
            self._cells.append(np.zeros((3, 3), np.float32) if cell is None else cell)
        for name, rows in self._observables.items():
            if name in ts.data:
                # a copy: its owner may change it in the next frame
                rows.append((row, np.array(ts.data[name])))
        self._steps.append(step)
        self._times.append(float(time))
        self._last_step, self._has_cell = step, cell is not None

    def write_to(self, writer: Writer) -> None:
        """Writes all frames of the buffer, which is empty afterwards."""
        count = len(self)
        if not count:
            return
        steps, times = np.array(self._steps), np.array(self._times)
        vectors = {name: values[:count] for name, values in self._vectors.items()}
        cells = np.array(self._cells) if self._cells else None
        writer.write(vectors.pop("positions", None), **vectors, cell=cells, step=steps, time=times)
        for name, rows in self._observables.items():
            if rows:
                at = [row for row, _ in rows]
                writer.write_observable(name, np.array([value for _, value in rows]), step=steps[at], time=times[at])
                rows.clear()
        self._cells, self._steps, self._times = [], [], []

"""`KinemaReader`: a trajectory reader for MDAnalysis that reads through Kinema."""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from MDAnalysis.coordinates import core as mda_core
from MDAnalysis.coordinates.base import FrameIteratorIndices, ReaderBase
from MDAnalysis.coordinates.DCD import DCDWriter
from MDAnalysis.core._get_readers import get_writer_for
from MDAnalysis.lib.util import store_init_arguments
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.input_files import file_names, is_hdf5
from kinema.base.resources import parse_memory
from kinema.formats.all_formats import format_named
from kinema.interop.mdanalysis.read_ahead import BLOCK_MEMORY, ReadAhead
from kinema.interop.mdanalysis.reader_arguments import (
    check_parallel,
    open_options,
    refuse_unknown,
    threads_of,
    units_of,
)
from kinema.interop.mdanalysis.recorded import RecordedValues
from kinema.model.frame import VECTOR_FIELDS
from kinema.model.selection.frames import FrameSelection
from kinema.trajectory import Trajectory
from kinema.trajectory.opening import open as open_trajectory
from kinema.trajectory.transform import Transform
from kinema.transforms.timesteps import BoundTransform, FrameOfFile, bound_to, changed, universe_of_timestep

# for files without units, whose values are read unconverted
_ANY_UNITS = {"length": "angstrom", "time": "ps", "velocity": "angstrom ps-1", "force": "kJ mol-1 angstrom-1"}


class KinemaReader(ReaderBase):  # type: ignore[misc]
    """Reads any trajectory that Kinema reads, for `MDAnalysis.Universe(topology, files, format=KinemaReader)`.

    Lengths are in angstrom, times in ps, velocities in angstrom/ps, forces in kJ/(mol angstrom). Frames are read in
    blocks on all cores if they are requested in order, at any stride, backwards, or from a list. `ts.positions` is one
    array that is overwritten for each frame.

    Parameters
    ----------
    filename : path or list of paths
        Several files are one trajectory. (A list reaches this class with `format=KinemaReader`; with `format="KINEMA"`
        MDAnalysis makes a reader for each file and chains these.)
    convert_units : bool
        False: lengths, velocities, forces and times in the file's own units.
    sub : (n,) indices or mask, optional
        Atoms to read, in this order; the topology must have these atoms.
    dt : float, optional
        Time between frames in ps, instead of the file's: frame i has time i * dt (DCD: later by the file's first step).
    time_offset : float, optional
        Added to all times.
    workers : int, optional
        Threads that decode; by default as many as this process may use; one in a process of `multiprocessing`, and in
        workers of Kinema's runners unless these have more.
    memory : int or str
        Memory of two blocks of frames, the current one and the next, which is read meanwhile.
    refresh_offsets : bool
        Rebuilds the frame index, as for MDAnalysis' XTC reader.
    continuous : bool
        If files overlap, takes the frames of the later file, as MDAnalysis' chain reader does; by default all frames of
        all files are taken.
    transforms : kinema.transforms.Transform or callable, or a list of these, optional
        Applied to each frame as it is read, in this order, before transformations of MDAnalysis.
    observables : bool
        Put the values that a single H5MD file recorded at a frame's step into `ts.data`, as "group/name", in the file's
        units.
    comm : mpi4py intracommunicator, optional
        All its ranks make this reader. Its first rank alone opens the files and finds the frames, and sends headers and
        indices to the others. Each rank then reads the frames that it asks for. An error while opening is raised on all
        ranks.
    driver : {"mpio"}, optional
        Each rank reads frames by itself through HDF5's MPI-IO driver. It needs `comm`, HDF5 files, and an h5py that was
        built with MPI. `close` is then collective, and a closed reader is not opened again; files of a reader that was
        not closed stay open until the process ends. Copies (`copy`, pickle, `multiprocessing`) read without MPI-IO.
    **kwargs
        Arguments of `kinema.open` (`index`, `overlap`, `on_truncated`, `group`, `units`, ...). By default
        `absent="nan"`: a frame without velocities has `ts.has_velocities` False. MDAnalysis passes arguments of its
        topology parsers to readers as well: of these, `atom_style` and upper-case names (macros of GROMACS topologies)
        are ignored, and so is `mmap` of its NetCDF reader, because no file is mapped into memory here. Other arguments
        are refused.

    Raises
    ------
    kinema.Error
        The errors of `kinema.open`; ArgumentError for files without a single frame, for unknown arguments, and if
        `driver="mpio"` cannot be used. An error while a frame is read is raised at that frame, never taken for the end
        of the trajectory.
    """

    format = "KINEMA"

    @store_init_arguments  # type: ignore[untyped-decorator]
    def __init__(
        self,
        filename: Any,
        convert_units: bool = True,
        sub: Any = None,
        dt: float | None = None,
        workers: int | None = None,
        memory: int | str = BLOCK_MEMORY,
        refresh_offsets: bool = False,
        continuous: bool = False,
        transforms: Any = (),
        observables: bool = True,
        comm: Any = None,
        driver: str | None = None,
        **kwargs: Any,
    ) -> None:
        self._closed = False
        # transformations applied as frames are read
        self._front: tuple[BoundTransform, ...] = ()
        self._trajectory: Trajectory | None = None
        self._ahead: ReadAhead | None = None
        self._recorded: RecordedValues | None = None
        # closes files that are open with MPI-IO; collective
        self._close_mpio: Callable[[], None] | None = None
        self._through_mpio = False
        super().__init__(filename, convert_units=convert_units, **kwargs)
        refuse_unknown(kwargs, inspect.signature(KinemaReader).parameters)
        check_parallel(comm, driver)
        self._workers = threads_of(workers)
        self._memory = parse_memory(memory)
        self._paths = filename
        self._transforms = tuple(transforms) if isinstance(transforms, (list, tuple)) else (transforms,)
        self._options = open_options(kwargs, refresh_offsets=refresh_offsets, continuous=continuous)
        trajectory = self._trajectory = self._first_opened() if comm is None else self._open_on_ranks(comm, driver)
        # copies, also in other processes, open by themselves
        self._kwargs |= {"comm": None, "driver": None}
        self.filenames = list(trajectory.paths)
        self.filename = self.filenames[0]
        # the instance has the file's format, the class the name of this reader
        self.format = trajectory.format
        self.units = units_of(trajectory.format)
        self.n_frames = trajectory.n_frames
        if self.n_frames == 0:
            raise ArgumentError("has no frames, MDAnalysis needs at least one", at=self.filename)
        self._atoms = None if sub is None else trajectory.select(sub).indices
        self.n_atoms = trajectory.n_atoms if self._atoms is None else len(self._atoms)
        self._fields = tuple(name for name in VECTOR_FIELDS if name in trajectory.fields)
        self._frame = -1
        first = self._first_times()
        # as in MDAnalysis' XTC reader, no time passes in a single frame
        between = first[1] - first[0] if len(first) > 1 else 0.0
        self._dt = dt
        # the first step of a DCD file, which MDAnalysis also applies if the user gives another dt
        self._first = first[0] / between if format_named(self.format).evenly_timed and between else 0.0
        if dt is not None:
            self._ts_kwargs["dt"] = dt
        self._with_recorded = observables and format_named(self.format).observables and len(self.filenames) == 1
        self.ts = self._Timestep(
            self.n_atoms, **{name: name in self._fields for name in VECTOR_FIELDS}, **self._ts_kwargs
        )
        self.ts.dt = between if dt is None else dt
        self._read_next_timestep()

    @classmethod
    def parse_n_atoms(cls, filename: Any, **kwargs: Any) -> int:
        """Number of atoms in a file, from its header."""
        return open_trajectory(filename, **open_options(kwargs)).n_atoms

    # -- opening and closing ------------------------------------------------------------------------------------

    @property
    def kinema_trajectory(self) -> Trajectory:
        """The trajectory that this reader reads, with all atoms. Raises ArgumentError if the reader was closed."""
        if self._closed:
            raise ArgumentError("the reader was closed", at=self.filename)
        if self._trajectory is None:
            self._trajectory = self._first_opened()
        return self._trajectory

    def __del__(self) -> None:
        # the ranks collect garbage at different times: closing together then would be a deadlock
        self._close_mpio = None
        super().__del__()

    def close(self) -> None:
        """Closes the files; `rewind` and iteration open them again.

        With `driver="mpio"` closing is collective, and the files are not opened again.
        """
        self._closed = True
        self._trajectory = None
        if self._ahead is not None:
            self._ahead.close()
        self._ahead = None
        self._recorded = None
        if self._close_mpio is not None:
            self._close_mpio()
            self._close_mpio = None

    def _first_opened(self) -> Trajectory:
        """Opens the trajectory, with its transforms, after adding to `_options` what HDF5 files need."""
        return self._with_front(self._stored_opened().with_transform(*self._transforms))

    def _stored_opened(self) -> Trajectory:
        """Opens the trajectory without transforms."""
        if any(is_hdf5(path) for path in file_names(self._paths)):
            self._options.setdefault("absent", "nan")
            if not self.convert_units and "units" not in self._options:
                try:
                    return open_trajectory(self._paths, **self._options)
                except ArgumentError:
                    # no units; any other error is raised again below
                    self._options["units"] = _ANY_UNITS
        return open_trajectory(self._paths, **self._options)

    def _open_on_ranks(self, comm: Any, driver: str | None) -> Trajectory:
        """The trajectory on all ranks of a communicator, opened by the first one."""
        from kinema.runners.mpi.opening import open_on_ranks

        if driver is None:
            trajectory, free = open_on_ranks(comm, self._first_opened)
            free()
        else:
            trajectory, self._close_mpio = open_on_ranks(comm, self._first_opened_hdf5, "hdf5-mpio-independent")
            self._through_mpio = True
        return trajectory

    def _first_opened_hdf5(self) -> Trajectory:
        """As `_stored_opened`. Raises ArgumentError if a file is not HDF5."""
        trajectory = self._first_opened()
        for part in trajectory.core.parts():
            if not part["hdf5"]:
                path = part["path"]
                raise ArgumentError(f"driver='mpio' is for HDF5 files, found {part['format']}", at=path)
        return trajectory

    def _reopen(self) -> None:
        """Puts the reader before the first frame."""
        if self._closed and self._through_mpio:
            raise ArgumentError("the reader was closed; with driver='mpio' all ranks make a new one", at=self.filename)
        self._closed = False
        self._frame = -1
        self.ts.frame = 0

    def __getstate__(self) -> dict[str, Any]:
        # open files are not pickled. Another process opens them when a frame is read: an OSError while it unpickles
        # would silently end a worker of multiprocessing, and its pool would wait for ever
        opened = {"_trajectory": None, "_ahead": None, "_recorded": None, "_close_mpio": None, "_through_mpio": False}
        return self.__dict__ | opened

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._workers = threads_of(self._kwargs["workers"])

    # -- frames -------------------------------------------------------------------------------------------------

    def __iter__(self) -> KinemaReader:
        self._reopen()
        self._read_ahead().expect(range(self.n_frames))
        return self

    def __getitem__(self, frame: Any) -> Any:
        item = super().__getitem__(frame)
        return _AnnouncedFrames(self, item.frames) if isinstance(item, FrameIteratorIndices) else item

    def next(self) -> Any:
        """The next frame; after the last one, rewinds and raises StopIteration."""
        # the base class takes every OSError and EOFError for the end of the trajectory
        if self._frame + 1 >= self.n_frames:
            self.rewind()
            raise StopIteration
        return self._read_frame_with_aux(self._frame + 1)

    def _read_next_timestep(self, ts: Any = None) -> Any:
        if self._frame + 1 >= self.n_frames:
            raise EOFError(f"{self.filename}: frame {self._frame} is the last one")
        return self._fill(self._frame + 1, self.ts if ts is None else ts)

    def _read_frame(self, frame: int) -> Any:
        return self._fill(int(frame), self.ts)

    def _fill(self, frame: int, ts: Any) -> Any:
        """Reads a frame into `ts`."""
        ahead = self._read_ahead()
        row = ahead.row(frame)
        self._frame = ts.frame = frame
        ts.time = ahead.times[row] if self._dt is None else (self._first + frame) * self._dt
        ts.data["step"] = ahead.steps[row]
        ts.dimensions = ahead.dimensions[row]
        for name, values in ahead.vectors.items():
            setattr(ts, name, values[row])
        for name, absent in ahead.absent.items():
            if absent[row]:
                setattr(ts, f"has_{name}", False)
        if self._with_recorded:
            self._fill_recorded(frame, ts)
        return ts

    def _fill_recorded(self, frame: int, ts: Any) -> None:
        """Puts the observables of a frame into `ts.data`, and removes the observables of other frames."""
        if self._recorded is None:
            trajectory = self.kinema_trajectory
            self._recorded = RecordedValues(trajectory.observables, trajectory.steps)
        for name, value in self._recorded.items_at(frame):
            if value is None:
                ts.data.pop(name, None)
            else:
                ts.data[name] = value

    def _read_ahead(self) -> ReadAhead:
        if self._ahead is None:
            self._ahead = ReadAhead(
                self.kinema_trajectory.core,
                self.n_frames,
                self._atoms,
                self._fields,
                native=not self.convert_units,
                workers=self._workers,
                memory=self._memory,
            )
        return self._ahead

    def _first_times(self) -> list[float]:
        """Times of the first two frames, or of the only one."""
        ahead = self._read_ahead()
        ahead.expect(range(min(2, self.n_frames)))
        ahead.row(0)
        return ahead.times

    # -- transformations ----------------------------------------------------------------------------------------

    def add_transformations(self, *transformations: Any) -> None:
        """As in MDAnalysis' readers; transforms of Kinema that come first are applied on all cores, as frames are read.

        These belong to the Universe of this reader, and come after `transforms=`. Raises ArgumentError if one cannot be
        applied, ValueError if there are transformations already.
        """
        if self.transformations:
            super().add_transformations(*transformations)
        self._front = self._bound_in_front(transformations)
        if self._front:
            self._read_through(self._with_front(self.kinema_trajectory))
        super().add_transformations(*self._front, *transformations[len(self._front) :])

    def _with_front(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory, read as the transforms in front need it, with these after its own."""
        for one in self._front:
            trajectory = one.prepared(trajectory)
        core = trajectory.core
        return trajectory.with_core(core.with_transforms([*core.transforms, *(one.core for one in self._front)]))

    def _bound_in_front(self, transformations: tuple[Any, ...]) -> tuple[BoundTransform, ...]:
        """The transforms of Kinema that come first, bound to the trajectory; none if there is `sub=`."""
        first = tuple(itertools.takewhile(lambda one: isinstance(one, Transform), transformations))
        if not first or self._atoms is not None:
            return ()
        trajectory = self.kinema_trajectory
        # the transforms of a copied reader are bound already
        bound = all(isinstance(one, BoundTransform) and one.paths == trajectory.paths for one in first)
        universe = None if bound else universe_of_timestep(self.ts)
        if universe is None:
            return first if bound else ()
        return tuple(bound_to(trajectory, universe, first))

    def _read_through(self, trajectory: Trajectory) -> None:
        """Reads the current frame again, and all others from now on, with other transforms."""
        self._trajectory = trajectory
        if self._ahead is not None:
            self._ahead.close()
        self._ahead = None
        self._fill(self._frame, self.ts)

    def _apply_transformations(self, ts: Any) -> Any:
        for transform in self.transformations[len(self._front) :]:
            ts = changed(transform, ts, self._frame_of_file()) if isinstance(transform, Transform) else transform(ts)
        return ts

    def _frame_of_file(self) -> FrameOfFile:
        ahead = self._read_ahead()
        row = ahead.row(self._frame)
        return FrameOfFile(ahead.cells[row], ahead.periodic[row], ahead.dimensions[row])

    # -- many frames --------------------------------------------------------------------------------------------

    def timeseries(
        self,
        asel: Any = None,
        atomgroup: Any = None,
        start: int | None = None,
        stop: int | None = None,
        step: int | None = None,
        order: str | None = None,
    ) -> NDArray[np.float32]:
        """Positions of many frames, read with one call; if there are transformations of MDAnalysis, frame by frame.

        Parameters
        ----------
        asel, atomgroup : AtomGroup, optional
            Atoms, all by default; `asel` is the deprecated name.
        start, stop, step : int, optional
            Frames, as in a slice.
        order : str, optional
            Any permutation of "fac": frames, atoms, coordinates. By default "fac", for DCD "afc", as in MDAnalysis'
            readers.

        Returns
        -------
        (frames, atoms, 3) float32, its axes in the order asked for; in angstrom or the file's unit

        Raises
        ------
        ValueError
            If the atom group has no atoms, both names of it are given, or `order` is another word.
        """
        if order is None:
            order = format_named(self.format).mdanalysis_order
        if sorted(order) != ["a", "c", "f"]:
            raise ArgumentError(f"order must be a permutation of 'fac', found {order!r}")
        group = asel if atomgroup is None else atomgroup
        refused = (group is not None and len(group) == 0) or (asel is not None and atomgroup is not None)
        fields = self.kinema_trajectory.fields
        # errors of arguments are MDAnalysis' own
        if refused or len(self.transformations) > len(self._front) or "positions" not in fields:
            arguments = {"asel": asel, "atomgroup": atomgroup, "start": start, "stop": stop, "step": step}
            return np.asarray(super().timeseries(**arguments, order=order))
        if asel is not None:
            warnings.warn("asel argument to timeseries is called atomgroup in 3.0", DeprecationWarning, stacklevel=2)
        frames = range(*self.check_slice_indices(start, stop, step))
        positions = self.kinema_trajectory.core.read(
            FrameSelection(frames),
            atoms=self._atoms_of(group),
            workers=self._workers,
            native=not self.convert_units,
        )["positions"]
        return np.moveaxis(positions, ["fac".index(axis) for axis in order], [0, 1, 2])

    def _atoms_of(self, group: Any) -> NDArray[np.uint32] | None:
        """Indices of the atoms of a group in the file; None: all."""
        if group is None:
            return self._atoms
        indices = np.asarray(group.indices, dtype=np.uint32)
        return indices if self._atoms is None else self._atoms[indices]

    # -- writing ------------------------------------------------------------------------------------------------

    def Writer(self, filename: Any, n_atoms: int | None = None, **kwargs: Any) -> Any:  # noqa: N802
        """A writer of MDAnalysis for this file name, by default with as many atoms as this reader."""
        writer = get_writer_for(filename, format=kwargs.get("format"), multiframe=True)
        # DCD does not store times, only the time between frames
        if issubclass(writer, DCDWriter):
            kwargs.setdefault("dt", self.dt)
        return mda_core.writer(filename, n_atoms=self.n_atoms if n_atoms is None else n_atoms, **kwargs)


class _AnnouncedFrames(FrameIteratorIndices):  # type: ignore[misc]
    """Frames of a list, announced before they are read."""

    def __iter__(self) -> Iterator[Any]:
        self.trajectory._read_ahead().expect(self.frames)
        yield from super().__iter__()

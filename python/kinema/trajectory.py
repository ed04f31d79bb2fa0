"""`Trajectory`: files as one sequence of frames, to be read whole, in blocks or frame by frame.

`kinema.opening` makes it. The frame index is stored by the Rust half; nothing else is written.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kinema import _core
from kinema.errors import ArgumentError
from kinema.following.patterns import GivenFiles
from kinema.formats import h5md
from kinema.frame import (
    VECTOR_FIELDS,
    WORKING_MEMORY,
    Block,
    Frame,
    Gap,
    Part,
    block_length,
    check_out,
    float_name,
    frame_bytes,
    notes_of,
)
from kinema.notes import emit
from kinema.prefetch import prefetched
from kinema.progress import ProgressChoice, reporting
from kinema.resources import parse_memory, worker_count
from kinema.selection import atoms as selection
from kinema.selection.atom_table import Atoms
from kinema.selection.atoms import AtomChoice, Selection
from kinema.selection.frames import FrameChoice, FrameSelection, resolve, resolve_run
from kinema.selection.gromacs_index import group_of_file
from kinema.selection.topology import Topology
from kinema.snapshot import TrajectorySnapshot, opened_again
from kinema.timings import Timings
from kinema.transforms.base import Transform, check_not_last

if TYPE_CHECKING:
    from kinema.following import Following, FollowOptions
    from kinema.formats.h5md.read.observables import Observable

__all__ = ["UNITS", "Trajectory"]

# of everything that `read`, `blocks` and frames give, whatever the file's own units are
UNITS: Mapping[str, str] = MappingProxyType(
    {"length": "angstrom", "time": "ps", "velocity": "angstrom/ps", "force": "kJ/(mol*angstrom)"}
)
_ITERATION_MEMORY = 32 << 20


class Trajectory:
    """A sequence of frames, or of some of them: slicing gives another Trajectory over the same files.

    Made by `kinema.open`. Frames are found when their number is first needed. Lengths are in angstrom, times in ps. It
    can be pickled, also a view; the other process must see the files under the same paths.
    """

    def __init__(
        self,
        core: _core.Trajectory,
        topology: Topology | None = None,
        view: FrameSelection | None = None,
        *,
        hdf5: h5md.H5mdOptions | None = None,
        opening: dict[str, float] | None = None,
        stated: Mapping[str, str] | None = None,
        given: GivenFiles | None = None,
    ) -> None:
        self._core = core
        # names and patterns, as the files were opened
        self._given = GivenFiles(tuple(core.paths)) if given is None else given
        # shared by all views
        self._opening = {} if opening is None else opening
        self._timings: Timings | None = None
        self._hdf5 = hdf5
        self._stated = {} if stated is None else dict(stated)
        self._topology = topology
        self._view = view
        self._topology_fits = False

    def snapshot(self) -> bytes:
        """The topology, which is read now, and the options of HDF5 files, serialized for other processes.

        With the snapshot of the core (`_core.Trajectory.pack`) `from_snapshot` makes the same trajectory and opens no
        file.
        """
        topology = None if self._topology is None else self._topology.snapshot()
        return pickle.dumps((topology, self._hdf5, self._stated), protocol=pickle.HIGHEST_PROTOCOL)

    @classmethod
    def from_snapshot(cls, core: _core.Trajectory, snapshot: bytes) -> Trajectory:
        """The trajectory of a `snapshot`; `core` is made of the same process's snapshot of the files."""
        topology, hdf5, stated = pickle.loads(snapshot)
        return cls(core, None if topology is None else Topology(topology), hdf5=hdf5, stated=stated)

    def with_core(self, core: _core.Trajectory) -> Trajectory:
        """The same frames and topology by another Rust half, which is one of the same files; for data sets."""
        return self._with(core, self._view)

    def __reduce__(self) -> tuple[Any, ...]:
        """Paths and options, with headers and indices as they are known here: frames are found before, if need be.

        Unpickling opens no file. A file is checked against its identity when it is first read: CorruptFileError or
        TruncatedFileError for one that has changed, or is another one on that machine.
        """
        self.scan()
        snapshot, data = TrajectorySnapshot.of(self._core, absolute=True)
        return _unpickled, (snapshot, data, self._topology, self._view, self._hdf5, self._stated)

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def n_atoms(self) -> int:
        """Number of atoms in every frame."""
        return self._core.n_atoms

    @property
    def n_frames(self) -> int:
        """Number of frames; finds all frames of all files if that has not been done."""
        self.scan()
        return self._core.n_frames if self._view is None else len(self._view)

    def __len__(self) -> int:
        return self.n_frames

    @property
    def fields(self) -> tuple[str, ...]:
        """What the files hold for each frame: "positions", "cell", "step", "time", ..."""
        return tuple(self._core.fields)

    @property
    def format(self) -> str:
        """The first file's format: "XTC"."""
        return self._core.format

    @property
    def units(self) -> Mapping[str, str]:
        """Units of the arrays that Kinema gives; the same for every format."""
        return UNITS

    @property
    def stated(self) -> Mapping[str, str]:
        """What was stated of the files when they were opened, by argument: `units`, `dt`, `particles`, ..."""
        return MappingProxyType(self._stated)

    @property
    def hdf5(self) -> h5md.H5mdOptions | None:
        """How HDF5 files are understood; None for other formats."""
        return self._hdf5

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, in order."""
        return tuple(self._core.paths)

    @property
    def core(self) -> _core.Trajectory:
        """The Rust half, shared by all views of the same files; for runners."""
        return self._core

    @property
    def frame_numbers(self) -> NDArray[np.uint64]:
        """(frames,) numbers of this view's frames in the whole trajectory."""
        return self._frames(None).numbers()

    @property
    def times(self) -> NDArray[np.float64]:
        """(frames,) in ps; from the index, or read from the frames where a format's index has none."""
        known = self._core.times()
        return self._read_stamps()["times"] if known is None else self._of_view(known)

    @property
    def steps(self) -> NDArray[np.int64]:
        """(frames,) numbers of the simulation's steps; from the index, or read where a format's index has none."""
        known = self._core.steps()
        return self._read_stamps()["steps"] if known is None else self._of_view(known)

    @property
    def dt(self) -> float | None:
        """Time between the first two frames in ps; None where there are fewer than two."""
        if self.n_frames < 2:
            return None
        pair = self[:2]
        # not of all frames, of which a file with holes may have any number
        first, second = (self._core.time(frame) for frame in pair.frame_numbers.tolist())
        if first is None or second is None:
            first, second = pair._read_stamps()["times"].tolist()
        return second - first

    @property
    def parts(self) -> tuple[Part, ...]:
        """The files of the whole trajectory with what is kept of each; also of a view."""
        self.scan()
        return tuple(Part.of(info) for info in self._core.parts())

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Where a file begins later than one frame after its predecessor's end, or before that."""
        self.scan()
        return tuple(Gap.of(info) for info in self._core.gaps())

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user of the frames should know: odd files, frames left out or replaced by another part's, gaps.

        Each is also a warning of class `kinema.Note` when the frames have been found.
        """
        return notes_of(self.parts, self.gaps)

    @property
    def topology(self) -> Topology | None:
        """The topology, with its atom count checked; None if there is none.

        Raises ArgumentError where it has another number of atoms.
        """
        if self._topology is not None and not self._topology_fits:
            n_atoms = self._topology.n_atoms
            if n_atoms != self.n_atoms:
                raise ArgumentError(
                    f"topology {self._topology.name} has {n_atoms} atoms, but trajectory {self.paths[0]} has "
                    f"{self.n_atoms}; give the topology of the system that was written"
                )
            self._topology_fits = True
        return self._topology

    @property
    def atoms(self) -> Atoms:
        """What is known of the atoms: of the topology, or what an HDF5 file says itself. It is read now.

            traj.atoms.masses, traj.atoms[traj.select("name CA")].resnames

        Also of a view. Raises ArgumentError where nothing is known, and where the topology has another number of atoms.
        """
        topology = self.topology
        if topology is None:
            raise ArgumentError(
                f"{self.paths[0]}: nothing is known of its atoms (names, masses, ...); open it with topology= (-s)"
            )
        return topology.atoms

    @property
    def topology_name(self) -> str | None:
        """Name of the topology without reading it."""
        return None if self._topology is None else self._topology.name

    @property
    def observables(self) -> Mapping[str, Observable]:
        """Energies and whatever else an H5MD file records beside its particles, by name, with steps of their own.

            traj.observables["potential_energy"].read()

        Empty for other formats. They are those of the whole file, also of a view. Their times are shifted as those of
        the frames; `dt=` is about frames alone, and a note says so. Raises ArgumentError for a trajectory of several
        files.
        """
        if self._hdf5 is None:
            return MappingProxyType({})
        if len(self.paths) > 1:
            raise ArgumentError(
                f"the trajectory has {len(self.paths)} files, each with observables of its own; open the one that is "
                "meant by itself"
            )
        stated = self._stated.keys()
        shift = self._core.time_shift() if stated & {"time_offset", "t0"} else 0.0
        return h5md.observables_of(self.paths[0], self._hdf5, time_shift=shift, unlike_frames="dt" in stated)

    def refresh(self) -> int:
        """Scans for frames that were appended to the files since they were opened, and returns the number of frames.

        For files that a simulation is still writing. Views made before have the frames that they had.

        Raises ArgumentError for a view.
        """
        if self._view is not None:
            raise ArgumentError("a view of some frames cannot be refreshed; refresh the trajectory that it is of")
        before = self.notes if self._core.scanned else ()
        self.refresh_as(self._given.checked())
        emit(note for note in self.notes if note not in before)
        return self._core.n_frames

    def refresh_as(self, paths: Sequence[str] | None = None, *, settled: bool = False, finished: bool = False) -> None:
        """As `refresh`, without notes, with these files: parts that are known and unchanged are not opened.

        Whatever may still be written is left out, with less caution where the files are `settled`, as they have stood
        still for long, and with none where they are `finished`: then they are opened as by `open`.
        """
        self._core = opened_again(self._core, paths, settled=settled, finished=finished)

    def follow(
        self, until: int | str | None = None, timeout: float | None = None, **options: Unpack[FollowOptions]
    ) -> Following:
        """Gives the frames of files that are being written, as they are completed; `refresh` is called in between.

            for frame in kn.open("md.part*.xtc").follow(until="100 ns", timeout=600): ...

        A frame is given once all of its bytes are there: nothing was written for half of `poll`, or the next frame has
        been begun. Files that fit a pattern that was opened are added as they appear.

        Parameters
        ----------
        until : int or str, optional
            A number of frames, or a time with its unit, "100 ns": the frame at that time is the last.
        timeout : float, optional
            Seconds in which nothing is written, after which it ends, with a note; None: it waits for ever.
        **options
            `over`, `select`, `fields`, `dtype`, `memory`, `workers`, `on_rewind`, `poll`, `end`, `events`, as
            `kinema.following.FollowOptions` has them.

        Raises
        ------
        RewoundError, CorruptFileError, ArgumentError (also for a view, and for transforms that see other frames first,
        as `nojump`); others as `refresh` and `blocks`.
        """
        if self._view is not None:
            raise ArgumentError("a view of some frames cannot be followed; follow the trajectory that it is of")
        for transform in self._core.transforms:
            if transform.looks_back:
                raise ArgumentError(
                    f"{transform.label} is made by a pass over all frames, so that it cannot follow frames that are "
                    "still coming; leave it out, or run when all are there"
                )
        from kinema.following import Following

        return Following(self, self._given, until, timeout, {"fields": self._vector_fields(), **options})

    def scan(
        self,
        *,
        workers: int | None = None,
        progress: ProgressChoice = False,
        search: Callable[[_core.Trajectory], None] | None = None,
        skip_damaged: bool = False,
    ) -> None:
        """Finds all frames of all files now; does nothing when that is done.

        `search` is called first: a parallel scan, as by the ranks of MPI. All of it is timed. With `skip_damaged` bytes
        of an XTC file in which no frame header can be found are no error: they count as one frame, which cannot be
        read, has no time and the step of the frame before it, and is in a note and in `damaged` of `parts`.
        """
        if self._core.scanned:
            return
        began = time.perf_counter()
        if search is not None:
            search(self._core)
        total = sum(os.path.getsize(path) for path in self.paths if os.path.exists(path))
        with reporting(progress, "finding frames", total, "bytes") as report:
            self._core.scan(worker_count(workers), report, skip_damaged)
        self._opening["frames"] = time.perf_counter() - began
        emit(self.notes)

    def store_atom_checkpoints(
        self, *, workers: int | None = None, progress: ProgressChoice = False
    ) -> list[tuple[str, int, str | None] | None]:
        """Reads all frames and stores checkpoints of every 4096th atom, in the user's cache folder.

        XTC files that are opened afterwards start decoding there, so that atoms at the end of a large system are read
        without what is before them; a checkpoint takes 8 bytes. Returns path, number of checkpoints and note for each
        file, None for one that has no use for them. ArgumentError where the trajectory was opened with stored=False.
        """
        self.scan(workers=workers)
        total = sum(part.size for part in self.parts)
        with reporting(progress, "making atom checkpoints", total, "bytes") as report:
            return _core.store_atom_checkpoints(self._core, workers=worker_count(workers), progress=report)

    @property
    def opening(self) -> Mapping[str, float]:
        """Seconds of opening: "topology", "trajectory" (headers), "frames" (finding them)."""
        read = 0.0 if self._topology is None else self._topology.seconds
        return MappingProxyType({"topology": read, "trajectory": 0.0, "frames": 0.0} | self._opening)

    @property
    def timings(self) -> Timings | None:
        """Where the time of the last `read`, or of the last loop over frames or `blocks` that has ended, went.

        As the timings of a run; "compute" is putting atoms into the order asked for. None before the first.
        """
        return self._timings

    def __repr__(self) -> str:
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        known = self._view is not None or self._core.scanned
        number = f"{self.n_frames} frames of " if known else ""
        changed = f", {', '.join(self.transforms)}" if self.transforms else ""
        return f"<Trajectory {self.paths[0]}{more}: {self.format}, {number}{self.n_atoms} atoms{changed}>"

    # -- atoms --------------------------------------------------------------------------------------------------

    def select(
        self,
        select: AtomChoice = None,
        *,
        index_file: str | os.PathLike[str] | None = None,
        group: str | None = None,
    ) -> Selection:
        """The atoms that `select` names, or a group of a GROMACS index file.

        Parameters
        ----------
        select : str, AtomGroup, indices, mask, Selection or None
            A selection string in MDAnalysis' language; indices from 0 in any order; a boolean mask; None: all.
        index_file : path, optional
            A GROMACS index file (.ndx), instead of `select`.
        group : str, optional
            Name of its group; may be left out where the file has only one.

        Raises
        ------
        ArgumentError
            For no atoms at all, for negative indices, for a string without a topology, and for a selection that
            changes with the frame ("around 5 protein").
        OutOfRangeError
            For an atom beyond the trajectory.
        """
        if index_file is not None or group is not None:
            check_not_last("a group of an index file, which names atoms,", self)
            return group_of_file(select, index_file, group, self.n_atoms)
        # a string (but for "all") needs the topology; nothing else reads it
        needs_topology = isinstance(select, str) and select.strip() != "all"
        return selection.resolve(select, self.n_atoms, self.topology if needs_topology else None)

    # -- frames -------------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, key: int) -> Frame: ...
    @overload
    def __getitem__(
        self, key: FrameSelection | slice | range | Sequence[int] | Sequence[bool] | NDArray[Any]
    ) -> Trajectory: ...
    def __getitem__(self, key: Any) -> Frame | Trajectory:
        """`traj[i]` is a Frame; slices, lists, arrays and masks give a Trajectory of those frames."""
        if isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.bool_)):
            fields = self._vector_fields()
            whole = self._core.read(self._frames(int(key)), fields=fields, workers=1, mark_absent=True)
            return Block.from_arrays(whole, fields)[0]
        if isinstance(key, (slice, range, Sequence, np.ndarray, FrameSelection)) and not isinstance(key, (str, bytes)):
            return self._with(self._core, self._frames(key))
        raise ArgumentError(f"frames are chosen by number, slice, list or mask, found {type(key).__name__}")

    def __iter__(self) -> Iterator[Frame]:
        """Frame by frame, in order; blocks of frames are read at a time."""
        names = self._vector_fields()
        least = 2 * WORKING_MEMORY + 8 * frame_bytes(self.n_atoms, max(1, len(names)), 4)
        if self._core.transforms:
            # the reader has a quarter, where transforms may need room for frames of all atoms
            all_atoms = self._core.with_transforms([]).n_atoms
            least = max(least, 4 * WORKING_MEMORY + 16 * frame_bytes(all_atoms, max(1, len(names)), 4))
        for block in self.blocks(memory=max(_ITERATION_MEMORY, least), fields=names):
            yield from block

    @overload
    def read(
        self,
        frames: FrameChoice = None,
        select: AtomChoice = None,
        fields: str = "positions",
        *,
        dtype: DTypeLike = "float32",
        out: NDArray[Any] | None = None,
        workers: int | None = None,
        memory: int | str | None = None,
    ) -> NDArray[Any]: ...
    @overload
    def read(
        self,
        frames: FrameChoice = None,
        select: AtomChoice = None,
        *,
        fields: list[str] | tuple[str, ...],
        dtype: DTypeLike = "float32",
        out: NDArray[Any] | None = None,
        workers: int | None = None,
        memory: int | str | None = None,
    ) -> dict[str, NDArray[Any]]: ...
    def read(
        self,
        frames: FrameChoice = None,
        select: AtomChoice = None,
        fields: str | Sequence[str] = "positions",
        *,
        dtype: DTypeLike = "float32",
        out: NDArray[Any] | None = None,
        workers: int | None = None,
        memory: int | str | None = None,
    ) -> NDArray[Any] | dict[str, NDArray[Any]]:
        """Reads frames into memory.

        Parameters
        ----------
        frames : slice, range, int, list, array, mask or None
            Which frames, in any order; None: all.
        select : as `Trajectory.select`
            Which atoms, in any order; None: all.
        fields : str or list of str
            "positions", "velocities", "forces". One name gives an array; a list gives a dict that also holds "cells"
            (frames, 3, 3) float64, "periodic" (frames, 3), which of their edges repeat, "steps", "times" and "frames"
            (frames,), and "present" (frames,), a structured array: `["present"]["velocities"]` says which frames have
            velocities. What rows of others hold says `absent=` of `kinema.open`: an error by default, NaN, or earlier
            values.
        dtype : float32 or float64
        out : array, optional
            C-contiguous, (frames, atoms, 3) of `dtype`; filled and returned for the first field.
        workers : int, optional
            Threads; by default as many as this process may use.
        memory : int or str, optional
            Limit of working memory besides the result, "64 MiB".

        Returns
        -------
        (frames, atoms, 3) array in angstrom (angstrom/ps, kJ/(mol angstrom)), or a dict of arrays.

        Raises
        ------
        OutOfRangeError, ArgumentError, CorruptFileError, TruncatedFileError, MemoryLimitError
        """
        names = (fields,) if isinstance(fields, str) else tuple(fields)
        self.check_fields(names)
        chosen = self._frames(frames)
        atoms = self._atoms(select)
        kind = float_name(dtype)
        if out is not None:
            n_atoms = self.n_atoms if atoms is None else len(atoms)
            check_out(out, (len(chosen), n_atoms, 3), kind)
        found: list[_core.RunTimings] = []
        arrays = self._core.read(
            chosen,
            atoms=atoms,
            fields=names,
            dtype=kind,
            out=out,
            workers=worker_count(workers),
            memory=0 if memory is None else parse_memory(memory),
            timings=found,
        )
        self._timings = Timings.of_reads(found, opening=self.opening)
        return arrays[fields] if isinstance(fields, str) else arrays

    def blocks(
        self,
        memory: int | str = "64 MiB",
        select: AtomChoice = None,
        frames: FrameChoice = None,
        fields: str | Sequence[str] = "positions",
        *,
        dtype: DTypeLike = "float32",
        workers: int | None = None,
    ) -> Iterator[Block]:
        """Yields the frames in blocks that stay within `memory`; every block has arrays of its own.

        The next block is read while the caller works with one. `memory` covers three blocks and the reader's working
        memory; blocks that are much larger than the processor's caches are read more slowly. The other arguments are
        those of `read`. Raises MemoryLimitError where not even one frame fits.
        """
        names = (fields,) if isinstance(fields, str) else tuple(fields)
        self.check_fields(names)
        kind = float_name(dtype)
        chosen, atoms = self._frames(frames), self._atoms(select)
        n_atoms = self.n_atoms if atoms is None else len(atoms)
        item_bytes = 4 if kind == "float32" else 8
        length, working = block_length(parse_memory(memory), n_atoms, len(names), item_bytes, path=self.paths[0])
        # a generator of its own, so that arguments are checked at the call and not at the first block
        return self._blocks(chosen, length, atoms, names, kind, worker_count(workers), working)

    def _blocks(
        self,
        chosen: FrameSelection,
        length: int,
        atoms: NDArray[np.uint32] | None,
        names: tuple[str, ...],
        kind: str,
        workers: int,
        memory: int,
    ) -> Iterator[Block]:
        found: list[_core.RunTimings] = []

        def read(run: FrameSelection) -> Block:
            arrays = self._core.read(
                run,
                atoms=atoms,
                fields=names,
                dtype=kind,
                workers=workers,
                memory=memory,
                mark_absent=True,
                timings=found,
            )
            return Block.from_arrays(arrays, names)

        try:
            yield from prefetched(read, chosen.split(length))
        finally:
            self._timings = Timings.of_reads(found, opening=self.opening)

    # -- transforms ---------------------------------------------------------------------------------------------

    def with_transform(self, *transforms: Transform | Callable[[Frame], Frame]) -> Trajectory:
        """A trajectory of the same frames of the same files, each changed by these transforms, in this order.

            aligned = traj.with_transform(kn.transforms.superpose("name CA"))

        They come behind those that the trajectory has. Whatever reads the frames gets them changed: analyses, `read`,
        `blocks`, loops over frames, data sets, `convert`, MDAnalysis.

        Parameters
        ----------
        *transforms : kinema.transforms.Transform or callable
            A function of a `Frame` stands for `kinema.transforms.function` of it.

        Raises
        ------
        ArgumentError
            Where one cannot be applied to this trajectory.
        """
        made = self
        for transform in transforms:
            if not isinstance(transform, Transform):
                # with what sends code to workers
                from kinema.transforms.functions import function

                transform = function(transform)
            check_not_last(transform.name, made)
            made = transform.prepared(made)
            bound, topology = transform.bind_with_topology(made)
            made = made._with(made._core.with_transforms([*made._core.transforms, bound]), made._view)
            if topology is not None:
                made._topology, made._topology_fits = topology, False
        return made

    @property
    def transforms(self) -> tuple[str, ...]:
        """What is done to each frame, in words; empty where frames are those of the files."""
        return tuple(transform.label for transform in self._core.transforms)

    # -- inside -------------------------------------------------------------------------------------------------

    def read_otherwise(self, core: _core.Trajectory, hdf5: h5md.H5mdOptions | None) -> Trajectory:
        """The same frames behind the same transforms, of the same files, opened anew with other options."""
        made = self._with(core.with_transforms([*self._core.transforms]), self._view)
        made._hdf5 = hdf5
        return made

    def of_all_frames(self) -> Trajectory:
        """The trajectory that this is a view of."""
        return self._with(self._core, None)

    def _with(self, core: _core.Trajectory, view: FrameSelection | None) -> Trajectory:
        own: dict[str, Any] = {"hdf5": self._hdf5, "opening": self._opening, "stated": self._stated}
        made = Trajectory(core, self._topology, view, given=self._given, **own)
        made._topology_fits = self._topology_fits
        return made

    def _frames(self, choice: FrameChoice) -> FrameSelection:
        """What `choice` names within this view, in numbers of the whole trajectory."""
        inner = resolve(choice, self.n_frames)
        return inner if self._view is None else self._view.compose(inner)

    def choose(
        self, start: int | None = None, stop: int | None = None, step: int | None = None, frames: FrameChoice = None
    ) -> FrameSelection:
        """The frames that the arguments of an analysis' `run` name, in numbers of the whole trajectory.

        Raises ArgumentError for none at all, or for both `frames` and one of the others.
        """
        inner = resolve_run(start, stop, step, frames, self.n_frames)
        return inner if self._view is None else self._view.compose(inner)

    def same_frames(self, other: Trajectory) -> bool:
        """Whether both are the same frames of the same opened files, with the same transforms."""
        return self._core.is_same(other._core) and self._frames(None) == other._frames(None)

    def _atoms(self, select: AtomChoice) -> NDArray[np.uint32] | None:
        return None if select is None else self.select(select).indices

    def _of_view(self, values: NDArray[Any]) -> NDArray[Any]:
        return values if self._view is None else values[self._view.numbers()]

    def _read_stamps(self) -> dict[str, NDArray[Any]]:
        # no transform changes them
        stored, first_atom = self._core.with_transforms([]), np.zeros(1, dtype=np.uint32)
        return stored.read(
            self._frames(None), atoms=first_atom, fields=("positions",), workers=worker_count(None), mark_absent=True
        )

    def _vector_fields(self) -> tuple[str, ...]:
        return tuple(name for name in VECTOR_FIELDS if name in self._core.fields)

    def check_fields(self, names: tuple[str, ...]) -> None:
        """Raises ArgumentError unless all of `names` are vectors that the files hold."""
        if not names:
            raise ArgumentError("fields names nothing to read; give 'positions'")
        for name in names:
            if name not in VECTOR_FIELDS:
                raise ArgumentError(f"field {name!r} is none of {', '.join(VECTOR_FIELDS)}")
            if name not in self._core.fields:
                raise ArgumentError(f"{self.paths[0]}: has no {name}; it holds {', '.join(self.fields)}")


def _unpickled(
    snapshot: TrajectorySnapshot,
    data: NDArray[np.uint8],
    topology: Topology | None,
    view: FrameSelection | None,
    hdf5: h5md.H5mdOptions | None,
    stated: Mapping[str, str],
) -> Trajectory:
    return Trajectory(snapshot.open(data), topology, view, hdf5=hdf5, stated=stated)

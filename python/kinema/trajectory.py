"""`Trajectory`: files as one sequence of frames, to be read whole, in blocks or frame by frame.

It opens nothing (see `kinema.opening`), analyses nothing and writes nothing but the frame index, which the Rust half
keeps.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields as dataclass_fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kinema import _core, h5md, selection
from kinema.blocks import (
    VECTOR_FIELDS,
    WORKING_MEMORY,
    Block,
    Frame,
    Gap,
    Part,
    check_out,
    float_name,
    frame_bytes,
)
from kinema.errors import ArgumentError, MemoryLimitError
from kinema.frames import FrameChoice, ResolvedFrames, choose, compose, count, numbers, resolve, split
from kinema.index_file import read_group
from kinema.progress import ProgressChoice, reporting
from kinema.resources import parse_memory, worker_count
from kinema.selection import AtomChoice, Selection
from kinema.topology import ToldTopology, Topology

if TYPE_CHECKING:
    from kinema.h5md.observables import Observable

__all__ = ["UNITS", "Trajectory"]

# of everything that `read`, `blocks` and frames give, whatever the file's own units are
UNITS: Mapping[str, str] = MappingProxyType(
    {"length": "angstrom", "time": "ps", "velocity": "angstrom/ps", "force": "kJ/(mol*angstrom)"}
)
_ITERATION_MEMORY = 32 << 20


class Trajectory:
    """A sequence of frames, or of some of them: slicing gives another Trajectory over the same files.

    Made by `kinema.open`. Frames are found when their number is first needed. Lengths are in angstrom, times in ps.
    """

    def __init__(
        self,
        core: _core.Trajectory,
        topology: Topology | None = None,
        view: ResolvedFrames | None = None,
        *,
        hdf5: h5md.H5mdOptions | None = None,
        opening: dict[str, float] | None = None,
    ) -> None:
        self._core = core
        # shared by all views
        self._opening = {} if opening is None else opening
        self._hdf5 = hdf5
        self._topology = topology
        self._view = view
        self._topology_fits = False

    def told(self) -> bytes:
        """For processes that are to touch no file but those they read: the topology, which is read now, and options.

        With them and what the core knows of the files (`_core.Trajectory.pack`) `of_told` makes the same trajectory.
        """
        topology = None if self._topology is None else ToldTopology.of(self._topology)
        return pickle.dumps((topology, self._hdf5), protocol=pickle.HIGHEST_PROTOCOL)

    @classmethod
    def of_told(cls, core: _core.Trajectory, told: bytes) -> Trajectory:
        """What `told` tells of, over files that the core was told of as well."""
        topology, hdf5 = pickle.loads(told)
        return cls(core, None if topology is None else Topology(topology), hdf5=hdf5)

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def n_atoms(self) -> int:
        """Number of atoms in every frame."""
        return self._core.n_atoms

    @property
    def n_frames(self) -> int:
        """Number of frames; finds all frames of all files if that has not been done."""
        self.scan()
        return self._core.n_frames if self._view is None else count(self._view)

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
        return numbers(self._frames(None))

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
        first, second = self[:2].times
        return float(second - first)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The files of the whole trajectory with what is kept of each; also of a view."""
        self.scan()
        return tuple(Part(**_only(Part, info)) for info in self._core.parts())

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Where a file begins later than one frame after its predecessor's end."""
        self.scan()
        return tuple(Gap(**_only(Gap, info)) for info in self._core.gaps())

    @property
    def topology(self) -> Topology | None:
        """The topology, with its atom count checked; None if there is none.

        Raises ArgumentError where it has another number of atoms.
        """
        if self._topology is not None and not self._topology_fits:
            found = self._topology.n_atoms
            if found != self.n_atoms:
                raise ArgumentError(
                    f"topology {self._topology.name} has {found} atoms, but trajectory {self.paths[0]} has "
                    f"{self.n_atoms}; give the topology of the system that was written"
                )
            self._topology_fits = True
        return self._topology

    @property
    def topology_name(self) -> str | None:
        """Name of the topology without reading it."""
        return None if self._topology is None else self._topology.name

    @property
    def observables(self) -> Mapping[str, Observable]:
        """Energies and whatever else an H5MD file records beside its particles, by name, with steps of their own.

            traj.observables["potential_energy"].read()

        Empty for other formats. They are those of the whole file, also of a view. Raises ArgumentError for a
        trajectory of several files.
        """
        if self._hdf5 is None:
            return MappingProxyType({})
        if len(self.paths) > 1:
            raise ArgumentError(
                f"the trajectory has {len(self.paths)} files, each with observables of its own; open the one that is "
                "meant by itself"
            )
        return h5md.observables_of(self.paths[0], self._hdf5)

    def refresh(self) -> int:
        """Looks for frames that were appended to the files since they were opened, and gives the number of frames.

        For files that a simulation is still writing. Views made before keep the frames that they had.

        Raises ArgumentError for a view.
        """
        if self._view is not None:
            raise ArgumentError("a view of some frames cannot be refreshed; refresh the trajectory that it is of")
        core = _core.Trajectory(**self._core.recipe())
        core.scan()
        self._core = core
        return core.n_frames

    def scan(
        self,
        *,
        workers: int | None = None,
        progress: ProgressChoice = False,
        search: Callable[[_core.Trajectory], None] | None = None,
    ) -> None:
        """Finds all frames of all files now; does nothing when that is done.

        `search` goes first: it may find frames in another way, as the ranks of MPI do together. All of it is timed.
        """
        if self._core.scanned:
            return
        began = time.perf_counter()
        if search is not None:
            search(self._core)
        total = sum(os.path.getsize(path) for path in self.paths if os.path.exists(path))
        with reporting(progress, "finding frames", total, "bytes") as report:
            self._core.scan(worker_count(workers), report)
        self._opening["frames"] = time.perf_counter() - began

    @property
    def opening(self) -> Mapping[str, float]:
        """Seconds of what is done once: "topology", "trajectory" (headers), "frames" (finding them)."""
        read = 0.0 if self._topology is None else self._topology.seconds
        return MappingProxyType({"topology": read, "trajectory": 0.0, "frames": 0.0} | self._opening)

    def __repr__(self) -> str:
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        known = self._view is not None or self._core.scanned
        number = f"{self.n_frames} frames of " if known else ""
        return f"<Trajectory {self.paths[0]}{more}: {self.format}, {number}{self.n_atoms} atoms>"

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
        if index_file is not None:
            if select is not None:
                raise ArgumentError("select and index_file cannot be combined; give one of them")
            name, atoms = read_group(index_file, group)
            return selection.from_indices(atoms, self.n_atoms, f"group {name!r} of {os.fspath(index_file)}")
        if group is not None:
            raise ArgumentError("group names a group of an index file; give index_file as well")
        # a string (but for "all") needs the topology; nothing else reads it
        needs_topology = isinstance(select, str) and select.strip() != "all"
        return selection.resolve(select, self.n_atoms, self.topology if needs_topology else None)

    # -- frames -------------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, key: int) -> Frame: ...
    @overload
    def __getitem__(self, key: slice | range | Sequence[int] | Sequence[bool] | NDArray[Any]) -> Trajectory: ...
    def __getitem__(self, key: Any) -> Frame | Trajectory:
        """`traj[i]` is a Frame; slices, lists, arrays and masks give a Trajectory of those frames."""
        if isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.bool_)):
            fields = self._vector_fields()
            whole = self._core.read(self._frames(int(key)), fields=fields, workers=1)
            return Block.from_arrays(whole, fields)[0]
        if isinstance(key, (slice, range, Sequence, np.ndarray)) and not isinstance(key, (str, bytes)):
            view = Trajectory(self._core, self._topology, self._frames(key), hdf5=self._hdf5, opening=self._opening)
            view._topology_fits = self._topology_fits
            return view
        raise ArgumentError(f"frames are chosen by number, slice, list or mask, found {type(key).__name__}")

    def __iter__(self) -> Iterator[Frame]:
        """Frame by frame, in order; blocks of frames are read at a time."""
        for block in self.blocks(memory=self._iteration_memory(), fields=self._vector_fields()):
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
            (frames, 3, 3), "steps", "times" and "frames" (frames,).
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
        self._check_fields(names)
        chosen = self._frames(frames)
        atoms = self._atoms(select)
        kind = float_name(dtype)
        if out is not None:
            n_atoms = self.n_atoms if atoms is None else len(atoms)
            check_out(out, (count(chosen), n_atoms, 3), kind)
        found = self._core.read(
            chosen,
            atoms=atoms,
            fields=names,
            dtype=kind,
            out=out,
            workers=worker_count(workers),
            memory=0 if memory is None else parse_memory(memory),
        )
        return found[fields] if isinstance(fields, str) else found

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
        """Yields the frames in blocks that keep within `memory`; every block has arrays of its own.

        `memory` covers the block in use, the next one while it is read, and the reader's working memory; blocks that
        are much larger than the processor's caches are read more slowly. The other arguments are those of `read`.
        Raises MemoryLimitError where not even one frame fits.
        """
        names = (fields,) if isinstance(fields, str) else tuple(fields)
        self._check_fields(names)
        kind = float_name(dtype)
        chosen, atoms = self._frames(frames), self._atoms(select)
        n_atoms = self.n_atoms if atoms is None else len(atoms)
        needed = frame_bytes(n_atoms, len(names), 4 if kind == "float32" else 8)
        limit = parse_memory(memory)
        # two blocks are alive while the next one is read
        working = max(limit // 3, WORKING_MEMORY + needed)
        length = (limit - working) // 2 // needed
        if length < 1:
            raise MemoryLimitError(
                f"blocks of one frame of {n_atoms} atoms need {3 * needed + WORKING_MEMORY} bytes, memory allows "
                f"{limit}; raise memory= or select fewer atoms"
            )
        # arguments are checked above, at the call; a generator would check them at the first block
        return self._blocks(chosen, length, atoms, names, kind, worker_count(workers), working)

    def _blocks(
        self,
        chosen: ResolvedFrames,
        length: int,
        atoms: NDArray[np.uint32] | None,
        names: tuple[str, ...],
        kind: str,
        workers: int,
        memory: int,
    ) -> Iterator[Block]:
        for run in split(chosen, length):
            found = self._core.read(run, atoms=atoms, fields=names, dtype=kind, workers=workers, memory=memory)
            yield Block.from_arrays(found, names)

    # -- inside -------------------------------------------------------------------------------------------------

    def _frames(self, choice: FrameChoice) -> ResolvedFrames:
        """What `choice` names within this view, in numbers of the whole trajectory."""
        inner = resolve(choice, self.n_frames)
        return inner if self._view is None else compose(self._view, inner)

    def choose(
        self, start: int | None = None, stop: int | None = None, step: int | None = None, frames: FrameChoice = None
    ) -> ResolvedFrames:
        """The frames that the arguments of an analysis' `run` name, in numbers of the whole trajectory.

        Raises ArgumentError for none at all, or for both `frames` and one of the others.
        """
        inner = choose(start, stop, step, frames, self.n_frames)
        return inner if self._view is None else compose(self._view, inner)

    def same_frames(self, other: Trajectory) -> bool:
        """Whether both are the same frames of the same opened files."""
        if self._core is not other._core:
            return False
        return bool(np.array_equal(self.frame_numbers, other.frame_numbers))

    def _atoms(self, select: AtomChoice) -> NDArray[np.uint32] | None:
        return None if select is None else self.select(select).indices

    def _of_view(self, values: NDArray[Any]) -> NDArray[Any]:
        return values if self._view is None else values[numbers(self._view).astype(np.int64)]

    def _read_stamps(self) -> dict[str, NDArray[Any]]:
        first_atom = np.zeros(1, dtype=np.uint32)
        return self._core.read(self._frames(None), atoms=first_atom, fields=("positions",), workers=worker_count(None))

    def _vector_fields(self) -> tuple[str, ...]:
        return tuple(name for name in VECTOR_FIELDS if name in self._core.fields)

    def _check_fields(self, names: tuple[str, ...]) -> None:
        if not names:
            raise ArgumentError("fields names nothing to read; give 'positions'")
        for name in names:
            if name not in VECTOR_FIELDS:
                raise ArgumentError(f"field {name!r} is none of {', '.join(VECTOR_FIELDS)}")
            if name not in self._core.fields:
                raise ArgumentError(f"{self.paths[0]}: has no {name}; it holds {', '.join(self.fields)}")

    def _iteration_memory(self) -> int:
        needed = frame_bytes(self.n_atoms, max(1, len(self._vector_fields())), 4)
        return max(_ITERATION_MEMORY, 2 * WORKING_MEMORY + 6 * needed)


def _only(cls: type, info: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: info[field.name] for field in dataclass_fields(cls)}

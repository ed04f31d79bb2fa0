"""`TrajectoryReading`: chooses frames and atoms of a trajectory, and reads them whole, in blocks or frame by frame."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Self, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.base.prefetch import prefetched
from kinema.base.resources import parse_memory, worker_count
from kinema.base.timings import Timings
from kinema.model.frame import (
    VECTOR_FIELDS,
    WORKING_MEMORY,
    Block,
    Frame,
    block_length,
    check_out,
    float_name,
    frame_bytes,
)
from kinema.model.selection import atoms as selection
from kinema.model.selection.atoms import AtomChoice, Selection
from kinema.model.selection.frames import FrameChoice, FrameSelection
from kinema.model.selection.gromacs_index import group_of_file
from kinema.trajectory.description import TrajectoryDescription
from kinema.trajectory.transform import check_not_last

_ITERATION_MEMORY = 32 << 20


class TrajectoryReading(TrajectoryDescription):
    """The methods that read frames."""

    def select(
        self,
        select: AtomChoice = None,
        *,
        index_file: str | os.PathLike[str] | None = None,
        group: str | None = None,
        frame: int | None = None,
    ) -> Selection:
        """The atoms that `select` names, or a group of a GROMACS index file.

        Parameters
        ----------
        select : str, AtomGroup, indices, mask, Selection or None
            A selection string in MDAnalysis' language; indices from 0 in any order; a boolean mask; None: all.
        index_file : path, optional
            A GROMACS index file (.ndx), instead of `select`.
        group : str, optional
            Name of its group; not needed if the file has only one.
        frame : int, optional
            The frame whose atoms are taken, if they change with the frame ("around 5 protein", `kinema.within`).

        Raises
        ------
        ArgumentError
            For no atoms at all, for negative indices, for a string without a topology, and for a selection that
            changes from frame to frame ("around 5 protein") without `frame`.
        OutOfRangeError
            For an atom beyond the trajectory.

        Examples
        --------
        >>> ca = traj.select("protein and name CA")
        >>> ca.n_atoms, ca.indices[:3].tolist()
        (214, [4, 21, 45])
        >>> traj.select([4, 21]).n_atoms
        2
        >>> traj.select("name CA and around 4 resid 1", frame=0).indices
        array([  21, 1213], dtype=uint32)
        """
        if index_file is not None or group is not None:
            check_not_last("a group of an index file, which names atoms,", self)
            return group_of_file(select, index_file, group, self.n_atoms)
        if frame is not None:
            from kinema.trajectory.changing_groups import selection_in_frame

            return selection_in_frame(self, select, frame)
        # a string other than "all" needs the topology; nothing else reads it
        needs_topology = isinstance(select, str) and select.strip() != "all"
        return selection.resolve(select, self.n_atoms, self.topology if needs_topology else None)

    @overload
    def __getitem__(self, key: int) -> Frame: ...
    @overload
    def __getitem__(
        self, key: FrameSelection | slice | range | Sequence[int] | Sequence[bool] | NDArray[Any]
    ) -> Self: ...
    def __getitem__(self, key: Any) -> Frame | Self:
        """`traj[i]` is a Frame; slices, lists, arrays and masks give a Trajectory of those frames."""
        if isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.bool_)):
            fields = self._vector_fields()
            whole = self._core.read(self._frames(int(key)), fields=fields, workers=1, mark_absent=True)
            self.note_frames()
            return Block.from_arrays(whole, fields, self.atoms_of_frames())[0]
        if isinstance(key, (slice, range, Sequence, np.ndarray, FrameSelection)) and not isinstance(key, (str, bytes)):
            return self._with(self._core, self._frames(key))
        raise ArgumentError(f"frames are chosen by number, slice, list or mask, found {type(key).__name__}")

    def __iter__(self) -> Iterator[Frame]:
        """Yields frame by frame, in order; reads a block of frames at a time."""
        names = self._vector_fields()
        least = 2 * WORKING_MEMORY + 8 * frame_bytes(self.n_atoms, max(1, len(names)), 4)
        if self._core.transforms:
            # the reader gets a quarter, in which transforms may need room for frames of all atoms
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
            Frames in any order; None: all.
        select : as `Trajectory.select`
            Atoms in any order; None: all.
        fields : str or list of str
            "positions", "velocities", "forces". One name gives an array; a list gives a dict that also holds "cells"
            (frames, 3, 3) float64, "periodic" (frames, 3), which of their edges repeat, "steps", "times" and "frames"
            (frames,), and "present" (frames,), a structured array: `["present"]["velocities"]` says which frames have
            velocities. `absent=` of `kinema.open` sets the rows of other frames: an error by default, NaN, or earlier
            values.
        dtype : float32 or float64
        out : array, optional
            C-contiguous, (frames, atoms, 3) of `dtype`; filled and returned for the first field.
        workers : int, optional
            Threads; by default as many as this process may use.
        memory : int or str, optional
            Limit of working memory beside the result, "64 MiB".

        Returns
        -------
        (frames, atoms, 3) array in angstrom (angstrom/ps, kJ/(mol angstrom)), or a dict of arrays.

        Raises
        ------
        OutOfRangeError, ArgumentError, CorruptFileError, TruncatedFileError, MemoryLimitError

        Examples
        --------
        >>> positions = traj.read(frames=slice(0, None, 50), select="name CA")
        >>> positions.shape, positions.dtype
        ((4, 214, 3), dtype('float32'))
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
        self._timings = Timings.from_reads(found, opening=self.opening)
        self.note_frames()
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
        """Yields the frames in blocks that stay within `memory`; every block has its own arrays.

        While the caller works with one block, the next is read. `memory` covers three blocks and the reader's working
        memory; blocks that are much larger than the processor's caches are read more slowly. The other arguments are
        the same as in `read`. Raises MemoryLimitError if not even one frame fits.

        Examples
        --------
        >>> largest = 0.0
        >>> for block in traj.blocks(select="name CA"):  # never more than a block in memory
        ...     largest = max(largest, float(np.abs(block.positions).max()))
        >>> print(f"{largest:.1f}")
        33.5
        """
        names = (fields,) if isinstance(fields, str) else tuple(fields)
        self.check_fields(names)
        kind = float_name(dtype)
        chosen, atoms = self._frames(frames), self._atoms(select)
        n_atoms = self.n_atoms if atoms is None else len(atoms)
        item_bytes = 4 if kind == "float32" else 8
        length, working = block_length(parse_memory(memory), n_atoms, len(names), item_bytes, path=self.paths[0])
        # a separate generator, so that arguments are checked at the call and not at the first block
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
        known = self.atoms_of_frames(atoms)

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
            return Block.from_arrays(arrays, names, known)

        try:
            for block in prefetched(read, chosen.split(length)):
                self.note_frames()
                yield block
        finally:
            self._timings = Timings.from_reads(found, opening=self.opening)

    def _atoms(self, select: AtomChoice) -> NDArray[np.uint32] | None:
        return None if select is None else self.select(select).indices

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

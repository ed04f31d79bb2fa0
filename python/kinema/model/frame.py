"""Frames in memory: `Frame`, `Block` of several, and the descriptions of a trajectory's files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kinema.base.errors import ArgumentError, MemoryLimitError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.printable import shortest

if TYPE_CHECKING:
    from kinema.model.frame_atoms import FrameAtoms, PairsOfFrame
    from kinema.model.selection.atoms import AtomChoice
    from kinema.model.selection.compounds import AtomsOfGroup

# fields of one vector an atom
VECTOR_FIELDS = ("positions", "velocities", "forces")

# least memory that the core's reader works with, besides a frame
WORKING_MEMORY = 3 << 20
# cell (9 float64), step, time, number (8 bytes each), the fields that are present
_STAMP_BYTES = 9 * 8 + 3 * 8 + 4
_TURNS_NOTED = 3


def frame_bytes(n_atoms: int, n_fields: int, item_bytes: int) -> int:
    """Bytes of one frame in memory."""
    return n_atoms * 3 * item_bytes * n_fields + _STAMP_BYTES


def block_length(
    limit: int, n_atoms: int, n_fields: int, item_bytes: int, *, path: str, least: int = 1, reserved: int = 0
) -> tuple[int, int]:
    """Frames of a block, and bytes for the reader, if blocks are read ahead within `limit` bytes.

    Three blocks exist at a time: the caller's, the next one, and one that is being read while the caller still holds
    the first. `reserved` bytes of the limit are kept for others. Raises MemoryLimitError, with the path, if fewer than
    `least` frames fit.
    """
    needed = frame_bytes(n_atoms, n_fields, item_bytes)
    working = max((limit - reserved) // 4, WORKING_MEMORY + needed)
    length = (limit - reserved - working) // 3 // needed
    if length < least:
        frames = "one frame" if least == 1 else f"{least} frames"
        # a quarter is working memory if that is more
        enough = max((3 * least + 1) * needed + WORKING_MEMORY, 4 * least * needed) + reserved
        raise MemoryLimitError(
            f"blocks of {frames} of {n_atoms} atoms need {enough} bytes, memory allows {limit}; "
            "raise memory= or select fewer atoms",
            at=path,
        )
    return length, working


def float_name(dtype: DTypeLike) -> str:
    """ "float32" or "float64"; ArgumentError for any other type."""
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    if name not in ("float32", "float64"):
        raise ArgumentError(f"dtype must be float32 or float64, found {name}")
    return name


def check_out(out: NDArray[Any], shape: tuple[int, int, int], kind: str) -> None:
    """Raises ArgumentError unless `out` is a writeable C-contiguous array of this shape and type."""
    if not isinstance(out, np.ndarray):
        raise ArgumentError(f"out must be a numpy array, found {type(out).__name__}")
    if out.shape != shape:
        raise ArgumentError(f"out has the wrong shape, expected {shape}, found {out.shape}")
    if out.dtype.name != kind or not out.dtype.isnative:
        raise ArgumentError(f"out has the wrong dtype, expected {kind}, found {out.dtype}")
    if not (out.flags.c_contiguous and out.flags.writeable):
        raise ArgumentError("out must be C-contiguous and writeable; pass a fresh np.empty(...)")


@dataclass(frozen=True, eq=False)
class Frame:
    """One frame.

    Attributes
    ----------
    positions : (atoms, 3) float32 in angstrom, or None if the frame has none
    velocities : (atoms, 3) in angstrom/ps, or None
    forces : (atoms, 3) in kJ/(mol angstrom), or None
    cell : (3, 3) float64, box vectors as rows in angstrom; zeros without a box, NaN if the box is unusable
    step : int, number of the simulation's step
    time : float, ps
    frame : int, number in the whole trajectory
    periodic : (3,) bool, which edges of the cell repeat; None in a function of a transform
    atoms : FrameAtoms or None
        Which atoms the vectors are of; None in a function of a transform, where `places`, `groups`, `pairs` and
        `nearest_images` raise ArgumentError.
    """

    positions: NDArray[Any] | None
    velocities: NDArray[Any] | None
    forces: NDArray[Any] | None
    cell: NDArray[np.float64]
    step: int
    time: float
    frame: int
    periodic: NDArray[np.bool_] | None = None
    atoms: FrameAtoms | None = None

    def __repr__(self) -> str:
        return f"<Frame {self.frame}: step {self.step}, {shortest(self.time)} ps>"

    def places(self, select: AtomChoice = None) -> NDArray[np.intp]:
        """Places of selected atoms in the vectors of this frame.

        Parameters
        ----------
        select : as `Trajectory.select`, or atoms that change with the frame
            None: all atoms of the frame. A string reads the topology once in each process; a selection that
            `Trajectory.select` made before the run reads nothing.

        Returns
        -------
        (n,) intp
            `frame.positions[places]` are their positions; n may be 0 if the atoms change with the frame.

        Raises
        ------
        ArgumentError
            If the selection names no atoms, or atoms that the frame does not have.
        """
        return self._known_atoms().places(self, select)

    def groups(self, compound: str, select: AtomChoice = None) -> list[AtomsOfGroup]:
        """Groups of atoms of this frame.

        Parameters
        ----------
        compound : {"group", "residues", "segments", "molecules", "fragments"}
        select : as `places`
            Atoms to divide; None: all atoms of the frame.

        Returns
        -------
        list of AtomsOfGroup
            For each group `places` in the vectors of the frame, `indices` in the trajectory and a `label`, such as
            "LEU12". Groups are in the order of their first atoms.

        Raises
        ------
        ArgumentError
            As `places`; for another word, and if the topology does not have what the compound needs.
        """
        return self._known_atoms().groups(self, compound, select)

    def pairs(self, select: AtomChoice, cutoff: float, other: AtomChoice = None) -> PairsOfFrame:
        """Pairs of atoms of this frame within a cutoff, by nearest images in the frame's cell.

        Parameters
        ----------
        select : as `places`
        cutoff : float
            Largest distance, angstrom; an equal distance counts.
        other : as `places`, optional
            The second group; None: pairs within `select`.

        Returns
        -------
        PairsOfFrame
            `i`, `j` and `distance`, (n,): places in the vectors of the frame, ascending, and angstrom. Each pair occurs
            once, also if the groups share atoms; within one group i < j. Without a cell there are no images.

        Raises
        ------
        ArgumentError
            As `places`; for a cutoff that is not above 0 and finite; for a cell without volume.
        CorruptFileError
            For a position that is not finite.

        Examples
        --------
        >>> near = traj[0].pairs("name CA", 8.0)
        >>> len(near.i) == len(near.j), bool((near.distance <= 8.0).all())
        (True, True)
        """
        return self._known_atoms().pairs(self, select, cutoff, other)

    def nearest_images(self, vectors: NDArray[Any]) -> NDArray[np.float64]:
        """The shortest image of each vector, (..., 3), in the frame's cell; without a cell the vector itself.

        Raises ArgumentError for a cell without volume.
        """
        from kinema import _core
        from kinema.model.frame_atoms import cell_of

        self._known_atoms()
        given = np.ascontiguousarray(vectors, np.float64)
        if given.ndim < 1 or given.shape[-1] != 3:
            raise ArgumentError(f"vectors have x, y and z, expected shape (..., 3), found {given.shape}")
        return _core.nearest_images(given.reshape(-1, 3), *cell_of(self)).reshape(given.shape)

    def _known_atoms(self) -> FrameAtoms:
        if self.atoms is None or self.periodic is None:
            raise ArgumentError(
                "the atoms of this frame are not known: pairs, groups and images are those of frames of a trajectory "
                "and of analyses, not of functions of transforms"
            )
        return self.atoms


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive frames of a selection.

    Attributes
    ----------
    positions, velocities, forces : (frames, atoms, 3), or None if not requested; NaN in frames that have none
    cells : (frames, 3, 3) float64, box vectors as rows in angstrom; zeros without a box, NaN if the box is unusable
    steps : (frames,) int64
    times : (frames,) float64, ps
    frames : (frames,) uint64, numbers in the whole trajectory
    present : (frames,) structured array
        `present["velocities"]` says which frames have velocities; the same for the other requested vectors and "cells".
    periodic : (frames, 3) bool, which edges of the cells repeat
    atoms : FrameAtoms or None
        Which atoms the vectors are of; frames get it.
    """

    positions: NDArray[Any] | None
    velocities: NDArray[Any] | None
    forces: NDArray[Any] | None
    cells: NDArray[np.float64]
    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    frames: NDArray[np.uint64]
    present: NDArray[np.void]
    periodic: NDArray[np.bool_]
    atoms: FrameAtoms | None = None

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], fields: tuple[str, ...], atoms: FrameAtoms | None = None
    ) -> Block:
        """A block of the arrays that the core's `read` gave for `fields`."""
        vectors = {name: arrays[name] if name in fields else None for name in VECTOR_FIELDS}
        return cls(
            **vectors,
            cells=arrays["cells"],
            steps=arrays["steps"],
            times=arrays["times"],
            frames=arrays["frames"],
            present=arrays["present"],
            periodic=arrays["periodic"],
            atoms=atoms,
        )

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, i: int) -> Frame:
        """Frame `i` of the block; its arrays are views."""

        def row_value(name: str, values: NDArray[Any] | None) -> NDArray[Any] | None:
            return None if values is None or not self.present[name][i] else values[i]

        return Frame(
            positions=row_value("positions", self.positions),
            velocities=row_value("velocities", self.velocities),
            forces=row_value("forces", self.forces),
            cell=self.cells[i],
            step=int(self.steps[i]),
            time=float(self.times[i]),
            frame=int(self.frames[i]),
            periodic=self.periodic[i],
            atoms=self.atoms,
        )

    def __iter__(self) -> Iterator[Frame]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        if not len(self):
            return "<Block of 0 frames>"
        return f"<Block of {len(self)} frames, {int(self.frames[0])} to {int(self.frames[-1])}>"


@dataclass(frozen=True)
class Part:
    """One file of a trajectory.

    Attributes
    ----------
    path, format, variant : str
    remarks, warnings : list of str
        Titles in the file's header; peculiarities of the file.
    assumptions : list of str
        Assumptions about what neither the file nor the caller of `open` stated.
    size : int, bytes
    fields : list of str
    file_frames : int
        Whole frames in the file.
    kept : (start, stop)
        Frames of the file that belong to the trajectory.
    first_frame : int
        Number of the first kept frame in the trajectory.
    first_step, last_step, first_time, last_time : of the file's first and last frame, ps; None if unknown
    fingerprint : str, hexadecimal
    index : {"arithmetic", "structure", "stored", "extended", "built"}
    index_path, index_note : str or None
        Where the index is stored; why it, or its atom checkpoints, were not used or not stored.
    atom_checkpoints : int or None
        Atoms between two checkpoints of each frame, at which decoding can start; None without (`kinema index`).
    truncation : str or None
        The incomplete last frame that was left out, with frame and byte.
    damaged : list of (frame, first byte, last byte)
        Frames that stand for damaged bytes, of one frame or of several, in which no frame header was found: none of
        them can be decoded. Empty unless the scan was to skip damage.
    """

    path: str
    format: str
    variant: str
    remarks: list[str]
    warnings: list[str]
    assumptions: list[str]
    size: int
    fields: list[str]
    file_frames: int
    kept: tuple[int, int]
    first_frame: int
    first_step: int | None
    last_step: int | None
    first_time: float | None
    last_time: float | None
    fingerprint: str
    index: str
    index_path: str | None
    index_note: str | None
    atom_checkpoints: int | None
    truncation: str | None
    damaged: list[tuple[int, int, int]]

    @classmethod
    def from_core(cls, info: Mapping[str, Any]) -> Self:
        """The part that the core's description `info` describes."""
        known = {field.name: info[field.name] for field in fields(cls)}
        # a time that was never written is not a number
        for name in ("first_time", "last_time"):
            if known[name] is not None and math.isnan(known[name]):
                known[name] = None
        return cls(**known)


@dataclass(frozen=True)
class Gap:
    """A jump between two files, forward or back: part `part` begins at trajectory frame `frame`, after the jump."""

    part: int
    frame: int
    time_before: float | None
    time_after: float | None
    step_before: int | None
    step_after: int | None

    @classmethod
    def from_core(cls, info: Mapping[str, Any]) -> Self:
        """The gap that the core's description `info` describes."""
        return cls(**{field.name: info[field.name] for field in fields(cls)})

    @property
    def turns_back(self) -> bool:
        """Whether time runs backwards here, or the step if there are no times."""
        if self.time_before is not None and self.time_after is not None and self.time_after != self.time_before:
            return self.time_after < self.time_before
        if self.step_before is not None and self.step_after is not None:
            return self.step_after <= self.step_before
        return self.time_before is not None

    def __str__(self) -> str:
        timed = self.time_before is not None and self.time_after is not None
        if self.turns_back:
            if timed and self.time_after < self.time_before:  # type: ignore[operator]
                before, after = shortest(self.time_before), shortest(self.time_after)  # type: ignore[arg-type]
                return f"time goes back from {before} to {after} ps before frame {self.frame}"
            return f"the step goes from {self.step_before} to {self.step_after} before frame {self.frame}"
        if timed:
            between = f"{shortest(self.time_before)} and {shortest(self.time_after)} ps"  # type: ignore[arg-type]
        else:
            between = f"steps {self.step_before} and {self.step_after}"
        return f"gap before frame {self.frame}: nothing between {between}"


def notes_of(parts: Sequence[Part], gaps: Sequence[Gap]) -> tuple[str, ...]:
    """Notes for users of the frames of these files."""
    notes = [f"{part.path}: {warning}" for part in parts for warning in [*part.warnings, *part.assumptions]]
    notes += [f"{part.truncation} (left out)" for part in parts if part.truncation]
    notes += [
        f"{part.path}: {part.format} frame {frame}: no frame is found in bytes {first} to {last}, which count as "
        "one frame that cannot be read"
        for part in parts
        for frame, first, last in part.damaged
    ]
    for part in parts:
        replaced = part.file_frames - (part.kept[1] - part.kept[0])
        if replaced:
            notes.append(f"{part.path}: {replaced} of {part.file_frames} frames are those of a neighbouring part")
    back = [str(gap) for gap in gaps if gap.turns_back]
    notes += [str(gap) for gap in gaps if not gap.turns_back] + back[:_TURNS_NOTED]
    if len(back) > _TURNS_NOTED:
        notes.append(f"time goes back in {len(back) - _TURNS_NOTED} more places")
    return tuple(dict.fromkeys(notes))

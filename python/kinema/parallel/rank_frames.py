"""A frame to which each rank contributes atoms: checked arrays, and the data that all ranks must agree on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinema.base.errors import ArgumentError
from kinema.formats.given_frames import FrameArrays, frame_arrays
from kinema.model.frame import VECTOR_FIELDS, Block, Frame


@dataclass(frozen=True)
class RankFrame:
    """A frame that all ranks have agreed on, with the atoms of this rank.

    Attributes
    ----------
    ids : (n_mine,) numbers of the atoms
    vectors : {"positions": (n_mine, 3), ...}, float32 or float64, the same on all ranks
    counts : (ranks,) number of atoms on each rank
    step, time, cell : as on rank 0; None if rank 0 gives none. cell is (3, 3), float64.
    """

    ids: NDArray[Any]
    vectors: dict[str, NDArray[Any]]
    counts: NDArray[np.int64]
    step: int | None
    time: float | None
    cell: NDArray[np.float64] | None


@dataclass(frozen=True)
class GivenPart:
    """This rank's part of a frame."""

    ids: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int64))
    frames: FrameArrays | None = None

    @property
    def row(self) -> NDArray[np.int64]:
        """Summary of the part for the other ranks, (COLUMNS,): see `agreed_frame`."""
        row = np.zeros(COLUMNS, np.int64)
        if self.frames is None:
            return row
        row[0] = len(self.ids)
        for number, name in enumerate(VECTOR_FIELDS):
            values = self.frames.fields.get(name)
            if values is not None:
                row[1] |= 1 << number
                row[2] |= (not np.can_cast(values.dtype, np.float32, "safe")) << number
        row[3] = self.frames.first_not_finite is not None
        if self.frames.steps is not None:
            row[4:6] = 1, self.frames.steps[0]
        if self.frames.times is not None:
            row[6:8] = 1, self.frames.times.view(np.int64)[0]
        if self.frames.cells is not None:
            row[8] = 1
            row[9:] = self.frames.cells[0].astype(np.float64).reshape(9).view(np.int64)
        return row


# atoms, fields, float64 fields, values that are not finite; whether there is a step, and the step; time; cell
COLUMNS = 4 + 2 + 2 + 10


def given_part(
    ids: ArrayLike | None,
    values: dict[str, Any],
    cell: ArrayLike | None,
    step: ArrayLike | None,
    time: ArrayLike | None,
) -> GivenPart:
    """This rank's part, checked; raises ArgumentError for wrong shapes and types."""
    if isinstance(values["positions"], (Frame, Block)):
        raise ArgumentError("with comm= a frame is given as arrays of the atoms that the rank has, and ids=")
    if ids is None:
        raise ArgumentError("with comm= each rank says which atoms it gives: ids=, whole numbers from 0")
    numbers = np.asarray(ids)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and len(numbers)):
        raise ArgumentError(f"ids are whole numbers, (n_mine,), found type {numbers.dtype} and shape {numbers.shape}")
    for name, value in values.items():
        if value is not None and np.ndim(value) != 2:
            raise ArgumentError(
                f"{name} have shape {np.shape(value)}, expected ({len(numbers)}, 3) for {len(numbers)} ids"
            )
    frames = frame_arrays(len(numbers), values, cell, step, time)
    return GivenPart(numbers, frames)


def agreed_frame(part: GivenPart, rows: NDArray[np.int64]) -> RankFrame:
    """The frame, from the `GivenPart.row` of all ranks (ranks, COLUMNS).

    Raises ArgumentError if the rows differ; each rank does so by itself, because all have the same rows.
    """
    fields, wide = 0, 0
    for rank, row in enumerate(rows):
        if row[0]:
            fields = fields or int(row[1])
            wide |= int(row[2])
            if row[1] != fields:
                names = _names(int(row[1]))
                raise ArgumentError(f"rank {rank} gives {names}, expected {_names(fields)} as ranks before it")
    root = rows[0]
    for name, flag, columns in (("step", 4, slice(5, 6)), ("time", 6, slice(7, 8)), ("cell", 8, slice(9, COLUMNS))):
        different = (rows[:, flag] != 0) & ((root[flag] == 0) | (rows[:, columns] != root[columns]).any(axis=1))
        if different.any():
            rank = int(np.argmax(different))
            expected = _shown(name, root[columns]) if root[flag] else "none"
            raise ArgumentError(
                f"{name} differs between ranks, expected {expected} as on rank 0, found "
                f"{_shown(name, rows[rank, columns])} on rank {rank}"
            )
    given = {} if part.frames is None else part.frames.fields
    vectors = {}
    for number, name in enumerate(VECTOR_FIELDS):
        if fields >> number & 1:
            kind = np.float64 if wide >> number & 1 else np.float32
            values = given[name][0] if name in given and len(part.ids) else np.empty((0, 3), kind)
            vectors[name] = np.ascontiguousarray(values, kind)
    return RankFrame(
        part.ids,
        vectors,
        rows[:, 0].copy(),
        int(root[5]) if root[4] else None,
        float(root[7:8].view(np.float64)[0]) if root[6] else None,
        root[9:].copy().view(np.float64).reshape(3, 3) if root[8] else None,
    )


def _names(fields: int) -> str:
    return ", ".join(name for number, name in enumerate(VECTOR_FIELDS) if fields >> number & 1) or "no field"


def _shown(name: str, values: NDArray[np.int64]) -> str:
    if name == "step":
        return str(int(values[0]))
    numbers = np.ascontiguousarray(values).view(np.float64).tolist()
    return str(numbers[0] if name == "time" else numbers)

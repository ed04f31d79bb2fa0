"""Frames one at a time, read in blocks: `ReadAhead` finds out which frames will be asked for next.

It knows nothing of MDAnalysis' objects but the six numbers of its unit cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.blocks import frame_bytes

__all__ = ["ReadAhead", "dimensions"]

# blocks begin small and double, so that a loop that is left early has cost little
_FIRST_BLOCK = 8
# of a block in memory, where the caller says nothing
BLOCK_MEMORY = 16 << 20


class ReadAhead:
    """The frames of a trajectory, each copied out of a block that was read with one call.

    What comes next is either announced (`expect`) or seen: frame numbers that rise or fall by the same step. Anything
    else is read frame by frame.

    Parameters
    ----------
    core : _core.Trajectory
    n_frames : int
    atoms : (n,) uint32 or None
        Atoms to read; None: all.
    fields : names of 3-vector fields
    native : bool
        The file's own units.
    workers : int
    memory : int
        Bytes that a block may take; a block has at least one frame.
    """

    def __init__(
        self,
        core: _core.Trajectory,
        n_frames: int,
        atoms: NDArray[np.uint32] | None,
        fields: tuple[str, ...],
        *,
        native: bool,
        workers: int,
        memory: int,
    ) -> None:
        self._core = core
        self._n_frames = n_frames
        self._atoms = atoms
        self._fields = fields
        self._native = native
        self._workers = workers
        self._n_atoms = core.n_atoms if atoms is None else len(atoms)
        self._limit = max(1, memory // frame_bytes(self._n_atoms, max(1, len(fields)), 4))
        # for the first field, used again and again: fresh memory costs as much as what is written into it
        self._buffer: NDArray[np.float32] = np.empty((0, self._n_atoms, 3), dtype=np.float32)
        self._rows: dict[int, int] = {}
        self._expected: Sequence[int] = ()
        self._position = 0
        self._length = _FIRST_BLOCK
        self._last, self._stride = -1, 0
        self.vectors: dict[str, NDArray[np.float32]] = {}
        self.dimensions: NDArray[np.float32] = np.empty((0, 6), dtype=np.float32)
        self.steps: list[int] = []
        self.times: list[float] = []

    def expect(self, frames: Sequence[int]) -> None:
        """Announces that these frames will be asked for, in this order."""
        self._expected = frames
        self._position = 0
        self._length = _FIRST_BLOCK

    def row(self, frame: int) -> int:
        """The row of `vectors`, `dimensions`, `steps` and `times` where this frame stands until the next call.

        Raises the errors of `Trajectory.read`.
        """
        announced = self._position < len(self._expected) and self._expected[self._position] == frame
        stride = frame - self._last
        row = self._rows.get(frame)
        if row is None:
            self._read(self._run(frame, stride, announced))
            row = 0
        if announced:
            self._position += 1
        # the same frame twice breaks no pattern
        if stride:
            self._last, self._stride = frame, stride
        return row

    def _run(self, frame: int, stride: int, announced: bool) -> Sequence[int]:
        """The frames to read now, the first of which is `frame`."""
        length = min(self._length, self._limit)
        if announced:
            run: Sequence[int] = self._expected[self._position : self._position + length]
        elif stride and stride == self._stride:
            run = range(frame, self._n_frames if stride > 0 else -1, stride)[:length]
        else:
            self._length = _FIRST_BLOCK
            return (frame,)
        self._length = min(2 * self._length, self._limit)
        return run

    def _read(self, run: Sequence[int]) -> None:
        # nothing is left of the last block if this one cannot be read
        self._rows = {}
        length = len(run)
        if length > len(self._buffer):
            self._buffer = np.empty((length, self._n_atoms, 3), dtype=np.float32)
        if isinstance(run, range):
            frames: _core.Frames = (run.start, run.step, length)
        else:
            frames = np.asarray(run, dtype=np.uint64)
        found = self._core.read(
            frames,
            atoms=self._atoms,
            fields=self._fields,
            out=self._buffer[:length],
            workers=self._workers,
            native=self._native,
        )
        self.vectors = {name: found[name] for name in self._fields}
        self.dimensions = dimensions(found["cells"])
        self.steps = found["steps"].tolist()
        self.times = found["times"].tolist()
        self._rows = {frame: row for row, frame in enumerate(run)}


def dimensions(cells: NDArray[Any]) -> NDArray[np.float32]:
    """MDAnalysis' unit cells of box matrices.

    Parameters
    ----------
    cells : (n, 3, 3), box vectors as rows

    Returns
    -------
    (n, 6) float32
        Lengths of the three vectors, then the angles between second and third, first and third, first and second in
        degrees; zeros, which MDAnalysis takes for no box, where a length is zero or an angle is no angle of a cell.
    """
    vectors = np.asarray(cells, dtype=np.float64)
    found = np.zeros((len(vectors), 6), dtype=np.float64)
    lengths = np.sqrt((vectors**2).sum(axis=2))
    found[:, :3] = lengths
    with np.errstate(invalid="ignore", divide="ignore"):
        for column, (one, other) in enumerate(((1, 2), (0, 2), (0, 1)), start=3):
            cosine = (vectors[:, one] * vectors[:, other]).sum(axis=1) / (lengths[:, one] * lengths[:, other])
            found[:, column] = np.rad2deg(np.arccos(cosine))
        valid = (found > 0.0).all(axis=1) & (found[:, 3:] < 180.0).all(axis=1)
    found[~valid] = 0.0
    return found.astype(np.float32)

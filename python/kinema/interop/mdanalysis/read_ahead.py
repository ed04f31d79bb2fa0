"""`ReadAhead`: a prefetching buffer that reads blocks of frames and returns them one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.notes import emit
from kinema.base.prefetch import Prefetcher
from kinema.model.frame import frame_bytes
from kinema.model.selection.frames import FrameSelection

# blocks begin small and double, so that a loop that is left early has cost little
_FIRST_BLOCK = 8
# default memory of two blocks
BLOCK_MEMORY = 16 << 20


class ReadAhead:
    """The frames of a trajectory, each copied out of a block that was read with one call.

    The frames to prefetch are announced (`expect`), or predicted if frame numbers rise or fall by the same step. The
    next block is read while the frames of the current one are used. In any other order, frames are read one by one.

    `atoms`: (n,) uint32 or None; atoms to read; None: all.
    `fields`: names of 3-vector fields.
    `native`: the file's own units.
    `memory`: bytes that two blocks may take, the current one and the next; a block has at least one frame.
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
        self._limit = max(1, memory // 2 // frame_bytes(self._n_atoms, max(1, len(fields)), 4))
        # for the first field, used in turn: allocating new memory costs as much as filling it
        empty: NDArray[np.float32] = np.empty((0, self._n_atoms, 3), dtype=np.float32)
        self._buffers = [empty, empty]
        self._blocks = Prefetcher(self._read)
        self._rows: dict[int, int] = {}
        self._expected: Sequence[int] = ()
        self._position = 0
        self._length = _FIRST_BLOCK
        self._last, self._stride = -1, 0
        self.vectors: dict[str, NDArray[np.float32]] = {}
        # rows that lack a field, for each field that some frame of the block lacks
        self.absent: dict[str, NDArray[np.bool_]] = {}
        self.dimensions: NDArray[np.float32] = np.empty((0, 6), dtype=np.float32)
        # box vectors as rows, and which of them repeat
        self.cells: NDArray[np.float64] = np.empty((0, 3, 3))
        self.periodic: NDArray[np.bool_] = np.empty((0, 3), bool)
        self.steps: list[int] = []
        self.times: list[float] = []

    def expect(self, frames: Sequence[int]) -> None:
        """Announces that these frames will be requested, in this order."""
        self._expected = frames if isinstance(frames, range) else list(frames)
        self._position = 0
        self._length = _FIRST_BLOCK

    def row(self, frame: int) -> int:
        """The row of this frame in `vectors`, `absent`, `dimensions`, `cells`, ..., valid until the next call.

        Raises the errors of `Trajectory.read`.
        """
        announced = self._position < len(self._expected) and self._expected[self._position] == frame
        stride = frame - self._last
        row = self._rows.get(frame)
        if row is None:
            self._next_block(frame, stride, announced)
            row = 0
        if announced:
            self._position += 1
        # a repeated frame does not end a stride
        if stride:
            self._last, self._stride = frame, stride
        return row

    def close(self) -> None:
        """Ends the thread that prefetches."""
        self._blocks.close()

    def _next_block(self, frame: int, stride: int, announced: bool) -> None:
        """Makes the block that begins with `frame` the current one, and prefetches the block after it."""
        predicted = True
        if announced:
            rest: Sequence[int] = self._expected[self._position : self._position + 3 * self._limit]
        elif stride and stride == self._stride:
            rest = range(frame, self._n_frames if stride > 0 else -1, stride)
        else:
            self._length = _FIRST_BLOCK
            rest, predicted = (frame,), False
        length = min(self._length, self._limit)
        # the current block's buffer is reused for the block after the next, and overwritten even if reading fails
        self._rows = {}
        run, rest = rest[:length], rest[length:]
        block = self._blocks.take(run)
        emit(self._core.frame_notes(new=True))
        self.vectors, self.absent, self.dimensions = block.vectors, block.absent, block.dimensions
        self.cells, self.periodic = block.cells, block.periodic
        self.steps, self.times = block.steps, block.times
        self._rows = {frame: row for row, frame in enumerate(run)}
        if predicted:
            self._length = min(2 * self._length, self._limit)
        # a loop that is left early has cost little
        if len(rest) and length > _FIRST_BLOCK:
            self._blocks.start(rest[: self._length])

    def _read(self, run: Sequence[int]) -> _FramesOfBlock:
        length = len(run)
        self._buffers.reverse()
        if length > len(self._buffers[0]):
            self._buffers[0] = np.empty((length, self._n_atoms, 3), dtype=np.float32)
        arrays = self._core.read(
            FrameSelection(run if isinstance(run, range) else np.asarray(run, dtype=np.uint64)),
            atoms=self._atoms,
            fields=self._fields,
            out=self._buffers[0][:length],
            workers=self._workers,
            native=self._native,
        )
        return _FramesOfBlock(
            {name: arrays[name] for name in self._fields},
            {name: ~arrays["present"][name] for name in self._fields if not arrays["present"][name].all()},
            dimensions(arrays["cells"]),
            arrays["cells"],
            arrays["periodic"],
            arrays["steps"].tolist(),
            arrays["times"].tolist(),
        )


class _FramesOfBlock(NamedTuple):
    """The frames of a block, as read."""

    vectors: dict[str, NDArray[np.float32]]
    absent: dict[str, NDArray[np.bool_]]
    dimensions: NDArray[np.float32]
    cells: NDArray[np.float64]
    periodic: NDArray[np.bool_]
    steps: list[int]
    times: list[float]


def dimensions(cells: NDArray[Any]) -> NDArray[np.float32]:
    """MDAnalysis' unit cells of box matrices.

    Parameters
    ----------
    cells : (n, 3, 3), box vectors as rows

    Returns
    -------
    (n, 6) float32
        Lengths of the three vectors, then the angles between second and third, first and third, first and second in
        degrees. Zeros, which MDAnalysis takes as no box, if a length is zero or an angle is impossible in a cell.
    """
    vectors = np.asarray(cells, dtype=np.float64)
    boxes = np.zeros((len(vectors), 6), dtype=np.float64)
    lengths = np.sqrt((vectors**2).sum(axis=2))
    boxes[:, :3] = lengths
    with np.errstate(invalid="ignore", divide="ignore"):
        for column, (one, other) in enumerate(((1, 2), (0, 2), (0, 1)), start=3):
            cosine = (vectors[:, one] * vectors[:, other]).sum(axis=1) / (lengths[:, one] * lengths[:, other])
            boxes[:, column] = np.rad2deg(np.arccos(cosine))
        valid = (boxes > 0.0).all(axis=1) & (boxes[:, 3:] < 180.0).all(axis=1)
    boxes[~valid] = 0.0
    return boxes.astype(np.float32)

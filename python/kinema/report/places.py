"""The place of a block's frames: numbers in the trajectory, the file, bytes in it.

It reads nothing but what the index knows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.model.selection.frames import FrameSelection


@dataclass(frozen=True)
class Place:
    """A run of frames in one file.

    Attributes
    ----------
    path : str
    first, last : numbers of frames in the trajectory, `last` is one of them
    offset, length : bytes from the beginning of the first to the end of the last; of HDF5, whose frames need not lie in
        order, one chunk near the first and the size of a frame (`exact` is False)
    times : how many times as slow as is usual; None where it usually takes no time
    """

    path: str
    first: int
    last: int
    offset: int
    length: int
    exact: bool
    times: float | None

    def __str__(self) -> str:
        frames = f"frames {self.first:,} to {self.last:,}" if self.last > self.first else f"frame {self.first:,}"
        at = f"bytes {self.offset:,} to {self.offset + self.length:,}" if self.exact else f"near byte {self.offset:,}"
        slow = "" if self.times is None else f" ({self.times:.1f} times the usual)"
        return f"{frames} in {self.path}, {at}{slow}"


class Places:
    """Looks up where the blocks of a round lie; `core` is the trajectory and `frames` the selection of the run."""

    def __init__(self, core: _core.Trajectory, frames: FrameSelection) -> None:
        self._core = core
        self._frames = frames
        parts = core.parts()
        self.paths = [part["path"] for part in parts]
        self._hdf5 = {part["path"] for part in parts if part["hdf5"]}
        # a part without kept frames begins where the next part does: the last part that begins there has the frame
        kept = [i for i, part in enumerate(parts) if part["kept"][1] > part["kept"][0]]
        self._kept = np.array(kept, dtype=np.int64)
        self._firsts = np.array([parts[i]["first_frame"] for i in kept], dtype=np.int64)

    def parts(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """(n,) which of `paths` holds the frame at each position of the selection."""
        chosen = self._frames.compose(FrameSelection(positions.astype(np.uint64))).numbers()
        at: NDArray[np.int64] = self._kept[np.searchsorted(self._firsts, chosen, side="right") - 1]
        return at

    def place(self, position: int, n_frames: int, times: float | None) -> Place:
        """The place of a block that begins there; if it covers several files, in the file of its first frame."""
        first = self._number(position)
        path, _, offset, length = self._core.locate(first)
        last_position = position + n_frames - 1
        for at in range(last_position, position - 1, -1):
            other, _, other_offset, other_length = self._core.locate(self._number(at))
            if other == path:
                last_position = at
                break
        exact = path not in self._hdf5
        last = self._number(last_position)
        begin = min(offset, other_offset)
        end = max(offset + length, other_offset + other_length)
        if not exact:
            begin, end = offset, offset + length
        return Place(path, min(first, last), max(first, last), begin, end - begin, exact, times)

    def _number(self, position: int) -> int:
        return self._frames[position]

"""`RememberedFrames`: checksums of the frames yielded so far, to notice later changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kinema.model.frame import VECTOR_FIELDS, Block

# most frames, and most of their bytes, to check again whenever a file has changed
_MOST, _MOST_BYTES = 64, 64 << 20


class RememberedFrames:
    """Eight bytes for each frame, to find the first changed frame, and a digest of the last frame.

    Frames are compared as yielded: their atoms, fields and type.
    """

    def __init__(self) -> None:
        self._sums: list[NDArray[np.uint64]] = []
        self._last = b""
        # for each frame, how much of it looks unwritten
        self._zeros: list[NDArray[np.intp]] = []
        self._frame_bytes = 1
        self.n = 0
        self.last_atoms_at_origin = 0

    def __len__(self) -> int:
        return self.n

    def add(self, block: Block) -> None:
        """Adds frames that will be yielded, before anybody can change their arrays."""
        self._sums.append(_sums(block))
        self._zeros.append(_zeros(block))
        if not self.n:
            # the time of the first frame may be 0
            self._zeros[0][0] -= int(block.times[0] == 0)
            self._frame_bytes = max(1, sum(values[0].nbytes for values in _vectors(block)))
        self._last = _digest(block, len(block) - 1)
        self.last_atoms_at_origin = atoms_at_origin(block)
        self.n += len(block)

    def is_last(self, block: Block) -> bool:
        """Whether a block of one frame is the last yielded frame."""
        return _digest(block, 0) == self._last

    def first_filled(self, n_frames: int, read: Callable[[int], Block], *, every: bool = False) -> int | None:
        """The first frame that was yielded incomplete, and has changed since; None if there is none.

        It checks frames that have more zeros, or more missing numbers, than others: the last of them, or all of them
        with `every`. `read` returns a block of the frame with a number below `n_frames`.
        """
        if not self._zeros:
            return None
        self._zeros, self._sums = [np.concatenate(self._zeros)], [np.concatenate(self._sums)]
        zeros, sums = self._zeros[0][:n_frames], self._sums[0]
        doubtful = np.flatnonzero(zeros > zeros.min(initial=np.iinfo(np.intp).max))
        most = len(doubtful) if every else max(1, min(_MOST, _MOST_BYTES // self._frame_bytes))
        for frame in doubtful[-most:].tolist():
            if _sums(read(frame))[0] != sums[frame]:
                return int(frame)
        return None

    def first_changed(self, n_frames: int, read: Callable[[int], Block]) -> int:
        """The first frame that is missing or has changed; the frames before it are assumed to be unchanged.

        `read` returns a block of the frame with a number below `n_frames`.
        """
        sums = np.concatenate(self._sums)
        same, end = 0, min(n_frames, self.n)
        while same < end:
            at = (same + end) // 2
            if _sums(read(at))[0] == sums[at]:
                same = at + 1
            else:
                end = at
        return same

    def clear(self) -> None:
        """Starts over."""
        self.__init__()  # type: ignore[misc]


def is_blank(block: Block, row: int) -> bool:
    """Whether all atoms of a frame of several atoms are exactly at the origin: the frame was not written."""
    if block.positions is None or not block.present["positions"][row]:
        return False
    return len(block.positions[row]) > 1 and not block.positions[row].any()


def atoms_at_origin(block: Block) -> int:
    """How many of the last atoms of the last frame are exactly at the origin, as in a partly written frame."""
    if block.positions is None or not block.present["positions"][-1]:
        return 0
    elsewhere = np.flatnonzero(block.positions[-1].any(axis=1))
    return len(block.positions[-1]) - (int(elsewhere[-1]) + 1 if len(elsewhere) else 0)


def _vectors(block: Block) -> list[NDArray[np.generic]]:
    named = [getattr(block, name) for name in VECTOR_FIELDS]
    return [values for values in (*named, block.cells) if values is not None]


def _zeros(block: Block) -> NDArray[np.intp]:
    """(frames,) numbers of vectors, times and cells that look unwritten.

    A vector counts if two of its components are exactly 0 or missing, or one component is in both this atom and the
    next: formats store either vectors, or a plane for each component.
    """
    count = np.zeros(len(block), np.intp)
    for name in VECTOR_FIELDS:
        values = getattr(block, name)
        if values is not None:
            missing = (values == 0) | np.isnan(values)
            count += (missing.sum(axis=2) >= 2).sum(axis=1) + (missing[:, 1:] & missing[:, :-1]).sum(axis=(1, 2))
    count += (np.asarray(block.times) == 0) | np.isnan(block.times)
    if block.cells is not None:
        count += ~np.asarray(block.cells).any(axis=(1, 2))
    return count


def _sums(block: Block) -> NDArray[np.uint64]:
    """(frames,) checksums of the bits of each frame."""
    total = np.asarray(block.steps).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    total = total + np.ascontiguousarray(block.times).view(np.uint64)
    for number, values in enumerate(_vectors(block), 1):
        bits = np.ascontiguousarray(values).reshape(len(block), -1).view(np.uint32)
        # products of 32 and 33 bits, so that exchanged values give another sum
        weights = (np.arange(bits.shape[1], dtype=np.uint64) << np.uint64(1)) + np.uint64(2 * number + 1)
        total = total + (bits * weights).sum(axis=1, dtype=np.uint64)
    return np.asarray(total, dtype=np.uint64)


def _digest(block: Block, row: int) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    digest.update(np.asarray([block.steps[row]], dtype=np.int64).tobytes())
    digest.update(np.asarray([block.times[row]], dtype=np.float64).tobytes())
    for values in _vectors(block):
        digest.update(np.ascontiguousarray(values[row]).data)
    return digest.digest()

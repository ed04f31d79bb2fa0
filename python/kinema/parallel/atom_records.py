"""`AtomRecordsLike`: records of which every rank has some of the atoms, as `kinema._core.AtomRecords` makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["AtomRecordsLike", "FrameLayoutLike"]


class FrameLayoutLike(Protocol):
    """Where what lies in the record of a frame.

    Attributes
    ----------
    bytes : int
        Size of the record.
    pieces : list of (offset in the record, bytes)
        What belongs to no atom.
    planes : list of (offset in the record, width)
        The atom of slot s has `width` bytes at offset + s * width.
    """

    @property
    def pieces(self) -> Sequence[tuple[int, bytes]]: ...
    @property
    def planes(self) -> Sequence[tuple[int, int]]: ...
    @property
    def bytes(self) -> int: ...


class AtomRecordsLike(Protocol):
    """Records of one file, each of the same fields of the same atoms."""

    @property
    def format(self) -> str:
        """Name of the format."""

    @property
    def fields(self) -> Sequence[str]:
        """The vectors of each frame."""

    @property
    def losses(self) -> Sequence[str]:
        """What of the frames is not in the file, or is rounded."""

    @property
    def widths(self) -> list[int]:
        """Bytes of an atom in each plane."""

    @property
    def head(self) -> bytes:
        """The bytes before the first record, of a file without any."""

    def time_by(self, steps: Sequence[int], times: Sequence[float]) -> tuple[int, bytes] | None:
        """Takes steps and times (ps) of the first one or two frames; offset and bytes of what is written again then."""

    def marker(self, committed: int) -> tuple[int, bytes] | None:
        """Offset and bytes of what says that so many frames are in the file."""

    def stamp_losses(self, frame: int, step: int, time: float, cell: NDArray[np.float64]) -> Sequence[str]:
        """What of a frame's step, time and cell is not kept."""

    def frame(self, frame: int, step: int, time: float, cell: NDArray[np.float64]) -> FrameLayoutLike:
        """The record of a frame; cell (3, 3) in angstrom, zeros for none."""

    def encode(
        self,
        values: Sequence[NDArray[Any] | None],
        start: int,
        stop: int,
        ids: NDArray[np.uint32] | None,
        first_id: int,
        out: Sequence[NDArray[np.uint8]],
    ) -> None:
        """Atoms `start` to `stop` of positions, velocities, forces (n, 3), each plane into its `out`."""

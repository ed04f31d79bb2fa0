"""`AtomRecordsLike`: records to which every rank contributes atoms; `kinema._core.AtomRecords` makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class FrameLayoutLike(Protocol):
    """Layout of the record of a frame.

    `bytes`: size of the record.
    `pieces`: list of (offset in the record, bytes); bytes that belong to no atom.
    `planes`: list of (offset in the record, width); the atom in slot s has `width` bytes at offset + s * width.
    """

    @property
    def pieces(self) -> Sequence[tuple[int, bytes]]: ...
    @property
    def planes(self) -> Sequence[tuple[int, int]]: ...
    @property
    def bytes(self) -> int: ...


class AtomRecordsLike(Protocol):
    """Records of one file, all with the same fields of the same atoms."""

    @property
    def format(self) -> str:
        """Name of the format."""

    @property
    def fields(self) -> Sequence[str]:
        """The vectors of each frame."""

    @property
    def losses(self) -> Sequence[str]:
        """Data of the frames that the file does not hold, or holds rounded."""

    @property
    def widths(self) -> list[int]:
        """Bytes per atom in each plane."""

    @property
    def head(self) -> bytes:
        """The bytes before the first record, for a file without records."""

    def time_by(self, steps: Sequence[int], times: Sequence[float]) -> tuple[int, bytes] | None:
        """Takes steps and times (ps) of the first one or two frames; returns offset and bytes to be rewritten then."""

    def marker(self, committed: int) -> tuple[int, bytes] | None:
        """Offset and bytes of the marker that the file holds `committed` frames."""

    def stamp_losses(self, frame: int, step: int, time: float, cell: NDArray[np.float64]) -> Sequence[str]:
        """Data of a frame's step, time and cell that are not kept."""

    def frame(self, frame: int, step: int, time: float, cell: NDArray[np.float64]) -> FrameLayoutLike:
        """The layout of a frame's record; cell (3, 3) in angstrom, zeros for none."""

    def encode(
        self,
        values: Sequence[NDArray[Any] | None],
        start: int,
        stop: int,
        ids: NDArray[np.uint32] | None,
        first_id: int,
        out: Sequence[NDArray[np.uint8]],
    ) -> None:
        """Encodes atoms `start` to `stop` of positions, velocities, forces (n, 3), each plane into its `out`."""

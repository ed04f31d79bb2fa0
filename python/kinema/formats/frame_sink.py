"""`FrameSink`: a file that takes frames, as values or as stored bytes; `StoredFrames`: frames as stored bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kinema.formats.given_frames import EncodedRows, FrameArrays


@dataclass(frozen=True, eq=False)
class StoredFrames:
    """Frames whose values come as bytes of the file, or were written into it by others.

    `kinds`: {"positions": dtype, ...}; types of the values that the bytes were made from.
    `cells`, `steps`, `times`: (frames, ...) or None.
    `chunks`: tuple of {"positions": EncodedRows, ...}; bytes of these frames and of some after them; empty if others
        have written the values.
    `not_finite`: the first frame of the file with a position that is NaN or infinite, if it is one of these.
    """

    n_frames: int
    kinds: Mapping[str, np.dtype[Any]]
    cells: NDArray[Any] | None = None
    steps: NDArray[np.int64] | None = None
    times: NDArray[np.float64] | None = None
    chunks: tuple[Mapping[str, EncodedRows], ...] = ()
    not_finite: int | None = None

    @classmethod
    def joined(cls, parts: Sequence[StoredFrames]) -> StoredFrames:
        """Concatenates several, at least one, in their order."""

        def column(values: Sequence[Any]) -> Any:
            return None if values[0] is None else np.concatenate(values)

        return cls(
            sum(one.n_frames for one in parts),
            parts[-1].kinds,
            column([one.cells for one in parts]),
            column([one.steps for one in parts]),
            column([one.times for one in parts]),
            tuple(chunks for one in parts for chunks in one.chunks),
            next((one.not_finite for one in parts if one.not_finite is not None), None),
        )

    def cut(self, n_frames: int) -> tuple[StoredFrames, StoredFrames]:
        """The first frames, with all chunks, and the others."""

        def part(rows: slice, n: int) -> StoredFrames:
            columns: list[Any] = [None if one is None else one[rows] for one in (self.cells, self.steps, self.times)]
            return StoredFrames(n, self.kinds, *columns)

        first = replace(part(slice(n_frames), n_frames), chunks=self.chunks, not_finite=self.not_finite)
        return first, part(slice(n_frames, None), self.n_frames - n_frames)


class FrameSink(Protocol):
    """A file that takes frames. Each call raises as the method of `kinema.Writer` that does the same."""

    @property
    def n_frames(self) -> int:
        """Number of frames: those that the file had, and those taken since."""

    def begin(self, first: FrameArrays) -> Mapping[str, Any]:
        """Prepares the file for frames such as `first`, which is not taken; returns the encoder of each field."""

    def rows(self, frames: FrameArrays) -> None:
        """Takes frames as values."""

    def stored(self, frames: StoredFrames) -> None:
        """Takes frames that are already encoded or written: nothing is decoded or compressed again."""

    def commit(self) -> None:
        """Brings all frames taken so far into the file."""

    def finish(self, check: Callable[[str], object] | None = None) -> None:
        """Commits all frames, and closes the file.

        `check` is called with the temporary name of a new file before the file appears under its own.
        """

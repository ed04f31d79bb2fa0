"""`FileHead`: the header of a file that is made from whole frames of other files.

The frame index gives the bytes of each frame, which are copied; in headers only counts change. No coordinates are
decoded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import TruncatedFileError
from kinema.base.input_files import open_regular
from kinema.model.frame import Part
from kinema.storage.output_file import write_whole

_PIECE = 4 << 20


@dataclass(frozen=True)
class FileHead:
    """The header of a file; empty for formats whose frames start at the first byte."""

    path: str
    facts: Any = None

    def encode(self, first_step: Callable[[], int], n_frames: int) -> bytes:
        """The header for `n_frames` frames; `first_step` is called if the header has the first step.

        Raises UnsupportedFormatError for files whose frames cannot stand alone; ArgumentError for numbers that the
        header cannot hold.
        """
        return b""

    def check_first(self, steps: Callable[[], NDArray[np.int64]], parts: Sequence[Part]) -> None:
        """Raises ArgumentError if frames of these steps cannot share a file that begins like this one."""

    def check_next(self, first: Self, n_frames: int) -> None:
        """Raises ArgumentError if frames of this file cannot follow frames of `first` in a file of `n_frames`."""


@dataclass(frozen=True)
class FrameRange:
    """Bytes [start, stop) of a file: whole frames."""

    path: str
    start: int
    stop: int


def write_frames(
    path: str,
    header: bytes,
    ranges: Sequence[FrameRange],
    advance: Callable[[int], None],
    copy: Callable[[Sequence[FrameRange], IO[bytes]], None] | None = None,
) -> None:
    """Makes the file at `path`, whole or not at all: the header and all ranges, one after the other.

    `copy`, if given, appends the ranges to the file, instead of this process.
    """

    def write(file: IO[bytes]) -> None:
        file.write(header)
        if copy is not None:
            copy(ranges, file)
            return
        for one in ranges:
            _copy(one, file, advance)

    write_whole(path, write)


def _copy(one: FrameRange, target: IO[bytes], advance: Callable[[int], None]) -> None:
    with open_regular(one.path, "trajectory") as source:
        at = one.start
        while at < one.stop:
            piece = os.pread(source.fileno(), min(_PIECE, one.stop - at), at)
            if not piece:
                raise TruncatedFileError(f"ended at byte {at}, expected {one.stop}", at=one.path)
            target.write(piece)
            at += len(piece)
            advance(len(piece))

"""XTC and DCD files made of whole frames of others, byte for byte; only the counts in a DCD header are written anew.

It decodes no coordinates: the frame index tells where frames begin and end.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

from kinema.errors import ArgumentError, TruncatedFileError, UnsupportedFormatError, from_os
from kinema.output import write_whole

__all__ = ["COPIED_FORMATS", "DcdHeader", "FrameRange", "dcd_header", "write_frames"]

COPIED_FORMATS = ("XTC", "DCD")
_PIECE = 4 << 20
_INT32 = range(-(1 << 31), 1 << 31)
# places of numbers in the first record of a DCD file, after "CORD"
_N_FRAMES, _FIRST_STEP, _STRIDE, _N_STEPS, _FIXED_ATOMS = 0, 1, 2, 3, 8


@dataclass(frozen=True)
class FrameRange:
    """Bytes [start, stop) of a file: whole frames."""

    path: str
    start: int
    stop: int


@dataclass(frozen=True)
class DcdHeader:
    """All bytes before the first frame."""

    path: str
    data: bytes

    @property
    def _marker(self) -> int:
        return 4 if self.data[4:8] in (b"CORD", b"VELD") else 8

    @property
    def _order(self) -> str:
        return "<" if self.data[0] == 84 else ">"

    def number(self, place: int) -> int:
        """An integer of the first record."""
        found: int = struct.unpack_from(f"{self._order}i", self.data, self._marker + 4 + 4 * place)[0]
        return found

    @property
    def stride(self) -> int:
        """Steps between frames."""
        return max(1, self.number(_STRIDE))

    def of_frames(self, first_step: int, n_frames: int) -> bytes:
        """The header for so many frames from a step on.

        Raises UnsupportedFormatError for files with fixed atoms, whose frames cannot stand alone; ArgumentError for
        numbers beyond 32 bits.
        """
        if self.number(_FIXED_ATOMS) != 0:
            raise UnsupportedFormatError(
                f"{self.path}: DCD with fixed atoms, whose frames need the first one, cannot be cut or joined",
                path=self.path,
                format="DCD",
            )
        numbers = {_N_FRAMES: n_frames, _FIRST_STEP: first_step}
        if self.number(_N_STEPS) == self.number(_N_FRAMES) * self.number(_STRIDE):
            numbers[_N_STEPS] = n_frames * self.stride
        result = bytearray(self.data)
        for place, value in numbers.items():
            if value not in _INT32:
                raise ArgumentError(f"{self.path}: {value} is beyond what a DCD header holds", path=self.path)
            struct.pack_into(f"{self._order}i", result, self._marker + 4 + 4 * place, value)
        return bytes(result)

    def layout(self) -> tuple[object, ...]:
        """What must agree for frames to stand in one file: byte order, kind, stride, time step, cell, 4th dimension."""
        start = self._marker
        words = tuple(self.number(i) for i in (8, 9, 10, 11, 19))
        return (self._order, self._marker, self.data[start : start + 4], self.stride, words)


def dcd_header(path: str, first_frame: int) -> DcdHeader:
    """The header of a DCD file whose first frame is at byte `first_frame`."""
    try:
        with open(path, "rb") as file:
            return DcdHeader(path, file.read(first_frame))
    except OSError as error:
        raise from_os("opening", error, path=path) from None


def write_frames(path: str, header: bytes, ranges: Sequence[FrameRange], advance: Callable[[int], None]) -> None:
    """Makes the file at `path`, whole or not at all: the header and all ranges, one behind the other."""

    def write(file: IO[bytes]) -> None:
        file.write(header)
        for one in ranges:
            _copy(one, file, advance)

    write_whole(path, write)


def _copy(one: FrameRange, target: IO[bytes], advance: Callable[[int], None]) -> None:
    try:
        source = os.open(one.path, os.O_RDONLY)
    except OSError as error:
        raise from_os("opening", error, path=one.path) from None
    try:
        at = one.start
        while at < one.stop:
            piece = os.pread(source, min(_PIECE, one.stop - at), at)
            if not piece:
                raise TruncatedFileError(f"{one.path}: ended at byte {at}, expected {one.stop}", path=one.path)
            target.write(piece)
            at += len(piece)
            advance(len(piece))
    finally:
        os.close(source)

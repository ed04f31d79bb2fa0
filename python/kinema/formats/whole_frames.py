"""XTC, TRR, NetCDF, DCD and HISTORY files composed of whole frames of other files, copied byte for byte.

The frame index gives the bytes of each frame; in the headers of DCD, NetCDF and HISTORY files only counts change. No
coordinates are decoded.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

from kinema import _core
from kinema.base.errors import ArgumentError, TruncatedFileError, UnsupportedFormatError
from kinema.base.input_files import is_hdf5, open_regular
from kinema.storage.output_file import write_whole

__all__ = [
    "COPIED_FORMATS",
    "DcdHeader",
    "FrameRange",
    "HistoryHeader",
    "NetcdfHeader",
    "dcd_header",
    "history_header",
    "netcdf_header",
    "write_frames",
]

COPIED_FORMATS = ("XTC", "TRR", "NetCDF", "DCD", "DL_POLY HISTORY")
_PIECE = 4 << 20
_INT32 = range(-(1 << 31), 1 << 31)
# where the number of records stands in a NetCDF header
_COUNT_AT = 4
# places of numbers in the first record of a DCD file, after "CORD"
_N_FRAMES, _FIRST_STEP, _STRIDE, _N_STEPS = 0, 1, 2, 3


@dataclass(frozen=True)
class FrameRange:
    """Bytes [start, stop) of a file: whole frames."""

    path: str
    start: int
    stop: int


@dataclass(frozen=True)
class DcdHeader:
    """The header of a DCD file, as the Rust half parses it: `facts`."""

    path: str
    facts: _core.DcdHeader

    def number(self, place: int) -> int:
        """An integer of the first record."""
        return self.facts["control"][place]

    @property
    def stride(self) -> int:
        """Steps between frames."""
        return self.facts["stride"]

    def of_frames(self, first_step: int, n_frames: int) -> bytes:
        """The header for so many frames from a step on.

        Raises UnsupportedFormatError for files with fixed atoms, whose frames cannot stand alone; ArgumentError for
        numbers beyond 32 bits.
        """
        if self.facts["n_fixed"] != 0:
            raise UnsupportedFormatError(
                f"{self.path}: DCD with fixed atoms, whose frames need the first one, cannot be cut or joined",
                path=self.path,
                format="DCD",
            )
        numbers = {_N_FRAMES: n_frames, _FIRST_STEP: first_step}
        if self.number(_N_STEPS) == self.number(_N_FRAMES) * self.number(_STRIDE):
            numbers[_N_STEPS] = n_frames * self.stride
        result = bytearray(self.facts["data"])
        order, start = self.facts["byte_order"], self.facts["control_offset"]
        for place, value in numbers.items():
            if value not in _INT32:
                raise ArgumentError(f"{self.path}: {value} is beyond what a DCD header holds", path=self.path)
            struct.pack_into(f"{order}i", result, start + 4 * place, value)
        return bytes(result)

    def layout(self) -> tuple[object, ...]:
        """What must agree for frames to stand in one file: byte order, kind, stride, time step, cell, 4th dimension."""
        facts = self.facts
        words = tuple(self.number(i) for i in (8, 9, 10, 11, 19))
        return (facts["byte_order"], facts["marker_bytes"], facts["kind"], facts["stride"], words)


def dcd_header(path: str) -> DcdHeader:
    """The header of a DCD file; errors as of `_core.dcd_header`."""
    return DcdHeader(path, _core.dcd_header(path))


@dataclass(frozen=True)
class NetcdfHeader:
    """The header of an AMBER NetCDF file, as the Rust half parses it: `facts`."""

    path: str
    facts: _core.NetcdfHeader

    def of_frames(self, n_frames: int) -> bytes:
        """The header for so many frames.

        Raises UnsupportedFormatError for restarts, and for frames with padding, which may end within their padding.
        """
        if self.facts["stride"] != self.facts["frame_bytes"]:
            what = "one frame that is no record" if self.facts["stride"] == 0 else "frames that end in padding"
            raise UnsupportedFormatError(
                f"{self.path}: NetCDF with {what}, cannot be cut or joined; convert it", path=self.path, format="NetCDF"
            )
        if len(self.facts["data"]) < self.facts["first_frame"]:
            raise TruncatedFileError(
                f"{self.path}: NetCDF: ended at byte {len(self.facts['data'])}, before its first frame, expected "
                f"{self.facts['first_frame']}",
                path=self.path,
                format="NetCDF",
            )
        width = self.facts["count_bytes"]
        if n_frames >= 1 << (8 * width - 1):
            raise ArgumentError(f"{self.path}: {n_frames} is beyond what its NetCDF header holds", path=self.path)
        result = bytearray(self.facts["data"])
        result[_COUNT_AT : _COUNT_AT + width] = n_frames.to_bytes(width, "big")
        return bytes(result)


def netcdf_header(path: str) -> NetcdfHeader:
    """The header of an AMBER NetCDF file; errors as of `_core.netcdf_header`, and for NetCDF-4 files."""
    if is_hdf5(path):
        raise UnsupportedFormatError(
            f"{path}: NetCDF-4 stores frames in chunks of HDF5, and is not cut or joined byte for byte; convert it",
            path=path,
            format="NetCDF",
        )
    return NetcdfHeader(path, _core.netcdf_header(path))


@dataclass(frozen=True)
class HistoryHeader:
    """The head of a DL_POLY HISTORY file, as the Rust half parses it: `facts`."""

    path: str
    facts: _core.HistoryHeader

    def of_frames(self, n_frames: int) -> bytes:
        """The head for so many frames; ArgumentError for more records than its columns hold."""
        result = bytearray(self.facts["data"])
        n_records = 2 + n_frames * self.facts["frame_records"]
        for (start, stop), count in ((self.facts["frames_at"], n_frames), (self.facts["records_at"], n_records)):
            text = b"%*d" % (stop - start, count)
            if len(text) > stop - start:
                raise ArgumentError(f"{self.path}: {count} is beyond what its second record holds", path=self.path)
            at = self.facts["record_bytes"]
            result[at + start : at + stop] = text
        return bytes(result)

    def layout(self) -> tuple[object, ...]:
        """What must agree for frames to stand in one file: the second record without its counts."""
        width = self.facts["record_bytes"]
        return width, self.facts["data"][width : width + self.facts["frames_at"][0]]


def history_header(path: str) -> HistoryHeader:
    """The head of a DL_POLY HISTORY file; errors as of `_core.history_header`."""
    return HistoryHeader(path, _core.history_header(path))


def write_frames(
    path: str,
    header: bytes,
    ranges: Sequence[FrameRange],
    advance: Callable[[int], None],
    copy: Callable[[Sequence[FrameRange], IO[bytes]], None] | None = None,
) -> None:
    """Makes the file at `path`, whole or not at all: the header and all ranges, one behind the other.

    `copy` puts the ranges behind what is in the file, where others than this process do that.
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
                raise TruncatedFileError(f"{one.path}: ended at byte {at}, expected {one.stop}", path=one.path)
            target.write(piece)
            at += len(piece)
            advance(len(piece))

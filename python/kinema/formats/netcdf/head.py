"""The header of NetCDF files that are made from whole frames of other files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from kinema import _core
from kinema.base.errors import ArgumentError, TruncatedFileError, UnsupportedFormatError
from kinema.base.input_files import is_hdf5
from kinema.formats.splice import FileHead

# position of the number of records in a NetCDF header
_COUNT_AT = 4


@dataclass(frozen=True)
class NetcdfHead(FileHead):
    """The header of an AMBER NetCDF file, as the core parses it: `facts`."""

    facts: _core.NetcdfHeader

    @classmethod
    def read(cls, path: str) -> NetcdfHead:
        """The header of a file; errors as of `_core.netcdf_header`, and for NetCDF-4 files."""
        if is_hdf5(path):
            raise UnsupportedFormatError(
                "NetCDF-4 stores frames in chunks of HDF5, and is not cut or joined byte for byte; convert it",
                at=path,
                format="NetCDF",
            )
        return cls(path, _core.netcdf_header(path))

    def encode(self, first_step: Callable[[], int], n_frames: int) -> bytes:
        """As `FileHead`; raises UnsupportedFormatError for restarts, and if frames may end within their padding."""
        if self.facts["stride"] != self.facts["frame_bytes"]:
            what = "one frame that is not a record" if self.facts["stride"] == 0 else "frames that end in padding"
            raise UnsupportedFormatError(
                f"NetCDF with {what}, cannot be cut or joined; convert it", at=self.path, format="NetCDF"
            )
        if len(self.facts["data"]) < self.facts["first_frame"]:
            raise TruncatedFileError(
                f"NetCDF: ended at byte {len(self.facts['data'])}, before its first frame, expected "
                f"{self.facts['first_frame']}",
                at=self.path,
                format="NetCDF",
            )
        width = self.facts["count_bytes"]
        if n_frames >= 1 << (8 * width - 1):
            raise ArgumentError(f"{n_frames} is beyond what its NetCDF header holds", at=self.path)
        result = bytearray(self.facts["data"])
        result[_COUNT_AT : _COUNT_AT + width] = n_frames.to_bytes(width, "big")
        return bytes(result)

    def check_next(self, first: Self, n_frames: int) -> None:
        if self.encode(lambda: 0, n_frames) != first.encode(lambda: 0, n_frames):
            raise ArgumentError(
                f"its header differs from that of {first.path} (title, program, variables, units), so "
                "that their frames cannot be copied into one file; convert writes one of both",
                at=self.path,
                format="NetCDF",
            )

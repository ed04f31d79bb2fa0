"""Writes NetCDF trajectories."""

from __future__ import annotations

from kinema.formats.netcdf.format import NetcdfWriting
from kinema.formats.record_writer import RecordWriter


class NetcdfWriter(RecordWriter, format="NetCDF"):
    """Writes AMBER's NetCDF trajectories: float32 positions, velocities and forces, the cell, times.

    The first frame decides what all have. A file of more than 357 million atoms is CDF-5, others are CDF-2. Options are
    those of `NetcdfWriting`; with `netcdf4` the class is `Netcdf4Writer`.
    """

    takes = NetcdfWriting

"""Writes NetCDF trajectories."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from kinema.formats.record_writer import RecordWriter, vector_names

__all__ = ["NetcdfWriter"]


class NetcdfWriter(RecordWriter, format="NetCDF"):
    """Writes AMBER's NetCDF trajectories: float32 positions, velocities and forces, the cell, times.

    The first frame decides what all have. A file of more than 357 million atoms is CDF-5, others are CDF-2.

    Parameters
    ----------
    path, n_atoms, format, mode, overwrite, keep_partial, workers : as `Writer`
    resume_from : as `XtcWriter`
    fields : names out of "positions", "velocities", "forces"
        By default those of the first frame.
    netcdf4 : bool
        Write NetCDF-4 instead: `Netcdf4Writer`, with its options. A file that mode="a" finds stays what it is.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        n_atoms: int | None = None,
        *,
        format: str | None = None,
        mode: Literal["w", "a"] = "w",
        overwrite: bool = False,
        keep_partial: bool = True,
        workers: int | None = None,
        resume_from: int | None = None,
        fields: str | Sequence[str] | None = None,
        netcdf4: bool = False,
    ) -> None:
        options = {"fields": vector_names(fields)}
        self._open(path, n_atoms, format, mode, overwrite, keep_partial, workers, resume_from, **options)

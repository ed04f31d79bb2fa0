"""Writes TRR files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from numpy.typing import DTypeLike

from kinema.formats.record_writer import RecordWriter, vector_names
from kinema.model.frame import float_name

__all__ = ["TrrWriter"]


class TrrWriter(RecordWriter, format="TRR"):
    """Writes TRR: positions, velocities, forces that each frame has, cell, step and time.

    Parameters
    ----------
    path, n_atoms, format, mode, overwrite, keep_partial, workers : as `Writer`
    resume_from : as `XtcWriter`
    fields : names out of "positions", "velocities", "forces"
        What is written of frames that have it; by default all.
    dtype : "float32" or "float64"
        Precision of all numbers of a frame; float32 by default, as of GROMACS in its usual build. What mode="a" adds to
        a file has by default that of its first frame.
    """

    _fields_of_each = True

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
        dtype: DTypeLike | None = None,
    ) -> None:
        options = {"fields": vector_names(fields), "dtype": None if dtype is None else float_name(dtype)}
        self._open(path, n_atoms, format, mode, overwrite, keep_partial, workers, resume_from, **options)

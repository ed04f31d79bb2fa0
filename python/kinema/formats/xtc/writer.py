"""Writes XTC files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from kinema.formats.record_writer import RecordWriter, vector_names

__all__ = ["XtcWriter"]


class XtcWriter(RecordWriter, format="XTC"):
    """Writes XTC: positions rounded to a precision, cell, step and time.

    Parameters
    ----------
    path, n_atoms, format, mode, overwrite, keep_partial, workers : as `Writer`
    resume_from : int, optional
        With mode="a": the file is cut behind the last frame whose step is not greater, as a restart needs it.
        ArgumentError if there is none.
    fields : "positions"
    precision : float
        Numbers to a nm; 1000 by default. A file that mode="a" finds keeps that of its last frame.
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
        precision: float | None = None,
    ) -> None:
        options = {"fields": vector_names(fields), "precision": precision}
        self._open(path, n_atoms, format, mode, overwrite, keep_partial, workers, resume_from, **options)

"""Writes TRR files."""

from __future__ import annotations

from kinema.formats.record_writer import RecordWriter, vector_names
from kinema.formats.trr.format import TrrWriting
from kinema.formats.writer import Target
from kinema.model.frame import float_name


class TrrWriter(RecordWriter, format="TRR"):
    """Writes TRR: positions, velocities and forces, as each frame has them, cell, step and time.

    Options are those of `TrrWriting`.
    """

    takes = TrrWriting
    _fields_of_each = True

    def _start(self, target: Target, options: TrrWriting) -> None:
        dtype = None if options.dtype is None else float_name(options.dtype)
        self._open(target, options.resume_from, fields=vector_names(options.fields), dtype=dtype)

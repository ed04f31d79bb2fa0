"""Writes XTC files."""

from __future__ import annotations

from kinema.formats.record_writer import RecordWriter, vector_names
from kinema.formats.writer import Target
from kinema.formats.xtc.format import XtcWriting


class XtcWriter(RecordWriter, format="XTC"):
    """Writes XTC: positions rounded to a precision, cell, step and time. Options are those of `XtcWriting`."""

    takes = XtcWriting

    def _start(self, target: Target, options: XtcWriting) -> None:
        self._open(target, options.resume_from, fields=vector_names(options.fields), precision=options.precision)

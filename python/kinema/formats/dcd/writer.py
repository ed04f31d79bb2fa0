"""Writes DCD files."""

from __future__ import annotations

from kinema.formats.record_writer import RecordWriter

__all__ = ["DcdWriter"]


class DcdWriter(RecordWriter, format="DCD"):
    """Writes DCD as CHARMM and NAMD do: positions or velocities as float32, and the cell.

    Steps and times follow from a first step, a stride and a time step in the header, which the first two frames decide;
    the first that does not follow is noted. The first frame decides whether the file has cells.

    Parameters
    ----------
    path, n_atoms, format, mode, overwrite, keep_partial, workers : as `Writer`
    resume_from : as `XtcWriter`
    fields : "positions" or "velocities"
        By default positions where the first frame has them.
    """

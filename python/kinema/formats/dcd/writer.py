"""Writes DCD files."""

from __future__ import annotations

from kinema.formats.dcd.format import DcdWriting
from kinema.formats.record_writer import RecordWriter


class DcdWriter(RecordWriter, format="DCD"):
    """Writes DCD as CHARMM and NAMD do: positions or velocities as float32, and the cell.

    Steps and times follow from a first step, a stride and a time step in the header, which the first two frames decide;
    the first that does not follow is noted. The first frame decides whether the file has cells.
    Options are those of `DcdWriting`.
    """

    takes = DcdWriting

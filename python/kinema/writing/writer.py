"""`Writer` with the writers of all formats, which it chooses among: `kinema.Writer`."""

from kinema.writing.base import Writer, format_of, options_of
from kinema.writing.external import ExternalWriter, GroWriter, PdbWriter
from kinema.writing.h5md import H5mdWriter
from kinema.writing.records import DcdWriter, NetcdfWriter, RecordWriter, TrrWriter, XtcWriter

__all__ = [
    "DcdWriter",
    "ExternalWriter",
    "GroWriter",
    "H5mdWriter",
    "NetcdfWriter",
    "PdbWriter",
    "RecordWriter",
    "TrrWriter",
    "Writer",
    "XtcWriter",
    "format_of",
    "options_of",
]

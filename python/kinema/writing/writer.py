"""`Writer` with the writers of all formats, which it chooses among: `kinema.Writer`."""

from kinema.writing.base import Writer, format_of, options_of
from kinema.writing.h5md import H5mdWriter
from kinema.writing.records import DcdWriter, RecordWriter, XtcWriter

__all__ = ["DcdWriter", "H5mdWriter", "RecordWriter", "Writer", "XtcWriter", "format_of", "options_of"]

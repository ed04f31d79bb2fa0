"""`Writer` with the writers of all formats, which it chooses among: `kinema.Writer`."""

from kinema.writing.base import Writer, format_of, options_of
from kinema.writing.h5md import H5mdWriter

__all__ = ["H5mdWriter", "Writer", "format_of", "options_of"]

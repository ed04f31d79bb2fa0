"""`Writer` with the writers of all formats, which it chooses among: `kinema.Writer`."""

from kinema.writing.base import (
    OPTIONS_OF_RANKS,
    RanksWriter,
    Writer,
    check_options,
    format_of,
    format_of_file_name,
    is_variant,
    options_of,
)
from kinema.writing.external import ExternalWriter, GroWriter, PdbWriter
from kinema.writing.h5md import H5mdWriter
from kinema.writing.netcdf4 import Netcdf4Writer
from kinema.writing.record_formats import (
    ConfigWriter,
    DcdWriter,
    HistoryWriter,
    NetcdfWriter,
    TrrWriter,
    XtcWriter,
)
from kinema.writing.records import RecordWriter

__all__ = [
    "OPTIONS_OF_RANKS",
    "ConfigWriter",
    "DcdWriter",
    "ExternalWriter",
    "GroWriter",
    "H5mdWriter",
    "HistoryWriter",
    "Netcdf4Writer",
    "NetcdfWriter",
    "PdbWriter",
    "RanksWriter",
    "RecordWriter",
    "TrrWriter",
    "Writer",
    "XtcWriter",
    "check_options",
    "format_of",
    "format_of_file_name",
    "is_variant",
    "options_of",
]

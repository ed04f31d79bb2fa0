"""`Writer` with the writers of all formats, which it chooses among: `kinema.Writer`."""

from kinema.formats.dcd.writer import DcdWriter
from kinema.formats.dlpoly.writer import ConfigWriter, HistoryWriter
from kinema.formats.external.writer import ExternalWriter, GroWriter, PdbWriter
from kinema.formats.h5md.writer import H5mdWriter
from kinema.formats.netcdf.writer import NetcdfWriter
from kinema.formats.netcdf4.writer import Netcdf4Writer
from kinema.formats.record_writer import RecordWriter
from kinema.formats.trr.writer import TrrWriter
from kinema.formats.writer import RanksWriter, Writer
from kinema.formats.writer_choice import (
    OPTIONS_OF_RANKS,
    all_options,
    check_options,
    format_of,
    format_of_file_name,
    is_option,
    is_variant,
    options_of,
)
from kinema.formats.xtc.writer import XtcWriter

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
    "all_options",
    "check_options",
    "format_of",
    "format_of_file_name",
    "is_option",
    "is_variant",
    "options_of",
]

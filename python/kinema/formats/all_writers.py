"""`kinema.Writer`: the base class `Writer`, after the writers of all formats are imported."""

from importlib import import_module

from kinema.formats.all_formats import writer_modules
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

__all__ = [
    "OPTIONS_OF_RANKS",
    "RanksWriter",
    "Writer",
    "all_options",
    "check_options",
    "format_of",
    "format_of_file_name",
    "is_option",
    "is_variant",
    "options_of",
]

# each class names its format when it is made; NetCDF-4 is a variant of NetCDF
for _module in (*writer_modules(), "kinema.formats.netcdf4.writer"):
    import_module(_module)

"""`FORMATS`: the formats by name, each imported on first use."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from importlib import import_module

from kinema.base.errors import InternalError
from kinema.formats.format import Format

__all__ = ["FORMATS", "format_named", "writer_modules"]

# name of a format -> its module and class
_CLASSES = {
    "DL_POLY HISTORY": ("kinema.formats.dlpoly.format", "History"),
    "DL_POLY CONFIG": ("kinema.formats.dlpoly.format", "Config"),
    "DCD": ("kinema.formats.dcd.format", "Dcd"),
    "NetCDF": ("kinema.formats.netcdf.format", "Netcdf"),
    "TRR": ("kinema.formats.trr.format", "Trr"),
    "XTC": ("kinema.formats.xtc.format", "Xtc"),
    "G96": ("kinema.formats.g96", "G96"),
    "H5MD": ("kinema.formats.h5md.format", "H5md"),
    "PDB": ("kinema.formats.external.format", "Pdb"),
    "GRO": ("kinema.formats.external.format", "Gro"),
    "made": ("kinema.formats.made", "Made"),
    "MDAnalysis": ("kinema.formats.external.format", "ThroughMDAnalysis"),
}


class _Formats(Mapping[str, Format]):
    def __getitem__(self, name: str) -> Format:
        return _made(*_CLASSES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


@functools.cache
def _made(module: str, name: str) -> Format:
    made: Format = getattr(import_module(module), name)()
    return made


def writer_modules() -> list[str]:
    """The modules of the writers of these formats: `writer` beside `format`, or the only module of the format."""
    modules = {module for module, _ in _CLASSES.values()}
    return sorted(f"{one.removesuffix('format')}writer" if one.endswith(".format") else one for one in modules)


FORMATS: Mapping[str, Format] = _Formats()


def format_named(name: str) -> Format:
    """The format of this name, as trajectories and writers give it; raises InternalError for an unknown name."""
    if name not in FORMATS:
        raise InternalError(f"no format is called {name!r}, expected one of {', '.join(FORMATS)}")
    return FORMATS[name]

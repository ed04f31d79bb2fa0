"""The formats: one object each, by its name."""

from __future__ import annotations

from kinema.formats.dcd.format import Dcd
from kinema.formats.dlpoly.format import Config, History
from kinema.formats.external.format import Gro, Pdb, ThroughMDAnalysis
from kinema.formats.format import Format
from kinema.formats.h5md.format import H5md
from kinema.formats.netcdf.format import Netcdf
from kinema.formats.trr.format import Trr
from kinema.formats.xtc.format import Xtc

__all__ = ["FORMATS", "format_named"]

FORMATS: dict[str, Format] = {
    one.name: one
    for one in (History(), Config(), Dcd(), Netcdf(), Trr(), Xtc(), H5md(), Pdb(), Gro(), ThroughMDAnalysis())
}


def format_named(name: str) -> Format:
    """The format of this name, as trajectories and writers give it; the defaults if it has no object of its own."""
    return FORMATS.get(name, _PLAIN)


_PLAIN = Format()

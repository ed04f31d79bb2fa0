"""`install` and `uninstall`: which reader MDAnalysis takes for a file's ending when the user names none.

It is the only place that changes MDAnalysis' tables of formats.
"""

from __future__ import annotations

from typing import Any

import MDAnalysis

from kinema.interop.mdanalysis.reader import KinemaReader
from kinema.registry import formats

__all__ = ["install", "uninstall"]

# MDAnalysis' own classes, to be put back; None: it had none
_replaced: dict[str, Any] = {}


def install() -> None:
    """Makes Kinema the reader of all formats that it reads: `mda.Universe("top.psf", "md.xtc")` then takes it.

    Holds for this process until `uninstall`; doing it twice does nothing. Universes that exist keep their reader.
    """
    readers = MDAnalysis._READERS
    for known in formats():
        if not known.reads:
            continue
        for name in {known.name.upper(), *(ending.upper() for ending in known.extensions)}:
            if readers.get(name) is not KinemaReader:
                _replaced[name] = readers.get(name)
                readers[name] = KinemaReader


def uninstall() -> None:
    """Gives all formats back to MDAnalysis' own readers; does nothing where `install` was not called."""
    for name, reader in _replaced.items():
        if reader is None:
            del MDAnalysis._READERS[name]
        else:
            MDAnalysis._READERS[name] = reader
    _replaced.clear()

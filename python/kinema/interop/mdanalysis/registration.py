"""`install` and `uninstall`: registration of Kinema as MDAnalysis' default reader of file name extensions."""

from __future__ import annotations

from typing import Any

import MDAnalysis

from kinema.formats.registry import formats
from kinema.interop.mdanalysis.reader import KinemaReader

# the readers of MDAnalysis that `uninstall` restores; None: there was none
_replaced: dict[str, Any] = {}


def install() -> None:
    """Makes Kinema the reader of all formats that it reads itself, so that `mda.Universe("top.psf", "md.xtc")` uses it.

    Applies to this process until `uninstall`; a second call does nothing. Existing Universes are not changed.
    """
    readers = MDAnalysis._READERS
    for known in formats():
        # formats that are read through MDAnalysis keep its own readers
        if not known.reads or known.slow:
            continue
        for name in {known.name.upper(), *(ending.upper() for ending in known.extensions)}:
            if readers.get(name) is not KinemaReader:
                _replaced[name] = readers.get(name)
                readers[name] = KinemaReader


def uninstall() -> None:
    """Restores MDAnalysis' own readers; does nothing if `install` was not called."""
    for name, reader in _replaced.items():
        if reader is None:
            del MDAnalysis._READERS[name]
        else:
            MDAnalysis._READERS[name] = reader
    _replaced.clear()

"""Kinema inside MDAnalysis: `mda.Universe("top.psf", "md.xtc", format=KinemaReader)`.

Importing it imports MDAnalysis and makes the format name "KINEMA" known there; MDAnalysis' own readers are replaced by
`install()` only.
"""

from kinema.interop.mdanalysis.reader import KinemaReader
from kinema.interop.mdanalysis.registration import install, uninstall

__all__ = ["KinemaReader", "install", "uninstall"]

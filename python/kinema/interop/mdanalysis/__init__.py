"""Kinema inside MDAnalysis: `mda.Universe("top.psf", "md.xtc", format=KinemaReader)`.

Importing it imports MDAnalysis and makes the format name "KINEMA" known there, to read and to write (H5MD);
MDAnalysis' own readers are replaced by `install()` only.
"""

from kinema.interop.mdanalysis.backend import Backend
from kinema.interop.mdanalysis.reader import KinemaReader
from kinema.interop.mdanalysis.registration import install, uninstall
from kinema.interop.mdanalysis.writer import KinemaWriter

__all__ = ["Backend", "KinemaReader", "KinemaWriter", "install", "uninstall"]

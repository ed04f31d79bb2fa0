"""Reader, writer and analysis backend for MDAnalysis: `mda.Universe("top.psf", "md.xtc", format=KinemaReader)`.

Importing it imports MDAnalysis and registers the format "KINEMA" there, to read and to write (H5MD). Only `install()`
replaces MDAnalysis' own readers.
"""

from kinema.model.universe import import_mdanalysis

# before any module here imports a part of it
import_mdanalysis()

from kinema.interop.mdanalysis.backend import Backend  # noqa: E402
from kinema.interop.mdanalysis.reader import KinemaReader  # noqa: E402
from kinema.interop.mdanalysis.registration import install, uninstall  # noqa: E402
from kinema.interop.mdanalysis.writer import KinemaWriter  # noqa: E402

__all__ = ["Backend", "KinemaReader", "KinemaWriter", "install", "uninstall"]

"""The runner on Dask's distributed scheduler, in `runner`; the other modules are its parts.

Importing this package does not import Dask; accessing `kinema.runners.Dask` does.
"""

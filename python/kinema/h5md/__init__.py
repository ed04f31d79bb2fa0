"""H5MD, and trajectories in HDF5 files of other structure, as descriptions that the Rust half reads by.

It reads structure, never frames: the bytes of chunks are found here and read elsewhere.
"""

from .description import FieldDescription, H5mdDescription, H5mdOptions, StoredArray

__all__ = ["FieldDescription", "H5mdDescription", "H5mdOptions", "StoredArray"]

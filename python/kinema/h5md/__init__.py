"""H5MD, and trajectories in HDF5 files of other structure, as descriptions that the Rust half reads by.

It reads structure, never frames: the bytes of chunks are found here and read elsewhere.
"""

from .describer import Describe
from .description import FieldDescription, H5mdDescription, H5mdOptions, Quantity, StoredArray

__all__ = ["Describe", "FieldDescription", "H5mdDescription", "H5mdOptions", "Quantity", "StoredArray"]

"""`Describe`: what the Rust half calls for each HDF5 part; a file's structure is read only then.

It holds options alone, so that it travels to other processes, and imports h5py not before it is called.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from .description import H5mdDescription, H5mdOptions

__all__ = ["Describe"]


@dataclass(frozen=True)
class Describe:
    """Calling it with the path of an HDF5 file gives its description."""

    options: H5mdOptions

    def __call__(self, path: str | os.PathLike[str]) -> H5mdDescription:
        """Raises what `kinema.h5md.opening.describe` raises."""
        from .opening import describe

        return describe(os.fspath(path), self.options)

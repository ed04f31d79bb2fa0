"""Which files: names that users give, or those behind an MDAnalysis Universe.

It opens none of them, but to look for the signature of HDF5.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from kinema.errors import ArgumentError

__all__ = ["file_names", "files_of_universe", "is_hdf5"]

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def file_names(paths: Any) -> list[str]:
    """File names of one path or several; ArgumentError for none and for anything else."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    if isinstance(given, bytes) or not isinstance(given, Sequence):
        raise ArgumentError(f"open takes file names or an MDAnalysis Universe, found {type(paths).__name__}")
    if not given:
        raise ArgumentError("open was given no files; name at least one")
    for path in given:
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentError(f"file names are text or paths, found {type(path).__name__}")
    return [str(os.fspath(path)) for path in given]


def files_of_universe(universe: Any) -> list[str]:
    """The trajectory files of a Universe; ArgumentError where what it shows is not what its files hold."""
    reader = getattr(universe, "trajectory", None)
    if reader is None:
        raise ArgumentError("the universe has no trajectory; load one, or open the trajectory file itself")
    if getattr(reader, "transformations", None):
        raise ArgumentError(
            "the universe transforms its frames on the fly, which its files do not hold; open the files themselves "
            "to read them untransformed"
        )
    names = getattr(reader, "filenames", None)
    if names is None:
        names = [getattr(reader, "filename", None)]
    found = [name for name in names if isinstance(name, (str, os.PathLike))]
    # a trajectory that was transferred to memory, perhaps in part, still tells its file's name
    in_memory = getattr(reader, "format", None) == "MEMORY"
    if in_memory or len(found) != len(names) or not found:
        raise ArgumentError(
            f"the universe's trajectory ({type(reader).__name__}) is not in files but in memory; "
            "write it to a file and open that"
        )
    return [str(os.fspath(name)) for name in found]


def is_hdf5(path: str | os.PathLike[str]) -> bool:
    """Whether a file has the signature of HDF5 at one of its places (HDF5 file format, II.A: 0, 512, 1024, ...)."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        place, size = 0, os.path.getsize(path)
        while place < size:
            file.seek(place)
            if file.read(len(_HDF5_SIGNATURE)) == _HDF5_SIGNATURE:
                return True
            place = max(512, 2 * place)
    return False

"""HDF5 trajectory files open for reading, with the user's options."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import h5py

from kinema import _core
from kinema.base.errors import UnsupportedFormatError
from kinema.formats.h5md.description import H5mdOptions
from kinema.storage.hdf5.chunk_maps import ChunkMaps
from kinema.storage.hdf5.file import OpenFile, open_hdf5, reading


@dataclass
class H5mdFile(OpenFile):
    """An open file, with the user's options."""

    options: H5mdOptions = field(default_factory=H5mdOptions)


@contextmanager
def opened(path: str, options: H5mdOptions | None = None, index: str = "memory") -> Iterator[H5mdFile]:
    """The file, open until the block ends. Exceptions of h5py in the block are raised as errors of Kinema.

    `index`: whether stored chunk maps are used and stored, see `kinema.open`.
    """
    maps = ChunkMaps(index)
    maps.watch(path)
    options = options or H5mdOptions()
    with reading(path), open_hdf5(path, external=options.external, stored=options.stored) as file:
        yield H5mdFile(path, file, os.path.getsize(path), maps=maps, options=options)


def check_hdf5(path: str, function: str) -> None:
    """Raises what `kinema.open` raises if a file is not a trajectory; UnsupportedFormatError if it is not HDF5."""
    if not (os.path.isfile(path) and h5py.is_hdf5(path)):
        format = _core.Trajectory([path], index="memory").format
        raise UnsupportedFormatError(
            f"{function} takes H5MD and other HDF5 files, and this is {format}", at=path, format=format
        )

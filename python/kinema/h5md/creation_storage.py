"""How values lie in a file that is made: chunk shapes by name, and compression as HDF5 filters.

It creates nothing: it finds the arguments with which h5py creates a data set.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinema.errors import ArgumentError

__all__ = ["CHUNK_BYTES", "COMPRESSIONS", "LAYOUTS", "Compression", "chunk_shape", "series_rows"]

CHUNK_BYTES = 1 << 20
# Chunks of layout "atoms" are filled frame by frame, so this many bytes of a field are held in memory.
TIME_SERIES_BYTES = 128 << 20
_TIME_SERIES_FRAMES = 4096
# HDF5 stores the size of a chunk in 32 bits
_LARGEST_CHUNK = (1 << 32) - 1
LAYOUTS = ("frames", "atoms", "contiguous")

_ZSTD, _LZ4, _BITSHUFFLE = 32015, 32004, 32008
_BITSHUFFLE_LZ4, _BITSHUFFLE_ZSTD = 2, 3
# name -> (default level, highest level); (None, None): it has none. Higher levels of gzip take up to twice the time for
# 2 to 5 % of the size, as most of the mantissas are noise.
COMPRESSIONS: dict[str, tuple[int | None, int | None]] = {
    "gzip": (1, 9),
    "zstd": (3, 22),
    "lz4": (None, None),
    "bitshuffle-lz4": (None, None),
    "bitshuffle-zstd": (3, 22),
}


@dataclass(frozen=True)
class Compression:
    """A compression by name, with its level; `None` for no compression.

    `gzip` (after HDF5's shuffle) is read by every HDF5; all others need the plugins of the package hdf5plugin.
    """

    name: str | None = None
    level: int | None = None

    def __post_init__(self) -> None:
        if self.name is None:
            if self.level is not None:
                raise ArgumentError(f"level={self.level} needs compression=, one of {', '.join(COMPRESSIONS)}")
            return
        if self.name not in COMPRESSIONS:
            raise ArgumentError(f"compression is None or one of {', '.join(COMPRESSIONS)}, found {self.name!r}")
        default, highest = COMPRESSIONS[self.name]
        if highest is None:
            if self.level is not None:
                raise ArgumentError(f"compression {self.name} has no levels, found level={self.level!r}")
            return
        level = default if self.level is None else self.level
        if isinstance(level, bool) or not isinstance(level, int) or not 1 <= level <= highest:
            raise ArgumentError(f"level of {self.name} is a whole number from 1 to {highest}, found {level!r}")
        object.__setattr__(self, "level", level)

    def creation_arguments(self) -> dict[str, Any]:
        """Arguments of h5py's `create_dataset`."""
        if self.name is None:
            return {}
        if self.name == "gzip":
            return {"shuffle": True, "compression": "gzip", "compression_opts": self.level}
        # registers the filters with HDF5
        import hdf5plugin  # noqa: F401

        if self.name == "zstd":
            return {"shuffle": True, "compression": _ZSTD, "compression_opts": (self.level,)}
        if self.name == "lz4":
            # 0: the plugin's own block size
            return {"shuffle": True, "compression": _LZ4, "compression_opts": (0,)}
        # block size 0: chosen by the plugin
        options = (0, _BITSHUFFLE_LZ4) if self.name == "bitshuffle-lz4" else (0, _BITSHUFFLE_ZSTD, self.level)
        return {"compression": _BITSHUFFLE, "compression_opts": options}


def chunk_shape(
    layout: str | Sequence[int], n_atoms: int, itemsize: int, n_frames: int | None, chunk_bytes: int = CHUNK_BYTES
) -> tuple[int, int, int] | None:
    """Chunk shape (frames, atoms, components) of a field with (frames, `n_atoms`, 3) values of `itemsize` bytes.

    ========== =======================================================================================================
    frames     whole frames, as many as fit in `chunk_bytes`, at least one: for reading frame by frame
    atoms      few atoms over many frames, about `chunk_bytes`: for time series of atoms
    contiguous no chunks (None): the fastest to read; needs the number of frames beforehand, cannot be compressed
    (k, a, c)  as given
    ========== =======================================================================================================

    `n_frames` keeps chunks from being longer than the trajectory where its length is known.
    Raises ArgumentError for other layouts, and for chunks that HDF5 cannot store.
    """
    frame = n_atoms * 3 * itemsize
    most_frames = n_frames if n_frames else None
    if layout == "contiguous":
        return None
    if layout == "frames":
        k = max(1, chunk_bytes // frame)
        shape = (min(k, most_frames) if most_frames else k, n_atoms, 3)
    elif layout == "atoms":
        k = min(_TIME_SERIES_FRAMES, max(1, TIME_SERIES_BYTES // frame), most_frames or _TIME_SERIES_FRAMES)
        shape = (k, max(1, min(n_atoms, chunk_bytes // (k * 3 * itemsize))), 3)
    else:
        shape = _explicit(layout, n_atoms)
    if math.prod(shape) * itemsize > _LARGEST_CHUNK:
        raise ArgumentError(
            f"a chunk of shape {shape} has {math.prod(shape) * itemsize} bytes, more than HDF5's limit of "
            f"{_LARGEST_CHUNK}; give layout=(frames, atoms, 3)"
        )
    return shape


def series_rows(item_bytes: int) -> int:
    """Rows of a chunk of a series with small items, such as steps: about 32 KiB, from 1 to 4096 rows."""
    return max(1, min(4096, (32 << 10) // max(1, item_bytes)))


def _explicit(layout: str | Sequence[int], n_atoms: int) -> tuple[int, int, int]:
    wanted = f"layout is one of {', '.join(LAYOUTS)} or a chunk shape (frames, atoms, components), found {layout!r}"
    if isinstance(layout, str) or not isinstance(layout, Sequence) or len(layout) != 3:
        raise ArgumentError(wanted)
    if any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1 for n in layout):
        raise ArgumentError(wanted)
    frames, atoms, components = (int(n) for n in layout)
    if atoms > n_atoms or components > 3:
        raise ArgumentError(f"chunk shape {(frames, atoms, components)} is larger than a frame, ({n_atoms}, 3)")
    return frames, atoms, components

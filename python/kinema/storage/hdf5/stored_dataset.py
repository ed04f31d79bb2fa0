"""Storage of an existing data set: places of its bytes in the file, and the filters applied to them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinema.base.frozen_dataclass import dataclass
from kinema.storage.hdf5.filters import Filters

NOT_STORED = 2**64 - 1
"""Address of a chunk for which the file has no storage; its elements are the fill value."""


@dataclass(frozen=True, slots=True)
class StoredDataset:
    """Storage of a numeric HDF5 data set in its file: everything needed to read it without libhdf5."""

    name: str
    """Full path in the file, for messages."""
    file: int
    """0: the file itself; n: the n-th of the other files that the description names (sources of virtual data sets)."""
    shape: tuple[int, ...]
    dtype: str
    """NumPy's array-interface string: "<f4", ">f8", "<f2", "<i4", "|u1"."""
    chunks: tuple[int, ...] | None
    """Shape of a chunk; None: contiguous or compact."""
    addresses: NDArray[np.uint64]
    """Byte address in the file, user block included, of every chunk of the whole grid ceil(shape / chunks), row-major;
    `NOT_STORED` if a chunk is not allocated; one element for contiguous storage; empty for compact."""
    sizes: NDArray[np.uint64]
    """Stored bytes, in the order of `addresses`."""
    masks: NDArray[np.uint32]
    """Filter masks, in the order of `addresses`; bit i set: filter i was left out."""
    filters: Filters
    """(Number, client values) in the order of writing."""
    partial_chunks_unfiltered: bool
    """H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS: chunks that extend beyond the extent are stored without filters."""
    fill: bytes
    """One element in the file's byte order, for chunks that are not stored."""
    inline: bytes | None
    """The whole data of a compact data set."""

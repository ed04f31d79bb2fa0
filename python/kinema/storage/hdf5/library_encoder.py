"""Chunks encoded by libhdf5's own filter pipeline, in memory, for filters that Rust does not encode.

They are written to their file as those of Rust are, by direct chunk writes: so what holds for a file that grows holds
for all filters.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

__all__ = ["encode_by_library"]


def encode_by_library(dataset: Any, rows: NDArray[Any]) -> Iterator[tuple[tuple[int, ...], bytes, int]]:
    """Offset, stored bytes and filter mask of each chunk of `rows` (n, ...), with the type and filters of `dataset`.

    Chunks that stick out are padded with zeros. The mask has the filters that libhdf5 has left out, as they failed or
    saved nothing.
    """
    chunk = dataset.chunks
    plist, kind = dataset.id.get_create_plist(), dataset.id.get_type()
    space = h5py.h5s.create_simple(chunk)
    with h5py.File("chunks", "w", driver="core", backing_store=False) as file:
        starts = (range(0, n, k) for n, k in zip(rows.shape, chunk, strict=True))
        for offset in itertools.product(*starts):
            part = rows[tuple(slice(start, start + k) for start, k in zip(offset, chunk, strict=True))]
            whole = part
            if part.shape != chunk:
                whole = np.zeros(chunk, rows.dtype)
                whole[tuple(slice(0, n) for n in part.shape)] = part
            # one of its own for each: libhdf5 keeps the mask of a chunk that is written again with another
            scratch = h5py.h5d.create(file.id, None, kind.copy(), space, plist)
            scratch.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(whole))
            mask, stored = scratch.read_direct_chunk((0,) * len(chunk))
            yield offset, stored, mask

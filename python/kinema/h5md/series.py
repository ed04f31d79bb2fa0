"""Reads small one-dimensional arrays, `step` and `time`, fast also where every element is a chunk of its own.

It knows nothing of what they mean. GROMACS stores these arrays in chunks of one element, each compressed: libhdf5 looks
every chunk up by itself, which takes 5 us an element. Here the places of all chunks are listed at once, neighbours are
read together, and zlib inflates them.
"""

from __future__ import annotations

import itertools
import os
import zlib
from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .opening import OpenFile, check_claim, object_key

__all__ = ["chunk_list", "read_series"]

# below, libhdf5 is as fast
_FEWEST_CHUNKS = 256
_LARGEST_CHUNK = 1 << 16
# bytes between two chunks that are read along rather than left out
_GAP = 4096
_LONGEST_READ = 1 << 20
_DEFLATE, _SHUFFLE = 1, 2
# libhdf5 before 1.10.9 lists no chunks: it looks up one at a time and goes through all of them for that. So many take
# some seconds, and ten times as many a hundred times as long.
_MOST_LOOKUPS = 1 << 14

ChunkList = tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint32]]


def read_series(opened: OpenFile, dataset: Any, rows: int | None = None) -> NDArray[Any]:
    """The first `rows` elements of a data set of one dimension, or all of it; read once for all hard links to it."""
    key = object_key(dataset)
    if key not in opened.series:
        check_claim(opened, dataset)
        found = _small_chunks(opened, dataset)
        opened.series[key] = dataset[()] if found is None else found
        opened.series[key].setflags(write=False)
    return opened.series[key][:rows]


def chunk_list(dataset: Any) -> ChunkList | None:
    """All stored chunks: element offsets (n, rank), addresses, stored sizes, filter masks; in the file's own order.

    None where this libhdf5 is too old to list them.
    """
    offsets, places = array("q"), array("Q")
    add_offset, add_place = offsets.extend, places.extend

    def add(info: Any) -> None:
        # offset, filter mask, address, size: called once a chunk, and a million times for a long trajectory
        add_offset(info[0])
        add_place(info[1:])

    if hasattr(dataset.id, "chunk_iter"):
        dataset.id.chunk_iter(add)
    else:
        n_chunks = dataset.id.get_num_chunks()
        # some of these versions count addresses from the end of a user block
        if n_chunks > _MOST_LOOKUPS or dataset.file.userblock_size:
            return None
        for number in range(n_chunks):
            add(dataset.id.get_chunk_info(number))
    masks, addresses, sizes = np.array(places, np.uint64).reshape(-1, 3).T
    return (
        np.array(offsets, np.int64).reshape(-1, max(dataset.ndim, 1)),
        addresses.copy(),
        sizes.copy(),
        masks.astype(np.uint32),
    )


def _small_chunks(opened: OpenFile, dataset: Any) -> NDArray[Any] | None:
    """The whole data set through the places of its chunks; None where libhdf5 has to read it."""
    chunks, dtype = dataset.chunks, dataset.dtype
    if chunks is None or dataset.ndim != 1 or dtype.kind not in "iuf" or dataset.is_virtual:
        return None
    if chunks[0] * dtype.itemsize > _LARGEST_CHUNK or dataset.shape[0] < _FEWEST_CHUNKS * chunks[0]:
        return None
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(i)[0] for i in range(plist.get_nfilters())]
    if (
        filters not in ([], [_DEFLATE], [_SHUFFLE], [_SHUFFLE, _DEFLATE])
        or dataset.id.get_type().get_size() != dtype.itemsize
    ):
        return None
    listed = chunk_list(dataset)
    if listed is None:
        return None
    offsets, addresses, sizes, masks = listed
    n_chunks = -(-dataset.shape[0] // chunks[0])
    path = dataset.file.filename
    ends = addresses + sizes
    complete = len(addresses) == n_chunks and not masks.any() and len(addresses) > 0
    if not complete or sizes.max() > 2 * _LARGEST_CHUNK or ends.max() > np.uint64(os.path.getsize(path)):
        return None  # holes, unfiltered chunks, a file that grows: rare, and libhdf5 knows what to do
    order = np.argsort(offsets[:, 0])
    if not np.array_equal(offsets[order, 0], np.arange(n_chunks) * chunks[0]):
        return None
    length = chunks[0] * dtype.itemsize
    parts = _inflated(_read_pieces(path, addresses, sizes), length, _DEFLATE in filters)
    if parts is None:
        return None  # damaged, or an unfiltered chunk at the edge: libhdf5 says which
    data = np.frombuffer(b"".join(parts), np.uint8).reshape(n_chunks, -1)[order]
    if _SHUFFLE in filters:
        data = data.reshape(n_chunks, dtype.itemsize, chunks[0]).transpose(0, 2, 1)
    result: NDArray[Any] = np.ascontiguousarray(data).reshape(-1).view(dtype)
    return result[: dataset.shape[0]]


def _inflated(stored: list[bytes], length: int, deflated: bool) -> list[bytes] | None:
    """The chunks as they were before compression; None where one is not `length` bytes then."""
    parts = []
    for part in stored:
        try:
            raw = zlib.decompress(part) if deflated else part
        except zlib.error:
            return None
        if len(raw) != length:
            return None
        parts.append(raw)
    return parts


def _read_pieces(path: str, addresses: NDArray[np.uint64], sizes: NDArray[np.uint64]) -> list[bytes]:
    """The bytes at these places, in the order given; neighbours come with one read."""
    order = np.argsort(addresses)
    begins, ends = addresses[order].astype(np.int64), (addresses + sizes)[order].astype(np.int64)
    breaks = np.flatnonzero(begins[1:] - ends[:-1] > _GAP) + 1
    edges = [0, *breaks.tolist(), len(begins)]
    begin_list, end_list = begins.tolist(), ends.tolist()
    pieces: list[bytes] = [b""] * len(begins)
    places = order.tolist()
    file = os.open(path, os.O_RDONLY)
    try:
        for first, last in itertools.pairwise(edges):
            while first < last:
                begin, stop = begin_list[first], first + 1
                while stop < last and end_list[stop] - begin <= _LONGEST_READ:
                    stop += 1
                data = os.pread(file, max(end_list[first:stop]) - begin, begin)
                for i in range(first, stop):
                    pieces[places[i]] = data[begin_list[i] - begin : end_list[i] - begin]
                first = stop
    finally:
        os.close(file)
    return pieces

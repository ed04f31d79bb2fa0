"""Reads the fields of an `H5mdDescription` with NumPy alone, from the addresses in it: what the Rust half must do.

It knows no HDF5. Filters are those of plain Python: deflate, shuffle, fletcher32's checksum left unchecked.
"""

import zlib
from pathlib import Path

import numpy as np

from kinema.h5md.description import ABSENT, NOT_STORED

DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3


class CannotDecode(Exception):
    """A filter for which there is no Python at hand."""


def decoded(stored, filters, mask, size, dtype):
    """A chunk as it was before its filters, which are undone from the last to the first."""
    for number, (filter_id, values) in reversed(list(enumerate(filters))):
        if mask >> number & 1:
            continue
        if filter_id == DEFLATE:
            stored = zlib.decompress(stored)
        elif filter_id == SHUFFLE:
            assert values[0] == dtype.itemsize
            stored = np.frombuffer(stored, np.uint8).reshape(values[0], -1).T.tobytes()
        elif filter_id == FLETCHER32:
            stored = stored[:-4]
        else:
            raise CannotDecode(filter_id)
    assert len(stored) == size
    return stored


def array(stored, paths):
    """All values of a `StoredArray`."""
    dtype = np.dtype(stored.dtype)
    result = np.full(stored.shape, np.frombuffer(stored.fill, dtype)[0], dtype)
    data = Path(paths[stored.file]).read_bytes()
    if stored.inline is not None:
        return np.frombuffer(stored.inline, dtype).reshape(stored.shape)
    if stored.chunks is None:
        (address,), (size,) = stored.addresses.tolist(), stored.sizes.tolist()
        if address == NOT_STORED:
            return result
        assert size == result.nbytes
        return np.frombuffer(data[address : address + size], dtype).reshape(stored.shape)
    grid = [-(-n // c) for n, c in zip(stored.shape, stored.chunks, strict=True)]
    assert len(stored.addresses) == len(stored.sizes) == len(stored.masks) == np.prod(grid)
    for number, corner in enumerate(np.ndindex(*grid)):
        address, size, mask = (int(part[number]) for part in (stored.addresses, stored.sizes, stored.masks))
        if address == NOT_STORED:
            continue
        begin = [i * c for i, c in zip(corner, stored.chunks, strict=True)]
        inside = [min(c, n - b) for b, c, n in zip(begin, stored.chunks, stored.shape, strict=True)]
        filters = stored.filters
        if stored.partial_chunks_unfiltered and inside != list(stored.chunks):
            filters = ()
        n_bytes = int(np.prod(stored.chunks)) * dtype.itemsize
        chunk = decoded(data[address : address + size], filters, mask, n_bytes, dtype)
        chunk = np.frombuffer(chunk, dtype).reshape(stored.chunks)
        target = tuple(slice(b, b + n) for b, n in zip(begin, inside, strict=True))
        result[target] = chunk[tuple(slice(n) for n in inside)]
    return result


def field(description, name):
    """A field in Kinema's units, (frames, N, 3) or (frames, 3, 3) float64; None where there is none."""
    found = getattr(description, name)
    if found is None:
        return None
    n = description.n_frames
    rows = np.zeros(n, np.int64) if found.fixed else np.arange(n) if found.rows is None else found.rows
    there = rows >= 0
    assert (rows[~there] == ABSENT).all()
    if found.reader is not None:
        values = found.reader(rows[there])
        assert values.dtype in (np.float32, np.float64)
    else:
        paths = (description.path, *description.other_files)
        parts = [array(piece, paths) for _, piece in found.pieces]
        firsts = [first for first, _ in found.pieces]
        if found.fixed:
            values = parts[0][None][rows[there]]
        else:
            assert firsts == np.cumsum([0, *map(len, parts)])[:-1].tolist()
            values = np.concatenate(parts)[rows[there]]
    shape = (3, 3) if name == "cell" else (description.n_atoms, 3)
    result = np.full((n, *shape), np.nan)
    values = values.astype(np.float64)
    if name == "cell" and values.ndim == 2:
        values = values[:, :, None] * np.eye(3)
    result[there] = values.reshape(-1, *shape)
    return result * found.scale

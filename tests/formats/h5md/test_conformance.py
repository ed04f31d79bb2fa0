"""Every row of the H5MD reader's checklist: what `describe` says, evaluated with NumPy, against what was written.

The evaluator knows no HDF5: it reads bytes from the addresses that it is told, which is what the Rust half must do.
Filters are those of plain Python: deflate and shuffle; fletcher32's checksum is left unchecked.
"""

import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest

from kinema.formats.h5md import H5mdOptions, describe
from kinema.formats.h5md.description import ABSENT
from kinema.storage.hdf5.stored_dataset import NOT_STORED
from kinema.testing.h5md_files import CASES

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
    """All values of a `StoredDataset`."""
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
    """A field in Kinema's units, (frames, N, 3) or (frames, 3, 3) float64; None if there is none."""
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


def same(found, expected, tolerance=1e-12):
    assert (found is None) == (expected is None)
    if expected is not None:
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=0)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_described_as_written(case, conformance, tmp_path):
    path, expected = conformance(case, tmp_path)
    found = describe(path, H5mdOptions(**expected.options))
    first = next(a for a in (expected.positions, expected.velocities, expected.forces) if a is not None)
    assert (found.n_frames, found.n_atoms) == first.shape[:2]
    same(found.steps, expected.steps)
    same(None if found.times is None else found.times * found.time_scale, expected.times)
    for name, values in (
        ("positions", expected.positions),
        ("velocities", expected.velocities),
        ("forces", expected.forces),
        ("cell", expected.cells),
    ):
        try:
            same(field(found, name), values)
        except CannotDecode:
            assert case.name in ("lzf", "scale_offset")
    if expected.positions is not None:
        assert (found.positions.reader is not None) == expected.through_library
        assert bool(found.positions.reason) == expected.through_library
        assert any("through h5py" in warning for warning in found.warnings) == expected.through_library


@pytest.mark.parametrize("case", CASES, ids=str)
def test_addresses_are_those_of_the_bytes(case, conformance, tmp_path):
    """Sizes and bytes against libhdf5's own direct reads, chunk by chunk, whatever the filters."""
    path, expected = conformance(case, tmp_path)
    found = describe(path, H5mdOptions(**expected.options))
    paths = (found.path, *found.other_files)
    for piece in (p for f in (found.positions, found.velocities, found.forces, found.cell) if f for p in f.pieces):
        stored = piece[1]
        if stored.chunks is None:
            continue
        with h5py.File(paths[stored.file]) as file, open(paths[stored.file], "rb") as raw:
            dataset = file[stored.name]
            grid = [-(-n // c) for n, c in zip(stored.shape, stored.chunks, strict=True)]
            for number, corner in enumerate(np.ndindex(*grid)):
                if stored.addresses[number] == 2**64 - 1:
                    continue
                offset = tuple(i * c for i, c in zip(corner, stored.chunks, strict=True))
                try:
                    mask, content = dataset.id.read_direct_chunk(offset)
                except OSError:  # rows that are skipped by a virtual data set
                    continue
                if len(found.other_files) == 0:
                    raw.seek(int(stored.addresses[number]))
                    assert raw.read(int(stored.sizes[number])) == content
                    assert mask == stored.masks[number]


def test_checklist_is_covered():
    rows = {int(case.row.split()[0]) for case in CASES if case.row[0].isdigit()}
    assert {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16} <= rows  # 12 to 14: topology and observables
    assert len({case.name for case in CASES}) == len(CASES)

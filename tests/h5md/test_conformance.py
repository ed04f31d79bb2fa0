"""Every row of the H5MD reader's checklist: what `describe` says, evaluated with NumPy, against what was written."""

import h5py
import numpy as np
import pytest
from evaluate import CannotDecode, field

from kinema.h5md import H5mdOptions, describe
from kinema.testing.h5md_files import CASES


def same(found, expected, tolerance=1e-12):
    assert (found is None) == (expected is None)
    if expected is not None:
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=0)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_described_as_written(case, tmp_path):
    path = tmp_path / "case.h5md"
    expected = case.write(path)
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
def test_addresses_are_those_of_the_bytes(case, tmp_path):
    """Sizes and bytes against libhdf5's own direct reads, chunk by chunk, whatever the filters."""
    path = tmp_path / "case.h5md"
    found = describe(path, H5mdOptions(**case.write(path).options))
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

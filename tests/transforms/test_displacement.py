"""Unwrapping by displacements, and what nojump is beside it: against the formulas of their publications."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kinema as kn
from kinema import transforms
from kinema.base.errors import ArgumentError

CELL = np.array([[31.0, 2.0, 1.0], [11.0, 29.0, 3.0], [-7.0, 5.0, 23.0]])
N_FRAMES, N_ATOMS = 400, 9


def write_walk(path, breathing=0.05):
    """A walk of steps of up to 0.3 of the cell, wrapped into it, in a cell that breathes; positions and cells."""
    rng = np.random.default_rng(6161)
    cells = CELL * (1 + breathing * np.sin(0.1 * np.arange(N_FRAMES)))[:, None, None]
    steps = rng.uniform(-0.3, 0.3, (N_FRAMES, N_ATOMS, 3))
    wrapped = np.cumsum(steps, axis=0) % 1.0
    with kn.Writer(path, N_ATOMS) as writer:
        for frame in range(N_FRAMES):
            writer.write(wrapped[frame] @ cells[frame], cell=cells[frame], time=float(frame))
    read = kn.open(path).read(fields=["positions"])
    return read["positions"].astype(np.float64), read["cells"]


def whole_edges(vectors, cell):
    """`floor(v / L + 1/2)` of reduced coordinates."""
    return np.floor(vectors @ np.linalg.inv(cell) + 0.5)


def toroidal_view_preserving(w, cells):
    """TOR, von Bülow et al. 2020, equation 1: each displacement has the nearest image in the cell of its frame."""
    u = [w[0]]
    for i in range(1, len(w)):
        step = w[i] - w[i - 1]
        u.append(u[-1] + step - whole_edges(step, cells[i]) @ cells[i])
    return np.array(u)


def hybrid(w, cells):
    """Kulke and Vermaas 2022, equation 12: the same, corrected for how the cell has changed under the images of the
    frame before.
    """
    u = [w[0]]
    for i in range(1, len(w)):
        step, images = w[i] - w[i - 1], whole_edges(u[-1] - w[i - 1], cells[i - 1])
        u.append(u[-1] + step - whole_edges(step, cells[i]) @ cells[i] - images @ (cells[i - 1] - cells[i]))
    return np.array(u)


def reversible(w, cells):
    """Kulke and Vermaas 2022, equation B8, for any cell: positions of the frame before go with the cell."""
    u = [w[0]]
    for i in range(1, len(w)):
        scaling = np.linalg.inv(cells[i - 1]) @ cells[i]
        jumps = np.floor(w[i] @ np.linalg.inv(cells[i]) - w[i - 1] @ np.linalg.inv(cells[i - 1]) + 0.5)
        u.append(u[-1] @ scaling + (w[i] - w[i - 1] @ scaling) - jumps @ cells[i])
    return np.array(u)


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    path = tmp_path_factory.mktemp("walk") / "walk.trr"
    return write_walk(path), kn.open(path, stored=False)


@pytest.fixture(scope="module")
def moved(walked):
    return walked[1].with_transform(transforms.displacement())


def test_positions_are_those_of_the_published_formula(walked, moved):
    (w, cells), _ = walked
    expected = toroidal_view_preserving(w, cells)
    assert np.abs(expected - w).max() > 100
    assert_allclose(moved.read(), expected, rtol=0, atol=1e-4)


def test_nojump_is_the_reversible_scheme_of_kulke_and_vermaas(walked, moved):
    (w, cells), traj = walked
    unwrapped = traj.with_transform(transforms.nojump()).read()
    assert_allclose(unwrapped, reversible(w, cells), rtol=0, atol=1e-4)
    expected = hybrid(w, cells)
    # steps near half of the cell may be taken for the other image, as one has the cell of either frame
    apart = np.abs(unwrapped - expected).max(axis=(0, 2))
    assert np.count_nonzero(apart < 1e-3) >= N_ATOMS - 2
    images = np.einsum("fax,fxc->fac", unwrapped - w, np.linalg.inv(cells))
    assert_allclose(images, np.round(images), rtol=0, atol=1e-4)
    assert np.abs(moved.read() - unwrapped).max() > 1, "the schemes differ in a cell that breathes"


def test_in_a_cell_that_does_not_change_it_is_nojump(tmp_path):
    write_walk(tmp_path / "still.trr", breathing=0.0)
    traj = kn.open(tmp_path / "still.trr")
    found = traj.with_transform(transforms.displacement()).read()
    assert_allclose(found, traj.with_transform(transforms.nojump()).read(), rtol=0, atol=1e-4)


@pytest.mark.processes
def test_frames_have_the_same_bits_however_they_are_read(walked, moved, tmp_path, monkeypatch):
    _, traj = walked
    every = moved.read(workers=1)
    for workers in (2, 3, 7):
        assert_array_equal(moved.read(workers=workers), every)
    order = [399, 3, 127, 128, 129, 256, 5]
    assert_array_equal(moved.read(order, [7, 2]), every[order][:, [7, 2]])
    monkeypatch.setattr("kinema.transforms.first_passes.kinds.EdgeSums.least", 16)
    for options in ({}, {"runner": "processes", "workers": 2}, {"runner": "serial"}):
        other = traj.with_transform(transforms.displacement([2, 7, 4], **options))
        assert_array_equal(other.read(select=[2, 4, 7]), every[:, [2, 4, 7]])
        assert_array_equal(other.read([33], [0, 2]), [[traj.read([33], [0])[0, 0], every[33, 2]]])
    files = []
    for workers in (1, 3):
        kn.convert(moved, tmp_path / f"{workers}.dcd", workers=workers)
        files.append((tmp_path / f"{workers}.dcd").read_bytes())
    assert files[0] == files[1]


def test_molecules_stay_whole(tmp_path):
    cells = [np.diag([length] * 3) for length in (20.0, 21.0, 19.0, 20.0)]
    with kn.Writer(tmp_path / "pair.trr", 2) as writer:
        for frame, (x, y) in enumerate([(18.0, 19.0), (20.5, 0.5), (2.0, 3.0), (5.0, 6.0)]):
            writer.write([[x, 1, 1], [y, 1, 1]], cell=cells[frame], time=float(frame))
    traj = kn.open(tmp_path / "pair.trr").with_transform(transforms.whole(bonds=[[0, 1]]), transforms.displacement())
    found = traj.read()
    assert_allclose(found[:, 1] - found[:, 0], np.broadcast_to([1.0, 0, 0], (4, 3)), atol=1e-5)
    # 18, 20.5, then 2 is 0.5 beyond the edge of 19
    assert_allclose(found[:, 0, 0], [18, 20.5, 21, 24], atol=1e-5)


def test_what_cannot_be_unwrapped_is_refused(walked, tmp_path):
    _, traj = walked
    with pytest.raises(ArgumentError, match="leave one out"):
        traj.with_transform(transforms.nojump(), transforms.displacement())
    with kn.Writer(tmp_path / "open.trr", 1) as writer:
        writer.write([[0.0, 0, 0]], cell=CELL, time=0.0)
        writer.write([[0.0, 0, 0]], time=1.0)
    with pytest.raises(kn.Error, match=r"open\.trr: TRR frame 1.*no periodic cell"):
        kn.open(tmp_path / "open.trr").with_transform(transforms.displacement())
    with kn.Writer(tmp_path / "far.trr", 1) as writer:
        for x in (1.0, 3.0, 7.5):
            writer.write([[x, 0.0, 0.0]], cell=np.diag([10.0, 10.0, 10.0]), time=x)
    with pytest.warns(kn.Note, match=r"moves by 0\.45 of the cell in one step, to frame 2"):
        kn.open(tmp_path / "far.trr").with_transform(transforms.displacement())

"""Transforms of periodic systems, on a solvated protein and on made-up ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kinema as kn
from kinema import transforms
from kinema.base.errors import ArgumentError
from kinema.testing.programs.imports import lazy

datafiles = lazy("MDAnalysisTests.datafiles")


@pytest.fixture(scope="module")
def solvated():
    """Raw output of GROMACS: 10 frames of a protein in water, a dodecahedron."""
    return kn.open(datafiles.XTC, datafiles.TPR, stored=False)


def test_rmsd_of_a_protein_that_was_broken(solvated):
    raw = kn.RMSD(solvated, "name CA").run()
    whole = kn.RMSD(solvated.with_transform(transforms.whole()), "name CA").run()
    assert raw.results.values.max() > 10
    assert 1.5 < whole.results.values.max() < 2.5


CELL = np.array([[31.0, 2.0, 1.0], [11.0, 29.0, 3.0], [-7.0, 5.0, 23.0]])


def walk(path: Path, n_frames: int, n_atoms: int = 23):
    """A walk in a cell that changes from frame to frame, and the file that has it wrapped into the cell."""
    rng = np.random.default_rng(24)
    cells = CELL * (1 + 0.02 * np.sin(np.arange(n_frames)))[:, None, None]
    steps = rng.uniform(-0.3, 0.3, (n_frames, n_atoms, 3))
    steps[0] = rng.uniform(0.0, 1.0, (n_atoms, 3))
    reduced = np.cumsum(steps, axis=0)
    wrapped = np.concatenate([reduced[:1], reduced[1:] % 1.0])
    with kn.Writer(path, n_atoms) as writer:
        for frame in range(n_frames):
            writer.write(wrapped[frame] @ cells[frame], cell=cells[frame], time=float(frame))
    return np.einsum("fax,fxc->fac", reduced, cells), cells


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    path = tmp_path_factory.mktemp("walk") / "walk.trr"
    expected, _ = walk(path, 700)
    traj = kn.open(path)
    return expected, traj, traj.with_transform(transforms.nojump())


class TestKnownWalk:
    def test_images_are_recovered(self, walked):
        expected, traj, unwrapped = walked
        assert np.abs(traj.read() - expected).max() > 100
        assert_allclose(unwrapped.read(), expected, rtol=0, atol=1e-3)

    def test_frames_have_the_same_bits_however_they_are_asked_for(self, walked):
        _, _, unwrapped = walked
        every = unwrapped.read(workers=1)
        assert_array_equal(unwrapped.read(workers=3), every)
        assert_array_equal(unwrapped.read(slice(None, None, 37)), every[::37])
        order = [699, 3, 127, 128, 129, 256, 5]
        assert_array_equal(unwrapped.read(order, [7, 2]), every[order][:, [7, 2]])
        assert_array_equal(unwrapped[500].positions, every[500])
        assert_array_equal(np.concatenate([one.positions for one in unwrapped.blocks("18 MiB")]), every)
        one = kn.open(unwrapped.paths[0]).with_transform(transforms.nojump([4]))
        assert_array_equal(one.read(select=[4]), every[:, [4]])

    def test_jumps_are_counted_once(self, walked, monkeypatch):
        _, traj, unwrapped = walked
        kn.open(traj.paths[0]).with_transform(transforms.nojump())
        monkeypatch.setattr("kinema.transforms.first_passes.making.run", None)
        again = kn.open(traj.paths[0]).with_transform(transforms.nojump())
        assert_array_equal(again.read([650]), unwrapped.read([650]))
        with pytest.raises(TypeError):
            kn.open(traj.paths[0], stored=False).with_transform(transforms.nojump())

    def test_long_steps_are_noted(self, tmp_path):
        with kn.Writer(tmp_path / "far.trr", 1) as writer:
            for frame, x in enumerate([1.0, 3.0, 7.5]):
                writer.write([[x, 0.0, 0.0]], cell=np.diag([10.0, 10.0, 10.0]), time=float(frame))
        with pytest.warns(kn.Note, match=r"moves by 0\.45 of the cell in one step, to frame 2"):
            kn.open(tmp_path / "far.trr").with_transform(transforms.nojump())


def dimer(path: Path):
    """Two molecules of two atoms, of which the second is across the cell; and their bonds."""
    cell = np.diag([20.0, 20.0, 20.0])
    with kn.Writer(path, 4) as writer:
        writer.write([[1.0, 1, 1], [2.0, 1, 1], [19.0, 1, 1], [18.0, 1, 1]], cell=cell, time=0.0)
        writer.write([[19.5, 1, 1], [0.5, 1, 1], [17.0, 19, 1], [16.0, 19, 1]], cell=cell, time=1.0)
    return [[0, 1], [2, 3]]


class TestMolecules:
    def test_molecules_stay_together(self, tmp_path):
        bonds = dimer(tmp_path / "dimer.trr")
        traj = kn.open(tmp_path / "dimer.trr").with_transform(transforms.whole(bonds=bonds))
        with pytest.raises(ArgumentError, match="bonds"):
            kn.open(tmp_path / "dimer.trr").with_transform(transforms.whole())
        with pytest.warns(kn.Note, match="no masses"):
            together = traj.with_transform(transforms.cluster([0, 2], bonds=bonds))
        found = together.read()
        assert_allclose(found[0][:, 0], [1, 2, -1, -2])
        assert_allclose(found[1], [[19.5, 1, 1], [20.5, 1, 1], [17, -1, 1], [16, -1, 1]])

    def test_frames_without_a_cell_are_named(self, tmp_path):
        with kn.Writer(tmp_path / "open.trr", 2) as writer:
            writer.write([[1.0, 1, 1], [2.0, 1, 1]], cell=np.diag([20.0, 20.0, 20.0]), time=0.0)
            writer.write([[1.0, 1, 1], [2.0, 1, 1]], time=1.0)
        traj = kn.open(tmp_path / "open.trr").with_transform(transforms.whole(bonds=[[0, 1]]))
        with pytest.raises(kn.Error, match=r"open\.trr: TRR frame 1.*no periodic cell"):
            traj.read()

    def test_other_orders_are_refused(self, solvated):
        wrapped = solvated.with_transform(transforms.wrap())
        with pytest.raises(ArgumentError, match="whole comes before wrap"):
            wrapped.with_transform(transforms.whole())

"""Angles: MDAnalysis' and MDTraj's values, cells, atoms at one place and in a line."""

import numpy as np
import pytest

import kinema as kn
from kinema.testing import write_dcd
from kinema.testing.programs.imports import lazy

distances = lazy("MDAnalysis.lib.distances")


def test_without_a_cell(adk):
    import mdtraj

    ours, universe = adk
    triples = np.column_stack([np.arange(0, 600, 3), np.arange(1, 601, 3), np.arange(9, 609, 3)])
    expected = [distances.calc_angles(*universe.atoms.positions[triples.T]) for _ in universe.trajectory]
    results = kn.analysis.Angles(ours, triples).run().results
    np.testing.assert_allclose(results.values, np.degrees(expected), rtol=0, atol=2e-4)
    theirs = mdtraj.compute_angles(adk.mdtraj_trajectory(), triples)
    np.testing.assert_allclose(results.values, np.degrees(theirs), rtol=0, atol=2e-2)
    groups = [ours.select(column) for column in triples.T]
    by_groups = kn.analysis.Angles(ours, ag1=groups[0], ag2=groups[1], ag3=groups[2]).run().results
    np.testing.assert_array_equal(by_groups.angles, results.angles)


def test_nearest_images(periodic):
    triples = np.random.default_rng(6).integers(0, 2000, (200, 3))
    triples = triples[(np.diff(np.sort(triples, axis=1), axis=1) > 0).all(axis=1)]
    values = kn.analysis.Angles(periodic.ours, triples).run().results.values
    bonds = periodic.bonds(*triples.T)
    clear = periodic.are_clear(bonds)
    assert clear.mean() > 0.9
    u, v = -bonds[:, :, 0], bonds[:, :, 1]
    expected = np.arctan2(np.linalg.norm(np.cross(u, v), axis=-1), (u * v).sum(axis=-1))
    np.testing.assert_allclose(values[clear], np.degrees(expected)[clear], rtol=0, atol=1e-3)


def test_atoms_at_one_place_and_in_a_line(tmp_path):
    positions = np.array([[[0, 0, 0], [1, 0, 0], [3, 0, 0], [1, 0, 0]]] * 3, np.float32)
    positions[:2, 3] = [1, 2, 0]
    write_dcd(tmp_path / "line.dcd", positions)
    trajectory = kn.open(tmp_path / "line.dcd", stored=False)
    with pytest.warns(kn.Note, match="angle 1-2-4 is not defined in frame 2"):
        analysis = kn.analysis.Angles(trajectory, [[0, 1, 2], [1, 0, 2], [0, 1, 3], [0, 1, 0]]).run()
    np.testing.assert_allclose(analysis.results.values[:2], [[180, 0, 90, 0]] * 2, atol=1e-12)
    np.testing.assert_array_equal(np.isnan(analysis.results.values[2]), [False, False, True, False])
    assert len(analysis.notes) == 1

"""End-to-end distances: beside positions as they stand, chains, nearest images on request."""

import numpy as np
import pytest

import kinema as kn


def test_of_a_chain_and_of_residues(adk):
    ours, universe = adk
    alpha = universe.select_atoms("name CA")
    expected = [np.linalg.norm(alpha.positions[-1] - alpha.positions[0]) for _ in universe.trajectory]
    analysis = kn.analysis.EndToEnd(ours, "name CA").run()
    np.testing.assert_allclose(analysis.results.values[:, 0], expected, rtol=1e-6)
    assert analysis.table().columns[2].label == "end_to_end (angstrom)"
    atoms = universe.residues[1].atoms
    universe.trajectory[3]
    by_residue = kn.analysis.EndToEnd(ours, "resid 1:3", compound="residues").run()
    expected = np.linalg.norm(atoms.positions[-1] - atoms.positions[0])
    np.testing.assert_allclose(by_residue.results.values[3, 1], expected, rtol=1e-6)
    assert [column.name for column in by_residue.table().columns[2:]] == ["MET1", "ARG2", "ILE3"]


def test_ends_are_not_their_nearest_images(periodic):
    ours, universe = periodic
    last = universe.atoms.n_atoms - 1
    standing = periodic.bonds([0], [last], nearest=False)[:, 0, 0]
    found = kn.analysis.EndToEnd(ours).run().results.values[:, 0]
    np.testing.assert_allclose(found, np.linalg.norm(standing, axis=1), rtol=1e-12)
    images = kn.analysis.EndToEnd(ours, minimum_image=True).run().results.values[:, 0]
    np.testing.assert_allclose(images, np.linalg.norm(periodic.bonds([0], [last])[:, 0, 0], axis=1), atol=2e-5)


def test_one_atom_has_no_ends(small):
    with pytest.raises(kn.ArgumentError, match="two atoms or more, found one in the selection"):
        kn.analysis.EndToEnd(small, [3])

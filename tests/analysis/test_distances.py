"""Distances: MDAnalysis' and MDTraj's values, cells, groups, atoms several times, positions that are none."""

import itertools

import numpy as np
import pytest

import kinema as kn
from kinema.testing.programs.imports import lazy

atomicdistances = lazy("MDAnalysis.analysis.atomicdistances")
datafiles = lazy("MDAnalysisTests.datafiles")


def test_without_a_cell(adk):
    import mdtraj

    ours, universe = adk
    first, second = universe.select_atoms("name CA")[:-1], universe.select_atoms("name CA")[1:]
    expected = atomicdistances.AtomicDistances(first, second).run().results.distances
    for arguments in (
        {"ag1": first, "ag2": second},
        {"pairs": np.column_stack([first.indices, second.indices])},
        {"pairs": [a + b for a, b in zip(first, second, strict=True)], "minimum_image": False},
    ):
        results = kn.analysis.Distances(ours, **arguments).run().results
        np.testing.assert_allclose(results.values, expected, rtol=0, atol=2e-6)
    np.testing.assert_array_equal(results.distances, results.values)
    theirs = mdtraj.compute_distances(adk.mdtraj_trajectory(), np.column_stack([first.indices, second.indices]))
    np.testing.assert_allclose(results.values, theirs * 10, rtol=0, atol=5e-5)


def test_nearest_images(periodic):
    import mdtraj

    ours = periodic.ours
    pairs = np.random.default_rng(5).integers(0, 2000, (300, 2))
    values = kn.analysis.Distances(ours, pairs).run().results.values
    expected = np.linalg.norm(periodic.bonds(*pairs.T)[:, :, 0], axis=-1)
    np.testing.assert_allclose(values, expected, rtol=0, atol=2e-5)
    theirs = mdtraj.compute_distances(periodic.mdtraj_trajectory(), pairs) * 10
    np.testing.assert_allclose(values, theirs, rtol=0, atol=2e-4)
    standing = kn.analysis.Distances(ours, pairs, minimum_image=False).run().results.values
    expected = np.linalg.norm(periodic.bonds(*pairs.T, nearest=False)[:, :, 0], axis=-1)
    np.testing.assert_allclose(standing, expected, rtol=1e-12)
    assert (standing > values + 1).any()


def test_any_cell():
    # CHARMM's cells are symmetric, with angles down to 32 degrees; MDAnalysis turns them, and not the positions
    trajectory = kn.open(datafiles.DCD_TRICLINIC, stored=False)
    pairs = np.random.default_rng(8).integers(0, trajectory.n_atoms, (200, 2))
    values = kn.analysis.Distances(trajectory, pairs).run().results.values
    images = np.array(list(itertools.product(range(-4, 5), repeat=3)))
    for frame, found in zip(trajectory, values, strict=True):
        points = frame.positions.astype(np.float64)
        vectors = (points[pairs[:, 1]] - points[pairs[:, 0]])[:, None] + images @ frame.cell
        np.testing.assert_allclose(found, np.linalg.norm(vectors, axis=-1).min(axis=1), rtol=1e-12, atol=1e-12)


def test_an_atom_may_be_in_several_pairs_and_twice_in_one(small):
    analysis = kn.analysis.Distances(small, [[3, 1], [1, 3], [3, 1], [7, 7]]).run()
    values = analysis.results.values
    np.testing.assert_array_equal(values[:, 0], values[:, 1])
    np.testing.assert_array_equal(values[:, 0], values[:, 2])
    assert not values[:, 3].any()
    assert [column.label for column in analysis.table().columns][2:4] == ["3-1 (angstrom)", "1-3 (angstrom)"]


def test_all_pairs_of_groups(small):
    distances = kn.analysis.Distances
    assert distances(small, ag1=[3, 1, 2], all_pairs=True).tuples.tolist() == [[3, 1], [3, 2], [1, 2]]
    assert distances(small, ag1=[1, 2], ag2=[2, 1, 5], all_pairs=True).tuples.tolist() == [[1, 2], [1, 5], [2, 5]]
    for wrong in ({"ag2": [1]}, {"ag1": [1], "pairs": [[0, 1]]}, {"ag1": [1]}):
        with pytest.raises(kn.ArgumentError, match="all_pairs"):
            distances(small, **wrong, all_pairs=True)


def test_pairs_of_an_atom_with_itself_are_noted(small):
    with pytest.warns(kn.Note, match="2 of 3 pairs are of an atom with itself.*all_pairs=True"):
        analysis = kn.analysis.Distances(small, ag1=[1, 2, 3], ag2=[1, 2, 4])
    assert len(analysis.notes) == 1
    assert not kn.analysis.Distances(small, [[0, 1]]).notes


def test_a_position_that_is_none_is_an_error_with_its_frame(damaged):
    with pytest.raises(kn.CorruptFileError, match=r"frame 2.*position of atom 4 \(counted from 1\) is not finite"):
        kn.analysis.Distances(damaged, [[0, 1], [3, 5]]).run()
    assert len(kn.analysis.Distances(damaged, [[0, 1]]).run().results.values) == 4


def test_refused(small):
    for arguments, message in [
        ({}, "pairs=, or by ag1= and ag2=, found neither"),
        ({"ag1": [1, 2]}, "found ag1"),
        ({"pairs": [[0, 1]], "ag1": [1], "ag2": [2]}, "found pairs=, ag1=, ag2="),
        ({"ag1": [1, 2], "ag2": [3]}, "as many atoms each, found 2, 1"),
        ({"pairs": [[0, 1, 2]]}, r"shape \(n, 2\)"),
        ({"pairs": [[0, 15]]}, "atom 15 of row 0 is out of range"),
    ]:
        with pytest.raises((kn.ArgumentError, kn.OutOfRangeError), match=message):
            kn.analysis.Distances(small, **arguments)

"""Contact maps: against distances of all pairs of residues, MDTraj, and two groups; memory and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.testing.analyses import write_solvated_peptide


@pytest.fixture(scope="module")
def adk() -> kn.Trajectory:
    from MDAnalysisTests.datafiles import DCD, PSF

    return kn.open(DCD, topology=PSF)


@pytest.fixture(scope="module")
def solvated(tmp_path_factory: pytest.TempPathFactory) -> kn.Trajectory:
    """A peptide in a triclinic cell, which crosses its faces."""
    topology, trajectory = write_solvated_peptide(tmp_path_factory.mktemp("peptide"), 40)
    return kn.open(trajectory, topology=topology)


@pytest.mark.parametrize("given", [{}, {"scheme": "closest", "min_separation": 1}, {"minimum_image": False}])
def test_counts_are_those_of_distances_of_all_pairs(solvated: kn.Trajectory, given: Any) -> None:
    pairs = kn.analysis.ResidueDistances(solvated, **given).run()
    found = kn.analysis.ContactMap(solvated, cutoff=6.0, **given).run().results
    places = np.searchsorted(found.residues, pairs.residue_pairs)
    near = pairs.results.distances <= 6.0
    expected = np.full(found.share.shape, np.nan)
    mean = expected.copy()
    for matrix, values in ((expected, near.mean(axis=0)), (mean, pairs.results.distances.mean(axis=0))):
        matrix[places[:, 0], places[:, 1]] = matrix[places[:, 1], places[:, 0]] = values
    np.testing.assert_allclose(found.share, expected, atol=1e-15)
    np.testing.assert_allclose(found.distance, mean, atol=1e-7)
    np.testing.assert_array_equal(found.contacts, near.sum(axis=1))
    assert 0 < np.nanmean(found.share) < 1
    alone = kn.analysis.ContactMap(solvated, cutoff=6.0, distances=False, **given).run().results
    np.testing.assert_array_equal(alone.share, found.share)
    np.testing.assert_array_equal(alone.contacts, found.contacts)
    assert "distance" not in alone


def test_values_are_those_of_mdtraj(adk: kn.Trajectory) -> None:
    mdtraj = pytest.importorskip("mdtraj")
    frames = mdtraj.load(adk.paths[0], top=adk.topology_name, stride=10)
    distances, pairs = mdtraj.compute_contacts(frames, scheme="ca", periodic=False)
    found = kn.analysis.ContactMap(adk, scheme="ca", cutoff=8.0).run(step=10).results
    assert found.share.shape == (214, 214) and len(pairs) == np.isfinite(found.share).sum() // 2
    # distances within rounding of the cutoff may differ
    np.testing.assert_allclose(found.share[pairs[:, 0], pairs[:, 1]], (distances <= 0.8).mean(axis=0), atol=0.11)
    np.testing.assert_allclose(found.distance[pairs[:, 0], pairs[:, 1]], 10 * distances.mean(axis=0), atol=1e-3)


def test_two_groups_are_a_part_of_the_whole(adk: kn.Trajectory) -> None:
    whole = kn.analysis.ContactMap(adk, "resid 1-40", scheme="ca", cutoff=9.0).run(step=20).results
    part = kn.analysis.ContactMap(adk, "resid 1-10", "resid 5-40", scheme="ca", cutoff=9.0).run(step=20)
    np.testing.assert_array_equal(part.results.share, whole.share[:10, 4:])
    np.testing.assert_array_equal(part.results.distance, whole.distance[:10, 4:])
    alone = kn.analysis.ContactMap(adk, "resid 1-40", scheme="ca", cutoff=9.0, distances=False).run(step=20)
    np.testing.assert_array_equal(alone.results.share, whole.share)
    table = part.table()
    assert [one.name for one in table.columns[:3]] == ["residue", "GLY10", "LYS11"] or len(table.columns) == 37
    assert part.summarised_over == "10 x 36 residues"


def test_the_same_bits_for_any_number_of_workers(solvated: kn.Trajectory) -> None:
    expected = kn.analysis.ContactMap(solvated).run(runner="serial").results
    for workers in (2, 3, 7):
        found = kn.analysis.ContactMap(solvated).run(workers=workers).results
        assert found.share.tobytes() == expected.share.tobytes()
        assert found.distance.tobytes() == expected.distance.tobytes()


def test_what_is_refused(adk: kn.Trajectory, tmp_path: Path) -> None:
    with pytest.raises(kn.ArgumentError, match="has one residue"):
        kn.analysis.ContactMap(adk, "resid 5")
    with pytest.raises(kn.ArgumentError, match="no two residues of the selections are min_separation=50 apart"):
        kn.analysis.ContactMap(adk, "resid 5", "resid 8", min_separation=50)
    with pytest.raises(kn.ArgumentError, match="cutoff"):
        kn.analysis.ContactMap(adk, "resid 5-20", cutoff=0.0)
    with pytest.raises(kn.MemoryLimitError, match=r"matrix of 214 x 214 residues.*select fewer residues"):
        kn.analysis.ContactMap(adk, scheme="ca").run(memory=1_000_000)
    made = kn.analysis.ContactMap(adk, scheme="ca", cutoff=8.0).run(stop=3)
    kn.analysis.ContactMap(adk, scheme="ca", distances=False).run(stop=3).save(tmp_path / "alone.h5")
    made.save(tmp_path / "map.h5")
    made.plot(tmp_path / "map.png")
    sizes = [(tmp_path / name).stat().st_size for name in ("alone.h5", "map.h5")]
    assert 8 * 214**2 < sizes[0] < sizes[1] - 7 * 214**2

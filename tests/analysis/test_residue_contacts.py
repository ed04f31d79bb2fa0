"""Contacts of residues: all least distances up to the cutoff, MDTraj's values; occupancy, atoms, what is refused."""

import numpy as np
import pytest

import kinema as kn
from kinema.testing.programs.imports import lazy

mdtraj = lazy("mdtraj")

ResidueContacts = kn.analysis.ResidueContacts


@pytest.mark.parametrize("scheme", ["closest-heavy", "closest", "ca", "sidechain-heavy"])
def test_those_of_all_least_distances(adk, scheme):
    ours, _ = adk
    cutoff = 8.0 if scheme == "ca" else 4.5
    found = ResidueContacts(ours, scheme=scheme, cutoff=cutoff).run(frames=[0, 50, 97])
    every = kn.analysis.ResidueDistances(ours, scheme=scheme).run(frames=[0, 50, 97])
    near = every.results.distances <= cutoff
    np.testing.assert_array_equal(found.results.counts, near.sum(axis=1))
    residues = ours.atoms.resindices[np.column_stack([found.results.i, found.results.j])]
    np.testing.assert_array_equal(residues, np.concatenate([every.residue_pairs[row] for row in near]))
    np.testing.assert_array_equal(found.results.distance, every.results.distances[near])
    # the atoms are those of the distance
    rows = np.repeat(ours.read([0, 50, 97]).astype(float), found.results.counts, axis=0)
    at = np.arange(len(rows))
    apart = np.linalg.norm(rows[at, found.results.j] - rows[at, found.results.i], axis=1)
    np.testing.assert_allclose(apart, found.results.distance, rtol=1e-12)


def test_as_mdtraj(adk):
    ours, _ = adk
    found = ResidueContacts(ours).run(stop=2)
    theirs = mdtraj.Trajectory(ours.read([0, 1]) / 10, mdtraj.load_psf(ours.topology_name))
    distances, pairs = mdtraj.compute_contacts(theirs, scheme="closest-heavy")
    near = distances * 10 <= 4.5
    residues = ours.atoms.resindices[np.column_stack([found.results.i, found.results.j])]
    np.testing.assert_array_equal(residues, np.concatenate([pairs[row] for row in near]))
    np.testing.assert_allclose(found.results.distance, distances[near] * 10, rtol=0, atol=1e-4)


def test_occupancy_is_of_residues(adk):
    ours, _ = adk
    found = ResidueContacts(ours, "resid 1:60").run(step=10)
    occupancy = found.occupancy()
    every = kn.analysis.ResidueDistances(ours, "resid 1:60").run(step=10)
    shares = np.sort((every.results.distances <= 4.5).mean(axis=0))[::-1]
    assert occupancy.by == "residue"
    np.testing.assert_allclose(occupancy.share, shares[shares > 0])


def test_a_frame_may_have_none(small):
    atoms = kn.Atoms(15, names=["C"] * 15, resids=np.arange(15))
    trajectory = kn.open(small.paths[0], topology=atoms, stored=False)
    found = ResidueContacts(trajectory, scheme="closest", cutoff=1e-3).run()
    assert found.results.counts.tolist() == [0] * 20 and not len(found.results.distance)


def test_refused(adk):
    for given, message in [
        ({"cutoff": 0.0}, "cutoff is a finite number above 0, found 0"),
        ({"cutoff": np.inf}, "cutoff is a finite number above 0, found inf"),
        ({"scheme": "nearest"}, "scheme must be one of"),
        ({"select": "resid 5"}, "the selection has one residue"),
    ]:
        with pytest.raises(kn.ArgumentError, match=message):
            ResidueContacts(adk.ours, **given)

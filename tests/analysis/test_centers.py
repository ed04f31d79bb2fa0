"""Centres: MDAnalysis' values of groups, residues and segments, order of groups, errors."""

import numpy as np
import pytest

import kinema as kn


@pytest.mark.parametrize("compound", ["group", "residues", "segments", "fragments"])
def test_values_are_those_of_mdanalysis(adk, compound):
    import mdtraj

    ours, universe = adk
    atoms = universe.select_atoms("resid 1:50")
    steps = universe.trajectory[::9]
    masses = np.array([np.atleast_2d(atoms.center_of_mass(compound=compound)) for _ in steps])
    geometry = np.array([np.atleast_2d(atoms.center_of_geometry(compound=compound)) for _ in steps])
    found = kn.analysis.Centers(ours, "resid 1:50", compound=compound).run(step=9).results
    np.testing.assert_allclose(found.positions, masses, rtol=0, atol=1e-4)
    np.testing.assert_array_equal(found.centers, found.positions)
    np.testing.assert_array_equal(found.values, found.positions.reshape(len(masses), -1))
    plain = kn.analysis.Centers(ours, "resid 1:50", weights=None, compound=compound).run(step=9).results
    np.testing.assert_allclose(plain.positions, geometry, rtol=0, atol=1e-4)
    if compound == "group":
        theirs = mdtraj.compute_center_of_geometry(adk.mdtraj_trajectory(atoms))[::9] * 10
        np.testing.assert_allclose(plain.values, theirs, rtol=0, atol=1e-4)


def test_groups_are_in_the_order_of_the_selection(adk):
    ours, universe = adk
    # one atom of each residue, then the next: residues are not side by side
    chosen = np.concatenate([universe.select_atoms(f"resid 3 5 and name {name}").indices for name in ("N", "CA", "C")])
    chosen = np.concatenate([chosen[::-1], universe.select_atoms("resid 4 and name CA").indices])
    analysis = kn.analysis.Centers(ours, chosen, compound="residues").run(stop=2)
    residues = [5, 3, 4]
    assert [column.name for column in analysis.table().columns[2::3]] == ["LEU5 x", "ILE3 x", "ILE4 x"]
    universe.trajectory[1]
    for place, resid in enumerate(residues):
        group = universe.atoms[chosen].select_atoms(f"resid {resid}")
        np.testing.assert_allclose(analysis.results.positions[1, place], group.center_of_mass(), rtol=0, atol=1e-4)


def test_weights_follow_their_atoms(small):
    xyz = small.read(dtype="float64")
    weights = np.array([1.0, 5.0, 2.0])
    found = kn.analysis.Centers(small, [9, 0, 4], weights=weights).run().results
    np.testing.assert_allclose(found.values, np.average(xyz[:, [9, 0, 4]], axis=1, weights=weights), rtol=1e-6)


def test_refused(small, damaged, adk):
    with pytest.raises(kn.ArgumentError, match="needs a topology"):
        kn.analysis.Centers(small, weights=None, compound="residues")
    with pytest.raises(kn.ArgumentError, match="compound"):
        kn.analysis.Centers(adk.ours, compound="atoms")
    with pytest.raises(kn.CorruptFileError, match=r"frame 2.*position of atom 4"):
        kn.analysis.Centers(damaged, weights=None).run()

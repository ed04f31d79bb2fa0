"""Ramachandran: MDAnalysis' angles, residues that lack one, the picture."""

import numpy as np
import pytest

import kinema as kn


def test_angles_are_those_of_mdanalysis(adk, tmp_path):
    from MDAnalysis.analysis.dihedrals import Ramachandran

    ours, universe = adk
    with pytest.warns(UserWarning, match="first or last residues"):
        expected = Ramachandran(universe.select_atoms("protein")).run().results.angles
    with pytest.warns(kn.Note, match="no psi of GLY214"):
        analysis = kn.analysis.Ramachandran(ours).run()
    results = analysis.results
    assert results.angles.shape == expected.shape == (98, 212, 2)
    assert np.abs((results.angles - expected + 180) % 360 - 180).max() < 2e-4
    np.testing.assert_array_equal(results.phi, results.angles[:, :, 0])
    np.testing.assert_array_equal(results.psi, results.angles[:, :, 1])
    assert [column.name for column in analysis.table().columns[2:5]] == ["phi ARG2", "psi ARG2", "phi ILE3"]
    figure = analysis.plot(tmp_path / "plane.png")
    assert figure.axes[0].get_xlim() == figure.axes[0].get_ylim() == (-180, 180)
    assert (tmp_path / "plane.png").stat().st_size > 5000


def test_a_residue_has_both_or_none(adk):
    with pytest.raises(kn.ArgumentError, match="atoms of phi"):
        kn.analysis.Ramachandran(adk.ours, "resid 1")
    one = kn.analysis.Ramachandran(adk.ours, "resid 100").run(stop=3).results
    assert one.angles.shape == (3, 1, 2)
    assert one.phi.shape == (3, 1)

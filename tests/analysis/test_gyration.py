"""Gyration tensor and shape: MDAnalysis' values with masses, MDTraj's without, flat and degenerate sets."""

import numpy as np
import pytest

import kinema as kn
from kinema.testing import write_dcd


def test_with_masses_as_mdanalysis(adk):
    ours, universe = adk
    atoms = universe.select_atoms("backbone")
    steps = universe.trajectory[::7]
    expected = [(atoms.radius_of_gyration(), *atoms.gyration_moments(), atoms.asphericity()) for _ in steps]
    results = kn.analysis.Gyration(ours, "backbone").run(step=7).results
    radius, *moments, anisotropy = np.array(expected).T
    np.testing.assert_allclose(results.rgyr, radius, rtol=1e-5)
    np.testing.assert_allclose(results.gyration_moments, np.sort(moments, axis=0).T, rtol=1e-5)
    # MDAnalysis' asphericity is that of Dima and Thirumalai
    np.testing.assert_allclose(results.relative_shape_anisotropy, anisotropy, rtol=1e-4)


def test_without_masses_as_mdtraj(adk):
    import mdtraj

    atoms = adk.universe.select_atoms("name CA")
    theirs = adk.mdtraj_trajectory(atoms)
    results = kn.analysis.Gyration(adk.ours, "name CA", weights=None, tensor=True).run().results
    tensor = mdtraj.compute_gyration_tensor(theirs) * 100
    np.testing.assert_allclose(results.tensor, tensor[:, *np.triu_indices(3)], rtol=0, atol=2e-3)
    np.testing.assert_allclose(results.gyration_moments, np.sort(mdtraj.principal_moments(theirs) * 100), rtol=1e-4)
    np.testing.assert_allclose(results.asphericity, mdtraj.asphericity(theirs) * 100, rtol=1e-4)
    np.testing.assert_allclose(results.acylindricity, mdtraj.acylindricity(theirs) * 100, rtol=1e-3)
    anisotropy = mdtraj.relative_shape_antisotropy(theirs)
    np.testing.assert_allclose(results.relative_shape_anisotropy, anisotropy, rtol=1e-4)
    assert results.values.shape == (98, 13)


def test_columns_and_units(adk, tmp_path):
    analysis = kn.analysis.Gyration(adk.ours, "name CA").run(stop=3)
    table = analysis.table().change_units("nm", "ps")
    labels = [column.label for column in table.columns[2:]]
    assert labels[:3] == ["rgyr (nm)", "moment_1 (nm^2)", "moment_2 (nm^2)"]
    assert labels[-1] == "relative_shape_anisotropy (1)"
    np.testing.assert_allclose(table.columns[3].values * 100, analysis.results.gyration_moments[:, 0], rtol=1e-14)
    figure = analysis.plot(tmp_path / "shape.png")
    assert [axes.get_ylabel() for axes in figure.axes] == ["rgyr (Å)", "Å²", "relative_shape_anisotropy"]


def test_lines_planes_and_points(tmp_path, damaged):
    line = np.outer(np.arange(4), [1, 2, 2])
    plane = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]])
    write_dcd(tmp_path / "few.dcd", np.array([line, plane, np.ones((4, 3))], np.float32))
    trajectory = kn.open(tmp_path / "few.dcd", stored=False)
    results = kn.analysis.Gyration(trajectory, weights=None).run().results
    np.testing.assert_allclose(results.relative_shape_anisotropy[:2], [1, 0.25], atol=1e-12)
    assert np.isnan(results.relative_shape_anisotropy[2])
    np.testing.assert_allclose(results.gyration_moments, [[0, 0, 11.25], [0, 0.5, 0.5], [0, 0, 0]], atol=1e-12)
    with pytest.raises(kn.CorruptFileError, match=r"frame 2.*position of atom 4"):
        kn.analysis.Gyration(damaged, weights=None).run()

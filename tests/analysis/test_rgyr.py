"""Radius of gyration: golden values, axes, weights, errors."""

import numpy as np
import pytest

import kinema as kn


@pytest.mark.parametrize("name", ["ca.dcd", "ca.xtc"])
def test_golden_values(golden, name):
    with np.load(golden / f"{name}.npz") as values:
        expected = values["rgyr"]
    traj = kn.open(golden / name, topology=golden / "ca.pdb", stored=False)
    results = kn.analysis.RadiusOfGyration(traj).run().results
    np.testing.assert_allclose(results.rgyr, expected, rtol=0, atol=1e-5)
    alike = kn.analysis.RadiusOfGyration(traj, weights=None).run().results
    np.testing.assert_allclose(alike.values, results.values, rtol=1e-12)


def test_axes(small):
    xyz = small.read(dtype="float64")
    masses = np.linspace(1.0, 30.0, 15)
    centred = xyz - np.average(xyz, axis=1, weights=masses)[:, None]
    squares = np.average(centred**2, axis=1, weights=masses)
    total = squares.sum(axis=1)
    expected = np.sqrt(np.column_stack([total, *(total - squares[:, axis] for axis in range(3))]))
    results = kn.analysis.RadiusOfGyration(small, weights=masses, axes=True).run().results
    np.testing.assert_allclose(results.values, expected, rtol=1e-6)
    np.testing.assert_array_equal(np.column_stack([results.rgyr, results.rgyr_axes]), results.values)


def test_masses_need_a_topology(small):
    with pytest.raises(kn.ArgumentError, match="weights=None"):
        kn.analysis.RadiusOfGyration(small)

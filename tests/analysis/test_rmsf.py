"""RMSF: golden values, alignment in rounds, order of atoms, errors."""

import numpy as np
import pytest

import kinema as kn


@pytest.mark.parametrize("name", ["ca.dcd", "ca.xtc"])
def test_golden_values(golden, name):
    traj = kn.open(golden / name, stored=False)
    with np.load(golden / f"{name}.npz") as values:
        plain, aligned = values["rmsf"], values["rmsf_aligned"]
    np.testing.assert_allclose(kn.analysis.RMSF(traj).run().results.rmsf, plain, rtol=0, atol=1e-5)
    found = kn.analysis.RMSF(traj, align="average").run()
    np.testing.assert_allclose(found.results.rmsf, aligned, rtol=0, atol=1e-4)
    assert len(found.timings.passes) == 2


def test_is_the_standard_deviation(small):
    xyz = small.read(dtype="float64")
    results = kn.analysis.RMSF(small, select=[9, 2, 5]).run().results
    np.testing.assert_allclose(results.rmsf, np.sqrt(xyz.var(axis=0).sum(axis=1))[[9, 2, 5]], rtol=1e-6)
    np.testing.assert_allclose(results.mean_positions, xyz.mean(axis=0)[[9, 2, 5]], atol=1e-5)
    np.testing.assert_array_equal(results.indices, [9, 2, 5])


def test_order_of_atoms_is_kept_with_alignment(small):
    arguments = {"align": "average", "align_select": [8, 1, 4, 6]}
    rising = kn.analysis.RMSF(small, select=[2, 5, 9], **arguments).run().results.rmsf
    other = kn.analysis.RMSF(small, select=[9, 2, 5], **arguments).run().results.rmsf
    np.testing.assert_array_equal(other, rising[[2, 0, 1]])


def test_the_iterative_average_is_that_of_mdanalysis_and_of_any_reference(adk_dcd):
    import MDAnalysis
    from MDAnalysis.analysis.align import iterative_average

    universe = MDAnalysis.Universe(*adk_dcd)
    traj = kn.open(adk_dcd.trajectory, topology=adk_dcd.topology)
    expected = iterative_average(universe, universe.copy(), select="name CA", niter=100, eps=1e-4).results.positions
    found = kn.analysis.RMSF(traj, "name CA", align="iterative").run().results
    np.testing.assert_allclose(found.mean_positions, expected, rtol=0, atol=2e-3)
    other = kn.analysis.RMSF(traj, "name CA", align="iterative", ref_frame=97).run().results
    # what a single average makes of another reference is 4e-4 angstrom
    np.testing.assert_allclose(other.rmsf, found.rmsf, rtol=0, atol=2e-6)
    once = [kn.analysis.RMSF(traj, "name CA", align="average", ref_frame=frame).run().results for frame in (0, 97)]
    assert np.abs(once[0].rmsf - once[1].rmsf).max() > 1e-4


def test_one_frame_does_not_fluctuate(small):
    assert not kn.analysis.RMSF(small).run(frames=[4]).results.rmsf.any()


def test_arguments_are_checked(small):
    with pytest.raises(kn.ArgumentError, match="align must be"):
        kn.analysis.RMSF(small, align="mean")
    with pytest.raises(kn.ArgumentError, match="need align="):
        kn.analysis.RMSF(small, align_select=[1, 2])
    with pytest.raises(kn.ArgumentError, match="need align='iterative'"):
        kn.analysis.RMSF(small, align="average", tolerance=1e-3)
    with pytest.raises(kn.ArgumentError, match="tolerance is above 0"):
        kn.analysis.RMSF(small, align="iterative", tolerance=0.0)

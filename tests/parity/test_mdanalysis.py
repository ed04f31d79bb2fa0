"""The same numbers as MDAnalysis, on real files: PSF with DCD, GRO with XTC, TPR where it matters."""

import numpy as np
import pytest

import kinema as kn
from kinema.testing.programs.imports import lazy

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis.*"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:MDAnalysis.*"),
]
mda = lazy("MDAnalysis")
# angstrom; MDAnalysis computes RMSD from float32 coordinates centred in float32
TOLERANCE = 5e-6


@pytest.fixture(params=["adk_dcd", "adk_xtc"])
def both(request):
    files = request.getfixturevalue(request.param)
    traj = kn.open(files.trajectory, topology=files.topology, stored=False)
    return traj, mda.Universe(files.topology, files.trajectory)


def test_trajectory(both):
    traj, universe = both
    assert (traj.n_frames, traj.n_atoms) == (universe.trajectory.n_frames, universe.atoms.n_atoms)
    assert traj.dt == pytest.approx(universe.trajectory.dt, rel=1e-6)
    for ts, frame in zip(universe.trajectory, traj, strict=True):
        np.testing.assert_array_equal(frame.positions, ts.positions)
        assert frame.time == pytest.approx(ts.time, rel=1e-12)
        assert frame.frame == ts.frame
        expected = np.zeros((3, 3)) if ts.dimensions is None else ts.triclinic_dimensions
        np.testing.assert_allclose(frame.cell, expected, atol=1e-3)


@pytest.mark.parametrize("weights", [None, "mass"])
def test_rmsd(both, weights):
    from MDAnalysis.analysis import rms

    traj, universe = both
    select, groups = "protein and name CA", ["protein and backbone", "resid 30-59 and protein"]
    arguments = {"select": select, "ref_frame": 4, "weights": weights}
    expected = rms.RMSD(universe, groupselections=groups, **arguments).run(step=2)
    found = kn.analysis.RMSD(traj, groups=groups, **arguments).run(step=2)
    np.testing.assert_allclose(found.results.rmsd, expected.results.rmsd, rtol=0, atol=TOLERANCE)


def test_rmsd_without_superposition(both):
    """As the function `rms.rmsd` has it; the class `rms.RMSD` centres the structures even then."""
    from MDAnalysis.analysis import rms

    traj, universe = both
    group = universe.select_atoms("protein and name CA")
    reference = group.positions.copy()
    expected = [rms.rmsd(group.positions, reference) for _ in universe.trajectory]
    found = kn.analysis.RMSD(traj, select=group, superposition=False).run().results.values[:, 0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


def test_rmsf(both):
    from MDAnalysis.analysis import rms

    traj, universe = both
    group = universe.select_atoms("protein and not name H*")
    expected = rms.RMSF(group).run(start=1).results.rmsf
    found = kn.analysis.RMSF(traj, select=group).run(start=1).results.rmsf
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


def test_rmsf_of_aligned_frames(both):
    from MDAnalysis.analysis import align, rms

    traj, universe = both
    select = "protein and name CA"
    average = align.AverageStructure(universe, universe, select=select, ref_frame=0).run().results.universe
    # the recipe of MDAnalysis' user guide
    copy = mda.Merge(universe.select_atoms("protein"))
    copy.load_new(kn.open(universe, stored=False).read(select=universe.select_atoms("protein").indices), order="fac")
    align.AlignTraj(copy, average, select=select, in_memory=True).run()
    expected = rms.RMSF(copy.select_atoms("protein")).run().results.rmsf
    found = kn.analysis.RMSF(traj, select="protein", align="average", align_select=select).run().results.rmsf
    # aligned frames are kept in float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_radius_of_gyration(both):
    traj, universe = both
    protein = universe.select_atoms("protein")
    expected = [(ts.frame, ts.time, protein.radius_of_gyration()) for ts in universe.trajectory[::-1]]
    results = kn.analysis.RadiusOfGyration(traj, select=protein).run(step=-1).results
    found = np.column_stack([results.frames, results.time, results.rgyr])
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("frames", [slice(8, None, -3), [3, 1, 1, -2], None])
def test_frames_are_those_of_mdanalysis(both, frames):
    from MDAnalysis.analysis import rms

    traj, universe = both
    if frames is None:
        frames = np.arange(traj.n_frames) % 3 == 1
    expected_frames = np.arange(traj.n_frames)[frames]
    expected = rms.RMSD(universe, select="name CA").run(frames=expected_frames).results.rmsd
    found = kn.analysis.RMSD(traj, select="name CA").run(frames=frames).results.rmsd
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


def test_several_files(adk_dcd):
    from MDAnalysisTests.datafiles import DCD, DCD2, PSF

    universe = mda.Universe(PSF, [DCD, DCD2])
    traj = kn.open(universe, overlap="all", stored=False)
    assert traj.n_frames == universe.trajectory.n_frames
    # MDAnalysis gives later files times of its own; the coordinates are the same
    np.testing.assert_array_equal(traj.read(select=range(50)), [ts.positions[:50].copy() for ts in universe.trajectory])

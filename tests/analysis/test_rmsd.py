"""RMSD: golden values, references, groups, errors."""

import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk, write_dcd


@pytest.mark.parametrize("name", ["ca.dcd", "ca.xtc"])
def test_golden_values(golden, name):
    with np.load(golden / f"{name}.npz") as values:
        expected = values["rmsd"]
    traj = kn.open(golden / name, stored=False)
    results = kn.analysis.RMSD(traj).run().results
    np.testing.assert_allclose(results.rmsd[:, 2], expected, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(results.rmsd[:, 0], np.arange(len(expected)))
    np.testing.assert_array_equal(results.rmsd[:, 1], traj.times)
    np.testing.assert_array_equal(results.values[:, 0], results.rmsd[:, 2])


def superposed_rmsd(moving, fixed, weights=None):
    """By singular value decomposition (W. Kabsch, Acta Cryst. A32 (1976) 922): another way than the kernel's."""
    weights = np.ones(len(fixed)) if weights is None else np.asarray(weights)
    a = moving - np.average(moving, axis=0, weights=weights)
    b = fixed - np.average(fixed, axis=0, weights=weights)
    u, _, vt = np.linalg.svd((a * weights[:, None]).T @ b)
    sign = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    difference = a @ u @ sign @ vt - b
    return np.sqrt(np.average((difference**2).sum(axis=1), weights=weights))


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_kabsch(small, weighted):
    xyz = small.read(dtype="float64")
    select = [7, 2, 9, 4, 11, 0]
    weights = [3.0, 1.0, 2.0, 0.5, 1.0, 4.0] if weighted else None
    found = kn.analysis.RMSD(small, select=select, ref_frame=-3, weights=weights).run().results.values[:, 0]
    expected = [superposed_rmsd(frame[select], xyz[-3][select], weights) for frame in xyz]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert found[-3] == pytest.approx(0.0, abs=1e-6)


def test_without_superposition(small):
    xyz = small.read(dtype="float64")
    found = kn.analysis.RMSD(small, superposition=False, groups=[[1, 2]]).run().results.values
    np.testing.assert_allclose(found[:, 0], np.sqrt(((xyz - xyz[0]) ** 2).sum(2).mean(1)), atol=1e-6)
    np.testing.assert_allclose(found[:, 1], np.sqrt(((xyz - xyz[0])[:, 1:3] ** 2).sum(2).mean(1)), atol=1e-6)


@pytest.mark.parametrize("superposition", [True, False])
def test_to_the_average_structure(small, superposition):
    """In two passes, as MDAnalysis' `AverageStructure` and then its RMSD."""
    weights = np.arange(1.0, 5.0)
    arguments = {"select": [4, 2, 9, 7], "weights": weights, "groups": [[0, 2, 11]], "superposition": superposition}
    superposed = kn.transforms.superpose([4, 2, 9, 7], weights=weights)
    average = (small.with_transform(superposed) if superposition else small).read(dtype="float64").mean(axis=0)
    expected = kn.analysis.RMSD(small, reference=average, **arguments).run().results.values
    analysis = kn.analysis.RMSD(small, reference="average", **arguments)
    for _ in range(2):
        np.testing.assert_allclose(analysis.run().results.values, expected, rtol=0, atol=1e-6)
    assert analysis.n_passes == 2
    # of the frames that are analysed
    assert not np.allclose(analysis.run(stop=2).results.values, expected[:2], atol=1e-3)
    with pytest.raises(kn.ArgumentError, match=r"reads its frames several times here, and out="):
        analysis.run(out="never.h5")
    with pytest.raises(kn.ArgumentError, match="reads all frames twice"):
        kn.analysis.RMSD.check_arguments({"reference": "average"}, followed=True)


def test_references_of_all_kinds_are_the_same(golden):
    import MDAnalysis

    traj = kn.open(golden / "ca.dcd", topology=golden / "ca.pdb", stored=False)
    universe = MDAnalysis.Universe(str(golden / "ca.pdb"), str(golden / "ca.dcd"))
    select = "resid 20-80"
    expected = kn.analysis.RMSD(traj, select=select, ref_frame=3).run().results.rmsd
    atoms = traj.select(select)
    universe.trajectory[5]
    references = [
        traj,
        golden / "ca.dcd",
        universe,
        universe.atoms,
        universe.select_atoms(select),
        kn.open(golden / "ca.dcd", stored=False),
    ]
    for reference in references:
        found = kn.analysis.RMSD(traj, select=select, ref_frame=3, reference=reference).run().results.rmsd
        np.testing.assert_array_equal(found, expected)
    for array in (traj.read(frames=3)[0], traj.read(frames=3, select=atoms)[0].tolist()):
        found = kn.analysis.RMSD(traj, select=select, reference=array).run().results.rmsd
        np.testing.assert_array_equal(found, expected)
    assert universe.trajectory.frame == 5


def test_structure_file_as_reference(golden):
    traj = kn.open(golden / "ca.xtc", topology=golden / "ca.pdb", stored=False)
    found = kn.analysis.RMSD(traj, select="name CA", reference=golden / "ca.pdb").run().results.values[:, 0]
    # the file is frame 0 to 0.001 A
    np.testing.assert_allclose(found, kn.analysis.RMSD(traj).run().results.values[:, 0], atol=2e-3)


def test_reference_of_other_atoms(golden, small):
    traj = kn.open(golden / "ca.dcd", topology=golden / "ca.pdb", stored=False)
    with pytest.raises(kn.ArgumentError, match=r"small\.dcd has 15 atoms, but the trajectory has 214"):
        kn.analysis.RMSD(traj, reference=small).run()
    with pytest.raises(kn.ArgumentError, match=r"15 atoms, expected 20 \(the selection\) or 214 \(the trajectory\)"):
        kn.analysis.RMSD(traj, select=range(20), reference=np.zeros((15, 3))).run()
    with pytest.raises(kn.ArgumentError, match="not a number"):
        kn.analysis.RMSD(traj, reference=np.full((214, 3), np.nan)).run()
    with pytest.raises(kn.ArgumentError, match="shape"):
        kn.analysis.RMSD(traj, reference=[1.0, 2.0])
    with pytest.raises(kn.OutOfRangeError, match="frame 14"):
        kn.analysis.RMSD(traj, ref_frame=14).run()
    with pytest.raises(kn.ArgumentError, match="ref_frame"):
        kn.analysis.RMSD(traj, ref_frame=0.5)


def test_weights_are_checked(small):
    for weights, said in (
        ([1.0, 2.0], "expected 15"),
        (np.zeros(15), "not all 0"),
        (-np.ones(15), "from 0 on"),
        ("charge", "'mass'"),
        ("mass", "needs a topology"),
    ):
        with pytest.raises(kn.ArgumentError, match=said):
            kn.analysis.RMSD(small, weights=weights)
    with pytest.raises(kn.ArgumentError, match="each of 1 groups"):
        kn.analysis.RMSD(small, groups=[[1, 2]], group_weights=[None, None])


def test_atoms_named_twice(small):
    with pytest.raises(kn.ArgumentError, match="names atom index 3 twice"):
        kn.analysis.RMSD(small, select=[1, 3, 3])


def test_frames_in_any_order(small):
    whole = kn.analysis.RMSD(small).run().results.rmsd
    frames = [5, -1, 5, 0, 13]
    results = kn.analysis.RMSD(small).run(frames=frames).results
    np.testing.assert_array_equal(results.rmsd, whole[frames])
    np.testing.assert_array_equal(results.frames, [5, 19, 5, 0, 13])
    view = small[4::3]
    found = kn.analysis.RMSD(view, reference=small).run(start=1).results.rmsd
    np.testing.assert_array_equal(found, whole[4::3][1:])
    # without reference frame 0 of the view is meant
    assert kn.analysis.RMSD(view).run().results.values[0, 0] == pytest.approx(0.0, abs=1e-6)


def test_coordinates_that_are_not_numbers(tmp_path):
    positions = random_walk(9, 6)
    positions[5, 2] = np.nan
    path = tmp_path / "nan.dcd"
    write_dcd(path, positions)
    traj = kn.open(path)
    for analysis in (
        kn.analysis.RMSD(traj),
        kn.analysis.RMSD(traj, select=[0, 1, 3], groups=[[2]]),
        kn.analysis.RMSF(traj),
        kn.analysis.RMSF(traj, align="average"),
        kn.analysis.RMSF(traj, select=[0], align="reference", align_select=[1, 2, 3]),
        kn.analysis.RadiusOfGyration(traj, weights=None),
    ):
        with pytest.raises(
            kn.CorruptFileError, match=r"nan\.dcd: DCD frame 5: position of atom 3 \(counted from 1\) is not finite"
        ) as caught:
            analysis.run()
        assert caught.value.path == str(path)
        assert caught.value.frame == 5
        assert not analysis.results
    assert len(kn.analysis.RMSD(traj, select=[0, 1, 3]).run().results.rmsd) == 9
    assert len(kn.analysis.RMSD(traj).run(stop=5).results.rmsd) == 5

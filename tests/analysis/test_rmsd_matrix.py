"""RMSDs of pairs of frames: against MDAnalysis, MDTraj and single RMSDs; frames in any order; memory and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.testing import write_dcd


@pytest.fixture(scope="module")
def adk() -> kn.Trajectory:
    from MDAnalysisTests.datafiles import DCD, PSF

    return kn.open(DCD, topology=PSF)


def matrix(trajectory: kn.Trajectory, select: Any = "name CA", run: Any = None, **arguments: Any) -> Any:
    return kn.analysis.RMSDMatrix(trajectory, select, **arguments).run(**(run or {})).results.dist_matrix


@pytest.mark.parametrize("weights", [None, "mass"])
@pytest.mark.parametrize("superposition", [True, False])
def test_each_pair_is_a_single_rmsd(adk: kn.Trajectory, weights: Any, superposition: bool) -> None:
    given: Any = {"weights": weights, "superposition": superposition}
    found = matrix(adk, "resid 1-30", {"step": 7}, **given)
    assert found.shape == (14, 14) and (found == found.T).all() and (np.diag(found) == 0.0).all()
    for place, frame in ((0, 0), (5, 35), (13, 91)):
        single = kn.analysis.RMSD(adk, "resid 1-30", ref_frame=frame, **given).run(step=7).results.rmsd[:, 2]
        # a superposed frame differs from itself by rounding
        np.testing.assert_allclose(found[place], single, rtol=0, atol=1e-6)


def test_values_are_those_of_mdanalysis(adk: kn.Trajectory) -> None:
    diffusionmap = pytest.importorskip("MDAnalysis.analysis.diffusionmap")
    import MDAnalysis

    universe = MDAnalysis.Universe(*[adk.topology_name, adk.paths[0]])
    theirs = diffusionmap.DistanceMatrix(universe, select="name CA").run(step=10).results.dist_matrix
    np.testing.assert_allclose(matrix(adk, run={"step": 10}, superposition=False), theirs, rtol=0, atol=1e-5)

    def superposed(a: Any, b: Any, weights: Any = None) -> float:
        from MDAnalysis.analysis.rms import rmsd

        return float(rmsd(a, b, weights=weights, superposition=True))

    masses = universe.select_atoms("name CA").masses
    theirs = diffusionmap.DistanceMatrix(universe, select="name CA", metric=superposed, weights=masses).run(step=10)
    ours = matrix(adk, run={"step": 10}, weights="mass")
    np.testing.assert_allclose(ours, theirs.results.dist_matrix, rtol=0, atol=1e-6)


def test_values_are_those_of_mdtraj(adk: kn.Trajectory) -> None:
    mdtraj = pytest.importorskip("mdtraj")
    theirs = mdtraj.load(adk.paths[0], top=adk.topology_name, atom_indices=adk.select("name CA").indices)
    found = matrix(adk)
    for frame in (0, 40, 97):
        # in single precision
        np.testing.assert_allclose(found[frame], 10 * mdtraj.rmsd(theirs, theirs, frame), rtol=0, atol=1e-3)


@pytest.mark.parametrize("frames", [[4, 2], [9, 3, 7], [5, 3, 5, 9], [8, 8], list(range(11, 0, -1))])
def test_frames_in_any_order_and_twice(adk: kn.Trajectory, frames: list[int]) -> None:
    whole = matrix(adk, run={"stop": 12})
    np.testing.assert_allclose(matrix(adk, run={"frames": frames}), whole[np.ix_(frames, frames)], atol=1e-10)


@pytest.mark.parametrize("n_frames", [2, 3, 4, 5, 12, 13])
def test_even_and_odd_numbers_of_frames(adk: kn.Trajectory, n_frames: int) -> None:
    whole = matrix(adk, run={"stop": 20})
    np.testing.assert_allclose(matrix(adk, run={"stop": n_frames}), whole[:n_frames, :n_frames], atol=1e-10)


def test_the_condensed_matrix_is_that_of_scipy(adk: kn.Trajectory) -> None:
    distance = pytest.importorskip("scipy.spatial.distance")
    found = kn.analysis.RMSDMatrix(adk, "name CA").run(step=9).results
    assert found.condensed.shape == (55,) and found.frames.tolist() == list(range(0, 98, 9))
    np.testing.assert_array_equal(distance.squareform(found.condensed), found.dist_matrix)


def test_atoms_in_any_order_have_their_weights(adk: kn.Trajectory) -> None:
    forwards, backwards = np.arange(40), np.arange(40)[::-1]
    weights = np.linspace(1, 3, 40)
    found = matrix(adk, forwards, {"step": 30}, weights=weights)
    np.testing.assert_allclose(matrix(adk, backwards, {"step": 30}, weights=weights[::-1]), found, rtol=1e-12)
    assert not np.allclose(matrix(adk, backwards, {"step": 30}, weights=weights), found)


def test_equal_frames_are_exactly_equal_and_mirror_images_are_not(tmp_path: Path) -> None:
    one = np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32)
    turned = one[:, [1, 2, 0]] + np.float32(5)
    write_dcd(tmp_path / "a.dcd", np.stack([one, one, turned, one * [1, 1, -1]]).astype(np.float32))
    found = matrix(kn.open(tmp_path / "a.dcd"), None)
    assert found[0, 1] == 0.0
    assert found[0, 2] < 1e-6 and found[0, 3] > 0.3
    np.testing.assert_allclose(found[0, 3], found[2, 3], atol=1e-6)


def test_a_matrix_that_does_not_fit_is_refused_before_the_first_frame(adk: kn.Trajectory) -> None:
    pairs = kn.analysis.RMSDMatrix(adk, "name CA")
    expected = r"matrix of 98 x 98 frames, expected at least 831,040 bytes, found 500,000; take fewer frames \(step=\)"
    with pytest.raises(kn.MemoryLimitError, match=expected):
        pairs.run(memory=500_000)
    with pytest.raises(kn.ArgumentError, match="at least two frames, found 1"):
        pairs.run(stop=1)


def test_files(adk: kn.Trajectory, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    pairs = kn.analysis.RMSDMatrix(adk, "name CA").run(step=20)
    for _ in range(2):
        pairs.save(tmp_path / "pairs.h5")
    with h5py.File(tmp_path / "pairs.h5") as file:
        np.testing.assert_array_equal(file["condensed"], pairs.results.condensed)
        assert file["row_labels"].asstr()[:].tolist() == ["0", "20", "40", "60", "80"]
        assert file["condensed"].attrs["unit"] == "angstrom" and "RMSDMatrix" in file.attrs["provenance"]
        np.testing.assert_array_equal(file["frames"], pairs.results.frames)
    pairs.save(tmp_path / "pairs.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "pairs.npy"), pairs.results.dist_matrix)
    assert pairs.summarised_over == "10 pairs of 5 frames"


def test_each_frame_against_another_trajectory(adk: kn.Trajectory, tmp_path: Path) -> None:
    whole = matrix(adk, run={"stop": 12})
    found = kn.analysis.RMSDMatrix(adk, "name CA", other=adk[3:12:4]).run(stop=12)
    np.testing.assert_allclose(found.results.dist_matrix, whole[:, 3::4], atol=1e-9)
    assert (np.diag(found.results.dist_matrix[3::4]) == 0.0).all(), "frames against themselves"
    assert found.summarised_over == "12 x 3 frames" and "condensed" not in found.results
    # a part of the system, and a file of rows
    kn.convert(adk, tmp_path / "ca.dcd", select="name CA", stop=5)
    kn.convert(adk, tmp_path / "all.dcd", stop=5)
    with pytest.raises(kn.ArgumentError, match="has 214 atoms, but the trajectory has 3341"):
        kn.analysis.RMSDMatrix(adk, "name CA", other=tmp_path / "ca.dcd")
    backwards = adk.select("name CA").indices[::-1]
    weights = np.linspace(1, 2, 214)
    given: Any = {"weights": weights, "superposition": True, "other": tmp_path / "all.dcd"}
    rows = kn.analysis.RMSDMatrix(adk, backwards, **given).run(stop=12, out=tmp_path / "rows.h5")
    assert rows.results.dist_matrix.shape == (12, 5)
    expected = matrix(adk, backwards, {"stop": 12}, weights=weights)[:, :5]
    np.testing.assert_allclose(np.asarray(rows.results.dist_matrix), expected, atol=1e-9)
    rows.save(tmp_path / "rows.csv")
    alone = kn.analysis.RMSDMatrix(adk, "name CA", other=adk.read(frames=[7])[0]).run(stop=12).results
    np.testing.assert_allclose(alone.dist_matrix, whole[:, 7:8], atol=1e-9)


@pytest.mark.parametrize("frames", [range(0, 98, 3), [*range(90, 50, -4), 3, 7]])
def test_pairs_below_a_cutoff(adk: kn.Trajectory, frames: Any, tmp_path: Path) -> None:
    frames = np.array(frames)
    whole = kn.analysis.RMSDMatrix(adk, "name CA").run(frames=frames).results.dist_matrix
    pairs = kn.analysis.RMSDMatrix(adk, "name CA", cutoff=1.5)
    found = pairs.run(frames=frames, workers=3).results
    near = {
        (min(frames[i], frames[j]), max(frames[i], frames[j])): whole[i, j]
        for i, j in np.argwhere(whole < 1.5)
        if i != j
    }
    assert 0 < len(near) < len(frames) * (len(frames) - 1) // 2
    assert list(zip(found.first, found.second, strict=True)) == sorted(near)
    np.testing.assert_array_equal(found.distance, [near[pair] for pair in sorted(near)])
    np.testing.assert_array_equal(found.neighbors, (whole < 1.5).sum(axis=1) - 1)
    assert pairs.subject == "frames with an RMSD below 1.5 angstrom from a frame"
    pairs.save(tmp_path / "pairs.csv")
    rows = [line for line in (tmp_path / "pairs.csv").read_text().splitlines() if line[0] not in "#f"]
    assert len(rows) == len(near)
    pairs.save(tmp_path / "pairs.h5")
    with h5py.File(tmp_path / "pairs.h5") as file:
        np.testing.assert_array_equal(file["distance"], found.distance)
        np.testing.assert_array_equal(file["second"], found.second)
    pairs.plot(tmp_path / "pairs.png")


@pytest.mark.parametrize("frames", [range(0, 98, 3), [9, 3, 7, 5]])
def test_single_precision_is_the_rounded_matrix(adk: kn.Trajectory, frames: Any, tmp_path: Path) -> None:
    exact = kn.analysis.RMSDMatrix(adk, "name CA").run(frames=frames).results
    made = kn.analysis.RMSDMatrix(adk, "name CA", dtype="float32")
    found = made.run(frames=frames, workers=3).results
    assert found.condensed.dtype == found.dist_matrix.dtype == np.float32
    np.testing.assert_array_equal(found.condensed, exact.condensed.astype(np.float32))
    made.save(tmp_path / "pairs.npy")
    assert np.load(tmp_path / "pairs.npy").dtype == np.float32
    np.testing.assert_array_equal(np.load(tmp_path / "pairs.npy"), found.dist_matrix)
    made.save(tmp_path / "pairs.h5")
    with h5py.File(tmp_path / "pairs.h5") as file:
        assert file["condensed"].dtype == np.float32
    # the positions of 98 frames take 754,992 bytes, each pair 8 bytes instead of 16
    with pytest.raises(kn.MemoryLimitError, match="expected at least 793,016 bytes"):
        kn.analysis.RMSDMatrix(adk, "name CA", dtype=np.float32).run(memory=500_000)


def test_single_precision_against_another_trajectory(adk: kn.Trajectory, tmp_path: Path) -> None:
    exact = kn.analysis.RMSDMatrix(adk, "name CA", other=adk[3:12:4]).run(stop=12).results
    single = kn.analysis.RMSDMatrix(adk, "name CA", other=adk[3:12:4], dtype="float32")
    found = single.run(stop=12, out=tmp_path / "rows.h5").results
    np.testing.assert_array_equal(np.asarray(found.dist_matrix), exact.dist_matrix.astype(np.float32))
    assert np.asarray(found.dist_matrix).dtype == np.float32
    with pytest.raises(kn.ArgumentError, match="dtype must be 'float64' or 'float32', found 'float16'"):
        kn.analysis.RMSDMatrix(adk, "name CA", dtype="float16")


def features(trajectory: kn.Trajectory) -> kn.Features:
    return kn.Features(kn.analysis.Distances(trajectory, pairs=[(0, 1000), (5, 2000), (100, 3000)]))


def test_features_have_euclidean_distances(adk: kn.Trajectory, tmp_path: Path) -> None:
    distance = pytest.importorskip("scipy.spatial.distance")
    points = features(adk).run(step=3).results.features
    pairs = kn.analysis.RMSDMatrix(features(adk))
    found = pairs.run(step=3, workers=2).results
    np.testing.assert_array_equal(found.condensed, distance.pdist(points))
    np.testing.assert_array_equal(found.dist_matrix, distance.squareform(found.condensed))
    single = kn.analysis.RMSDMatrix(features(adk), dtype="float32").run(step=3).results
    np.testing.assert_array_equal(single.condensed, found.condensed.astype(np.float32))
    pairs.save(tmp_path / "pairs.h5")
    with h5py.File(tmp_path / "pairs.h5") as file:
        np.testing.assert_array_equal(file["condensed"], found.condensed)
        assert file["condensed"].attrs["unit"] == "angstrom"
    pairs.save(tmp_path / "pairs.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "pairs.npy"), found.dist_matrix)
    pairs.plot(tmp_path / "pairs.png")
    assert "distance of features" in pairs.table().title.lower() and pairs.n_passes == 1
    near = kn.analysis.RMSDMatrix(features(adk), cutoff=1.0).run(step=3).results
    expected = np.argwhere(np.triu(found.dist_matrix < 1.0, 1))
    assert 0 < len(expected) < len(found.condensed)
    np.testing.assert_array_equal(np.stack([near.first, near.second], axis=1), 3 * expected)
    np.testing.assert_array_equal(near.distance, found.dist_matrix[tuple(expected.T)])
    np.testing.assert_array_equal(near.neighbors, (found.dist_matrix < 1.0).sum(axis=1) - 1)


def test_distances_of_many_features_are_computed_in_blocks(adk: kn.Trajectory, monkeypatch: Any) -> None:
    from kinema.analysis.ensembles import frame_pairs

    whole = kn.analysis.RMSDMatrix(features(adk)).run().results.condensed
    near = kn.analysis.RMSDMatrix(features(adk), cutoff=1.0).run().results
    monkeypatch.setattr(frame_pairs, "_BLOCK", 700)
    np.testing.assert_array_equal(kn.analysis.RMSDMatrix(features(adk)).run().results.condensed, whole)
    again = kn.analysis.RMSDMatrix(features(adk), cutoff=1.0).run().results
    np.testing.assert_array_equal(again.second, near.second)
    np.testing.assert_array_equal(again.distance, near.distance)


def test_what_features_do_not_have_is_refused(adk: kn.Trajectory) -> None:
    for given, named in (
        ({"select": "name CA"}, "select="),
        ({"weights": "mass"}, "weights="),
        ({"other": adk}, "other="),
    ):
        with pytest.raises(kn.ArgumentError, match=f"RMSDMatrix of features has no {named}: these are of positions"):
            kn.analysis.RMSDMatrix(features(adk), **given)
    with pytest.raises(kn.MemoryLimitError, match=r"matrix of 98 x 98 frames, .*take fewer frames"):
        kn.analysis.RMSDMatrix(features(adk)).run(memory=20_000)
    undefined = kn.Features(kn.Dihedrals(adk, quadruples=[(0, 0, 1, 2), (0, 1, 2, 3)]))
    with pytest.raises(kn.ArgumentError, match="cos dihedral 0-0-1-2: not defined in frame 10"):
        kn.analysis.RMSDMatrix(undefined).run(start=10)


def test_pairs_that_cannot_be_listed(adk: kn.Trajectory) -> None:
    pairs = kn.analysis.RMSDMatrix
    with pytest.raises(kn.ArgumentError, match="a frame is named twice"):
        pairs(adk, "name CA", cutoff=1.5).run(frames=[0, 4, 4])
    with pytest.raises(kn.ArgumentError, match="leave out cutoff= or other="):
        pairs(adk, "name CA", cutoff=1.5, other=adk)
    with pytest.raises(kn.ArgumentError, match="cutoff"):
        pairs(adk, "name CA", cutoff=0.0)
    none = pairs(adk, "name CA", cutoff=1e-3).run(step=40)
    assert none.results.distance.shape == (0,) and not none.results.neighbors.any()

"""Clusters of frames: gromos by hand, SciPy, scikit-learn; centres, transitions, notes and files; workers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema import _core
from kinema.cli import main
from kinema.testing import write_dcd


@pytest.fixture(scope="module")
def adk() -> kn.Trajectory:
    from MDAnalysisTests.datafiles import DCD, PSF

    return kn.open(DCD, topology=PSF)


def clusters(trajectory: kn.Trajectory, **given: Any) -> kn.analysis.Clusters:
    return kn.analysis.Clusters(trajectory, "name CA", **given).run(step=2)


def on_a_line(folder: Path, places: list[float]) -> kn.Trajectory:
    """One atom that moves along x, so that RMSDs without superposition are distances."""
    positions = np.zeros((len(places), 1, 3), np.float32)
    positions[:, 0, 0] = places
    write_dcd(folder / "line.dcd", positions)
    return kn.open(folder / "line.dcd")


def test_gromos_by_hand(tmp_path: Path) -> None:
    trajectory = on_a_line(tmp_path, [10.0, 0.0, 1.0, 2.0, 3.0, 11.0])
    found = kn.analysis.Clusters(trajectory, cutoff=1.5, superposition=False).run().results
    # 1-2, 2-3, 3-4 and 0-5 are neighbours; frame 2 has as many as frame 3 and comes first; frame 4 is left alone
    assert found.labels.tolist() == [1, 0, 0, 0, 2, 1]
    assert (found.sizes.tolist(), found.most_neighbors.tolist()) == ([3, 2, 1], [2, 0, 4])
    assert found.centers.tolist() == [2, 0, 4]
    assert found.transitions.tolist() == [[2, 0, 1], [1, 0, 0], [0, 1, 0]]
    # two frames at the cutoff are not neighbours
    alone = kn.analysis.Clusters(trajectory, superposition=False).run().results
    assert alone.sizes.tolist() == [1] * 6 and alone.labels.tolist() == list(range(6))


def numpy_gromos(square: Any, cutoff: float) -> tuple[list[int], list[int]]:
    """Labels, and the thing with most neighbours of each cluster, from a whole matrix."""
    near = (square < cutoff) & ~np.eye(len(square), dtype=bool)
    left, found = np.ones(len(near), bool), []
    while left.any():
        centre = int(np.argmax(np.where(left, (near & left).sum(axis=1), -1)))
        members = near[centre] & left
        members[centre] = True
        found.append((centre, members))
        left &= ~members
    # the largest first, the cluster of the earlier thing before others of its size
    found.sort(key=lambda one: (-one[1].sum(), np.flatnonzero(one[1])[0]))
    labels = np.argmax([members for _, members in found], axis=0)
    return labels.tolist(), [centre for centre, _ in found]


@pytest.mark.parametrize("cutoff", [0.4, 0.7, 1.2])
@pytest.mark.parametrize("superposition", [True, False])
def test_gromos_needs_no_matrix(adk: kn.Trajectory, cutoff: float, superposition: bool) -> None:
    whole = kn.analysis.RMSDMatrix(adk, "name CA", superposition=superposition).run().results.dist_matrix
    labels, most = numpy_gromos(whole, cutoff)
    for workers in (1, 3):
        made = kn.analysis.Clusters(adk, "name CA", cutoff=cutoff, superposition=superposition)
        found = made.run(workers=workers).results
        assert found.labels.tolist() == labels and "condensed" not in found
        assert found.most_neighbors.tolist() == most
        for cluster, center in enumerate(found.centers):
            members = np.flatnonzero(found.labels == cluster)
            sums = whole[np.ix_(members, members)].sum(axis=0)
            assert sums[members == center] <= sums.min() * (1 + 1e-9)
            # of two frames, the earlier one
            assert len(members) > 2 or center == members[0]


def test_frames_that_are_listed_twice_are_neighbours(adk: kn.Trajectory) -> None:
    frames = [40, 3, 40, 9, 70, 3, 3]
    found = kn.analysis.Clusters(adk, "name CA", cutoff=0.6).run(frames=frames).results
    whole = kn.analysis.RMSDMatrix(adk, "name CA").run(frames=frames).results.dist_matrix
    labels, most = numpy_gromos(whole, 0.6)
    assert found.labels.tolist() == labels
    assert found.most_neighbors.tolist() == [frames[place] for place in most]


def test_pairs_that_do_not_fit_are_refused_and_a_matrix_is_not_needed(tmp_path: Path) -> None:
    line = on_a_line(tmp_path, [3.0 * (i // 2) for i in range(1000)])
    with pytest.warns(kn.Note, match="there are 500 clusters"):
        found = kn.analysis.Clusters(line, superposition=False).run(memory="4 MB")
    # the matrices of 1,000 frames take 12 MB
    assert found.results.sizes.tolist() == [2] * 500
    with pytest.raises(kn.MemoryLimitError, match=r"distances between 1,000 frames"):
        kn.analysis.Clusters(line, method="average", superposition=False).run(memory="4 MB")
    with pytest.raises(kn.MemoryLimitError, match=r"pairs of frames below cutoff=900.*lower cutoff="):
        kn.analysis.Clusters(line, superposition=False, cutoff=900.0).run(memory="16 MB")


def test_pairs_of_features_that_do_not_fit_are_refused(adk: kn.Trajectory) -> None:
    features = kn.Features(kn.analysis.Distances(adk, pairs=[(0, 1000), (5, 2000)]))
    with pytest.raises(kn.MemoryLimitError, match=r"43,071 pairs of frames below cutoff=90, .*lower cutoff="):
        kn.analysis.Clusters(features, cutoff=90.0).run(frames=[*range(98)] * 3, memory=2_500_000)


def test_the_centre_is_the_frame_with_the_least_mean_rmsd(adk: kn.Trajectory) -> None:
    found = clusters(adk).results
    matrix = kn.analysis.RMSDMatrix(adk, "name CA").run(step=2).results.dist_matrix
    for cluster, center in enumerate(found.centers):
        members = np.flatnonzero(found.labels == cluster)
        assert center == 2 * members[matrix[np.ix_(members, members)].sum(axis=0).argmin()]
    assert (np.diff(found.sizes) <= 0).all() and found.sizes.sum() == 49
    # around each, all frames are within the cutoff
    for cluster, center in enumerate(found.most_neighbors):
        assert (matrix[center // 2, found.labels == cluster] < 1.0).all()


@pytest.mark.parametrize("method", ["average", "single", "complete"])
@pytest.mark.parametrize("given", [{"n_clusters": 4}, {"cutoff": 0.45}])
def test_hierarchical_clusters_are_those_of_scipy(adk: kn.Trajectory, method: str, given: Any) -> None:
    hierarchy = pytest.importorskip("scipy.cluster.hierarchy")
    found = clusters(adk, method=method, **given).results
    tree = hierarchy.linkage(found.condensed, method)
    np.testing.assert_array_equal(found.linkage, tree)
    value, criterion = (4, "maxclust") if "n_clusters" in given else (0.45, "distance")
    theirs = hierarchy.fcluster(tree, value, criterion)
    assert len({*zip(theirs.tolist(), found.labels.tolist(), strict=True)}) == len({*theirs}) == len(found.sizes)


def test_euclidean_methods_take_frames_as_superposed_on_their_average(adk: kn.Trajectory) -> None:
    hierarchy = pytest.importorskip("scipy.cluster.hierarchy")
    cluster = pytest.importorskip("sklearn.cluster")
    average = kn.analysis.AverageStructure(adk, "name CA", align="reference").run(step=2)
    fitted = adk.with_transform(kn.transforms.superpose("name CA", reference=_structure(adk, average)))
    points = fitted.read(select="name CA", frames=slice(None, None, 2)).reshape(49, -1).astype(np.float64) / 214**0.5
    ours = clusters(adk, method="ward", n_clusters=5)
    theirs = hierarchy.fcluster(hierarchy.linkage(points, "ward"), 5, "maxclust")
    assert len({*zip(theirs.tolist(), ours.results.labels.tolist(), strict=True)}) == 5
    np.testing.assert_allclose(ours.results.linkage[:, 2], hierarchy.linkage(points, "ward")[:, 2], atol=1e-3)
    ours = clusters(adk, method="kmeans", n_clusters=3)
    labels = cluster.KMeans(3, n_init=10, random_state=0).fit(points).labels_
    assert len({*zip(labels.tolist(), ours.results.labels.tolist(), strict=True)}) == 3
    for one, center in enumerate(ours.results.centers // 2):
        members = points[ours.results.labels == one]
        apart = np.linalg.norm(points - members.mean(axis=0), axis=1)
        assert apart[center] == apart[ours.results.labels == one].min()


def _structure(trajectory: kn.Trajectory, average: kn.analysis.AverageStructure) -> Any:
    """Positions of all atoms, in which the selected ones have their averages."""
    positions = trajectory.read(frames=[0])[0].astype(np.float64)
    positions[average.results.indices] = average.results.positions
    return positions


def test_dbscan_is_that_of_scikit_learn(adk: kn.Trajectory) -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    matrix = kn.analysis.RMSDMatrix(adk, "name CA").run(step=2).results.dist_matrix
    for cutoff, min_samples in ((0.45, 3), (0.55, 4)):
        ours = clusters(adk, method="dbscan", cutoff=cutoff, min_samples=min_samples)
        theirs = cluster.DBSCAN(eps=cutoff, min_samples=min_samples, metric="precomputed").fit(matrix).labels_
        assert ((theirs == -1) == (ours.results.labels == -1)).all()
        pairs = {*zip(theirs.tolist(), ours.results.labels.tolist(), strict=True)}
        assert len(pairs) == len({*theirs.tolist()})
        noise = int((theirs == -1).sum())
        assert ours.results.sizes.sum() + noise == 49
        assert ours.results.transitions.sum() <= 48
        assert "condensed" not in ours.results


def test_dbscan_counts_frames_at_the_cutoff(tmp_path: Path) -> None:
    line = on_a_line(tmp_path, [0.0, 1.0, 2.0, 9.0])
    found = kn.analysis.Clusters(line, method="dbscan", min_samples=3, superposition=False).run().results
    assert found.labels.tolist() == [0, 0, 0, -1] and found.centers.tolist() == [1]


@pytest.mark.parametrize("method", ["gromos", "ward", "kmeans"])
def test_labels_are_the_same_for_any_number_of_workers(adk: kn.Trajectory, method: str) -> None:
    given: Any = {} if method == "gromos" else {"n_clusters": 4}
    expected = kn.analysis.Clusters(adk, "name CA", method, **given).run(step=3, runner="serial").results
    for workers in (2, 3, 7):
        found = kn.analysis.Clusters(adk, "name CA", method, **given).run(step=3, workers=workers).results
        assert found.labels.tobytes() == expected.labels.tobytes()
        assert found.centers.tobytes() == expected.centers.tobytes()


def test_arguments_that_do_not_fit_are_refused(adk: kn.Trajectory) -> None:
    for given, expected in (
        ({"method": "daura"}, "method"),
        ({"n_clusters": 3}, "finds the number of clusters itself"),
        ({"method": "average", "n_clusters": 3, "cutoff": 1.0}, "exclude each other"),
        ({"method": "kmeans"}, "needs n_clusters="),
        ({"method": "kmeans", "n_clusters": 3, "min_samples": 7}, "min_samples= is for method='dbscan'"),
        ({"method": "ward"}, "needs n_clusters=, or a height"),
        ({"cutoff": 0.0}, "above 0"),
        ({"random_state": 1}, "is for method='kmeans'"),
    ):
        with pytest.raises(kn.ArgumentError, match=expected):
            kn.analysis.Clusters(adk, "name CA", **given)
    with pytest.raises(kn.ArgumentError, match="at least 2 frames here, found 1"):
        kn.analysis.Clusters(adk, "name CA").run(stop=1)
    with pytest.raises(kn.ArgumentError, match="at least 5 frames here, found 3"):
        kn.analysis.Clusters(adk, "name CA", "complete", n_clusters=5).run(stop=3)
    with pytest.raises(kn.MemoryLimitError, match=r"points of 98 frames, expected at least .*step="):
        kn.analysis.Clusters(adk, "name CA").run(memory=500_000)


def test_pairs_in_the_order_of_columns_are_refused_by_the_core() -> None:
    pairs = np.array([[0, 1], [1, 2], [3, 4]], np.uint32)
    labels, _ = _core.gromos_clusters(pairs, 5)
    assert labels.tolist() == [0, 0, 0, 1, 1]
    for wrong in (np.asfortranarray(pairs), pairs[:, :1].copy()):
        with pytest.raises(ValueError, match="rows of two neighbours"):
            _core.gromos_clusters(wrong, 5)


def test_without_scikit_learn(adk: kn.Trajectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    for given in ({"method": "kmeans", "n_clusters": 2}, {"method": "dbscan"}):
        with pytest.raises(kn.MissingPackageError, match=r"needs scikit-learn .* pip install 'kinema\[cluster\]'"):
            kn.analysis.Clusters(adk, "name CA", **given).run(stop=5)


def test_one_cluster_and_hundreds_are_noted(adk: kn.Trajectory, tmp_path: Path) -> None:
    with pytest.warns(kn.Note, match="with cutoff=50 angstrom all 49 frames are one cluster; a smaller cutoff"):
        clusters(adk, cutoff=50.0)
    line = on_a_line(tmp_path, [2.0 * i for i in range(120)])
    with pytest.warns(kn.Note, match="there are 120 clusters of 120 frames, 120 of one frame; a larger cutoff"):
        kn.analysis.Clusters(line, superposition=False).run()
    with pytest.warns(kn.Note, match="with cutoff=0.01 angstrom all 49 frames are noise"):
        found = clusters(adk, method="dbscan", cutoff=0.01)
    assert found.results.centers.shape == (0,) and found.results.transitions.shape == (0, 0)
    assert found.subject == "0 clusters of 49 frames by dbscan, 49 frames of noise"
    found.plot(tmp_path / "noise.png")


def test_files_of_clusters(adk: kn.Trajectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = kn.analysis.Clusters(adk, "name CA", cutoff=2.5).run(step=4)
    words = ["cluster", adk.paths[0], "-s", str(adk.topology_name), "--select", "name CA", "--cutoff", "2.5"]
    words += ["--step", "4", "--clusters", str(tmp_path / "clusters.csv"), "--plot", str(tmp_path / "clusters.png")]
    words += ["--write-centers", str(tmp_path / "centers"), "--write-clusters", str(tmp_path / "frames")]
    with pytest.raises(SystemExit) as end:
        main([*words, "-o", str(tmp_path / "labels.csv")])
    printed = capsys.readouterr()
    assert end.value.code == 0, printed.err
    assert made.subject in printed.out
    rows = np.genfromtxt(tmp_path / "clusters.csv", names=True, delimiter=",")
    assert rows["center"].tolist() == made.results.centers.tolist()
    assert rows["frames"].tolist() == made.results.sizes.tolist()
    np.testing.assert_allclose(rows["center_time_ps"], adk.times[made.results.centers], rtol=1e-6)
    labels = np.genfromtxt(tmp_path / "labels.csv", names=True, delimiter=",")["cluster_1"]
    assert labels.tolist() == made.results.labels.tolist()
    for cluster, size in enumerate(made.results.sizes):
        written = kn.open(tmp_path / "frames" / f"cluster-{cluster}.dcd")
        assert (written.n_frames, written.n_atoms) == (size, adk.n_atoms)
        expected = adk.read(frames=made.results.frames[made.results.labels == cluster])
        np.testing.assert_array_equal(written.read(), expected)
        assert (tmp_path / "centers" / f"cluster-{cluster}.pdb").stat().st_size > 1000
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2 and "has files of clusters already; --force replaces them" in capsys.readouterr().err


@pytest.mark.parametrize(("method", "given"), [("gromos", {"cutoff": 2.0}), ("kmeans", {"n_clusters": 3})])
def test_features_have_euclidean_distances(adk: kn.Trajectory, method: str, given: Any) -> None:
    distance = pytest.importorskip("scipy.spatial.distance")
    pairs = kn.analysis.Distances(adk, pairs=[(0, 1000), (5, 2000), (100, 3000)])
    features = kn.analysis.Features(pairs)
    rows = kn.analysis.Features(pairs).run(step=2).results.features
    found = kn.analysis.Clusters(features, method=method, **given).run(step=2)
    assert found.results.sizes.sum() == 49 and found.n_passes == 1
    if method == "gromos":
        assert "condensed" not in found.results
        labels, most = numpy_gromos(distance.squareform(distance.pdist(rows)), 2.0)
        assert (found.results.labels.tolist(), (found.results.most_neighbors // 2).tolist()) == (labels, most)
        square = distance.squareform(distance.pdist(rows))
        around = square[found.results.most_neighbors[found.results.labels] // 2, np.arange(49)]
        assert (around < 2.0).all()
    else:
        assert len(found.results.sizes) == 3
    with pytest.raises(kn.ArgumentError, match="Clusters of features has no select= and no superposition="):
        kn.analysis.Clusters(features, "name CA", superposition=False, cutoff=1.0)
    with pytest.raises(kn.ArgumentError, match="need cutoff= in their unit, or n_clusters="):
        kn.analysis.Clusters(features)

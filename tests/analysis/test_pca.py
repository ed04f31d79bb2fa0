"""Principal components: MDAnalysis, scikit-learn, NumPy, RMSF; projections, weights, features, few frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.analysis import Dihedrals, Distances, Features
from kinema.analysis.ensembles.components import eigenvectors_of_rows
from kinema.analysis.ensembles.pca import cosine_content, cumulative_overlap, rmsip
from kinema.testing.programs.imports import lazy
from kinema.testing.writers import write_dcd

MDAnalysis = lazy("MDAnalysis")
datafiles = lazy("MDAnalysisTests.datafiles")

STEP = 4


@pytest.fixture(scope="module")
def adk() -> kn.Trajectory:
    return kn.open(datafiles.DCD, topology=datafiles.PSF, stored=False)


@pytest.fixture(scope="module")
def of_alphas(adk: kn.Trajectory) -> Any:
    return kn.analysis.PCA(adk, "name CA", align=True, projections=3).run(step=STEP)


def test_components_are_those_of_mdanalysis(of_alphas: Any) -> None:
    from MDAnalysis.analysis.pca import PCA

    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    theirs = PCA(universe, select="name CA", align=True).run(step=STEP).results
    ours = of_alphas.results
    assert ours.p_components.shape == theirs.p_components.shape == (642, 642)
    # frames are superposed in single precision there
    np.testing.assert_allclose(ours.variance[:20], theirs.variance[:20], rtol=1e-5)
    np.testing.assert_allclose(ours.cumulated_variance[:20], theirs.cumulated_variance[:20], rtol=1e-6)
    products = (ours.p_components[:, :10] * theirs.p_components[:, :10]).sum(axis=0)
    np.testing.assert_allclose(np.abs(products), 1.0, atol=1e-6)
    largest = np.abs(ours.p_components).argmax(axis=0)
    assert (ours.p_components[largest, np.arange(642)] > 0).all()


def test_components_are_the_eigenvectors_of_the_covariance(adk: kn.Trajectory) -> None:
    positions = adk.read(slice(None, None, STEP), select="resid 1-9").astype(np.float64).reshape(25, -1)
    found = kn.analysis.PCA(adk, "resid 1-9").run(step=STEP).results
    covariance = np.cov(positions.T)
    np.testing.assert_allclose(found.mean_positions.ravel(), positions.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.variance.sum(), np.trace(covariance), rtol=1e-10)
    back = found.p_components * found.variance @ found.p_components.T
    np.testing.assert_allclose(back, covariance, atol=1e-9)
    # the sum of variances is that of the fluctuations of atoms, which are divided by n
    rmsf = kn.analysis.RMSF(adk, "resid 1-9").run(step=STEP).results.rmsf
    np.testing.assert_allclose(found.variance.sum() * 24 / 25, (rmsf**2).sum(), rtol=1e-10)


def test_projections_are_products_with_the_components(adk: kn.Trajectory, of_alphas: Any) -> None:
    results = of_alphas.results
    assert results.projections.shape == (25, 3)
    np.testing.assert_array_equal(of_alphas.transform(3, step=STEP), results.projections)
    np.testing.assert_allclose(results.projections.var(axis=0, ddof=1), results.variance[:3], rtol=1e-9)
    np.testing.assert_allclose(results.projections.mean(axis=0), 0.0, atol=1e-9)
    assert of_alphas.transform(2).shape == (98, 2)
    table = of_alphas.table()
    assert [column.name for column in table.columns] == ["frame", "time", "pc1", "pc2", "pc3"]
    extreme = of_alphas.structures_along(0, results.projections[:, 0].min(keepdims=True))
    moved = extreme[0] - of_alphas.mean
    np.testing.assert_allclose(np.linalg.norm(moved), -results.projections[:, 0].min())


def test_few_components_of_many_coordinates(adk: kn.Trajectory) -> None:
    whole = kn.analysis.PCA(adk, "resid 1-45 and not name H*", align=True).run(step=STEP).results
    few = kn.analysis.PCA(adk, "resid 1-45 and not name H*", align=True, n_components=3).run(step=STEP).results
    assert few.p_components.shape == (len(whole.p_components), 3)
    np.testing.assert_allclose(few.variance, whole.variance[:3], rtol=1e-9)
    np.testing.assert_allclose(few.cumulated_variance, whole.cumulated_variance[:3], rtol=1e-9)
    assert rmsip(few.p_components, whole.p_components, 3) == pytest.approx(1.0)


def angles_and_distances(trajectory: kn.Trajectory, **options: Any) -> Features:
    pairs = Distances(trajectory, pairs=[(0, 100), (5, 2000), (7, 900)])
    return Features(Dihedrals(trajectory, "resid 10:14", phi=True, psi=True), pairs, **options)


def test_few_frames_have_the_components_of_the_covariance(adk: kn.Trajectory) -> None:
    # 25 frames of 642 coordinates: products of frames; all components: covariance
    for options in ({}, {"weights": "mass"}, {"mean": adk.read([50], select="name CA")[0]}):
        whole = kn.analysis.PCA(adk, "name CA", align=True, **options).run(step=STEP).results
        made = kn.analysis.PCA(adk, "name CA", align=True, n_components=20, projections=2, **options)
        few = made.run(step=STEP, workers=2).results
        assert few.p_components.shape == (642, 20)
        np.testing.assert_allclose(few.variance, whole.variance[:20], rtol=1e-9)
        np.testing.assert_allclose(few.cumulated_variance, whole.cumulated_variance[:20], rtol=1e-9)
        products = (few.p_components * whole.p_components[:, :20]).sum(axis=0)
        np.testing.assert_allclose(products, 1.0, atol=1e-9)
        np.testing.assert_allclose(few.p_components.T @ few.p_components, np.eye(20), atol=1e-12)
        np.testing.assert_allclose(few.mean_positions, whole.mean_positions, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(few.projections, made.transform(2, step=STEP))
    again = kn.analysis.PCA(adk, "name CA", align=True, n_components=20, projections=2, **options).run(
        step=STEP, runner="serial"
    )
    for name in ("p_components", "variance", "projections"):
        np.testing.assert_array_equal(again.results[name], few[name])


def test_components_are_those_of_scikit_learn(adk: kn.Trajectory) -> None:
    decomposition = pytest.importorskip("sklearn.decomposition", reason="scikit-learn is not installed")
    positions = adk.read(select="name CA").astype(np.float64).reshape(98, -1)
    theirs = decomposition.PCA(n_components=10, svd_solver="full").fit(positions)
    ours = kn.analysis.PCA(adk, "name CA", n_components=10).run().results
    np.testing.assert_allclose(ours.variance, theirs.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(ours.cumulated_variance, np.cumsum(theirs.explained_variance_ratio_), rtol=1e-8)
    np.testing.assert_allclose(np.abs((ours.p_components.T * theirs.components_).sum(axis=1)), 1.0, atol=1e-8)
    for scale in ("none", "std"):
        features = angles_and_distances(adk, scale=scale)
        found = kn.analysis.PCA(features, projections=2).run()
        rows = features.run().results.features
        theirs = decomposition.PCA(svd_solver="full").fit(rows)
        np.testing.assert_allclose(found.results.variance, theirs.explained_variance_, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(found.mean, rows.mean(axis=0), atol=1e-12)
        signs = np.sign((found.results.p_components[:, :2] * theirs.components_[:2].T).sum(axis=0))
        np.testing.assert_allclose(found.results.projections * signs, theirs.transform(rows)[:, :2], atol=1e-8)


def test_frames_are_projected_and_put_back(adk: kn.Trajectory) -> None:
    from MDAnalysis.analysis.pca import PCA

    atoms, projected = "name CA and resid 1:30", kn.transforms.function
    found = kn.analysis.PCA(adk, atoms, n_components=6).run()
    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    theirs, group = PCA(universe, atoms, n_components=6).run(), universe.select_atoms(atoms)
    for components in (None, 2, [0, 3]):
        project = found.project_single_frame(components)
        of_kinema = adk.with_transform(projected(project, atoms)).read([40], select=atoms)[0]
        theirs.project_single_frame(components)(universe.trajectory[40])
        np.testing.assert_allclose(of_kinema, group.positions, atol=1e-3)
        # a group of MDAnalysis
        universe.trajectory[40]
        np.testing.assert_allclose(project(group).positions, of_kinema, atol=1e-4)
    # weighted as in the PCA: the variance along the component stays
    weighted = kn.analysis.PCA(adk, atoms, weights="mass", n_components=4).run()
    moved = adk.with_transform(projected(weighted.project_single_frame(1), atoms))
    again = kn.analysis.PCA(moved, atoms, weights="mass", n_components=1).run()
    np.testing.assert_allclose(again.results.variance[0], weighted.results.variance[1], rtol=1e-5)


@pytest.mark.parametrize("scale", ["none", "std"])
def test_components_of_features(adk: kn.Trajectory, scale: str) -> None:
    found = kn.analysis.PCA(angles_and_distances(adk, scale=scale), n_components=3, projections=3).run()
    assert found.results.p_components.shape == (23, 3) and "23 features" in found.subject
    # frames of another run are scaled as the frames that the components are of
    np.testing.assert_allclose(found.transform(3, step=10), found.results.projections[::10], atol=1e-12)
    np.testing.assert_allclose(found.results.projections.var(axis=0, ddof=1), found.results.variance, rtol=1e-9)
    table = {column.name: column.unit for column in found.table().columns}
    assert table == {"frame": "", "time": "ps", "pc1": "1", "pc2": "1", "pc3": "1"}
    pairs = Distances(adk, pairs=[(0, 100), (5, 2000), (7, 900)])
    assert kn.analysis.PCA(Features(pairs)).run().table().columns[-1].unit == "angstrom^2"
    # fewer frames than features, on any runner
    few = [
        kn.analysis.PCA(angles_and_distances(adk, scale=scale), n_components=3).run(stop=15, **how).results
        for how in ({"runner": "serial"}, {"workers": 3})
    ]
    np.testing.assert_array_equal(few[0].p_components, few[1].p_components)
    rows = angles_and_distances(adk, scale=scale).run(stop=15).results.features
    np.testing.assert_allclose(few[0].variance, np.linalg.eigvalsh(np.cov(rows.T))[::-1][:3], rtol=1e-9)


def test_rows_that_repeat_give_components_at_right_angles() -> None:
    rows = np.repeat(np.random.default_rng(2).normal(size=(3, 40)), 4, axis=0)
    values, vectors, total = eigenvectors_of_rows(rows, rows.mean(axis=0), n_components=6)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(values[:2].sum(), total)
    np.testing.assert_allclose(values[2:], 0.0, atol=1e-12)
    # very many rows, of which few components are found by iterations
    rows = np.random.default_rng(3).normal(size=(1500, 1510))
    rows[:, 0] *= 90.0
    rows[:, 7] *= 50.0
    origin = rows.mean(axis=0)
    values, vectors, _ = eigenvectors_of_rows(rows, origin, n_components=2)
    apart = rows - origin
    np.testing.assert_allclose(apart.T @ (apart @ vectors) / 1499, vectors * values, atol=1e-6)
    np.testing.assert_allclose(values, rows[:, [0, 7]].var(axis=0, ddof=1), rtol=1e-2)


def test_structures_along_a_component_as_a_file(adk: kn.Trajectory, of_alphas: Any, tmp_path: Any) -> None:
    of_alphas.write_along(tmp_path / "along.dcd", component=1, n_structures=5)
    positions = kn.open(tmp_path / "along.dcd", stored=False).read()
    ends = of_alphas.results.projections[:, 1]
    expected = of_alphas.structures_along(1, np.linspace(ends.min(), ends.max(), 5))
    np.testing.assert_allclose(positions, expected, atol=1e-5)
    other = kn.analysis.PCA(adk, "name CA", align=True, n_components=2).run(step=STEP)
    other.write_along(tmp_path / "extremes.pdb", n_structures=2)
    universe = MDAnalysis.Universe(str(tmp_path / "extremes.pdb"))
    assert len(universe.trajectory) == 2 and set(universe.atoms.names) == {"CA"}
    apart = universe.trajectory[1].positions.astype(float) - universe.trajectory[0].positions
    assert np.linalg.norm(apart) == pytest.approx(4 * np.sqrt(other.results.variance[0]), rel=1e-3)
    with pytest.raises(kn.ArgumentError, match="component must be from 0 to 1, found 2"):
        other.write_along(tmp_path / "extremes.pdb", component=2)


def test_the_cumulative_overlap_is_that_of_mdanalysis(adk: kn.Trajectory) -> None:
    from MDAnalysis.analysis.pca import PCA

    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    select, frames = "name CA and resid 1:20", [{"stop": 20}, {"step": 5}]
    theirs = [PCA(universe, select=select, align=True).run(**some) for some in frames]
    ours = [kn.analysis.PCA(adk, select, align=True).run(**some).results.p_components for some in frames]
    for component in (0, 2):
        expected = theirs[0].cumulative_overlap(theirs[1], i=component, n_components=5)
        assert cumulative_overlap(*ours, component, 5) == pytest.approx(expected, abs=1e-4)
    assert cumulative_overlap(ours[0], ours[0], 1, 2) == pytest.approx(1.0)


def test_weights_and_another_mean(adk: kn.Trajectory) -> None:
    select = "resid 3-5"
    positions = adk.read(slice(None, None, STEP), select=select).astype(np.float64).reshape(25, -1)
    masses = np.repeat(adk.atoms[adk.select(select)].masses, 3)
    scaled = positions * np.sqrt(masses / masses.mean())
    found = kn.analysis.PCA(adk, select, weights="mass", projections=2).run(step=STEP)
    np.testing.assert_allclose(found.results.variance.sum(), np.cov(scaled.T).trace(), rtol=1e-9)
    apart = (scaled - scaled.mean(axis=0)) @ found.results.p_components[:, :2]
    np.testing.assert_allclose(found.results.projections, apart, atol=1e-6)
    first = positions[0].reshape(-1, 3)
    about = kn.analysis.PCA(adk, select, mean=first).run(step=STEP).results
    np.testing.assert_allclose(about.variance.sum(), ((positions - positions[0]) ** 2).sum() / 24, rtol=1e-9)


def test_a_made_up_gaussian_has_its_variances(tmp_path: Any) -> None:
    random = np.random.default_rng(11)
    n_frames, widths = 4000, np.array([3.0, 2.0, 1.0, 0.5, 0.2, 0.1])
    axes = np.linalg.qr(random.normal(size=(6, 6)))[0]
    frames = (random.normal(size=(n_frames, 6)) * widths) @ axes.T
    write_dcd(tmp_path / "gaussian.dcd", frames.reshape(n_frames, 2, 3).astype(np.float32))
    found = kn.analysis.PCA(kn.open(tmp_path / "gaussian.dcd", stored=False)).run().results
    # the deviation of a variance is sqrt(2 / n) of it
    np.testing.assert_allclose(found.variance, widths**2, rtol=4 * np.sqrt(2 / n_frames))
    np.testing.assert_allclose(np.abs((found.p_components * axes).sum(axis=0)), 1.0, atol=0.01)


def test_the_cosine_content_is_that_of_mdanalysis(of_alphas: Any) -> None:
    from MDAnalysis.analysis.pca import cosine_content as theirs

    projections = of_alphas.results.projections
    for component in range(3):
        assert cosine_content(projections, component) == pytest.approx(theirs(projections, component))
    assert any("cosine content of the first component" in note for note in of_alphas.notes)
    times = np.arange(1000)
    assert cosine_content(np.cos(np.pi * times / 1000)[:, None], 0) == pytest.approx(1.0, abs=3e-3)
    assert cosine_content(np.zeros((10, 1)), 0) == 0.0


def test_what_cannot_be_done_is_refused(adk: kn.Trajectory) -> None:
    with pytest.raises(kn.ArgumentError, match="n_components must be at most 642, found 700"):
        kn.analysis.PCA(adk, "name CA", n_components=700)
    with pytest.raises(kn.ArgumentError, match="projections must be at most 2, found 3"):
        kn.analysis.PCA(adk, "name CA", n_components=2, projections=3)
    with pytest.raises(kn.ArgumentError, match="at least two frames, found 1"):
        kn.analysis.PCA(adk, "name CA").run(stop=1)
    with pytest.raises(kn.ArgumentError, match="in the order of the file"):
        kn.analysis.PCA(adk, np.array([5, 3]))
    with pytest.raises(kn.ArgumentError, match=r"mean must be \(214, 3\)"):
        kn.analysis.PCA(adk, "name CA", mean=np.zeros((3, 3)))
    with pytest.raises(kn.ArgumentError, match="20 frames have 19 components; give fewer, or more frames"):
        kn.analysis.PCA(adk, "name CA", n_components=20).run(stop=20)
    for call in ("transform", "project_single_frame"):
        with pytest.raises(kn.ArgumentError, match="call run"):
            getattr(kn.analysis.PCA(adk, "name CA"), call)()
    few = kn.analysis.PCA(adk, "name CA", n_components=3).run(stop=5)
    with pytest.raises(kn.ArgumentError, match="components are from 0 to 2, found 3"):
        few.project_single_frame(3)
    with pytest.raises(kn.ArgumentError, match="positions of 3341 x 3, expected 214 x 3"):
        few.project_single_frame()(next(iter(adk)))
    with pytest.raises(kn.ArgumentError, match="expected as many"):
        rmsip(np.ones((3, 2)), np.ones((6, 2)))
    with pytest.raises(kn.ArgumentError, match="expected as many"):
        cumulative_overlap(np.ones((3, 2)), np.ones((6, 2)))
    features = angles_and_distances(adk)
    with pytest.raises(kn.ArgumentError, match="PCA of features has no select= and no align=: these are of positions"):
        kn.analysis.PCA(features, "name CA", align=True)
    with pytest.raises(kn.ArgumentError, match="n_components must be at most 23, found 24"):
        kn.analysis.PCA(features, n_components=24)
    with pytest.raises(kn.ArgumentError, match="and these are components of features"):
        kn.analysis.PCA(features).run().structures_along(0, np.zeros(1))
    undefined = Features(Dihedrals(adk, quadruples=[(0, 0, 1, 2), (0, 1, 2, 3)]))
    with pytest.raises(kn.ArgumentError, match="cos dihedral 0-0-1-2: not defined in frame 10"):
        kn.analysis.PCA(undefined).run(start=10)
    with pytest.raises(kn.MemoryLimitError, match="select fewer atoms, fewer frames"):
        kn.analysis.PCA(adk, n_components=2).run(memory="3 MB")
    with pytest.raises(kn.MemoryLimitError, match="with fewer frames than coordinates give n_components="):
        kn.analysis.PCA(adk).run(memory="200 MB")

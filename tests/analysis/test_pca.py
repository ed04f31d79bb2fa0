"""Principal components: MDAnalysis, scikit-learn's definition by NumPy, RMSF, projections, weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.analysis.structure.pca import cosine_content, rmsip
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
    with pytest.raises(kn.ArgumentError, match="call run"):
        kn.analysis.PCA(adk, "name CA").transform()
    with pytest.raises(kn.ArgumentError, match="expected as many"):
        rmsip(np.ones((3, 2)), np.ones((6, 2)))

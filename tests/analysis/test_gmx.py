"""Analyses against stored output of GROMACS; `tests/data/gmx` says with which command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import kinema as kn
from kinema import transforms
from kinema.testing.programs.imports import lazy

datafiles = lazy("MDAnalysisTests.datafiles")

STORED = Path(__file__).parent.parent / "data" / "gmx"
WATER, NM = "resname SOL", 10.0


@pytest.fixture(scope="module")
def expected() -> dict[str, NDArray[np.float64]]:
    with np.load(STORED / "gmx.npz") as stored:
        return dict(stored)


def test_least_distances(adk_in_water: kn.Trajectory, expected: dict[str, NDArray]) -> None:
    found = kn.analysis.MinimumDistance(adk_in_water, "protein", other=WATER, cutoff=4.5).run().results
    assert_allclose(found.distance, NM * expected["mindist"], atol=1e-5)
    # single precision on their side: a pair at the cutoff
    assert np.abs(found.pairs - expected["contacts"]).max() <= 1
    assert (found.pairs == expected["contacts"]).sum() >= 7


def test_own_images(adk_in_water: kn.Trajectory, expected: dict[str, NDArray]) -> None:
    whole = adk_in_water.with_transform(transforms.whole())
    found = kn.analysis.MinimumDistance(whole, "protein", own_images=True).run(step=5).results
    assert_allclose(found.distance, NM * expected["own-images"][::5], atol=6e-3)


def test_groups_that_change(adk_in_water: kn.Trajectory, expected: dict[str, NDArray]) -> None:
    waters = kn.within(3.5, of="protein", among="name OW")
    counts = kn.analysis.AtomCount(adk_in_water, waters).run().results.count
    assert_array_equal(counts, [len(expected[f"near-{frame}"]) for frame in range(10)])
    near = kn.analysis.Neighbors(adk_in_water, "name OW", other="protein", cutoff=3.5).run(frames=[0, 9]).results
    frames = np.repeat(near.frames, near.counts)
    for frame in (0, 9):
        assert_array_equal(np.unique(near.i[frames == frame]), expected[f"near-{frame}"])


@pytest.mark.parametrize(("name", "other"), [("protein", "protein"), ("water", WATER)])
def test_hydrogen_bonds(name: str, other: str, adk_in_water: kn.Trajectory, expected: dict[str, NDArray]) -> None:
    either = f"(protein or {WATER}) and element"
    bonds = kn.analysis.HydrogenBondAnalysis(
        adk_in_water,
        hydrogens_sel=f"{either} H and bonded element N O",
        acceptors_sel=f"{either} N O",
        between=["protein", other],
        criterion="gromacs",
    )
    rows = bonds.run(frames=[0, 9]).results.hbonds
    for frame in (0, 9):
        mine = rows[rows[:, 0] == frame][:, 1:4].astype(int)
        assert_array_equal(sorted(mine.tolist()), expected[f"hbond-{name}-{frame}"])


class TestWater:
    """Two small systems of water: a cube at constant pressure, and a slab with vacuum about it."""

    @staticmethod
    def of_their_bins(counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts of bins of 0.1 angstrom as those of bins about 0.2, 0.4, ...: the first bin of gmx is half as wide."""
        return counts[1:-1].reshape(-1, 2).sum(axis=1)

    # volumes of shells, angstrom^3
    shells = 4 / 3 * np.pi * np.diff((0.1 + 0.2 * np.arange(40)) ** 3)

    def test_counts_and_coordination(self, bulk: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        found = kn.analysis.InterRDF(bulk, "name OW", nbins=80, range=(0, 8)).run().results
        counts, frames, n = self.of_their_bins(found.count), len(bulk), 213
        assert_allclose(counts / n / frames / 0.02, expected["rdf-none"][1:, 1], rtol=1e-5, atol=6e-4)
        # theirs divides by all n atoms, as if an atom were its own partner, ours by n - 1
        per_volume = (n * n / found.volume).sum()
        assert_allclose(counts / self.shells / per_volume, expected["rdf-rdf"][1:, 1], atol=6e-4)
        density = 1000 * counts / self.shells / n / frames
        assert_allclose(density, expected["rdf-number_density"][1:, 1], atol=6e-4)
        # n(r) at the upper edge of a bin, which is another file's number, halved as above
        assert_allclose(found.coordination[1::2], expected["coordination"][:, 1], atol=6e-4)

    def test_no_pairs_of_one_molecule(self, bulk: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        hydrogens = kn.analysis.InterRDF(
            bulk, "name HW1 HW2", other="name OW", nbins=80, range=(0, 8), exclude_same="residue"
        )
        found = hydrogens.run().results
        density = (426 * 213 / found.volume).sum()
        mine = self.of_their_bins(found.count) / self.shells / density
        assert_allclose(mine, expected["rdf-excl"][1:, 1], atol=6e-4)

    def test_rings(self, slab: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        found = kn.analysis.InterRDF(slab, "name OW", nbins=80, range=(0, 8), dimensions="xy", norm="none").run()
        mine = self.of_their_bins(found.results.count) / 199 / len(slab) / 0.02
        # positions are multiples of 0.01 angstrom: some pairs lie upon an edge
        assert_allclose(mine, expected["rdf-xy"][1:, 1], atol=0.3)

    @pytest.mark.parametrize(
        ("quantity", "theirs"),
        [("number", "number"), ("mass", "mass"), ("charge", "charge"), ("electrons", "electron")],
    )
    def test_profiles(self, quantity: str, theirs: str, slab: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        found = kn.analysis.LinearDensity(slab, "all", binsize=1.0, axis="z").run().results[quantity]
        stored = expected[f"density-{theirs}"][:, 1]
        assert np.abs(stored).max() > 1
        # per nm^3 and kg/m^3, six digits
        assert_allclose(1000 * np.asarray(found), stored, rtol=1e-5, atol=1e-3)

    def test_potential(self, slab: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        found = kn.analysis.LinearDensity(slab, "all", binsize=0.05, axis="z", potential=True).run().results.potential
        stored = expected["potential"][:, 1]
        assert np.abs(stored).max() > 0.5
        # theirs integrates by the trapezoidal rule
        assert_allclose(found, stored, atol=0.012)


def test_surface_areas(adk_in_water: kn.Trajectory, expected: dict[str, NDArray]) -> None:
    """Areas of the same radii; points are others, and there are 2,000 in place of 960."""
    found = kn.analysis.SASA(adk_in_water, "protein", by="residue").run(step=3).results.sasa
    assert_allclose(found.sum(axis=1), NM**2 * expected["sasa"][::3], rtol=2e-3)
    part = (
        kn.analysis.SASA(adk_in_water, "protein and name CB", surface="protein", n_points=20000)
        .run(step=3)
        .results.sasa
    )
    assert_allclose(part, NM**2 * expected["sasa-output"][::3], rtol=1e-2)


class TestTransition:
    """C-alpha atoms of 98 frames."""

    def test_rmsd_matrix(self, transition: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        found = kn.analysis.RMSDMatrix(transition, "name CA").run().results.dist_matrix
        assert_allclose(np.asarray(found), NM * expected["rms"].reshape(98, 98), atol=2e-5)

    def test_clusters(self, transition: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        """At a cutoff at which no two frames have as many neighbours: which is first is for each program to say."""
        found = kn.analysis.Clusters(transition, "name CA", method="gromos", cutoff=1.85).run().results.labels
        assert_array_equal(found + 1, expected["cluster"])

    def test_principal_components(self, transition: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        pca = kn.analysis.PCA(transition, "name CA", align=True).run()
        # theirs divides by the number of frames, not by one less
        variance = np.asarray(pca.results.variance)[:20] * 97 / 98 / NM**2
        assert_allclose(variance, expected["covar"][:20], rtol=1e-4)
        mine = np.asarray(pca.transform(n_components=2)).T
        for one, theirs in zip(mine, NM * expected["projections"], strict=True):
            assert_allclose(one * np.sign(one[0]), theirs * np.sign(theirs[0]), atol=1e-3)

    def test_free_energy(self, expected: dict[str, NDArray]) -> None:
        found = kn.histogram2d(
            *expected["projections"], bins=8, x_range=(-6, 6), y_range=(-2, 2), temperature=300
        ).free_energy
        # a picture: y from above, three digits, and the largest number stands for empty bins
        stored = expected["sham"][::-1].T
        filled = stored < stored.max()
        assert filled.sum() == 15
        assert_array_equal(np.isfinite(found), filled)
        assert_allclose(found[filled], stored[filled], atol=6e-3)

    def test_fluctuations(self, transition: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        found = kn.analysis.RMSF(transition, "name CA", align="reference").run().results.rmsf
        assert_allclose(found, NM * expected["rmsf"], atol=6e-4)
        assert_allclose(8 / 3 * np.pi**2 * np.asarray(found) ** 2, expected["bfactors"], rtol=1e-3, atol=0.02)

"""Analyses against stored output of cpptraj; `tests/data/cpptraj` says with which command."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import kinema as kn
from kinema.testing.programs.imports import lazy

datafiles = lazy("MDAnalysisTests.datafiles")

DATA = Path(__file__).parent.parent / "data"
WATER, ENDS = "resname SOL", (0, 9)
POLAR = {
    "hydrogens_sel": f"(protein or {WATER}) and element H and bonded element N O",
    "acceptors_sel": f"(protein or {WATER}) and element N O",
}
# letters of the numbers that `secstruct` writes
STATES = np.array(list(" EBGHITS"))


@pytest.fixture(scope="module")
def expected() -> dict[str, NDArray[np.float64]]:
    with np.load(DATA / "cpptraj/cpptraj.npz") as stored:
        return dict(stored)


class TestSolvated:
    """Adenylate kinase in water in a rhombic dodecahedron."""

    def test_shells_of_water(self, adk_in_water: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        found = kn.analysis.WaterShell(adk_in_water, "protein", WATER, radii=(3.4, 5.0)).run().results
        assert_array_equal(found.cumulative, expected["watershell"])

    @pytest.mark.parametrize(("name", "other"), [("protein", "protein"), ("water", WATER)])
    def test_hydrogen_bonds(
        self, name: str, other: str, adk_in_water: kn.Trajectory, expected: dict[str, NDArray]
    ) -> None:
        bonds = kn.analysis.HydrogenBondAnalysis(
            adk_in_water, **POLAR, between=["protein", other], d_a_cutoff=3.0, d_h_a_angle_cutoff=135
        )
        rows = bonds.run(frames=ENDS).results.hbonds
        for frame in ENDS:
            mine = rows[rows[:, 0] == frame][:, 1:4].astype(int)
            assert_array_equal(sorted(mine.tolist()), expected[f"hbond-{name}-{frame}"])

    def test_water_bridges(self, adk_in_water: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        """Theirs are sets of residues that one water connects, and how many waters do."""
        found = kn.analysis.WaterBridgeAnalysis(
            adk_in_water, "protein", "protein", water_selection=WATER, **POLAR,
            criterion="distance-angle", distance=3.0, angle=135,
        ).run(frames=ENDS)  # fmt: skip
        residues = adk_in_water.topology.atoms.resindices
        for frame, bridges in zip(ENDS, found.bridges(), strict=True):
            sides: dict[int, set[int]] = defaultdict(set)
            for first, water, second in bridges:
                sides[water] |= {int(residues[first]), int(residues[second])}
            mine = Counter(tuple(sorted(one)) for one in sides.values() if len(one) > 1)
            stored = expected[f"bridges-{frame}"].tolist()
            assert mine == {tuple(one for one in row[:-1] if one >= 0): row[-1] for row in stored}

    def test_least_distance_and_pairs_within_a_cutoff(
        self, adk_in_water: kn.Trajectory, expected: dict[str, NDArray]
    ) -> None:
        found = kn.analysis.MinimumDistance(adk_in_water, "protein", other=WATER, cutoff=4.5).run(frames=[9]).results
        pairs, _, distance = expected["contacts"][0]
        assert found.pairs[0] == pairs
        assert_allclose(found.distance, distance, atol=6e-5)

    def test_grid(self, adk_in_water: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        box = {"gridcenter": [40.0, 40.0, 28.0], "xdim": 60.0, "ydim": 60.0, "zdim": 52.0, "delta": 2.0}
        found = kn.analysis.DensityAnalysis(adk_in_water, "name OW", **box).run(stop=1).results.density
        assert_array_equal(np.rint(found * 8.0), expected["grid"])


class TestWater:
    """Two small systems of water: a cube at constant pressure, and a slab with vacuum about it."""

    def test_counts_and_coordination(self, bulk: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        # theirs has the mean of the volumes, as MDAnalysis
        found = kn.analysis.InterRDF(bulk, "name OW", nbins=80, range=(0, 8), volume="mean").run().results
        raw = expected["radial-raw"][:, 1]
        assert found.count.sum() == raw.sum()
        # both directions of one pair that lies upon an edge
        assert np.abs(found.count - raw).sum() <= 4
        near = found.count == raw
        assert_allclose(found.rdf[near], expected["radial-rdf"][near, 1], atol=1e-5)
        assert_allclose(found.coordination[near], expected["radial-sum"][near, 1], atol=1e-5)

    def test_no_pairs_of_one_molecule(self, bulk: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        pair = {"other": "name OW", "nbins": 80, "range": (0, 8), "exclude_same": "residue", "volume": "mean"}
        found = kn.analysis.InterRDF(bulk, "name HW1 HW2", **pair).run().results
        raw = expected["radial-cross-raw"][:, 1]
        assert found.count.sum() == raw.sum()
        near = found.count == raw
        assert near.sum() >= 78
        assert_allclose(found.rdf[near], expected["radial-cross"][near, 1], atol=1e-5)

    @pytest.mark.parametrize(
        ("quantity", "theirs"),
        [("number", "number"), ("mass", "mass"), ("charge", "charge"), ("electrons", "electron")],
    )
    def test_profiles(self, quantity: str, theirs: str, slab: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        """Theirs are sums of a slice and frame, in amu and e, without its volume; electrons are divided by it."""
        found = kn.analysis.LinearDensity(slab, "all", binsize=1.0, axis="z").run().results
        mine = np.asarray(found[quantity], float)
        if quantity != "electrons":
            mine = mine * 19.0 * 18.0
        if quantity == "mass":
            # g/cm^3 in amu/angstrom^3
            mine /= 1.66053906892
        # slices from -1 on to the last one with an atom
        stored = expected[f"density-{theirs}"][1:, 1]
        assert np.abs(stored).max() > 0.3
        assert_allclose(mine[: len(stored)], stored, rtol=2e-5, atol=6e-5)
        assert not mine[len(stored) :].any()


class TestTransition:
    """Adenylate kinase alone, 98 frames."""

    def test_native_contacts(self, transition: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        """Their `resoffset 4` leaves out pairs that are up to four residues apart."""
        contacts = kn.analysis.Contacts(
            transition, "name CA", radius=8.0, min_separation=5, method="radius_cut", minimum_image=False
        )
        share = contacts.run().results.q[:, 0]
        n_pairs = len(contacts.native[0].pairs)
        assert n_pairs == 334
        assert_array_equal(np.rint(share * n_pairs), expected["nativecontacts"][:, 1])

    def test_least_distances_of_residues(self, transition: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        groups = ("resid 1:30", "resid 160:214")
        found = kn.analysis.MinimumDistance(transition, groups[0], other=groups[1], compound="residues")
        assert_allclose(found.run(frames=[97]).results.distance, expected["mindist"], atol=5.1e-4)

    def test_shares_of_contacts(self, transition: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        found = kn.analysis.ContactMap(transition, "protein", scheme="ca", cutoff=8.0).run().results.share
        first, second = expected["residue-contacts"][:, :2].astype(int).T - 1
        assert_allclose(np.asarray(found)[first, second], expected["residue-contacts"][:, 2], atol=6e-5)

    def test_secondary_structure(self, transition: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        """A bridge beside another bridge of the chain is E there, also where the two make no ladder."""
        found = kn.analysis.DSSP(transition, "protein", hydrogens="file", pi="1983").run().results.dssp
        bridged = np.isin(found, [b"B", b"E"])
        beside = np.zeros_like(bridged)
        beside[:, 1:] |= bridged[:, :-1]
        beside[:, :-1] |= bridged[:, 1:]
        alone = (found == b"B") & beside
        assert 0 < alone.sum() <= 40
        letters = np.where(alone, b"E", np.where(found == b"", b" ", found))
        assert_array_equal(letters.astype(str), STATES[expected["secstruct"]])

    def test_surface_areas(self, transition: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        """Theirs is an approximation from pairs of neighbours (LCPO), with radii of its own and no hydrogens."""
        found = kn.analysis.SASA(transition, "all").run(step=20).results.sasa.ravel()
        assert_allclose(found, expected["surf"][::20], rtol=0.09)
        assert np.corrcoef(found, expected["surf"][::20])[0, 1] > 0.9

    def test_rmsd_matrix(self, transition: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        found = kn.analysis.RMSDMatrix(transition, "name CA").run().results.dist_matrix
        assert_allclose(np.asarray(found), expected["rms2d"], atol=5.1e-4)

    def test_clusters(self, transition: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        found = kn.analysis.Clusters(transition, "name CA", method="average", n_clusters=4).run().results
        assert_array_equal(found.labels, expected["cluster"])
        assert_array_equal(found.sizes, expected["cluster-summary"][:, 1])
        assert_array_equal(np.asarray(found.centers) + 1, expected["cluster-summary"][:, 5])

    def test_principal_components(self, transition: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        pca = kn.analysis.PCA(transition, "name CA", align=True).run()
        # theirs divides by the number of frames, not by one less
        variance = np.asarray(pca.results.variance)[:20] * 97 / 98
        assert_allclose(variance, expected["eigenvalues"], rtol=2e-5)

    def test_fluctuations(self, transition: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        found = np.asarray(kn.analysis.RMSF(transition, "name CA", align="reference").run().results.rmsf)
        assert_allclose(found, expected["rmsf"], atol=5.1e-5)
        assert_allclose(8 / 3 * np.pi**2 * found**2, expected["bfactors"], atol=1e-4)

    def test_average_structure(self, transition: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        found = kn.analysis.AverageStructure(transition, "name CA", align="reference").run().results.positions
        assert_allclose(found, expected["average"], atol=5.1e-4)

    def test_correlations(self, transition: kn.Trajectory, expected: dict[str, NDArray]) -> None:
        found = kn.analysis.CrossCorrelation(transition, "name CA", align="reference").run().results
        assert_allclose(np.asarray(found.correlation)[::10], expected["correl"], atol=5.1e-4)

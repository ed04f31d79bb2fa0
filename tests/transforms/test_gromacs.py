"""Transforms of periodic systems against files that `gmx trjconv` has written, and against all images, one by one."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import kinema as kn
from kinema import transforms
from kinema.base.notes import collected

Floats = NDArray[np.floating]

STORED = Path(__file__).parent.parent / "data" / "trjconv"
# angstrom; GROMACS works with float32 in nm
NEAR = 3e-5
CHAINS, RING = range(36), range(36, 41)
SHAPES = ("rect", "tric", "compact")


@pytest.fixture(scope="module")
def expected() -> dict[str, Floats]:
    with np.load(STORED / "trjconv.npz") as stored:
        return dict(stored)


@pytest.fixture(scope="module")
def raw() -> kn.Trajectory:
    return kn.open(STORED / "raw.trr", STORED / "system.tpr", stored=False)


@pytest.fixture(scope="module")
def whole(raw: kn.Trajectory) -> kn.Trajectory:
    with collected():
        return raw.with_transform(transforms.whole())


def counts_between(found: Floats, expected: Floats, traj: kn.Trajectory) -> NDArray[np.int64]:
    """By how many edges positions differ, (frames, atoms, 3)."""
    cells = traj.read(fields=["positions"])["cells"]
    apart = found.astype(np.float64) - expected
    counts = np.round(np.einsum("fax,fxc->fac", apart, np.linalg.inv(cells)))
    assert_allclose(np.einsum("fac,fcx->fax", counts, cells), apart, rtol=0, atol=NEAR)
    return counts.astype(np.int64)


class TestAgainstTrjconv:
    def test_whole(self, raw: kn.Trajectory, whole: kn.Trajectory, expected: dict[str, Floats]) -> None:
        moved = np.abs(expected["whole"] - raw.read()).max(axis=2) > 1
        assert moved.sum() > 40
        assert_allclose(whole.read(), expected["whole"], rtol=0, atol=NEAR)
        # chains are longer than half of the cell, and the sites of water are with it
        assert np.linalg.norm(expected["whole"][:, 17] - expected["whole"][:, 0], axis=1).max() > 16
        assert moved[:, 44::4].any()

    @pytest.mark.parametrize("ur", SHAPES)
    def test_wrap(self, raw: kn.Trajectory, whole: kn.Trajectory, expected: dict[str, Floats], ur: str) -> None:
        for word, compound in (("mol", "molecules"), ("res", "residues")):
            found = whole.with_transform(transforms.wrap(compound=compound, ur=ur)).read()
            assert_allclose(found, expected[f"{word}-{ur}"], rtol=0, atol=NEAR)
        found = raw.with_transform(transforms.wrap(ur=ur)).read()
        assert_allclose(found, expected[f"atom-{ur}"], rtol=0, atol=NEAR)

    def test_shapes_differ(self, expected: dict[str, Floats]) -> None:
        for word, (one, other) in itertools.product(("mol", "res", "atom"), itertools.combinations(SHAPES, 2)):
            differ = np.abs(expected[f"{word}-{one}"] - expected[f"{word}-{other}"]).max(axis=(1, 2)) > 1
            # the brick, and all others
            assert_array_equal(differ, [False] * 2 + [True] * 6)

    def test_nojump(self, expected: dict[str, Floats]) -> None:
        walk = kn.open(STORED / "walk.trr", stored=False)
        assert np.abs(expected["nojump"] - walk.read()).max() > 20
        assert_allclose(walk.with_transform(transforms.nojump()).read(), expected["nojump"], rtol=0, atol=NEAR)

    def test_nojump_from_a_structure(self, expected: dict[str, Floats]) -> None:
        """GROMACS puts atoms of the first frame beside the atoms of `-s`, even if these are far from the cell."""
        walk = kn.open(STORED / "walk.trr", stored=False)
        found = walk.with_transform(transforms.nojump(first=STORED / "system.tpr")).read()
        assert_allclose(found, expected["nojump-structure"], rtol=0, atol=NEAR)
        assert np.abs(expected["nojump-structure"] - expected["nojump"]).max() > 20

    def test_nojump_and_center(self, expected: dict[str, Floats]) -> None:
        """Jumps are removed first. The centre differs as in `test_center_is_another_one`."""
        walk = kn.open(STORED / "walk.trr", stored=False)
        half, ring = walk.read(fields=["positions"])["cells"].sum(axis=1) / 2, expected["nojump"][:, RING]
        middle = half - (ring.min(axis=1) + ring.max(axis=1)) / 2
        assert_allclose(expected["nojump"] + middle[:, None], expected["nojump-center"], rtol=0, atol=NEAR)
        mean = half - ring.astype(np.float64).mean(axis=1)
        found = walk.with_transform(transforms.nojump(), transforms.center(RING)).read()
        assert_allclose(found, expected["nojump"] + mean[:, None], rtol=0, atol=NEAR)

    def test_progressive_fit(self, whole: kn.Trajectory, expected: dict[str, Floats]) -> None:
        """GROMACS superposes the first frame on the structure of `-s`, and ours leaves it: one motion of all frames."""
        fit = transforms.superpose(CHAINS, reference="previous", weights="mass")
        ours, theirs = whole.with_transform(fit).read(dtype="float64"), expected["progressive"].astype(np.float64)
        first, centers = ours[0].mean(axis=0), theirs[0].mean(axis=0)
        left, _, right = np.linalg.svd((ours[0] - first).T @ (theirs[0] - centers))
        rotation = left @ right
        assert np.linalg.det(rotation) > 0.999
        # its roundings to float32 add up from frame to frame
        assert_allclose((ours - first) @ rotation + centers, theirs, rtol=0, atol=2 * NEAR)
        # it is not the superposition on the first frame
        on_first = whole.with_transform(transforms.superpose(CHAINS, weights="mass")).read()
        assert np.abs(on_first - ours).max() > 1

    def test_cluster_but_for_where_all_of_it_is(self, whole: kn.Trajectory, expected: dict[str, Floats]) -> None:
        """GROMACS moves all to their common centre; ours does not move the anchor."""
        clustered = whole.with_transform(transforms.cluster(CHAINS))
        counts = counts_between(clustered.read(), expected["cluster"], clustered)
        assert_array_equal(counts[:, CHAINS], np.broadcast_to(counts[:, :1], (8, 36, 3)))
        assert not counts[:, 36:].any()
        assert (np.abs(clustered.read() - whole.read()).max(axis=(1, 2)) > 1).sum() >= 3

    @pytest.mark.parametrize(("mode", "name"), [("rot+trans", "fit"), ("trans", "trans")])
    def test_fit(self, whole: kn.Trajectory, expected: dict[str, Floats], mode: str, name: str) -> None:
        """GROMACS takes the structure of `-s` as reference and centres of mass."""
        fit = transforms.superpose(CHAINS, mode=mode, reference=STORED / "system.tpr", weights="mass")
        assert_allclose(whole.with_transform(fit).read(), expected[name], rtol=0, atol=NEAR)

    def test_center_is_another_one(self, whole: kn.Trajectory, expected: dict[str, Floats]) -> None:
        """GROMACS centres the middle between the least and greatest coordinates, ours the centre of geometry."""
        ours, cells = whole.with_transform(transforms.center(RING)), whole.read(fields=["positions"])["cells"]
        ring = expected["whole"][:, RING]
        middle = cells.sum(axis=1) / 2 - (ring.min(axis=1) + ring.max(axis=1)) / 2
        assert_allclose(expected["whole"] + middle[:, None], expected["center"], rtol=0, atol=NEAR)
        mean = cells.sum(axis=1) / 2 - ring.astype(np.float64).mean(axis=1)
        assert_allclose(ours.read(), expected["whole"] + mean[:, None], rtol=0, atol=NEAR)
        # with a point of its own ours does the same
        point = ring[0].mean(axis=0, dtype=np.float64) + middle[0]
        stack = [transforms.center(RING, point=point.tolist()), transforms.wrap(compound="molecules", ur="compact")]
        found = whole.with_transform(*stack).read([0])
        assert_allclose(found[0], expected["center-mol-compact"][0], rtol=0, atol=NEAR)


CELLS = {
    "brick": [[13.0, 0, 0], [0, 11, 0], [0, 0, 17]],
    "dodecahedron": [[14.0, 0, 0], [0, 14, 0], [7, 7, 9.8994949]],
    "octahedron": [[14.0, 0, 0], [4.6666667, 13.1993266, 0], [-4.6666667, 6.5996633, 11.4309526]],
    "turned": [[9.0, 5, -3], [-2, 12, 4], [3, -1, 11]],
    "left-handed": [[9.0, 5, -3], [3, -1, 11], [-2, 12, 4]],
    "unreduced": [[10.0, 0, 0], [34, 11, 0], [-47, 29, 12]],
}


def images(point: Floats, cell: Floats) -> Floats:
    """All images of a point in a wide region around the cell, (n, 3)."""
    counts = np.array(list(itertools.product(range(-30, 31), range(-9, 10), range(-3, 4))))
    near = np.round(point @ np.linalg.inv(cell))
    return point + (counts - near) @ cell


def inside(points: Floats, cell: Floats, ur: str) -> Floats:
    """The images that are in the unit cell, by what GROMACS' documentation says of its shapes."""
    if ur == "compact":
        # of all images the one nearest to the middle
        return points[[np.argmin(np.linalg.norm(points - cell.sum(axis=0) / 2, axis=1))]]
    if ur == "tric":
        reduced = points @ np.linalg.inv(cell)
        return points[((reduced >= 0) & (reduced < 1)).all(axis=1)]
    # a brick along the first edge, the plane of the first two, and across it
    axes, lengths = np.linalg.qr(cell.T)
    along = points @ axes * np.sign(np.diag(lengths))
    return points[((along >= 0) & (along < np.abs(np.diag(lengths)))).all(axis=1)]


@pytest.mark.parametrize("name", CELLS)
def test_shapes_by_all_images(name: str, tmp_path: Path) -> None:
    cell = np.array(CELLS[name], np.float64)
    rng = np.random.default_rng(5)
    groups = np.round(rng.uniform(-1.5, 2.5, (30, 1, 3)) @ cell + rng.uniform(-1, 1, (30, 3, 3)), 3).astype(np.float32)
    bonds = np.concatenate([[[3 * i, 3 * i + 1], [3 * i + 1, 3 * i + 2]] for i in range(30)])
    with kn.Writer(tmp_path / "made.trr", 90) as out:
        out.write(groups.reshape(-1, 3), cell=cell, time=0.0)
    traj = kn.open(tmp_path / "made.trr", stored=False)
    given = traj.read(fields=["positions"])
    groups, cell = given["positions"].reshape(30, 3, 3).astype(np.float64), given["cells"][0]
    for ur in SHAPES:
        with collected():
            whole = traj.with_transform(transforms.whole(bonds=bonds))
            wrapped = whole.with_transform(transforms.wrap(compound="molecules", ur=ur, weights=None, bonds=bonds))
        found = wrapped.read()[0].reshape(30, 3, 3)
        for before, after in zip(whole.read()[0].reshape(30, 3, 3).astype(np.float64), found, strict=True):
            (expected,) = inside(images(before.mean(axis=0), cell), cell, ur)
            assert_allclose(after, before - before.mean(axis=0) + expected, rtol=0, atol=2e-5)

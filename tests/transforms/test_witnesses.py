"""`whole`, `cluster`, `nojump` and `displacement` against what cpptraj and MDTraj have made of the same files."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import kinema as kn
from kinema import transforms

Floats = NDArray[np.floating]

STORED = Path(__file__).parent.parent / "data" / "witnesses"
# angstrom: all three round positions to float32
NEAR = 3e-5
# two chains and a ligand, and then waters of three atoms
ENDS = [0, 20, 38, 43, *range(46, 164, 3)]
COMPLEX = range(43)


@pytest.fixture(scope="module")
def stored() -> dict[str, Floats]:
    with np.load(STORED / "witnesses.npz") as found:
        return dict(found)


@pytest.fixture(scope="module")
def whole() -> kn.Trajectory:
    raw = kn.open(STORED / "complex.trr", STORED / "system.psf", stored=False)
    return raw.with_transform(transforms.whole())


def shift_from_first(positions: Floats) -> Floats:
    """Programs leave the whole at other places: vectors from the first atom."""
    return positions - positions[:, :1]


@pytest.mark.parametrize("witness", ["cpptraj", "mdtraj"])
def test_whole(whole: kn.Trajectory, stored: dict[str, Floats], witness: str) -> None:
    found, raw = whole.read(), kn.open(STORED / "complex.trr", stored=False).read()
    assert (np.abs(found - raw).max(axis=2) > 1).sum() > 40
    for start, end in pairwise(ENDS):
        expected = shift_from_first(stored[witness][:, start:end])
        assert_allclose(shift_from_first(found[:, start:end]), expected, rtol=0, atol=NEAR)


@pytest.mark.parametrize("witness", ["cpptraj", "mdtraj"])
def test_cluster_of_a_dimer_and_its_ligand(whole: kn.Trajectory, stored: dict[str, Floats], witness: str) -> None:
    expected = shift_from_first(stored[witness][:, COMPLEX])
    apart = np.abs(shift_from_first(whole.read(None, COMPLEX)) - expected).max(axis=(1, 2)) > 1
    assert 3 <= apart.sum() < 8, "what is whole is not together in some frames"
    for anchor in (None, [0], [30], [40]):
        clustered = whole.with_transform(transforms.cluster(COMPLEX, anchor=anchor))
        assert_allclose(shift_from_first(clustered.read(None, COMPLEX)), expected, rtol=0, atol=NEAR)


@pytest.mark.parametrize(
    ("walk", "scheme", "made"),
    [
        ("walk-brick", "frac", transforms.nojump()),
        ("walk-skewed", "frac", transforms.nojump()),
        ("walk-brick", "tor", transforms.displacement()),
    ],
)
def test_unwrapping(stored: dict[str, Floats], walk: str, scheme: str, made: transforms.Transform) -> None:
    """In a cell that breathes, so that the two schemes differ."""
    traj, expected = kn.open(STORED / f"{walk}.trr", stored=False), stored[f"{walk}-{scheme}"]
    assert np.abs(expected - traj.read()).max() > 60
    other = transforms.nojump() if scheme == "tor" else transforms.displacement()
    assert np.abs(traj.with_transform(other).read() - expected).max() > 3
    assert_allclose(traj.with_transform(made).read(), expected, rtol=0, atol=NEAR)

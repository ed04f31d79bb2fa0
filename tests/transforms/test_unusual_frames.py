"""Transforms of frames that are unusual: far away, without a cell or a number, bonded to themselves, of one atom."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import kinema as kn
from kinema import transforms
from kinema.base.errors import ArgumentError
from kinema.base.notes import collected

CELL = np.array([[20.0, 0, 0], [6, 18, 0], [-5, 7, 16]])
# bonds are well below half of what two images are apart
CHAIN = 40
BONDS = np.stack([np.arange(CHAIN - 1), np.arange(1, CHAIN)], axis=1)
SHAPES = ("rect", "tric", "compact")


def written(path: Path, frames: Sequence[Any], cells: Sequence[Any]) -> kn.Trajectory:
    """Frames; a cell that is None is none."""
    with kn.Writer(path, len(frames[0])) as out:
        for time, (positions, cell) in enumerate(zip(frames, cells, strict=True)):
            out.write(positions, time=float(time), **({} if cell is None else {"cell": cell}))
    return kn.open(path, stored=False)


def chain(seed: int = 1) -> NDArray[np.float64]:
    """Longer than the cell: 40 atoms, two angstrom apart, nearly straight."""
    steps = np.random.default_rng(seed).normal((1.5, 1.0, 0.8), 0.3, (CHAIN, 3))
    return np.cumsum(steps, axis=0)


def stacks(n_atoms: int) -> dict[str, list[transforms.Transform]]:
    bonds = BONDS[: n_atoms - 1]
    wraps = {
        f"wrap {compound} {ur}": [transforms.wrap(compound=compound, ur=ur, weights=None, bonds=bonds)]
        for compound, ur in itertools.product(("atoms", "molecules"), SHAPES)
    }
    cluster = {"cluster": [transforms.cluster(None, bonds=bonds)]} if n_atoms > 1 else {}
    return {"whole": [transforms.whole(bonds=bonds)], **wraps, **cluster, "center": [transforms.center()]}


@pytest.mark.parametrize("cell", [CELL, CELL[[1, 0, 2]], np.array([[1, 0, 0], [3, 1, 0], [-4, 2, 1]]) @ CELL])
def test_a_chain_that_is_longer_than_the_cell(tmp_path: Path, cell: Any) -> None:
    """Left-handed and unreduced cells are the same lattice."""
    positions = chain()
    assert np.linalg.norm(positions[-1] - positions[0]) > 2 * 20
    rng = np.random.default_rng(2)
    scattered = positions + rng.integers(-3, 4, (CHAIN, 3)) @ CELL
    # a thousand cells away, where float32 is 0.002 angstrom
    far = positions + rng.integers(-1000, 1001, (CHAIN, 3)) @ CELL
    traj = written(tmp_path / "chain.trr", [scattered, far, positions], [cell] * 3)
    whole = traj.with_transform(transforms.whole(bonds=BONDS)).read()
    assert_allclose(whole[0] - whole[0, 0], positions - positions[0], rtol=0, atol=3e-5)
    assert_allclose(whole[1] - whole[1, 0], positions - positions[0], rtol=0, atol=0.01)
    assert_array_equal(whole[:, 0], traj.read()[:, 0])
    assert_array_equal(whole[2], traj.read()[2])


def test_a_ring_across_faces_and_one_around_the_cell(tmp_path: Path) -> None:
    angles = 2 * np.pi * np.arange(12) / 12
    ring = np.stack([2 * np.cos(angles), 2 * np.sin(angles), 0 * angles], axis=1)
    bonds = np.stack([np.arange(12), (np.arange(12) + 1) % 12], axis=1)
    reduced = ring @ np.linalg.inv(CELL)
    traj = written(tmp_path / "ring.trr", [(reduced - np.floor(reduced)) @ CELL] * 2, [CELL] * 2)
    whole = traj.with_transform(transforms.whole(bonds=bonds)).read()
    assert_allclose(whole[0] - whole[0, 0], ring - ring[0], rtol=0, atol=1e-5)
    # a polymer along the first edge, closed with its own image
    polymer = np.arange(12)[:, None] / 12 * CELL[0]
    around = written(tmp_path / "polymer.trr", [ring, polymer], [CELL] * 2)
    behind = around.with_transform(transforms.whole(bonds=bonds))
    behind.read([0])
    with pytest.raises(kn.Error, match=r"polymer\.trr: TRR frame 1.*molecule of atom 1 is bonded to its own image"):
        behind.read()


@pytest.mark.parametrize("name", stacks(CHAIN))
@pytest.mark.parametrize("cell", [np.diag([20.0, 18.0, 16.0]), CELL, CELL[[1, 0, 2]]])
def test_what_is_done_twice_is_done_once(tmp_path: Path, name: str, cell: NDArray[np.float64]) -> None:
    rng = np.random.default_rng(7)
    frames = [chain(seed) + rng.uniform(-3, 3, 3) @ cell + rng.integers(-2, 3, (CHAIN, 3)) @ cell for seed in range(40)]
    # faces, corners and the middle
    special = np.array(list(itertools.product([0.0, 0.5, 1.0, -0.5], repeat=3)))[:CHAIN] @ cell
    traj = written(tmp_path / "twice.trr", [*frames, special], [cell] * 41)
    stack = stacks(CHAIN)[name]
    if name.startswith("wrap molecules") or name == "cluster":
        traj = traj[:40].with_transform(transforms.whole(bonds=BONDS))
    if name == "whole":
        traj = traj[:40]
    with collected():
        once, twice = traj.with_transform(*stack), traj.with_transform(*stack, *stack)
    first = once.read()
    if name == "center":
        assert_allclose(twice.read(), first, rtol=0, atol=2e-6)
    else:
        assert_array_equal(twice.read(), first)
    assert name == "cluster" or np.abs(first - traj.read()).max() > 1


SIX = chain()[:6]
LOST = {
    "position": (
        SIX + np.where(np.arange(18).reshape(6, 3) == 10, np.nan, 0),
        CELL,
        r"position of atom 4 .*not finite",
    ),
    "infinite": (
        SIX + np.where(np.arange(18).reshape(6, 3) == 10, np.inf, 0),
        CELL,
        r"position of atom 4 .*not finite",
    ),
    "cell": (SIX, None, r"the frame has no periodic cell"),
    "volume": (SIX, CELL[[0, 0, 2]], r"cell"),
}


@pytest.mark.parametrize("name", stacks(6))
def test_frames_that_cannot_be_worked_with_are_named(tmp_path: Path, name: str) -> None:
    for number, (positions, cell, what) in LOST.items():
        path = tmp_path / f"{number}.trr"
        frames, cells = [SIX, SIX, positions, SIX], [CELL, CELL, cell, CELL]
        with collected():
            behind = written(path, frames, cells).with_transform(*stacks(6)[name])
        assert len(behind.read([0, 1, 3])) == 3
        for read in (behind.read, lambda b=behind: list(b), lambda b=behind: b.read([2], workers=2)):
            with pytest.raises(kn.Error, match=rf"{number}\.trr: TRR frame 2.*{what}"):
                read()


@pytest.mark.parametrize("make", [transforms.nojump, transforms.displacement])
def test_passes_over_all_frames_name_the_frame(tmp_path: Path, make: Any) -> None:
    for number, (positions, cell, what) in LOST.items():
        traj = written(tmp_path / f"{number}.trr", [SIX, SIX, positions, SIX], [CELL, CELL, cell, CELL])
        with pytest.raises(kn.Error, match=rf"{number}\.trr: TRR frame 2.*{what}"):
            traj.with_transform(make())


def test_one_atom_and_none(tmp_path: Path) -> None:
    traj = written(tmp_path / "one.trr", [[[25.0, 1, 1]], [[-3.0, -2, 40]]], [CELL] * 2)
    for name, stack in stacks(1).items():
        with collected():
            found = traj.with_transform(*stack).read()
        apart = (found - traj.read())[:, 0] @ np.linalg.inv(CELL)
        if name != "center":
            assert_allclose(apart, np.round(apart), rtol=0, atol=1e-6)
            assert apart.any() == name.startswith("wrap")
    with collected():
        nojump = traj.with_transform(transforms.nojump())
    assert np.abs(np.diff(nojump.read()[:, 0] @ np.linalg.inv(CELL), axis=0)).max() <= 0.5
    # nothing chosen: nothing to do, or an error that says so
    for make in (transforms.whole, transforms.wrap, transforms.center, transforms.cluster, transforms.nojump):
        bonds = {"bonds": []} if make in (transforms.whole, transforms.cluster) else {}
        try:
            with collected():
                behind = traj.with_transform(make([], **bonds))
        except ArgumentError as error:
            assert "atom" in str(error)
        else:
            assert_array_equal(behind.read(), traj.read())


def test_a_group_without_mass_goes_by_its_geometry(tmp_path: Path) -> None:
    """Two molecules, of which one has no mass, and one has a site without mass far from its centre."""
    frame = np.array([[19.0, 1, 1], [21.5, 1, 1], [19.5, 5, 5], [21.0, 5, 5]])
    bonds = [[0, 1], [2, 3]]
    cell = np.diag([20.0] * 3)
    atoms = kn.Atoms(4, masses=np.array([0.0, 0.0, 12.0, 0.0]), bonds=np.array(bonds), resindices=np.zeros(4, np.int64))
    written(tmp_path / "mass.trr", [frame], [cell])
    traj = kn.open(tmp_path / "mass.trr", topology=atoms, stored=False)
    with collected():
        found = traj.with_transform(transforms.wrap(compound="molecules")).read()[0]
    assert_allclose(found[:, 0], [-1.0, 1.5, 19.5, 21.0], rtol=0, atol=1e-6)
    with collected():
        geometry = traj.with_transform(transforms.wrap(compound="molecules", weights=None)).read()[0]
    assert_allclose(geometry[:, 0], [-1.0, 1.5, -0.5, 1.0], rtol=0, atol=1e-6)

"""Frames whose cells are periodic along some of their edges: slabs and wires."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kinema as kn
from kinema import transforms
from kinema.base.notes import collected
from kinema.testing.dlpoly_files import unformatted_bytes

EDGE = 20.0
CELL = np.diag([EDGE] * 3)
# two atoms that are bonded, near opposite faces along each edge, and one that goes across these faces
POSITIONS = np.array([[[1, 1, 1], [19, 18, 17], [18, 17, 19]], [[1, 1, 1], [19, 18, 17], [1, 2, 3]]], np.float32)
BONDS = [[0, 1]]
SLAB, WIRE, FULL = (True, True, False), (False, False, True), (True, True, True)


def h5md(folder: Path, periodic: tuple[bool, ...]) -> Path:
    path = folder / "made.h5md"
    boundary = ["periodic" if one else "none" for one in periodic]
    with kn.Writer(path, 3, boundary=boundary, fields=["positions"]) as out:
        for step, positions in enumerate(POSITIONS):
            out.write(positions, cell=CELL, step=step, time=float(step))
    return path


def unformatted(folder: Path, periodic: tuple[bool, ...]) -> Path:
    path = folder / "HISTORY"
    imcon = {SLAB: 6, FULL: 3}[periodic]
    path.write_bytes(unformatted_bytes([POSITIONS.astype(float)], cells=np.array([CELL] * 2), imcon=imcon))
    return path


def records(folder: Path, periodic: tuple[bool, ...]) -> Path:
    """Text with records of 72 characters."""
    path = folder / "made.history"
    with collected():
        kn.convert(unformatted(folder, periodic), path)
    if periodic == SLAB:
        lines = path.read_text().splitlines(keepends=True)
        lines[1] = f"{lines[1][:10]}{6:10d}{lines[1][20:]}"
        path.write_text("".join(f"{one[:30]} 6{one[32:]}" if one.startswith("timestep") else one for one in lines))
    return path


def classic(folder: Path, periodic: tuple[bool, ...]) -> Path:
    """Text with lines of any width."""
    path = folder / "classic.history"
    path.write_text(re.sub(r" +\n", "\n", records(folder, periodic).read_text()))
    return path


FILES = [(h5md, SLAB), (h5md, WIRE), (h5md, FULL)]
FILES += [(write, edges) for write in (unformatted, records, classic) for edges in (SLAB, FULL)]


def nearest(displacement: np.ndarray, periodic: tuple[bool, ...]) -> np.ndarray:
    return displacement - np.where(periodic, EDGE * np.round(displacement / EDGE), 0)


@pytest.mark.parametrize(("write", "periodic"), FILES)
def test_images_are_those_of_periodic_edges(
    tmp_path: Path, write: Callable[[Path, tuple[bool, ...]], Path], periodic: tuple[bool, ...]
) -> None:
    traj = kn.open(write(tmp_path, periodic), stored=False)
    found = traj.read(fields=["positions"])
    assert_array_equal(found["periodic"], [periodic] * 2)
    assert_array_equal(found["cells"], [CELL] * 2)
    assert_array_equal(found["positions"], POSITIONS)
    distances = kn.analysis.Distances(traj, BONDS).run().results.values[:, 0]
    bond = nearest((POSITIONS[:, 1] - POSITIONS[:, 0]).astype(float), periodic)
    assert_allclose(distances, np.linalg.norm(bond, axis=1), rtol=1e-6)
    angles = kn.analysis.Angles(traj, [[1, 0, 2]]).run().results.values[:, 0]
    other = nearest((POSITIONS[:, 2] - POSITIONS[:, 0]).astype(float), periodic)
    cosines = (bond * other).sum(axis=1) / np.linalg.norm(bond, axis=1) / np.linalg.norm(other, axis=1)
    assert_allclose(angles, np.degrees(np.arccos(cosines)), rtol=1e-5)

    whole = traj.with_transform(transforms.whole(bonds=BONDS))
    expected = POSITIONS.copy()
    expected[:, 1] = expected[:, 0] + bond
    assert_array_equal(whole.read(), expected)
    # the same with fields that decoded rows have no room for
    assert_array_equal(whole.read(select=[1], dtype="float64"), expected[:, 1:2])
    assert_array_equal(whole.read(fields=["positions"])["periodic"], [periodic] * 2)

    jumped = POSITIONS.copy()
    jumped[1, 2] = POSITIONS[0, 2] + nearest(POSITIONS[1, 2] - POSITIONS[0, 2], periodic)
    assert_array_equal(traj.with_transform(transforms.nojump()).read(), jumped)


@pytest.mark.parametrize("ur", ["rect", "tric", "compact"])
@pytest.mark.parametrize("periodic", [SLAB, WIRE, FULL])
def test_wrap_and_center(tmp_path: Path, ur: str, periodic: tuple[bool, ...]) -> None:
    traj = kn.open(h5md(tmp_path, periodic), stored=False)
    away = traj.with_transform(transforms.center([0], point=[101.0, 101.0, 101.0]))
    wrapped = away.with_transform(transforms.wrap(compound="atoms", ur=ur)).read()
    shifted = POSITIONS + np.float32(100)
    assert_array_equal(wrapped, np.where(periodic, shifted % EDGE, shifted))
    # the middle of the cell is that of all its edges
    assert_array_equal(traj.with_transform(transforms.center([0])).read()[:, 0], np.full((2, 3), EDGE / 2))


def test_a_molecule_across_an_open_edge_is_not_broken(tmp_path: Path) -> None:
    pairs = np.array(BONDS, np.uint32)
    positions = np.array([[[1, 1, 1], [1, 1, 19]]] * 2, np.float32)
    cells, edges = np.array([CELL] * 2), np.array([SLAB, FULL])
    counter = kn._core.BrokenCounter(2, pairs)
    assert_array_equal(counter.count(positions, cells, edges), [0, 1])


def test_parts_keep_their_own_edges(tmp_path: Path) -> None:
    """The same cell in two files, one of which is a slab: lattices and cells that are kept are those of both."""
    for name, periodic in (("slab", SLAB), ("full", FULL)):
        (tmp_path / name).mkdir()
        h5md(tmp_path / name, periodic)
    paths = [tmp_path / name / "made.h5md" for name in ("slab", "full")]
    traj = kn.open(paths, overlap="all", stored=False)
    edges = traj.read(fields=["positions"])["periodic"]
    bonds = POSITIONS[0, 1] - POSITIONS[0, 0]
    expected = np.array([nearest(bonds.astype(float), tuple(one)) for one in edges])
    assert {tuple(one) for one in edges.tolist()} == {SLAB, FULL}
    distances = kn.analysis.Distances(traj, BONDS).run(workers=1).results.values[:, 0]
    assert_allclose(distances, np.linalg.norm(expected, axis=1), rtol=1e-6)
    whole = traj.with_transform(transforms.whole(bonds=BONDS)).read()
    assert_allclose(whole[:, 1] - whole[:, 0], expected)


# by what atoms move from one frame to the next, angstrom, and along which of their edges cells of 20 angstrom are open
STEPS = {
    # through a face and in again, where images repeat
    "through x": ([EDGE, 0, 0], {"slab": False, "wire": True, "all": False, "flat": False}),
    "through z": ([0, 0, EDGE], {"slab": True, "wire": False, "all": False, "flat": True}),
    "far along x": ([0.4 * EDGE, 0, 0], {"slab": True, "wire": True, "all": True, "flat": True}),
    "far along z": ([0, 0, 0.4 * EDGE], {"slab": True, "wire": True, "all": True, "flat": True}),
}


@pytest.mark.parametrize("kind", ["slab", "wire", "all", "flat"])
def test_check_sees_jumps_by_periodic_edges(tmp_path: Path, kind: str) -> None:
    """A slab's third edge may also have no length; what goes through an open face has moved."""
    # skewed, so that edges are not axes
    cell = np.array([[EDGE, 0, 0], [3, EDGE, 0], [0, 0, 0.0 if kind == "flat" else EDGE]])
    boundary = ["periodic" if one else "none" for one in {"slab": SLAB, "wire": WIRE}.get(kind, FULL)]
    rng = np.random.default_rng(7)
    calm = rng.uniform(0, EDGE, (1, 30, 3)) + np.cumsum(rng.normal(0, 0.1, (12, 30, 3)), axis=0)
    for number, (step, found) in enumerate(STEPS.values()):
        path = tmp_path / f"{number}.h5md"
        positions = calm.copy()
        positions[6:, ::2] += step
        with collected(), kn.Writer(path, 30, boundary=boundary, fields=["positions"]) as out:
            for frame, row in enumerate(positions):
                out.write(row, cell=cell, step=frame, time=float(frame))
        with collected():
            problems = kn.check(path, stored=False).problems
        expected = [("jump", 6)] if found[kind] else []
        assert [(one.kind, one.frame) for one in problems] == expected, (kind, step)

"""The system of `kinema bench-write` against an independent construction; shares of ranks; native binary records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinema.base.errors import ArgumentError, FileIOError
from kinema.studies.write_strategies.binary import BinaryRecords, read_binary
from kinema.studies.write_strategies.pyrochlore import (
    LATTICE_CONSTANT,
    NAMES,
    OXYGEN_X,
    SITES,
    Pyrochlore,
    site_positions,
)


def test_the_cell_is_that_of_the_space_group() -> None:
    from ase.spacegroup import crystal

    fractions, kinds = site_positions()
    names = np.array(NAMES)[kinds]
    expected = crystal(
        ["Gd", "Zr", "O", "O"],
        [(0.5, 0.5, 0.5), (0, 0, 0), (OXYGEN_X, 1 / 8, 1 / 8), (3 / 8, 3 / 8, 3 / 8)],
        spacegroup=227, setting=2, cellpar=[LATTICE_CONSTANT] * 3 + [90] * 3,
    )  # fmt: skip
    assert {name: int((names == name).sum()) for name in NAMES} == {"Gd": 16, "Zr": 16, "O": 56}
    difference = fractions[:, None] - expected.get_scaled_positions()[None]
    distance = np.abs(difference - np.round(difference)).max(axis=2)
    nearest = distance.argmin(axis=1)
    assert len(expected) == SITES and sorted(nearest) == list(range(SITES))
    assert distance.min(axis=1).max() < 1e-9
    assert [expected[int(one)].symbol for one in nearest] == list(names)


def test_distances_of_the_fluorite_like_lattice() -> None:
    system = Pyrochlore((2, 2, 2), displacement=0.0)
    positions, _, _ = system.state(np.arange(system.n_atoms))
    kinds = np.array(NAMES)[system.kinds()]
    assert system.n_atoms == 704 and np.allclose(np.diag(system.box), 2 * LATTICE_CONSTANT)
    difference = positions[:, None] - positions[None]
    difference -= np.diag(system.box) * np.round(difference / np.diag(system.box))
    distance = np.linalg.norm(difference, axis=2) + 1e9 * np.eye(len(positions))
    # sixfold Zr and eightfold Gd; cations are a quarter of a face's diagonal apart
    neighbours = (distance[:, kinds == "O"] < 0.27 * LATTICE_CONSTANT).sum(axis=1)
    assert set(neighbours[kinds == "Zr"]) == {6} and set(neighbours[kinds == "Gd"]) == {8}
    cations = kinds != "O"
    assert np.allclose(distance[np.ix_(cations, cations)].min(axis=1), LATTICE_CONSTANT / 8**0.5)


@pytest.mark.parametrize(
    ("asked", "cells"), [(3_773_000, (35, 35, 35)), (704, (2, 2, 2)), (1, (1, 1, 1)), (1000, (2, 2, 3))]
)
def test_whole_cells_of_about_so_many(asked: int, cells: tuple[int, int, int]) -> None:
    assert Pyrochlore.from_particle_count(asked).cells == cells
    with pytest.raises(ArgumentError, match="particles"):
        Pyrochlore.from_particle_count(0)


@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 1, 1), (3, 2, 1), (5, 1, 1)])
def test_shares_are_each_atom_once_whoever_makes_it(grid: tuple[int, int, int]) -> None:
    system = Pyrochlore((3, 2, 2), seed=4)
    shares = [system.atoms(rank, grid) for rank in range(int(np.prod(grid)))]
    ids = np.concatenate([share.ids for share in shares])
    assert np.array_equal(np.sort(ids), np.arange(system.n_atoms))
    expected = system.state(np.arange(system.n_atoms))
    for number, name in enumerate(("positions", "velocities", "forces")):
        whole = np.concatenate([getattr(share, name) for share in shares])
        assert np.array_equal(whole, expected[number][ids])
    # in no order, and not of one run
    assert all((np.diff(share.ids) < 0).any() for share in shares if len(share.ids))
    sizes = {len(share.ids) for share in shares}
    assert (0 in sizes) == (grid[0] > 3)
    # 300 K: sqrt(k T / m) of gadolinium, angstrom/ps
    of_gd = expected[1][np.array(NAMES)[system.kinds()] == "Gd"]
    assert np.isclose(of_gd.std(), 1.2595, rtol=0.1)


def test_native_binary_records(tmp_path: Path) -> None:
    system = Pyrochlore((1, 1, 2))
    fields = ["positions", "velocities", "forces"]
    records = BinaryRecords(system.n_atoms, fields, NAMES, system.kinds())
    layout = records.frame(0, 7, 0.0, system.box)
    ((place, width),) = layout.planes
    assert (place, width, layout.bytes) == (120, 96, 120 + 96 * system.n_atoms)
    given = system.state(np.arange(system.n_atoms))
    data = np.zeros(layout.bytes, np.uint8)
    for offset, piece in layout.pieces:
        data[offset : offset + len(piece)] = np.frombuffer(piece, np.uint8)
    for start, stop in ((0, 50), (50, system.n_atoms)):
        records.encode(given, start, stop, None, 0, [data[place + start * width : place + stop * width]])
    path = tmp_path / "native.config"
    data.tofile(path)
    found = read_binary(str(path), 10, 30)
    assert np.array_equal(found["index"], np.arange(11, 31))
    assert found["name"].tolist() == [NAMES[kind].encode() for kind in system.kinds()[10:30]]
    for name, values in zip(fields, given, strict=True):
        assert np.array_equal(found[name], values[10:30])
    # numbers in the place of rows
    one = np.zeros(width, np.uint8)
    records.encode([values[5:6] for values in given], 0, 1, np.array([5], np.uint32), 0, [one])
    assert np.array_equal(one, data[place + 5 * width : place + 6 * width])
    path.write_bytes(data.tobytes()[:-1])
    with pytest.raises(FileIOError, match="expected 17016 bytes, found 17015"):
        read_binary(str(path))
    with pytest.raises(ArgumentError, match="one frame"):
        records.frame(1, 0, 0.0, None)

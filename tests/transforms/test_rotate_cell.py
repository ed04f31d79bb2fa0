"""`rotate_cell`: frames are rotated so that lengths and angles hold their cells; `convert(rotate_cell=True)`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import kinema as kn
from kinema.base.notes import collected
from kinema.cli.in_process import call_kinema
from kinema.testing import read_frames

TRICLINIC = np.array([[30.0, 0.0, 0.0], [5.0, 28.0, 0.0], [4.0, 7.0, 30.0]])
CELLS = np.array(
    [
        TRICLINIC,
        TRICLINIC[:, [1, 2, 0]],
        TRICLINIC * [1.0, 1.0, -1.0],
        np.diag([30.0, 28.0, 31.0])[[1, 0, 2]],
        TRICLINIC[:, [2, 0, 1]] * [1.0, -1.0, 1.0],
    ]
)
FIELDS = ("positions", "velocities", "forces")


def vectors(n_frames: int = len(CELLS)) -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(3)
    return {name: random.normal(0.0, 9.0, (n_frames, 20, 3)).astype(np.float32) for name in FIELDS}


def source(path: Path) -> Path:
    with collected(), kn.Writer(path, 20) as out:
        out.write(**vectors(), cell=CELLS, step=np.arange(len(CELLS)), time=np.arange(float(len(CELLS))))
    return path


def nearest(cell: NDArray[np.float64], positions: NDArray[np.float32]) -> NDArray[np.float64]:
    """Distances of the nearest images of the first atom and all others, by trying 27 of each."""
    shifts = np.array([[i, j, k] for i in (-1, 0, 1) for j in (-1, 0, 1) for k in (-1, 0, 1)]) @ cell
    apart = (positions - positions[:1]).astype(np.float64)
    found: NDArray[np.float64] = np.linalg.norm(apart[:, None] + shifts, axis=2).min(axis=1)
    return found


def hand(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """The signed volumes of four atoms each: a reflection would turn their signs."""
    wide = values.astype(np.float64)
    found: NDArray[np.float64] = np.linalg.det(wide[:16].reshape(4, 4, 3)[:, :3] - wide[:16].reshape(4, 4, 3)[:, 3:])
    return found


@pytest.mark.parametrize(
    ("name", "options"),
    [("a.nc", {}), ("a.nc", {"netcdf4": True}), ("a.trr", {}), ("a.h5md", {})],
    ids=["NetCDF", "NetCDF-4", "TRR", "H5MD"],
)
def test_frames_are_rotated_with_all_vectors(tmp_path: Path, name: str, options: dict[str, bool]) -> None:
    given = vectors()
    with collected() as noted:
        done = kn.convert(source(tmp_path / "in.h5md"), tmp_path / name, rotate_cell=True, verify="all", **options)
    assert any("are rotated" in note and "third edge is reversed" in note for note in noted)
    assert done.compared == len(CELLS)
    assert not any("turned" in loss for loss in done.losses)
    found = read_frames(tmp_path / name)
    for i, cell in enumerate(found.cells):
        assert not cell[[0, 0, 1], [1, 2, 2]].any()
        assert np.linalg.det(cell) > 0
        # the same lattice: lengths, and angles except at the reversed edge
        sign = np.array([1.0, 1.0, np.sign(np.linalg.det(CELLS[i]))])
        same = CELLS[i] * sign[:, None]
        np.testing.assert_allclose(cell @ cell.T, same @ same.T, rtol=1e-6, atol=1e-3)
        # no distance has changed, within a frame or across its borders
        expected = nearest(CELLS[i], given["positions"][i])
        np.testing.assert_allclose(nearest(cell, found.fields["positions"][i]), expected, rtol=1e-5, atol=1e-4)
        for field in FIELDS:
            a, b = (values[field][i].astype(np.float64) for values in (given, found.fields))
            np.testing.assert_allclose(b @ b.T, a @ a.T, rtol=1e-5, atol=1e-2)
            np.testing.assert_allclose(hand(b), hand(a), rtol=1e-4, atol=1e-1)
    # a frame whose cell lies so keeps its bits
    np.testing.assert_array_equal(found.cells[0].astype(np.float32), TRICLINIC.astype(np.float32))
    np.testing.assert_allclose(found.fields["positions"][0], given["positions"][0], rtol=1e-6)


def test_without_it_left_handed_cells_are_refused_and_others_turned_alone(tmp_path: Path) -> None:
    path = source(tmp_path / "in.h5md")
    with (
        collected(),
        pytest.raises(kn.UnsupportedFormatError, match=r"frame 2: .* right-handed"),
    ):
        kn.convert(path, tmp_path / "a.nc")
    with collected():
        done = kn.convert(path, tmp_path / "a.nc", frames=[0, 1])
    assert any("positions are not" in loss for loss in done.losses)


def test_it_is_the_last_of_the_transforms(tmp_path: Path) -> None:
    trajectory = kn.open(source(tmp_path / "in.h5md")).with_transform(kn.transforms.rotate_cell())
    assert trajectory.transforms == ["rotate_cell()"] or tuple(trajectory.transforms) == ("rotate_cell()",)
    with pytest.raises(kn.ArgumentError, match="wrap comes before rotate_cell"):
        trajectory.with_transform(kn.transforms.wrap())
    # some atoms are rotated as all are
    every = trajectory.read(fields=["positions"])["positions"]
    some = trajectory.read(fields=["positions"], select=[3, 17])["positions"]
    np.testing.assert_array_equal(some, every[:, [3, 17]])


def test_on_the_command_line(tmp_path: Path) -> None:
    source(tmp_path / "in.h5md")
    done = call_kinema("convert", "in.h5md", "-o", "a.nc", "--rotate-cell", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "are rotated" in done.stderr
    assert json.loads(done.stdout)["n_frames"] == len(CELLS)

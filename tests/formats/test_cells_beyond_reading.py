"""A cell beyond reading, in one frame of a file of another program: that frame has none, and the file is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import random_walk, write_dcd, write_trr, write_xtc
from kinema.testing.programs.imports import lazy

netCDF4 = lazy("netCDF4")

POSITIONS = random_walk(4, 12)
GOOD = np.diag([30.0, 40.0, 50.0])
BAD = {
    "huge": GOOD * 1e300,
    "beyond single precision": GOOD * 1e38,
    "negative": np.diag([30.0, -40.0, 50.0]),
    "nan": GOOD * np.nan,
    "parallel": np.array([[10.0, 0, 0], [20.0, 0, 0], [0, 0, 10.0]]),
}


def written(path: Path, **options: bool) -> Path:
    with collected(), kn.Writer(path, 12, **options) as out:
        out.write(POSITIONS, cell=np.broadcast_to(GOOD, (4, 3, 3)), time=np.arange(4.0))
    return path


def lengths_and_angles(cell: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if cell[1, 0]:
        # parallel ones
        return np.array([10.0, 20.0, 10.0]), np.array([90.0, 90.0, 0.0])
    return np.diag(cell), np.full(3, 90.0)


def netcdf(path: Path, cell: NDArray[np.float64], **options: bool) -> None:
    written(path, **options)
    with netCDF4.Dataset(path, "r+") as file:
        file["cell_lengths"][2], file["cell_angles"][2] = lengths_and_angles(cell)


def h5md(path: Path, cell: NDArray[np.float64]) -> None:
    with h5py.File(written(path), "r+") as file:
        file["particles/trajectory/box/edges/value"][2] = cell


def dcd(path: Path, cell: NDArray[np.float64]) -> None:
    write_dcd(path, POSITIONS, cell=np.array([GOOD, GOOD, GOOD, GOOD], np.float32))
    lengths, angles = lengths_and_angles(cell)
    content = bytearray(path.read_bytes())
    frame = 4 + 48 + 4 + 3 * (8 + 4 * 12)
    at = len(content) - 2 * frame + 4
    content[at : at + 48] = np.array(
        [lengths[0], angles[2], lengths[1], angles[1], angles[0], lengths[2]], "<f8"
    ).tobytes()
    path.write_bytes(content)


def gromacs(write: Callable[..., None]) -> Callable[[Path, NDArray[np.float64]], None]:
    def make(path: Path, cell: NDArray[np.float64]) -> None:
        with np.errstate(over="ignore"):
            write(path, POSITIONS, cell=np.array([GOOD, GOOD, cell, GOOD], np.float32))

    return make


MAKERS: dict[str, Callable[[Path, NDArray[np.float64]], None]] = {
    "a.nc": netcdf,
    "4.nc": lambda path, cell: netcdf(path, cell, netcdf4=True),
    "a.h5md": h5md,
    "a.dcd": dcd,
    "a.xtc": gromacs(write_xtc),
    "a.trr": gromacs(write_trr),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("name", MAKERS)
def test_the_frame_has_no_cell_and_the_file_is_read(tmp_path: Path, name: str, kind: str) -> None:
    MAKERS[name](tmp_path / name, BAD[kind])
    with collected() as noted:
        trajectory = kn.open(tmp_path / name, stored=False, absent="nan")
        trajectory.scan()
        found = trajectory.read(fields=["positions"])
    assert trajectory.n_frames == 4
    np.testing.assert_allclose(found["positions"], POSITIONS, atol=0.0051)
    np.testing.assert_allclose(found["cells"][[0, 1, 3]], np.broadcast_to(GOOD, (3, 3, 3)), rtol=1e-6)
    by_vectors = name in ("a.h5md", "a.xtc", "a.trr")
    if kind == "parallel" and by_vectors:
        # which is as it is written: whoever needs a volume refuses it
        np.testing.assert_allclose(found["cells"][2], BAD[kind], rtol=1e-6)
        return
    assert np.isnan(found["cells"][2]).all(), noted

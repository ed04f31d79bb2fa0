"""One rule of cells for all formats: edges without a length are open; what is not a cell is absent, and noted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kinema as kn
from kinema import transforms
from kinema.base.notes import collected
from kinema.testing.amounts import pairs
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
interop = lazy("kinema.interop.mdanalysis")
netCDF4 = lazy("netCDF4")

pytestmark = pytest.mark.usefixtures("nobody_changes_files")

# two atoms 9 angstrom apart along x
ATOMS = np.array([[0.5, 1, 1], [9.5, 1, 1]], np.float32)
NAMES = ("a.xtc", "a.trr", "a.h5md", "a.history", "a.dcd", "classic.nc", "amber.nc", "dl_poly.nc")
OTHERS = ("b.xtc", "b.trr", "b.h5md", "b.history", "b.dcd", "b.nc")
CELLS = {
    "slab": np.diag([10.0, 10.0, 0.0]),
    "wire": np.diag([10.0, 0.0, 0.0]),
    "other wire": np.diag([0.0, 0.0, 10.0]),
    "sheared": np.array([[10.0, 0, 0], [3, 9, 0], [0, 0, 0]]),
    "all": np.diag([10.0, 10.0, 10.0]),
}


def written(folder: Path, name: str, cell: Any) -> kn.Trajectory:
    """A file of two frames through our own writers; `name` with the convention of NetCDF-4."""
    kind, _, ending = name.rpartition(".")
    more: dict[str, Any] = {"netcdf4": True, "convention": kind} if ending == "nc" and kind != "classic" else {}
    with collected(), kn.Writer(folder / name, 2, **more) as out:
        for frame in range(2):
            out.write(ATOMS, cell=cell, step=frame, time=float(frame))
    return kn.open(folder / name, stored=False)


@pytest.mark.parametrize(("name", "kind", "other"), pairs(NAMES, tuple(CELLS), OTHERS))
def test_an_edge_of_zero_is_open_in_all_formats_and_written_back(
    tmp_path: Path, name: str, kind: str, other: str
) -> None:
    cell = CELLS[kind]
    traj = written(tmp_path, name, cell)
    found = traj.read(fields=["positions"])
    assert_allclose(found["cells"], [cell] * 2, atol=1e-6)
    assert_array_equal(found["periodic"], [cell.any(axis=1)] * 2)
    assert found["present"]["cells"].all()
    distance = 1.0 if cell[0].any() else 9.0
    assert_allclose(kn.analysis.Distances(traj, [[0, 1]]).run().results.values, distance, atol=1e-5)
    with collected():
        kn.convert(traj, tmp_path / other)
    again = kn.open(tmp_path / other, stored=False)
    read = again.read(fields=["positions"])
    assert_allclose(read["cells"], found["cells"], atol=2e-6, err_msg=other)
    assert_array_equal(read["periodic"], found["periodic"], err_msg=other)
    assert_allclose(kn.analysis.Distances(again, [[0, 1]]).run().results.values, distance, atol=1e-5)


# -- cells that are none ----------------------------------------------------------------------------------------------

GOOD = np.diag([10.0, 10.0, 10.0])
WRONG = {
    "nan": (np.array([10.0, np.nan, 10.0]), [90.0] * 3),
    "infinite": (np.array([10.0, np.inf, 10.0]), [90.0] * 3),
    "negative": (np.array([10.0, -10.0, 10.0]), [90.0] * 3),
    "angles": (np.array([10.0, 10.0, 10.0]), [20.0, 20.0, 170.0]),
}


def patched(folder: Path, name: str, lengths: Any, angles: Any) -> Path:
    """A file of two frames, the second of which has these lengths and angles in its cell."""
    with collected():
        written(folder, name, np.diag([11.0, 12.0, 13.0]))
    path = folder / name
    data = path.read_bytes()
    unit = 0.1 if path.suffix in (".xtc", ".trr") else 1.0
    kind = {".dcd": "<f8", ".nc": ">f8", ".xtc": ">f4", ".trr": ">f4"}.get(path.suffix)
    if path.suffix == ".h5md":
        with h5py.File(path, "r+") as file:
            file["particles/trajectory/box/edges/value"][1] = np.diag(lengths)
        return path
    if path.suffix == ".history":
        frames = data.split(b"timestep")
        for old, new in zip((11.0, 12.0, 13.0), lengths, strict=True):
            frames[2] = frames[2].replace(f"{old:20.10f}".encode(), f"{new:20.10f}".encode(), 1)
        path.write_bytes(b"timestep".join(frames))
        return path
    for i, new in enumerate(lengths):
        old = np.array((11.0, 12.0, 13.0)[i] * unit, kind).tobytes()
        at = data.rindex(old)
        data = data[:at] + np.array(new * unit, kind).tobytes() + data[at + len(old) :]
    if angles != [90.0] * 3:
        if path.suffix == ".nc":
            at = data.rindex(np.full(3, 90.0, kind).tobytes())
            data = data[:at] + np.array(angles, kind).tobytes() + data[at + 24 :]
        else:
            at = data.rindex(np.array([0.0, lengths[2]], kind).tobytes()) - 32
            six = np.array([lengths[0], angles[2], lengths[1], angles[1], angles[0], lengths[2]], kind)
            data = data[:at] + six.tobytes() + data[at + 48 :]
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "kind", "other"),
    pairs(
        ("a.xtc", "a.trr", "a.dcd", "classic.nc", "a.history", "a.h5md"),
        tuple(WRONG),
        ("b.trr", "b.dcd", "b.nc", "b.xtc"),
    ),
)
def test_a_cell_that_is_none_is_absent_and_noted_and_positions_are_read(
    tmp_path: Path, name: str, kind: str, other: str
) -> None:
    lengths, angles = WRONG[kind]
    if kind == "angles" and name not in ("a.dcd", "classic.nc"):
        pytest.skip("vectors have no angles")
    path = patched(tmp_path, name, lengths, angles)
    with collected():
        traj = kn.open(path, stored=False)
    with pytest.warns(kn.Note, match=rf"{name}: [\w ]+ frame 1: the cell is none"):
        found = traj.read(fields=["positions"])
    assert_allclose(found["positions"], [ATOMS] * 2, atol=1e-5)
    assert found["present"]["cells"].tolist() == [True, False]
    assert np.isnan(found["cells"][1]).all()
    assert [note for note in traj.notes if "the cell is none" in note]
    # said once
    with collected() as notes:
        traj.read()
        assert kn.analysis.RadiusOfGyration(traj, weights=None).run().results.rgyr.shape[0] == 2
    assert not any("the cell is none" in note for note in notes)
    with pytest.raises(kn.CorruptFileError, match=rf"{name}: [\w ]+ frame 1: the cell of the frame is not known"):
        kn.analysis.Distances(traj, [[0, 1]]).run()
    bonds = {"bonds": [[0, 1]]}
    with pytest.raises(kn.Error, match=r"frame 1.*the cell of the frame is not known"):
        traj.with_transform(transforms.whole(**bonds)).read()
    moved = traj.with_transform(transforms.center([0], point=[0.0, 0, 0]))
    assert_allclose(moved.read()[:, 1, 0], 9.0, atol=1e-5)
    with pytest.raises(kn.CorruptFileError, match="the cell of the frame is not known"):
        kn.analysis.Distances(moved, [[0, 1]]).run()
    assert kn.analysis.Distances(traj, [[0, 1]], minimum_image=False).run().results.values.shape == (2, 1)
    universe = MDAnalysis.Universe.empty(2, trajectory=True)
    with collected() as notes:
        universe.load_new(str(path), format=interop.KinemaReader)
        boxes = [ts.dimensions for ts in universe.trajectory]
    assert [note for note in notes if "frame 1: the cell is none" in note]
    assert boxes[0] is not None and boxes[1] is None
    with collected():
        universe = kn.open(path, stored=False)
        kn.convert(universe, tmp_path / other)
        again = kn.open(tmp_path / other, stored=False).read(fields=["positions"])
        assert again["present"]["cells"].tolist() == [True, False], other
        assert_allclose(again["positions"], [ATOMS] * 2, atol=1e-5)


def test_a_cell_of_one_angstrom_around_molecules_is_noted(tmp_path: Path) -> None:
    for name in ("a.xtc", "a.trr", "a.dcd", "classic.nc", "a.history", "a.h5md"):
        traj = written(tmp_path, name, np.diag([1.0, 1.0, 1.0]))
        with pytest.warns(kn.Note, match=rf"{name}: .* frame 0: the cell of 1 x 1 x 1 angstrom or less"):
            traj.read()
        with collected(), kn.Writer(tmp_path / f"one_{name}", 1) as out:
            out.write(ATOMS[:1], cell=[1.0, 1.0, 1.0], step=0, time=0.0)
        with collected() as notes:
            kn.open(tmp_path / f"one_{name}", stored=False).read()
        assert not [note for note in notes if "1 x 1 x 1" in note]


def test_small_public_files_of_slabs() -> None:
    folder = Path(__file__).parent.parent / "data" / "public-faults"
    for name in ("slab.nc", "slab.trr"):
        traj = kn.open(folder / name, stored=False)
        assert_allclose(kn.analysis.Distances(traj, [[0, 1]]).run().results.values, 1.0, atol=1e-6)
        assert traj.read(fields=["positions"])["periodic"].tolist() == [[True, True, False]]


def test_open_edges_of_netcdf4_by_angles_of_anything(tmp_path: Path) -> None:
    """Programs leave anything in the angles of an edge that is not there."""
    for form in ("NETCDF3_64BIT_OFFSET", "NETCDF4"):
        path = tmp_path / f"{form}.nc"
        with collected(), kn.Writer(tmp_path / "a.nc", 2, overwrite=True) as out:
            out.write(ATOMS, cell=[10.0, 10.0, 10.0], step=0, time=0.0)
        with netCDF4.Dataset(tmp_path / "a.nc") as old, netCDF4.Dataset(path, "w", format=form) as new:
            new.set_auto_mask(False)
            new.setncatts({name: old.getncattr(name) for name in old.ncattrs()})
            for name, dimension in old.dimensions.items():
                new.createDimension(name, None if dimension.isunlimited() else len(dimension))
            for name, variable in old.variables.items():
                made = new.createVariable(name, variable.dtype, variable.dimensions)
                made[:] = variable[:]
            new["cell_lengths"][:] = [[10.0, 10.0, 0.0]]
            new["cell_angles"][:] = [[0.0, -7.0, 90.0]]
        found = kn.open(path, stored=False).read(fields=["positions"])
        assert_allclose(found["cells"], [CELLS["slab"]])
        assert found["periodic"].tolist() == [[True, True, False]]

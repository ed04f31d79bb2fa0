"""NetCDF-4 of AMBER's and DL_POLY's conventions, against the suite of formats and files of the netCDF library."""

from pathlib import Path

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import FormatTests, Golden, random_walk, write_dl_poly_netcdf, write_netcdf
from kinema.testing.programs.imports import lazy
from kinema.testing.synthetic import random_cells

netCDF4 = lazy("netCDF4")

VECTORS = ("positions", "velocities", "forces")


def opened(path: str | Path, **options) -> kn.Trajectory:
    with collected():
        trajectory = kn.open(path, stored=False, **options)
        trajectory.scan()
    return trajectory


class Netcdf4Tests(FormatTests):
    suffix = ".nc"
    index = "structure"
    reads_cut_files = False
    # the library stores each small variable in a chunk of its own
    frames_lie_alone = False


class TestAmber(Netcdf4Tests):
    velocity_tolerance = 3e-7

    def write(self, path, positions, first_step):
        times = np.arange(len(positions), dtype=float) + first_step
        write_netcdf(path, positions, times=times, form="NETCDF4")

    def write_synthetic(self, path, made):
        cells = made.cells if made.cells.any() else None
        write_netcdf(path, made.positions, velocities=made.velocities, times=made.times, cells=cells, form="NETCDF4")
        return cells is not None, True

    def golden_files(self):
        from MDAnalysisTests import datafiles

        # a real file as the library copies it
        with netCDF4.Dataset(datafiles.NCDF) as file:
            positions, times = np.asarray(file["coordinates"][:], np.float32), np.asarray(file["time"][:])
        path = self.folder / "real.nc"
        write_netcdf(path, positions, times=times, form="NETCDF4")
        return [Golden(path, positions, times)]

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path


class TestDlPoly(Netcdf4Tests):
    def write(self, path, positions, first_step):
        steps = np.arange(len(positions)) + first_step
        write_dl_poly_netcdf(path, positions, steps=steps, times=steps.astype(float), dtype="f4")

    def write_synthetic(self, path, made):
        write_dl_poly_netcdf(
            path, made.positions, velocities=made.velocities, times=made.times, steps=made.steps, cells=made.cells
        )
        return True, True

    def golden_files(self):
        path = self.folder / "made.nc"
        positions = random_walk(5, 9)
        cells = random_cells(5, "triclinic", 1)
        write_dl_poly_netcdf(path, positions, cells=cells)
        with netCDF4.Dataset(path) as file:
            return [Golden(path, np.asarray(file["coordinates"][:], np.float32), np.asarray(file["time"][:]), cells)]

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kind", ["none", "cuboid", "triclinic"])
def test_the_same_numbers_as_the_classic_file(dtype, kind, tmp_path):
    positions = random_walk(20, 15).astype(np.float32)
    cells = None if kind == "none" else random_cells(20, kind, 3)
    how = {"velocities": positions / 3, "times": np.arange(20) / 4, "dtype": dtype, "cells": cells}
    write_netcdf(tmp_path / "old.nc", positions, **how)
    write_netcdf(tmp_path / "new.nc", positions, form="NETCDF4", **how)
    old, new = (opened(tmp_path / name) for name in ("old.nc", "new.nc"))
    assert (new.format, new.fields, new.parts[0].index) == ("NetCDF", old.fields, "structure")
    assert new.parts[0].variant == "AMBER convention 1.0, NetCDF-4 (HDF5), written by Kinema's tests 1"
    for kind_of_float in ("float32", "float64"):
        found, expected = (one.read(fields=["positions", "velocities"], dtype=kind_of_float) for one in (new, old))
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values)
    np.testing.assert_array_equal(kn.open(tmp_path / "new.nc", format="NetCDF", stored=False).read(), new.read())


@pytest.mark.parametrize("runner", ["serial", "threads", "processes"])
@pytest.mark.parametrize("write", [write_netcdf, write_dl_poly_netcdf])
def test_runners_give_the_same_bits(runner, write, tmp_path):
    positions = random_walk(64, 40).astype(np.float32)
    write(tmp_path / "a.nc", positions, **({"form": "NETCDF4"} if write is write_netcdf else {}))
    write_netcdf(tmp_path / "old.nc", positions)
    found = kn.analysis.RMSF(opened(tmp_path / "a.nc")).run(runner=runner, progress=False)
    expected = kn.analysis.RMSF(opened(tmp_path / "old.nc")).run(runner="serial", progress=False)
    np.testing.assert_array_equal(found.results.rmsf, expected.results.rmsf)


def restart(path, positions, velocities, conventions="AMBERRESTART"):
    with netCDF4.Dataset(path, "w") as file:
        file.Conventions, file.ConventionVersion = conventions, "1.0"
        for name, length in (("spatial", 3), ("atom", len(positions)), ("cell_spatial", 3), ("cell_angular", 3)):
            file.createDimension(name, length)
        file.createVariable("time", "f8", ())[...] = 12.5
        file["time"].units = "picosecond"
        file.set_auto_maskandscale(False)
        for name, values, unit in (
            ("coordinates", positions, "angstrom"),
            ("velocities", velocities, "angstrom/picosecond"),
        ):
            made = file.createVariable(name, "f8", ("atom", "spatial"))
            made.set_auto_maskandscale(False)
            made.units, made[:] = unit, values
        file["velocities"].scale_factor = 20.455
        file.createVariable("cell_lengths", "f8", ("cell_spatial",))[:] = [30, 31, 32]
        file.createVariable("cell_angles", "f8", ("cell_angular",))[:] = np.radians([90, 90, 90])
        file["cell_angles"].units = "radian"


def test_restarts_are_one_frame(tmp_path):
    positions, velocities = np.random.default_rng(1).normal(0, 9, (2, 33, 3))
    restart(tmp_path / "a.ncrst", positions, velocities)
    trajectory = opened(tmp_path / "a.ncrst")
    assert (trajectory.n_frames, trajectory.n_atoms, trajectory.format) == (1, 33, "NetCDF")
    assert trajectory.parts[0].variant == "AMBER convention 1.0, NetCDF-4 (HDF5), restart"
    found = trajectory.read(fields=["positions", "velocities"], dtype="float64")
    np.testing.assert_array_equal(found["positions"][0], positions)
    np.testing.assert_array_equal(found["velocities"][0], velocities * 20.455)
    np.testing.assert_allclose(found["cells"][0], np.diag([30.0, 31, 32]), atol=1e-14)
    assert found["times"].tolist() == [12.5]
    few = trajectory.read(select=[3, 30], fields="velocities", dtype="float64")
    np.testing.assert_array_equal(few[0], velocities[[3, 30]] * 20.455)


def quantised(path, positions, velocities, factor=1e4):
    """As cpptraj with `icompress`: integers in place of coordinates and velocities (those in AMBER's unit)."""
    n_atoms = positions.shape[1]
    with netCDF4.Dataset(path, "w") as file:
        file.Conventions, file.ConventionVersion, file.program = "AMBER", "1.0", "cpptraj"
        for name, length in (("frame", None), ("spatial", 3), ("atom", n_atoms)):
            file.createDimension(name, length)
        for name, values, unit in (
            ("compressedpos", positions, "angstrom"),
            ("compressedvel", velocities / 20.455, "angstrom/picosecond"),
        ):
            made = file.createVariable(
                name, "i4", ("frame", "atom", "spatial"), zlib=True, complevel=1, chunksizes=(4, n_atoms, 3)
            )
            made.set_auto_maskandscale(False)
            made.icompressfac, made.units = np.float64(factor), unit
            made[:] = np.rint(values.astype(np.float64) * factor).astype(np.int32)
        file["compressedvel"].scale_factor = 20.455


def test_quantised_integers_of_cpptraj(tmp_path):
    positions, velocities = random_walk(13, 21).astype(np.float64), random_walk(13, 21, seed=2).astype(np.float64)
    quantised(tmp_path / "a.nc", positions, velocities)
    trajectory = opened(tmp_path / "a.nc")
    assert trajectory.parts[0].variant == (
        "AMBER convention 1.0, NetCDF-4 (HDF5), positions and velocities as integers, written by cpptraj"
    )
    assert not any("h5py" in warning for warning in trajectory.parts[0].warnings)
    found = trajectory.read(fields=["positions", "velocities"], dtype="float64")
    np.testing.assert_allclose(found["positions"], np.rint(positions * 1e4) / 1e4, rtol=5e-16)
    np.testing.assert_allclose(found["velocities"], velocities, atol=20.455 * 0.5e-4 * 1.0001)
    np.testing.assert_array_equal(trajectory.read(), (np.rint(positions * 1e4) / 1e4).astype(np.float32))
    # written as another file they are what they were
    with collected():
        kn.convert(trajectory, tmp_path / "b.h5md")
    np.testing.assert_array_equal(opened(tmp_path / "b.h5md").read(dtype="float64"), found["positions"])
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        file["compressedpos"].delncattr("icompressfac")
    with pytest.raises(
        kn.CorruptFileError, match=r"a\.nc: NetCDF: variable compressedpos: icompressfac, expected a number"
    ):
        opened(tmp_path / "a.nc")


def test_levels_and_cells_of_each_frame_of_dl_poly(tmp_path):
    values = [random_walk(6, 9, seed=seed).astype(np.float32) for seed in (1, 2, 3)]
    cells = random_cells(6, "triclinic", 1)
    cells[4] = 0.0
    levels = [2, 1, 0, 2, 1, 2]
    given = dict(zip(VECTORS, values, strict=True))
    write_dl_poly_netcdf(
        tmp_path / "HISTORY.nc",
        given.pop("positions"),
        **given,
        levels=levels,
        cells=cells,
        steps=np.arange(6) * 100 + 7,
        times=np.arange(6) / 8,
    )
    trajectory = opened(tmp_path / "HISTORY.nc", absent="nan")
    assert trajectory.parts[0].variant == "DL_POLY convention 0.0, NetCDF-4 (HDF5), written by DL_POLY 4.0"
    assert (trajectory.format, trajectory.fields) == ("NetCDF", (*VECTORS, "cell", "step", "time"))
    found = trajectory.read(fields=VECTORS)
    for name, value, least in zip(VECTORS, values, (0, 1, 2), strict=True):
        there = np.array(levels) >= least
        np.testing.assert_array_equal(found["present"][name], there)
        np.testing.assert_allclose(found[name][there], value[there], rtol=2e-7)
        assert np.isnan(found[name][~there]).all()
    np.testing.assert_array_equal(found["cells"], cells.astype(np.float64))
    assert found["steps"].tolist() == [7, 107, 207, 307, 407, 507]
    np.testing.assert_array_equal(found["times"], np.arange(6) / 8)
    with pytest.raises(kn.Error, match="velocities"):
        opened(tmp_path / "HISTORY.nc").read(fields="velocities")
    held = opened(tmp_path / "HISTORY.nc", absent="hold").read(fields="velocities")
    np.testing.assert_array_equal(held[2], held[1])


def test_atoms_of_dl_poly(tmp_path):
    write_dl_poly_netcdf(tmp_path / "a.nc", random_walk(3, 12))
    atoms = opened(tmp_path / "a.nc").atoms
    assert atoms.names.tolist() == [f"A{i}" for i in range(12)]
    assert atoms.ids.tolist() == list(range(1, 13))
    np.testing.assert_array_equal(atoms.masses, 1.0 + np.arange(12) / 2)
    # defined, and never written
    assert atoms.get("charges") is None
    np.testing.assert_array_equal(
        opened(tmp_path / "a.nc").read(select="name A3 or name A7"), opened(tmp_path / "a.nc").read(select=[3, 7])
    )
    assert kn.read_atoms(tmp_path / "a.nc").names[5] == "A5"


def test_times_that_were_never_written(tmp_path):
    write_netcdf(tmp_path / "a.nc", random_walk(5, 4), form="NETCDF4")
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        file.createVariable("time", "f4", ("frame",)).units = "picosecond"
        file["time"][2] = 3.0
    assert np.isnan(opened(tmp_path / "a.nc").times).tolist() == [True, True, False, True, True]
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        file["time"][2] = netCDF4.default_fillvals["f4"]
    assert "time" not in opened(tmp_path / "a.nc").fields


def test_units_that_files_say(tmp_path):
    positions = random_walk(2, 5).astype(np.float32)
    cells = np.stack([np.diag([5.0, 6, 7])] * 2).astype(np.float32)
    write_netcdf(tmp_path / "a.nc", positions, cells=cells, times=np.arange(2.0), form="NETCDF4")
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        file["coordinates"].units, file["time"].units, file["cell_angles"].units = "nanometer", "femtosecond", "radian"
        file["coordinates"].scale_factor = 0.5
        file["cell_angles"].set_auto_scale(False)
        file["cell_angles"][:] = np.pi / 2
    found = opened(tmp_path / "a.nc").read(fields=["positions"])
    np.testing.assert_array_equal(found["positions"], positions * np.float32(5))
    np.testing.assert_allclose(found["cells"][0], np.diag([5.0, 6, 7]), atol=1e-14)
    np.testing.assert_allclose(found["times"], [0, 0.001])
    # a negative factor, as classic files have it
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        for name in ("coordinates", "cell_lengths"):
            file[name].set_auto_scale(False)
            file[name].scale_factor = -2.0
        file["cell_lengths"][:] = [[-2.5, -3, -3.5]] * 2
    found = opened(tmp_path / "a.nc").read(fields=["positions"])
    np.testing.assert_array_equal(found["positions"], positions * np.float32(-20))
    np.testing.assert_allclose(found["cells"][0], np.diag([5.0, 6, 7]), atol=1e-14)


@pytest.mark.parametrize(
    ("conventions", "message"),
    [
        ("MMTK/Trajectory", "NetCDF-4 of the convention 'MMTK/Trajectory', expected AMBER, AMBERRESTART or DL_POLY"),
        ("CF-1.8", "NetCDF-4 of the convention 'CF-1.8', expected AMBER"),
        ("AMBERENSEMBLE", "NetCDF-4 of the convention 'AMBERENSEMBLE', expected AMBER"),
        (None, "NetCDF-4 without a convention, expected AMBER"),
    ],
)
def test_other_conventions_are_refused_by_name(conventions, message, tmp_path):
    write_netcdf(tmp_path / "a.nc", random_walk(2, 5), form="NETCDF4")
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        file.delncattr("Conventions")
        if conventions is not None:
            file.Conventions = conventions
    with pytest.raises(kn.UnsupportedFormatError, match=message) as caught:
        opened(tmp_path / "a.nc")
    assert str(tmp_path / "a.nc") in str(caught.value)


def test_trajectories_in_groups_are_refused_by_name(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        inside = file.createGroup("run1")
        inside.Conventions = "AMBER"
    with pytest.raises(kn.UnsupportedFormatError, match="with the convention 'AMBER' in its group run1; expected"):
        opened(tmp_path / "a.nc")


def changed(path, change):
    with h5py.File(path, "a") as file:
        change(file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file.__delitem__("coordinates"), "NetCDF-4 without frames"),
        (lambda file: file["coordinates"].attrs.modify("scale_factor", np.nan), "scale_factor, expected a number"),
        (lambda file: file["coordinates"].attrs.modify("units", "furlong"), "furlong"),
        (lambda file: file.move("cell_angles", "coordinates2") or file.copy("time", "cell_angles"), "cell_angles has"),
    ],
)
def test_wrong_files_give_errors_with_the_path(change, message, tmp_path):
    path = tmp_path / "a.nc"
    cells = np.stack([np.diag([5.0, 6, 7])] * 4).astype(np.float32)
    write_netcdf(path, random_walk(4, 5), cells=cells, times=np.arange(4.0), form="NETCDF4")
    changed(path, change)
    with pytest.raises(kn.Error, match=message) as caught:
        opened(path)
    assert str(caught.value).count(str(path)) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file["cell_angles"].write_direct(np.full((4, 3), 1e9)), "frame 0: the cell is none"),
        (lambda file: file["cell_angles"].attrs.modify("units", "grad"), "expected degree or radian, found 'grad'"),
    ],
)
def test_cells_that_are_none_are_noted(change, message, tmp_path):
    positions = random_walk(4, 5)
    cells = np.stack([np.diag([5.0, 6, 7])] * 4).astype(np.float32)
    write_netcdf(tmp_path / "a.nc", positions, cells=cells, form="NETCDF4")
    changed(tmp_path / "a.nc", change)
    with collected() as notes:
        found = kn.open(tmp_path / "a.nc", stored=False).read(fields=["positions"])
    np.testing.assert_array_equal(found["positions"], positions.astype(np.float32))
    assert not found["present"]["cells"].any()
    assert [note for note in notes if message in note]


def test_files_are_not_cut_byte_for_byte(tmp_path):
    write_netcdf(tmp_path / "a.nc", random_walk(4, 5), form="NETCDF4")
    message = r"a\.nc: (NetCDF: )?NetCDF-4 stores frames in chunks of HDF5"
    for call in (
        lambda: kn.split(tmp_path / "a.nc", tmp_path / "parts", parts=2),
        lambda: kn.join([tmp_path / "a.nc"], tmp_path / "b.nc"),
        lambda: kn.salvage(tmp_path / "a.nc", tmp_path / "b.nc"),
    ):
        with pytest.raises(kn.UnsupportedFormatError, match=message):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["a.nc"]

"""AMBER NetCDF against the suite of formats; all classic versions, restarts, counts and sizes that differ, units."""

import glob
import os
import struct
from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import FormatTests, Golden, random_walk, write_netcdf, write_xtc
from kinema.testing.programs.imports import lazy, package_folder

netCDF4 = lazy("netCDF4")
scipy_io = lazy("scipy.io")

VERSIONS = {"NETCDF3_CLASSIC": 1, "NETCDF3_64BIT_OFFSET": 2, "NETCDF3_64BIT_DATA": 5}


def real_files():
    folder = package_folder("MDAnalysisTests") / "data/Amber"
    return sorted(glob.glob(f"{folder}/*.nc") + glob.glob(f"{folder}/*.ncdf"))


def opened(path: str | Path) -> kn.Trajectory:
    with collected():
        trajectory = kn.open(path, stored=False)
        trajectory.scan()
    return trajectory


class TestNetcdf(FormatTests):
    suffix = ".nc"
    velocity_tolerance = 3e-7

    def write(self, path, positions, first_step):
        write_netcdf(path, positions, times=np.arange(len(positions), dtype=float) + first_step)

    def write_synthetic(self, path, made):
        cells = made.cells if made.cells.any() else None
        write_netcdf(path, made.positions, velocities=made.velocities, times=made.times, cells=cells)
        return cells is not None, True

    def golden_files(self):
        # read by netCDF4 and, in test_real_files, by MDAnalysis through scipy
        found = []
        for path in real_files():
            with netCDF4.Dataset(path) as file:
                positions = np.asarray(file["coordinates"][:], np.float32)
                times = np.asarray(file["time"][:]) if "time" in file.variables else None
                found.append(Golden(Path(path), positions, times))
        return found


@pytest.mark.parametrize("path", real_files(), ids=os.path.basename)
def test_real_files_have_the_values_that_mdanalysis_reads(path, tmp_path):
    from MDAnalysis.coordinates.TRJ import NCDFReader

    trajectory = opened(path)
    fields = [name for name in trajectory.fields if name in ("positions", "velocities", "forces")]
    found = trajectory.read(fields=fields)
    with NCDFReader(path) as reader:
        assert reader.n_frames == trajectory.n_frames
        for i, ts in enumerate(reader):
            for name in fields:
                np.testing.assert_allclose(found[name][i], getattr(ts, name), rtol=2e-7)
            if ts.dimensions is not None:
                np.testing.assert_allclose(found["cells"][i], ts.triclinic_dimensions, rtol=1e-5, atol=1e-4)
    # and written they are the same, for us and for MDAnalysis
    with collected():
        done = kn.convert(trajectory, tmp_path / "copy.nc")
    copy = opened(tmp_path / "copy.nc")
    again = copy.read(fields=fields)
    assert all(np.array_equal(found[name], again[name]) for name in fields)
    np.testing.assert_allclose(again["cells"], found["cells"], rtol=1e-14, atol=1e-14)
    assert np.array_equal(copy.times, trajectory.times, equal_nan=True)
    assert all("rounded from float64" in loss for loss in done.losses)
    with NCDFReader(str(tmp_path / "copy.nc")) as reader:
        for i, ts in enumerate(reader):
            assert np.array_equal(ts.positions, again["positions"][i])
    with netCDF4.Dataset(tmp_path / "copy.nc") as file:
        assert file.Conventions == "AMBER" and len(file.dimensions["frame"]) == trajectory.n_frames
        assert bytes(file["spatial"][:].tobytes()) == b"xyz"


@pytest.mark.parametrize("form", VERSIONS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_all_versions_and_types(form, dtype, tmp_path):
    positions = random_walk(20, 15).astype(np.float32)
    write_netcdf(
        tmp_path / "a.nc", positions, velocities=positions / 3, times=np.arange(20) / 4, form=form, dtype=dtype
    )
    trajectory = opened(tmp_path / "a.nc")
    assert trajectory.parts[0].variant.startswith(f"CDF-{VERSIONS[form]}, AMBER trajectory")
    found = trajectory.read(fields=["positions", "velocities"], dtype="float64")
    np.testing.assert_array_equal(found["positions"], positions)
    stored = ((positions / 3).astype(np.float64) / 20.455).astype(dtype)
    np.testing.assert_array_equal(found["velocities"], stored.astype(np.float64) * 20.455)
    np.testing.assert_array_equal(trajectory.times, np.arange(20) / 4)


def test_sources_without_cells_make_files_that_mdanalysis_reads(tmp_path):
    from MDAnalysis.coordinates.TRJ import NCDFReader

    positions = random_walk(5, 12).astype(np.float32)
    write_xtc(tmp_path / "a.xtc", positions, cell=np.zeros((5, 3, 3), np.float32))
    with collected():
        kn.convert(tmp_path / "a.xtc", tmp_path / "a.nc")
        with kn.Writer(tmp_path / "b.nc", 12) as out:
            out.write(opened(tmp_path / "a.xtc").read())
    for name in ("a.nc", "b.nc"):
        assert "cell" not in opened(tmp_path / name).fields
        with NCDFReader(str(tmp_path / name)) as reader:
            assert reader.n_frames == 5 and reader.ts.dimensions is None
            np.testing.assert_array_equal(reader.ts.positions, opened(tmp_path / name).read()[0])


def changed(path: Path, out: Path, records: int) -> Path:
    data = bytearray(path.read_bytes())
    data[4:8] = struct.pack(">I", records)
    out.write_bytes(data)
    return out


def test_counts_and_sizes_that_differ(tmp_path):
    positions = random_walk(20, 15).astype(np.float32)
    whole = tmp_path / "a.nc"
    write_netcdf(whole, positions, times=np.arange(20.0))
    # a stream: the size says it
    assert opened(changed(whole, tmp_path / "stream.nc", 2**32 - 1)).n_frames == 20
    # not committed yet
    fewer = opened(changed(whole, tmp_path / "fewer.nc", 13))
    assert fewer.n_frames == 13 and "not committed" in str(fewer.notes)
    # cut
    frame = 4 + 12 * 15
    cut = tmp_path / "cut.nc"
    cut.write_bytes(whole.read_bytes()[: -frame // 2])
    with pytest.warns(kn.Note, match="expected 20 frames, found 19"):
        assert kn.open(cut, stored=False).n_frames == 19
    with pytest.raises(kn.TruncatedFileError, match="frame 19, byte"):
        kn.open(cut, stored=False, on_truncated="error").scan()


def test_restarts_are_one_frame(tmp_path):
    random = np.random.default_rng(1)
    positions, velocities = random.normal(0, 9, (2, 33, 3))
    with netCDF4.Dataset(tmp_path / "a.ncrst", "w", format="NETCDF3_64BIT_OFFSET") as file:
        file.Conventions, file.ConventionVersion = "AMBERRESTART", "1.0"
        for name, length in (("spatial", 3), ("atom", 33), ("cell_spatial", 3), ("cell_angular", 3)):
            file.createDimension(name, length)
        file.set_auto_maskandscale(False)
        file.createVariable("time", "f8", ())[:] = 250.5
        file.createVariable("coordinates", "f8", ("atom", "spatial"))[:] = positions
        made = file.createVariable("velocities", "f8", ("atom", "spatial"))
        made.scale_factor = 20.455
        made.set_auto_maskandscale(False)
        made[:] = velocities
        file.createVariable("cell_lengths", "f8", ("cell_spatial",))[:] = [50, 60, 70]
        file.createVariable("cell_angles", "f8", ("cell_angular",))[:] = [90, 90, 90]
    trajectory = opened(tmp_path / "a.ncrst")
    assert (trajectory.n_frames, trajectory.parts[0].variant) == (1, "CDF-2, AMBER restart, double precision")
    found = trajectory.read(fields=["positions", "velocities"], dtype="float64")
    assert np.array_equal(found["positions"][0], positions) and trajectory.times.tolist() == [250.5]
    assert np.array_equal(found["velocities"][0], velocities * 20.455)
    assert np.array_equal(found["cells"][0], np.diag([50.0, 60.0, 70.0]))


def test_what_is_no_amber_file_is_refused_by_name(tmp_path):
    positions = random_walk(2, 5).astype(np.float32)

    def refused(message, change):
        path = tmp_path / "a.nc"
        write_netcdf(path, positions)
        with netCDF4.Dataset(path, "a") as file:
            change(file)
        with pytest.raises(kn.UnsupportedFormatError, match=message) as caught:
            kn.open(path, stored=False)
        assert str(path) in str(caught.value)

    refused("another convention.*found 'CF-1.8'|found \"CF-1.8\"", lambda file: file.setncattr("Conventions", "CF-1.8"))
    refused('"coordinates": units, expected angstrom', lambda file: file["coordinates"].setncattr("units", "furlong"))


def test_lengths_in_nm(tmp_path):
    positions = random_walk(2, 5).astype(np.float32)
    write_netcdf(tmp_path / "a.nc", positions, cells=np.stack([np.diag([5.0, 6, 7])] * 2).astype(np.float32))
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        file["coordinates"].units = "nanometer"
    found = opened(tmp_path / "a.nc").read(fields=["positions"])
    np.testing.assert_array_equal(found["positions"], positions * np.float32(10))
    # the cell is in angstrom as before
    np.testing.assert_allclose(found["cells"][0], np.diag([5.0, 6, 7]), rtol=1e-15)


def _write_scaled(path, **changed):
    """Two frames of 5 atoms, written by scipy; `changed`: the scale_factor of variables of that name."""
    with scipy_io.netcdf_file(path, "w", version=2) as file:
        file.Conventions, file.ConventionVersion = "AMBER", "1.0"
        for name, length in (("frame", None), ("atom", 5), ("spatial", 3), ("cell_spatial", 3), ("cell_angular", 3)):
            file.createDimension(name, length)
        file.createDimension("one", 1)
        values = {
            "coordinates": (("frame", "atom", "spatial"), np.arange(30.0).reshape(2, 5, 3)),
            "cell_lengths": (("frame", "cell_spatial"), np.full((2, 3), 20.0)),
            "cell_angles": (("frame", "cell_angular"), np.full((2, 3), 90.0)),
        }
        for name, (dimensions, array) in values.items():
            variable = file.createVariable(name, "f8", dimensions)
            factor = changed.get(name, 1.0)
            variable[:] = array / factor if isinstance(factor, float) else array
            variable.scale_factor = factor
        file.createVariable("time", "f8", ("one",))[:] = 7.0
    return path


def test_negative_scale_factors(tmp_path):
    trajectory = kn.open(_write_scaled(tmp_path / "a.nc", coordinates=-2.0, cell_lengths=-4.0, cell_angles=-0.5))
    np.testing.assert_array_equal(trajectory.read(), np.arange(30.0).reshape(2, 5, 3))
    np.testing.assert_array_equal(trajectory.read(fields=["positions"])["cells"][1], 20 * np.eye(3))


def test_a_scale_factor_that_is_no_number_is_refused(tmp_path):
    with pytest.raises(kn.CorruptFileError, match='"coordinates": scale_factor, expected a number, found "parsnips"'):
        kn.open(_write_scaled(tmp_path / "a.nc", coordinates="parsnips"))


def test_one_time_for_all_frames_is_the_time_of_none(tmp_path):
    trajectory = opened(_write_scaled(tmp_path / "a.nc"))
    assert 'the variable "time" has no value for each frame: times are unknown' in str(trajectory.notes)
    assert np.isnan(trajectory.times).all()

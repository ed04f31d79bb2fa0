"""TRR and NetCDF files are cut and joined between frames, byte for byte; other programs read what is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk, write_netcdf, write_trr
from kinema.testing.programs.imports import lazy

libmdaxdr = lazy("MDAnalysis.lib.formats.libmdaxdr")
datafiles = lazy("MDAnalysisTests.datafiles")
netCDF4 = lazy("netCDF4")

pytestmark = pytest.mark.usefixtures("nobody_changes_files")

FORMS = ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA")
POSITIONS = random_walk(23, 40).astype(np.float32)
CELLS = np.diag([50.0, 60.0, 70.0]).astype(np.float32)[None].repeat(23, axis=0)


def netcdf(path: Path, **options: Any) -> Path:
    write_netcdf(path, POSITIONS, velocities=POSITIONS / 7, times=np.arange(23.0) * 2 + 5, cells=CELLS, **options)
    return path


def trr(path: Path) -> Path:
    write_trr(path, POSITIONS, velocities=POSITIONS / 7, forces=POSITIONS, every=(1, 2, 5), dt=2.0, first_step=5)
    return path


def netcdf_values(path: str | Path) -> dict[str, Any]:
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        return {name: variable[:] for name, variable in file.variables.items()}


def test_trr_is_cut_and_joined_byte_for_byte(tmp_path: Path) -> None:
    whole = trr(tmp_path / "md.trr")
    done = kn.split(whole, tmp_path / "parts", frames_per_part=7)
    assert [stop - first for first, stop in done.frames] == [7, 7, 7, 2]
    assert b"".join(Path(path).read_bytes() for path in done.paths) == whole.read_bytes()
    with libmdaxdr.TRRFile(done.paths[1]) as file:
        np.testing.assert_array_equal([frame.step for frame in file], np.arange(12, 19))
    joined = kn.join(done.paths, tmp_path / "joined.trr")
    assert (joined.n_frames, joined.n_atoms) == (23, 40)
    assert (tmp_path / "joined.trr").read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("form", FORMS)
def test_netcdf_is_cut_with_a_count_for_each_part(tmp_path: Path, form: Any) -> None:
    whole = netcdf(tmp_path / "md.nc", form=form)
    done = kn.split(whole, tmp_path / "parts", parts=3)
    expected = netcdf_values(whole)
    for path, (first, stop) in zip(done.paths, done.frames, strict=True):
        found = netcdf_values(path)
        assert found.keys() == expected.keys()
        for name, values in found.items():
            of_frames = expected[name][first:stop] if len(expected[name]) == 23 else expected[name]
            np.testing.assert_array_equal(values, of_frames, err_msg=name)
        assert kn.open(path, stored=False).notes == ()
    kn.join(done.paths, tmp_path / "joined.nc")
    assert (tmp_path / "joined.nc").read_bytes() == whole.read_bytes()


def test_netcdf_of_amber(tmp_path: Path) -> None:
    whole = kn.open(datafiles.NCDF, stored=False)
    done = kn.split(datafiles.NCDF, tmp_path / "parts", parts=2)
    parts = kn.open(list(done.paths), stored=False)
    np.testing.assert_array_equal(parts.read(), whole.read())
    np.testing.assert_array_equal(parts.times, whole.times)


def test_parts_that_overlap_are_joined_once(tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", 6)):
        times = np.arange(10.0) + first
        write_netcdf(tmp_path / f"{name}.nc", POSITIONS[first : first + 10], times=times)
    kn.join([tmp_path / "a.nc", tmp_path / "b.nc"], tmp_path / "joined.nc")
    found = netcdf_values(tmp_path / "joined.nc")
    np.testing.assert_array_equal(found["time"], np.arange(16.0))
    np.testing.assert_array_equal(found["coordinates"], POSITIONS[:16])


def test_netcdf_written_as_a_stream_gets_its_count(tmp_path: Path) -> None:
    whole = netcdf(tmp_path / "md.nc")
    content = bytearray(whole.read_bytes())
    content[4:8] = b"\xff" * 4
    whole.write_bytes(content)
    done = kn.split(whole, tmp_path / "parts", parts=1)
    assert Path(done.paths[0]).read_bytes()[4:8] == (23).to_bytes(4, "big")
    np.testing.assert_array_equal(netcdf_values(done.paths[0])["coordinates"], POSITIONS)


def test_what_cannot_be_copied_is_refused(tmp_path: Path) -> None:
    first = netcdf(tmp_path / "a.nc")
    write_netcdf(tmp_path / "b.nc", POSITIONS, times=np.arange(23.0) + 100)
    with pytest.raises(kn.ArgumentError, match=r"b\.nc: (its header differs|.*velocities)"):
        kn.join([first, tmp_path / "b.nc"], tmp_path / "c.nc")
    with netCDF4.Dataset(tmp_path / "a.ncrst", "w", format="NETCDF3_64BIT_OFFSET") as file:
        file.Conventions = "AMBERRESTART"
        file.createDimension("atom", 40)
        file.createDimension("spatial", 3)
        file.createVariable("coordinates", "f8", ("atom", "spatial"))[:] = POSITIONS[0]
    with pytest.raises(kn.UnsupportedFormatError, match=r"a\.ncrst: NetCDF with one frame that is not a record"):
        kn.split(tmp_path / "a.ncrst", tmp_path / "parts", parts=1)
    with netCDF4.Dataset(tmp_path / "padded.nc", "w", format="NETCDF3_64BIT_OFFSET") as file:
        file.Conventions = "AMBER"
        file.createDimension("frame", None)
        file.createDimension("atom", 40)
        file.createDimension("spatial", 3)
        file.createVariable("coordinates", "f4", ("frame", "atom", "spatial"))[:] = POSITIONS
        file.createVariable("kind", "i2", ("frame",))[:] = np.arange(23)
    with pytest.raises(kn.UnsupportedFormatError, match="frames that end in padding"):
        kn.split(tmp_path / "padded.nc", tmp_path / "parts", parts=2)
    assert {path.name for path in tmp_path.iterdir() if path.name[0] != "."} == {"a.nc", "b.nc", "a.ncrst", "padded.nc"}

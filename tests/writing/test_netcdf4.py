"""NetCDF-4 files that Kinema writes, as netCDF-C reads them; files of the library that Kinema continues."""

import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.model.atom_table import Atoms
from kinema.testing import random_walk, read_frames, write_dl_poly_netcdf, write_netcdf
from kinema.testing.amounts import LONG, each
from kinema.testing.programs.children import start_child
from kinema.testing.programs.imports import lazy
from kinema.testing.writer_tests.commits import RecordedCommits

netCDF4 = lazy("netCDF4")

VECTORS = ("positions", "velocities", "forces")
CONVENTIONS = ("amber", "dl_poly")
# the factor by which netCDF4 has to multiply what it reads to get Kinema's units; it applies scale_factor itself
FORCES = {"amber": 4.184, "dl_poly": 0.01}


def arguments(n_frames, n_atoms=12, seed=1):
    values = [random_walk(n_frames, n_atoms, seed=seed + i).astype(np.float32) for i in range(3)]
    cells = np.tile(np.array([[30.0, 0, 0], [5, 31, 0], [2, 3, 32]]), (n_frames, 1, 1))
    cells *= (1 + np.arange(n_frames) / 64)[:, None, None]
    return {
        **dict(zip(VECTORS, values, strict=True)),
        "cell": cells,
        "time": np.arange(n_frames) / 8,
        "step": np.arange(n_frames) * 10,
    }


def written(path, given, **options):
    with collected(), kn.Writer(path, given["positions"].shape[1], netcdf4=True, **options) as out:
        out.write(**given)
    return path


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("how", [{}, {"compression": "gzip"}, {"layout": "atoms"}, {"layout": (2, 5, 3)}], ids=str)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_netcdf_library_reads_what_was_written(convention, how, dtype, tmp_path):
    given = arguments(9)
    path = written(tmp_path / "a.nc", given, convention=convention, dtype=dtype, chunk_bytes=512, **how)
    with netCDF4.Dataset(path) as file:
        assert file.data_model == "NETCDF4"
        assert file.Conventions == {"amber": "AMBER", "dl_poly": "DL_POLY"}[convention]
        assert file.dimensions["frame"].isunlimited() and len(file.dimensions["frame"]) == 9
        assert {name: len(file.dimensions[name]) for name in ("atom", "spatial")} == {"atom": 12, "spatial": 3}
        assert file["coordinates"].dimensions == ("frame", "atom", "spatial")
        assert file["coordinates"].dtype == dtype
        assert file["spatial"][:].tobytes() == b"xyz" and file["cell_spatial"][:].tobytes() == b"abc"
        words = ["".join(word.astype(str)).strip() for word in file["cell_angular"][:]]
        assert words == ["alpha", "beta", "gamma"]
        np.testing.assert_array_equal(file["coordinates"][:], given["positions"])
        np.testing.assert_allclose(file["velocities"][:], given["velocities"], rtol=2.5e-7)
        np.testing.assert_allclose(file["forces"][:] * FORCES[convention], given["forces"], rtol=2.5e-7)
        np.testing.assert_array_equal(file["time"][:], given["time"])
        lengths = np.linalg.norm(given["cell"], axis=2)
        np.testing.assert_allclose(file["cell_lengths"][:], lengths, rtol=1e-14)
        if convention == "dl_poly":
            np.testing.assert_array_equal(file["cell"][:], given["cell"])
            np.testing.assert_array_equal(file["step"][:], given["step"])
            assert set(file["datalevel"][:]) == {2} and set(file["imageconvention"][:]) == {3}
            assert np.ma.getmaskarray(file["timestep"][:]).all()


@pytest.mark.skipif(shutil.which("ncdump") is None, reason="ncdump is not installed (Debian: netcdf-bin)")
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_ncdump_shows_what_was_written(convention, tmp_path):
    path = written(tmp_path / "a.nc", arguments(3), convention=convention)
    shown = subprocess.run(
        ["ncdump", "-v", "time", path], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert "frame = UNLIMITED ; // (3 currently)" in shown
    assert "float coordinates(frame, atom, spatial) ;" in shown
    assert 'time:units = "picosecond" ;' in shown
    assert "char cell_angular(cell_angular, label) ;" in shown
    assert "time = 0, 0.125, 0.25 ;" in shown
    assert shown.count("scale_factor = 20.455") == (convention == "amber")


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_library_goes_on_with_a_file(convention, tmp_path):
    given = arguments(4)
    path = written(tmp_path / "a.nc", given, convention=convention)
    with netCDF4.Dataset(path, "a") as file:
        for name in file.variables:
            if file[name].dimensions[0] == "frame":
                file[name].set_auto_maskandscale(False)
                file[name][4] = file[name][1]
        file["time"][4] = 9.0
        if convention == "dl_poly":
            file["step"][4] = 77
    found = read_frames(path)
    np.testing.assert_array_equal(found.fields["positions"], given["positions"][[0, 1, 2, 3, 1]])
    assert found.times.tolist() == [0.0, 0.125, 0.25, 0.375, 9.0]
    # and Kinema continues after it
    with collected(), kn.Writer(path, mode="a") as out:
        assert (out.n_frames, out.format, type(out).__name__) == (5, "NetCDF", "Netcdf4Writer")
        out.write(**{name: values[:2] for name, values in given.items()} | {"time": [10.0, 11.0], "step": [78, 79]})
    again = read_frames(path)
    assert len(again) == 7
    np.testing.assert_array_equal(again.fields["velocities"][5:], found.fields["velocities"][:2])


def test_a_time_that_the_file_has_rounded_up_is_no_later_one(tmp_path):
    """AMBER's times are float32: 0.002 is stored as 0.002000000095."""
    path = tmp_path / "a.nc"
    positions = np.zeros((5, 3), np.float32)
    with collected(), kn.Writer(path, 5, netcdf4=True) as out:
        out.write(positions, time=0.002)
    with collected(), kn.Writer(path, mode="a") as out:
        out.write(positions, time=0.002)
        with pytest.raises(kn.ArgumentError, match="time must rise"):
            out.write(positions, time=0.0019)
    assert kn.open(path).times == pytest.approx([0.002, 0.002])


def test_files_of_the_library_are_gone_on_with(tmp_path):
    given = arguments(6)
    path = tmp_path / "theirs.nc"
    first = {name: values[:4] for name, values in given.items()}
    write_netcdf(path, first["positions"], velocities=first["velocities"], times=first["time"], form="NETCDF4")
    before = read_frames(path)
    with pytest.raises(kn.ArgumentError, match="cannot append with convention=dl_poly, the file has amber"):
        kn.Writer(path, mode="a", netcdf4=True, convention="dl_poly")
    with collected(), kn.Writer(path, mode="a") as out:
        out.write(given["positions"][4:], velocities=given["velocities"][4:], time=given["time"][4:])
    found = read_frames(path)
    assert len(found) == 6
    np.testing.assert_array_equal(found.fields["velocities"][:4], before.fields["velocities"])
    np.testing.assert_array_equal(found.fields["positions"], given["positions"])
    np.testing.assert_allclose(found.fields["velocities"], given["velocities"], rtol=2.5e-7)
    with netCDF4.Dataset(path) as file:
        np.testing.assert_array_equal(file["coordinates"][:], given["positions"])


def test_files_that_hold_more_of_each_frame_are_refused(tmp_path):
    path = tmp_path / "a.nc"
    write_netcdf(path, random_walk(4, 5), form="NETCDF4")
    with netCDF4.Dataset(path, "a") as file:
        file.createVariable("temp0", "f8", ("frame",))[:] = 300.0
    before = path.read_bytes()
    with pytest.raises(kn.UnsupportedFormatError, match="cannot append: variable temp0 has a value for each frame"):
        kn.Writer(path, mode="a")
    write_dl_poly_netcdf(tmp_path / "b.nc", random_walk(4, 5))
    out = kn.Writer(tmp_path / "b.nc", mode="a")
    # DL_POLY has a variable of cells also where no frame has one
    with pytest.raises(kn.ArgumentError, match="cell is missing"):
        out.write(random_walk(1, 5), step=[9], time=[9.0])
    out.close()
    assert path.read_bytes() == before


def test_options(tmp_path):
    with pytest.raises(kn.ArgumentError, match="NetCDF has layout= with netcdf4=True only"):
        kn.Writer(tmp_path / "a.nc", 5, layout="atoms")
    with pytest.raises(kn.ArgumentError, match="NetCDF has convention= with netcdf4=True only"):
        kn.convert(written(tmp_path / "b.nc", arguments(2)), tmp_path / "a.nc", convention="dl_poly")
    with pytest.raises(kn.ArgumentError, match="layout='contiguous' is not for NetCDF-4"):
        kn.Writer(tmp_path / "a.nc", 5, netcdf4=True, layout="contiguous")
    with pytest.raises(kn.ArgumentError, match="convention is one of amber, dl_poly, found 'mmtk'"):
        kn.Writer(tmp_path / "a.nc", 5, netcdf4=True, convention="mmtk")
    with pytest.raises(kn.ArgumentError, match=r"NetCDF has no option precision=, expected one of fields, netcdf4"):
        kn.Writer(tmp_path / "a.nc", 5, netcdf4=True, precision=3)
    # CDF-2 remains what .nc is
    with collected(), kn.Writer(tmp_path / "c.nc", 5, netcdf4=False) as out:
        out.write(random_walk(2, 5))
    assert (tmp_path / "c.nc").read_bytes()[:4] == b"CDF\2"
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["b.nc", "c.nc"]


def test_atoms_of_dl_poly_are_written(tmp_path):
    given = arguments(2, 5)
    atoms = Atoms(
        5,
        names=["C1", "C2", "H", "H", "VERYLONGNAME"],
        masses=[12, 12, 1, 1, 16.5],
        charges=[0.5, -0.5, 0, 0, 0],
        ids=[3, 4, 5, 9, 1],
        guessed=["masses"],
    )
    with collected(), kn.Writer(tmp_path / "a.nc", netcdf4=True, convention="dl_poly", atoms=atoms) as out:
        out.write(**given)
    assert any("names of atoms are cut to 8 letters" in loss for loss in out.losses)
    assert any("masses of" in note and "guessed" in note for note in out.notes)
    found = kn.read_atoms(tmp_path / "a.nc")
    assert found.names.tolist() == ["C1", "C2", "H", "H", "VERYLONG"]
    assert found.ids.tolist() == [3, 4, 5, 9, 1]
    np.testing.assert_array_equal(found.charges, atoms.charges)
    assert set(found.guessed) == {"masses"}
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["atomnames"].dimensions == ("dummy", "atom", "label")
        assert file["indices"][0].tolist() == [3, 4, 5, 9, 1]
        assert (file["masses"].units, file["charges"].units) == ("Dalton", "atomic charge units")
    with collected():
        kn.convert(tmp_path / "a.nc", tmp_path / "b.nc", netcdf4=True, convention="dl_poly", select=[4, 0])
    assert kn.read_atoms(tmp_path / "b.nc").ids.tolist() == [1, 3]


STORED = {"frames": {}, "gzip": {"compression": "gzip", "layout": (2, 5, 3)}}


def pieces(begin, end):
    """Arguments of `write` for frames whose values follow from their numbers."""
    n = np.arange(begin, end)
    return {
        "positions": np.broadcast_to(n[:, None, None], (len(n), 5, 3)).astype(np.float32),
        "velocities": np.broadcast_to(2 * n[:, None, None], (len(n), 5, 3)).astype(np.float32),
        "cell": np.broadcast_to(9.0 + n[:, None], (len(n), 3)),
        "step": n,
        "time": n.astype(np.float64),
    }


def check_pieces(found):
    n = np.arange(len(found))
    np.testing.assert_array_equal(found.fields["positions"][:, 4, 1], n)
    np.testing.assert_allclose(found.fields["velocities"][:, 4, 1], 2 * n, rtol=1e-6)
    np.testing.assert_allclose(found.cells[:, 0, 0], 9.0 + n)
    np.testing.assert_array_equal(found.times, n)


@pytest.mark.parametrize(("convention", "options"), each(CONVENTIONS, list(STORED)))
def test_every_moment_at_which_a_process_may_be_killed(convention, options, tmp_path, monkeypatch):
    path, killed = tmp_path / "grows.nc", tmp_path / "killed.nc"
    commits = None
    n = 0
    with collected(), kn.Writer(path, 5, mode="a", netcdf4=True, convention=convention, **STORED[options]) as out:
        for batch in (3, 1, 2, 60, 1, 7):
            out.write(**pieces(n, n + batch))
            n += batch
            # before the first flush there is no file of this name, and after it there is one with frames
            assert path.exists() == (commits is not None)
            out.flush()
            commits = commits or RecordedCommits(path, monkeypatch)
            commits.flushed = out.n_flushed
            check_pieces(read_frames(path))
    monkeypatch.undo()
    assert len(commits.changes) > 20
    for at, (flushed, content) in enumerate(commits.moments()):
        killed.write_bytes(content)
        found = read_frames(killed)
        assert flushed <= len(found), f"change {at}"
        check_pieces(found)
        if at % (7 if LONG else 20) == 0:
            with collected(), kn.Writer(killed, mode="a") as out:
                out.write(**pieces(len(found), len(found) + 3))
            assert len(read_frames(killed)) == len(found) + 3
            check_pieces(read_frames(killed))


def test_an_exception_before_the_first_flush(tmp_path):
    path = tmp_path / "a.nc"

    def stopped():
        with collected(), kn.Writer(path, 5, mode="a", netcdf4=True) as out:
            out.write(**pieces(0, 4))
            assert not path.exists()
            raise KeyError

    with pytest.raises(KeyError):
        stopped()
    # what was taken is kept, as of other formats
    check_pieces(read_frames(path))
    assert len(read_frames(path)) == 4
    path.unlink()
    with collected():
        out = kn.Writer(path, 5, mode="a", netcdf4=True)
        out.write(**pieces(0, 4))
        out.abort()
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
import numpy as np
import kinema as kn

out = kn.Writer(sys.argv[1], 40, netcdf4=True, convention=sys.argv[2], mode="a", chunk_bytes=4096)
flushed = 0
for i in range(10_000):
    positions = np.full((40, 3), i, np.float32)
    out.write(positions, cell=[9.0 + i, 9, 9], step=i, time=float(i))
    if i % 3 == 2:
        out.flush()
        print(i + 1, flush=True)
"""


@pytest.mark.processes
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_a_killed_process_leaves_all_that_was_flushed(convention, tmp_path):
    for seed in range(5 if LONG else 2):
        path = tmp_path / f"{seed}.nc"
        child = start_child([sys.executable, "-c", KILLED, path, convention], stderr=None)
        try:
            assert child.stdout is not None
            flushed = 0
            for _ in range(3 + (7 if LONG else 20) * seed):
                flushed = int(child.stdout.readline())
            child.send_signal(signal.SIGKILL)
            flushed = max([flushed, *(int(line) for line in child.stdout)])
        finally:
            child.kill()
            child.wait(30)
        found = read_frames(path)
        assert flushed <= len(found)
        np.testing.assert_array_equal(found.fields["positions"][:, 7, 1], np.arange(len(found)))
        np.testing.assert_allclose(found.cells[:, 0, 0], 9.0 + np.arange(len(found)))
        np.testing.assert_array_equal(found.times, np.arange(len(found)))
        with netCDF4.Dataset(path) as file:
            np.testing.assert_array_equal(file["coordinates"][:flushed, 0, 0], np.arange(flushed))
        with collected(), kn.Writer(path, mode="a") as out:
            at = float(len(found))
            out.write(np.zeros((40, 3)), cell=[9, 9, 9], step=int(at), time=at)
        assert len(read_frames(path)) == len(found) + 1


def test_cells_with_open_edges_are_kept_and_flat_ones_refused(tmp_path):
    wire = [[9.0, 0, 0], [0, 0, 0], [0, 0, 9.0]]
    with collected(), kn.Writer(tmp_path / "a.nc", 4, netcdf4=True) as out:
        out.write(random_walk(1, 4), cell=[[9.0, 9, 9]])
        out.write(random_walk(1, 4), cell=[wire])
        with pytest.raises(kn.UnsupportedFormatError, match="expected a volume, or open edges of length 0"):
            out.write(random_walk(1, 4), cell=[[[9.0, 0, 0], [9.0, 0, 0], [0, 0, 9.0]]])
    found = kn.open(tmp_path / "a.nc", stored=False).read(fields=["positions"])
    np.testing.assert_array_equal(found["cells"], [np.diag([9.0, 9, 9]), wire])
    np.testing.assert_array_equal(found["periodic"], [[True] * 3, [True, False, True]])

"""Units and times that the user states in place of what files say: the same for every format, runner and command."""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.cli.in_process import call_kinema
from kinema.formats.h5md.units import scale_to_kinema
from kinema.model.selection.frames import FrameSelection
from kinema.trajectory.time_range import frames_between

pytestmark = pytest.mark.usefixtures("nobody_changes_files")

ROOT = Path(__file__).resolve().parents[2]
DCD = ROOT / "tests/data/golden/ca.dcd"
AKMA = 0.04888821


def written_by(path: Path, title: str, delta: float, first_step: int, stride: int, *, n_frames: int = 5) -> str:
    """A DCD file with the header that a program writes, of `n_frames` frames of two atoms and a box of 50 angstrom."""
    head = struct.pack("<i4s9if10i", 84, b"CORD", n_frames, first_step, stride, n_frames * stride, *[0] * 5, delta, 1,
                       *[0] * 8, 24) + struct.pack("<i", 84)  # fmt: skip
    head += struct.pack("<ii80s80si", 164, 2, title.encode().ljust(80), b"REMARKS made by a test".ljust(80), 164)
    head += struct.pack("<iii", 4, 2, 4)
    cell = struct.pack("<i6di", 48, 50.0, 90.0, 50.0, 90.0, 90.0, 50.0, 48)
    planes = [cell + struct.pack("<i2fi", 8, i, i + 1.5, 8) * 3 for i in range(n_frames)]
    path.write_bytes(head + b"".join(planes))
    return str(path)


def lammps(path: Path, **more: Any) -> str:
    return written_by(path, "Written by LAMMPS", 2.0, 0, 250, **more)


def opened_quietly(*paths: str, **options: Any) -> kn.Trajectory:
    traj = kn.open(list(paths), **options)
    with collected():
        traj.scan()
    return traj


# -- which program wrote a DCD file ---------------------------------------------------------------------------------


def test_times_of_lammps_are_in_fs_and_it_is_noted(tmp_path: Path) -> None:
    traj = opened_quietly(lammps(tmp_path / "lammps.dcd"))
    np.testing.assert_allclose(traj.times, 0.5 * np.arange(5), rtol=1e-15)
    assert any("units real" in note for note in traj.notes)
    stated = opened_quietly(lammps(tmp_path / "lammps.dcd"), units={"time": "ps"})
    np.testing.assert_allclose(stated.times, 500.0 * np.arange(5), rtol=1e-15)
    assert not any("LAMMPS" in note for note in stated.notes)
    assert kn.check(lammps(tmp_path / "lammps.dcd")).ok


@pytest.mark.parametrize(
    ("name", "first", "between"),
    [
        ("LAMMPSdcd2", 0.0, 0.5),
        ("DCD", 1.0, 1.0),
        ("DCD_TRICLINIC", 1.0, 1.0),
        ("DCD_NAMD_GBIS", 0.01, 0.01),
        ("waterDCD", 0.02, 0.02),
    ],
)
def test_real_files_have_the_times_that_their_programs_meant(name: str, first: float, between: float) -> None:
    datafiles = pytest.importorskip("MDAnalysisTests.datafiles")
    times = opened_quietly(str(getattr(datafiles, name)), stored=False).times
    np.testing.assert_allclose(times, first + between * np.arange(len(times)), rtol=2e-6)


def test_a_time_step_that_means_nothing_is_noted_or_gives_no_times(tmp_path: Path) -> None:
    plugin = opened_quietly(written_by(tmp_path / "vmd.dcd", "Created by DCD plugin", 1.0, 0, 1))
    assert any("plugin" in note and "dt=" in note for note in plugin.notes)
    assert not opened_quietly(str(tmp_path / "vmd.dcd"), dt=10.0).notes
    none = opened_quietly(written_by(tmp_path / "none.dcd", "Created by HOOMD", 0.0, 0, 10))
    assert "time" not in none.fields
    assert any("no times" in note for note in none.notes)
    np.testing.assert_array_equal(opened_quietly(str(tmp_path / "none.dcd"), dt=10.0).times, 10.0 * np.arange(5))


# -- units and times of every format --------------------------------------------------------------------------------


def xtc(folder: Path, n_frames: int = 5, first: float = 100.0, between: float = 10.0, name: str = "a.xtc") -> str:
    """XTC with positions 0, 0.1, ... nm."""
    frames = b""
    for i in range(n_frames):
        frames += struct.pack(">iiif9fi", 1995, 2, i, first + between * i, 5, 0, 0, 0, 5, 0, 0, 0, 5, 2)
        frames += struct.pack(">6f", *(0.1 * (i + j) for j in range(6)))
    path = folder / name
    path.write_bytes(frames)
    return str(path)


def h5md(folder: Path) -> str:
    path = folder / "a.h5md"
    with kn.Writer(path, 2) as out:
        for i in range(5):
            positions = np.full((2, 3), i, np.float32)
            out.write(positions=positions, cell=np.full(3, 50.0), step=i, time=100.0 + 10.0 * i)
    return str(path)


def a_file(name: str, folder: Path) -> str:
    return {"XTC": xtc, "H5MD": h5md, "DCD": lambda folder: lammps(folder / "a.dcd")}[name](folder)


@pytest.mark.parametrize("name", ["XTC", "DCD", "H5MD"])
def test_stated_units_replace_those_of_every_format(name: str, tmp_path: Path) -> None:
    path = a_file(name, tmp_path)
    plain = opened_quietly(path)
    own = {"XTC": ("nm", "ps"), "DCD": ("angstrom", "fs"), "H5MD": ("angstrom", "ps")}[name]
    length, time = (scale_to_kinema(unit, what) for unit, what in zip(own, ("length", "time"), strict=True))
    traj = opened_quietly(path, units={"length": "pm", "time": "ns"})
    for dtype in ("float32", "float64"):
        found = traj.read(fields=["positions"], dtype=dtype)
        raw = plain.read(fields=["positions"], dtype=dtype)
        np.testing.assert_allclose(found["positions"], raw["positions"] / length * 0.01, rtol=1e-6)
        np.testing.assert_allclose(found["cells"], raw["cells"] / length * 0.01, rtol=1e-6)
        np.testing.assert_allclose(found["times"], raw["times"] / time * 1000.0, rtol=1e-12)
    np.testing.assert_array_equal(traj.times, found["times"])
    assert traj.stated == {"units": "length pm, time ns"}
    # the file's own numbers are not touched
    frames = [core.read(FrameSelection(range(5)), native=True) for core in (plain.core, traj.core)]
    for field in ("positions", "cells", "times"):
        assert frames[0][field].tobytes() == frames[1][field].tobytes()


@pytest.mark.parametrize("name", ["XTC", "DCD", "H5MD"])
def test_stated_times_are_those_of_index_frames_and_windows(name: str, tmp_path: Path) -> None:
    path = a_file(name, tmp_path)
    own = opened_quietly(path).times
    first = own[0]
    for options, expected in (
        ({"dt": 3.0}, first + 3.0 * np.arange(5)),
        ({"dt": 3.0, "t0": 7.0}, 7.0 + 3.0 * np.arange(5)),
        ({"t0": 7.0}, own - first + 7.0),
        ({"time_offset": 7.0}, own + 7.0),
        ({"dt": 3.0, "time_offset": -1.0}, first - 1.0 + 3.0 * np.arange(5)),
    ):
        traj = opened_quietly(path, **options)
        np.testing.assert_allclose(traj.times, expected, rtol=1e-12)
        for dtype in ("float32", "float64"):
            np.testing.assert_array_equal(traj.read(fields=["positions"], dtype=dtype)["times"], traj.times)
        assert [frame.time for frame in traj] == list(traj.times)
        window = frames_between(traj, expected[1] - 0.25, expected[3] + 0.25)
        assert list(window.numbers()) == [1, 2, 3]
        (part,) = traj.parts
        assert (part.first_time, part.last_time) == (traj.times[0], traj.times[-1])


def test_a_time_between_frames_goes_on_through_parts_without_times(tmp_path: Path) -> None:
    paths = [written_by(tmp_path / f"{i}.dcd", "x", 0.0, 10 * i, 10, n_frames=1) for i in range(3)]
    np.testing.assert_array_equal(opened_quietly(*paths, dt=2.0).times, [0.0, 2.0, 4.0])
    two = [xtc(tmp_path, first=first, name=f"{first}.xtc") for first in (0.0, 50.0)]
    np.testing.assert_array_equal(
        opened_quietly(*two, dt=10.0, t0=5.0, overlap="all").times, 5.0 + 10.0 * np.arange(10)
    )


@pytest.mark.parametrize("ending", ["xtc", "dcd"])
def test_stated_times_run_on_through_parts_that_restart(tmp_path: Path, ending: str) -> None:
    """Replicas, each of which begins at its own first time: with --overlap all all of the times are stated."""
    if ending == "xtc":
        paths = [xtc(tmp_path, name=f"{i}.xtc") for i in range(3)]
    else:
        paths = [written_by(tmp_path / f"{i}.dcd", "x", 1.0, 10, 10, n_frames=5) for i in range(3)]
    traj = opened_quietly(*paths, dt=1.0, t0=0.0, overlap="all")
    np.testing.assert_array_equal(traj.times, np.arange(15.0))
    np.testing.assert_array_equal(traj.read(fields=["positions"])["times"], np.arange(15.0))
    assert [part.first_time for part in traj.parts] == [0.0, 5.0, 10.0]
    # without t0 each begins where its file says
    first = opened_quietly(paths[0]).times[0]
    each = opened_quietly(*paths, dt=1.0, overlap="all").times.reshape(3, 5)
    if ending == "xtc":
        np.testing.assert_array_equal(each, np.tile(first + np.arange(5.0), (3, 1)))


@pytest.mark.parametrize("precision", [1000.0, 1e6])
def test_a_new_time_step_rounds_no_positions_of_xtc(tmp_path: Path, precision: float) -> None:
    """Integers of the source are kept at any precision; all atoms, some of them, and in another order."""
    random = np.random.default_rng(5)
    path, out = tmp_path / "fine.xtc", tmp_path / "out.xtc"
    with collected():
        with kn.Writer(path, n_atoms=30, precision=precision) as writer:
            for number in range(4):
                writer.write(random.normal(0, 20, (30, 3)), time=10.0 * number, step=number, cell=np.eye(3) * 40)
        source = kn.open(path, stored=False)
        for select in (None, np.arange(15), np.arange(29, -1, -1)):
            done = kn.convert(path, out, dt=2.5, t0=1.0, select=select, overwrite=True)
            assert done.losses == ()
            made = kn.open(out, stored=False)
            np.testing.assert_array_equal(made.times, 1.0 + 2.5 * np.arange(4))
            np.testing.assert_array_equal(made.read(), source.read(select=select))
        inexact = kn.convert(path, out, dt=0.1, overwrite=True)
        assert any("times are rounded to float32" in loss for loss in inexact.losses)
        assert not any("positions" in loss for loss in inexact.losses)
        # another precision and another unit do round
        for changed in ({"precision": 100}, {"units": {"length": "angstrom"}}):
            rounded = kn.convert(path, out, dt=2.5, overwrite=True, **changed)
            assert any("positions are rounded" in loss for loss in rounded.losses)


def test_workers_and_checkpoints_know_what_was_stated(tmp_path: Path) -> None:
    path = xtc(tmp_path)
    options = {"units": {"length": "angstrom"}, "dt": 3.0}
    expected = kn.analysis.RadiusOfGyration(opened_quietly(path, **options), weights=None).run(progress=False)
    found = kn.analysis.RadiusOfGyration(opened_quietly(path, **options), weights=None)
    found.run(runner="processes", workers=2, progress=False)
    np.testing.assert_array_equal(found.results.values, expected.results.values)
    np.testing.assert_array_equal(found.results.time, expected.results.time)
    plain = kn.analysis.RadiusOfGyration(opened_quietly(path), weights=None).run(progress=False)
    np.testing.assert_allclose(plain.results.values, 10 * expected.results.values, rtol=1e-5)
    assert expected.provenance().parameters == {"stated units": "length angstrom", "stated dt": "3 ps"}
    # what a checkpoint of other units holds is not taken for that of these
    from kinema.execution.checkpoint.run_identity import items_of_run

    every = FrameSelection(range(5))
    items = [{item.what: item.exact for item in items_of_run([one], every, "")} for one in (plain, expected)]
    assert [name for name in items[0] if items[0][name] != items[1][name]] == ["what was stated of the files"]


def test_a_snapshot_keeps_what_was_stated(tmp_path: Path) -> None:
    from kinema.model.snapshot import TrajectorySnapshot

    traj = opened_quietly(xtc(tmp_path), units={"time": "fs"}, t0=1.0)
    snapshot, data = TrajectorySnapshot.take(traj.core)
    core = pickle.loads(pickle.dumps(snapshot)).open(data)
    assert list(core.times()) == list(traj.times)
    assert kn.Trajectory.from_snapshot(core, traj.snapshot()).stated == traj.stated


def write_observables(folder: Path) -> str:
    path = folder / "observed.h5md"
    with kn.Writer(path, 2) as out:
        out.add_observable("temperature", unit="K")
        for i in range(5):
            out.write(positions=np.zeros((2, 3), np.float32), cell=np.full(3, 50.0), step=i, time=100.0 + 10.0 * i)
            if i % 2 == 0:
                out.write_observable("temperature", 300.0 + i, step=i, time=100.0 + 10.0 * i)
    return str(path)


def test_observables_are_shifted_as_the_frames_are(tmp_path: Path) -> None:
    path = write_observables(tmp_path)
    own = [100.0, 120.0, 140.0]
    for options, expected in (
        ({}, own),
        ({"t0": 7.0}, [7.0, 27.0, 47.0]),
        ({"time_offset": -50.0}, [50.0, 70.0, 90.0]),
    ):
        traj = opened_quietly(path, **options)
        for one in (traj, traj[::2], pickle.loads(pickle.dumps(traj))):
            assert list(one.observables["temperature"].times) == expected
            np.testing.assert_array_equal(traj.times[::2], expected)
    traj = opened_quietly(path, dt=2.0, t0=0.0)
    with collected() as notes:
        assert list(traj.observables["temperature"].times) == [0.0, 20.0, 40.0]
    assert notes == [f"{path}: times of observables are those of the file; dt= (--timestep) is about frames"]


def test_a_pickled_trajectory_knows_what_was_stated(tmp_path: Path) -> None:
    traj = opened_quietly(xtc(tmp_path), t0=1.0)
    assert pickle.loads(pickle.dumps(traj)).stated == traj.stated == {"t0": "1 ps"}


def test_check_judges_times_as_they_were_stated(tmp_path: Path) -> None:
    none = written_by(tmp_path / "none.dcd", "Created by HOOMD", 0.0, 0, 10)
    assert [one.kind for one in kn.check(none).problems] == ["nan"]
    assert kn.check(none, dt=2.0).ok
    # the first time is that of the first file; the second is shifted as it is
    first, second = (xtc(tmp_path, first=first, name=f"{first}.xtc") for first in (100.0, 160.0))
    data = bytearray(Path(second).read_bytes())
    for i in range(5):
        struct.pack_into(">i", data, i * (len(data) // 5) + 8, 6 + i)
    Path(second).write_bytes(data)
    (problem,) = kn.check([first, second], t0=0.0).problems
    assert (problem.kind, problem.path) == ("gap", second)
    assert "between 40 and 60 ps" in problem.message
    (problem,) = kn.check([first, second], time_offset=1.0).problems
    assert "between 141 and 161 ps" in problem.message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"units": {"length": "ps"}}, "not one of length"),
        ({"units": {"mass": "u"}}, "mass"),
        ({"dt": 0.0}, "dt must be above 0"),
        ({"dt": float("nan")}, "dt must be above 0"),
        ({"time_offset": float("inf")}, "time_offset must be"),
        ({"time_offset": 1.0, "t0": 1.0}, "cannot be combined"),
        ({"group": "all", "particles": "all"}, "open: group= is the old name of particles=; give one of them"),
        ({"particles": "all"}, "particles is for H5MD files"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(kn.ArgumentError, match=words):
        kn.open(str(DCD), **options)


def test_an_old_name_of_an_argument_still_works(tmp_path: Path) -> None:
    path = tmp_path / "a.h5md"
    with pytest.warns(DeprecationWarning, match="the argument group= is called particles= now") as caught:
        out = kn.Writer(path, 3, group="water")
    out.write(np.zeros((3, 3), np.float32))
    out.close()
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="group= is called particles=") as caught:
        assert kn.open(path, group="water").n_atoms == 3
    assert caught[0].filename == __file__


# -- the command line -----------------------------------------------------------------------------------------------


def options_of(command: str) -> set[str]:
    import typer

    from kinema.cli.app import application

    known = typer.main.get_command(application([command])).commands[command]  # type: ignore[attr-defined]
    return {name for one in known.params for name in one.opts}


# repack reads H5MD alone; ml convert and ml bench samples
@pytest.mark.parametrize("command", ["info", "check", "index", "split", "join", "convert", "scaling", "rmsd", "rgyr"])
def test_commands_that_read_take_a_format(command: str) -> None:
    assert "--format" in options_of(command)


def test_a_format_is_stated_in_python_and_in_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kinema.cli import main

    def code(*words: str) -> object:
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        return ended.value.code

    monkeypatch.chdir(tmp_path)
    Path("a.out").write_text("2\nmade\nC 0 0 0\nC 1 0 0\n" * 3)
    assert kn.check("a.out", format="XYZ").ok
    stated = ("--format", "xyz", "--timestep", "1")
    for words in (("info", "a.out"), ("check", "a.out"), ("convert", "a.out", "-o", "a.dcd")):
        assert code(*words, *stated) == 0
    assert code("rgyr", "a.out", "--weights", "none", "-o", "a.csv", *stated) == 0
    assert kn.open("a.dcd").n_frames == 3
    assert "3 frames of 2 atoms" in capsys.readouterr().out
    assert code("info", "a.out") == 2
    assert code("index", "a.dcd", "--format", "FOO") == 2
    assert code("split", "a.dcd", "--parts", "2", "--format", "xyz") == 2
    said = capsys.readouterr().err
    for message in ("not a format that Kinema reads", 'no format "FOO"', "this is DCD, which Kinema reads itself"):
        assert message in said
    job = '[trajectory]\nfiles = ["a.out"]\nformat = "XYZ"\n[[analysis]]\nname = "rgyr"\nweights = "none"\n'
    Path("job.toml").write_text(f'{job}output = "b.csv"\n')
    assert code("run", "job.toml") == 0 and Path("b.csv").exists()
    assert code("join", "a.dcd", "--format", "DCD", "-o", "b.dcd") == 0
    assert code("split", "a.dcd", "--parts", "3", "--format", "dcd") == 0


def test_commands_take_units_and_times(tmp_path: Path) -> None:
    path, output = xtc(tmp_path), tmp_path / "rgyr.csv"
    stated = ("--input-units", "length=angstrom,time=ns", "--t0", "5")
    done = call_kinema("rgyr", "-f", path, "--weights", "none", *stated, "-o", output)
    assert done.returncode == 0, done.stderr
    lines = [line for line in output.read_text().splitlines() if not line.startswith("#")]
    rows = [float(line.split(",")[1]) for line in lines[1:]]
    assert "stated t0: 5 ps" in output.read_text()
    np.testing.assert_allclose(rows, 5.0 + 10_000.0 * np.arange(5))
    info = json.loads(call_kinema("info", path, "--timestep", "2", "--json").stdout)
    assert (info["dt"], info["stated"]) == (2.0, {"dt": "2 ps"})
    for words in (("--input-units", "length"), ("--timestep", "0"), ("--t0", "nan"), ("--input-units", "time=nm")):
        done = call_kinema("info", path, *words)
        assert done.returncode == 2
        assert words[0] in done.stderr
    # the fifth frame is 4 ps after the first
    assert call_kinema("check", path, "--timestep", "1e-3", "--t0", "-5").returncode == 0
    for command in ("index", "split", "join", "repack"):
        assert not {"--t0", "--timestep"} & options_of(command), "they leave the times of the files"
    for command in ("check", "index"):
        assert call_kinema(command, path, "--input-units", "length=angstrom").returncode == 0
    refused = call_kinema("info", path, "--group", "all")
    assert refused.returncode == 2
    assert "--particles" in refused.stderr


def test_info_shows_the_box_and_what_a_selection_costs(tmp_path: Path) -> None:
    datafiles = pytest.importorskip("MDAnalysisTests.datafiles")
    for topology, path in ((datafiles.PSF, datafiles.DCD), (datafiles.GRO, datafiles.XTC)):
        words = ("info", path, "-s", topology, "--select", "name CA")
        done = call_kinema(*words)
        assert done.returncode == 0, done.stderr
        assert "selection name CA: 214 of" in done.stdout
        assert "box: " in done.stdout
        facts = json.loads(call_kinema(*words, "--json").stdout)
        assert facts["selection"]["n_atoms"] == 214
        assert facts["selection"]["bytes_wanted"] == 12 * 214
        assert facts["selection"]["bytes_read"] > 0
    lengths = [80.01706, 80.01706, 80.01706]
    np.testing.assert_allclose(facts["boxes"][0], [*lengths, 60.0, 60.0, 90.0], rtol=1e-4)

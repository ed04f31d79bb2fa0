"""Catalogues: what is made, added, opened and read is what the files give; no other file is touched."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema import ml
from kinema.base.errors import ArgumentError, CorruptFileError, FileNotFound, TruncatedFileError
from kinema.cli.in_process import call_kinema
from kinema.ml.catalogue import entry as entries
from kinema.ml.catalogue.container import CatalogueFile
from kinema.ml.catalogue.packing import Packer, Unpacker
from kinema.testing import (
    KeeperTests,
    random_walk,
    rewrite_middle,
    synthetic,
    write_dcd,
    write_h5md,
    write_netcdf,
    write_trr,
    write_xtc,
)
from kinema.testing.h5md_files import write_small_chunks
from kinema.testing.keepers import settle
from kinema.testing.programs.children import start_child


def write_mdcath(path: Path, domain: str, n_atoms: int, frames: tuple[int, ...] = (5, 6)) -> None:
    """Two temperatures, a replica for each number of frames."""
    chance = np.random.default_rng(n_atoms)
    with h5py.File(path, "w") as file:
        group = file.create_group(domain)
        group.attrs["numProteinAtoms"] = n_atoms
        group["z"] = np.resize([6, 1, 8, 7], n_atoms)
        for temperature in (320, 450):
            for replica, n_frames in enumerate(frames):
                one = group.create_group(f"{temperature}/{replica}")
                for name in ("coords", "forces"):
                    one[name] = chance.random((n_frames, n_atoms, 3), np.float32)
                one["box"] = np.diag([30.0, 31.0, 32.0])
                one["box"].attrs["unit"] = "angstrom"
                one["rmsd"] = np.arange(n_frames) * 0.5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Trajectories of all kinds, in two folders."""
    place = tmp_path / "data"
    (place / "more").mkdir(parents=True)
    write_xtc(place / "a.xtc", random_walk(30, 200))
    write_dcd(place / "b.dcd", random_walk(20, 100))
    write_h5md(place / "c.h5md", synthetic(12, 50), chunks=(2, 50, 3), compression="gzip")
    write_mdcath(place / "mdcath_dataset_1abcA00.h5", "1abcA00", 7)
    write_trr(place / "more" / "d.trr", random_walk(8, 11))
    write_netcdf(place / "more" / "e.nc", random_walk(9, 12))
    (place / "README.txt").write_text("not a trajectory")
    return place


@pytest.fixture
def made(folder: Path) -> Path:
    path = folder / "all.kinema-catalogue"
    ml.make_catalogue(folder, path)
    return path


def opened(folder: Path, name: str) -> kn.Trajectory:
    """The trajectory of a name without the catalogue."""
    file, _, group = name.partition(":")
    return kn.open(folder / file, particles=group, dt=1000.0) if group else kn.open(folder / file)


def test_every_trajectory_is_that_of_its_files(folder: Path, made: Path) -> None:
    catalogue = ml.Catalogue(made)
    groups = [f"mdcath_dataset_1abcA00.h5:1abcA00/{t}/{r}" for t in (320, 450) for r in (0, 1)]
    assert list(catalogue) == ["a.xtc", "b.dcd", "c.h5md", *groups, "more/d.trr", "more/e.nc"]
    assert len(catalogue) == 9 and "a.xtc" in catalogue and "z" not in catalogue and 3 not in catalogue
    for name, traj in catalogue.items():
        plain = opened(folder, name)
        assert (traj.n_frames, traj.n_atoms, traj.format, traj.fields) == (
            plain.n_frames,
            plain.n_atoms,
            plain.format,
            plain.fields,
        )
        fields = [field for field in ("positions", "forces") if field in plain.fields]
        for key, values in plain.read(fields=fields).items():
            np.testing.assert_array_equal(traj.read(fields=fields)[key], values, err_msg=f"{name} {key}")
        np.testing.assert_array_equal(traj.times, plain.times)
        assert dict(traj.stated) == dict(plain.stated)
    atoms = catalogue[groups[0]].atoms
    np.testing.assert_array_equal(atoms.elements[:4], ["C", "H", "O", "N"])
    again = pickle.loads(pickle.dumps(catalogue))
    np.testing.assert_array_equal(again["b.dcd"].read(), catalogue["b.dcd"].read())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(catalogue["c.h5md"])).read(), catalogue["c.h5md"].read())


def test_opening_reads_nothing_and_a_frame_only_its_own_file(
    folder: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = ml.Catalogue(made)
    # nothing but the file of the trajectory is there: touching any other would be an error
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in ("c.h5md", made.name):
            path.unlink()

    def not_again(*_: Any, **__: Any) -> None:
        raise AssertionError("the file is described again")

    monkeypatch.setattr(entries.h5md, "describe", not_again)
    traj = catalogue["c.h5md"]
    core = catalogue.entry(catalogue.number_of("c.h5md")).kept
    recorded = kn._core.FilePool(8, record_reads=True)
    read = core.open(recorded).read(kn.FrameSelection(range(3, 4)))
    assert read["positions"].shape == (1, 50, 3) and len(traj) == 12
    assert recorded.take_opens() == [str(folder / "c.h5md")]


def test_names_that_are_not_there(made: Path) -> None:
    catalogue = ml.Catalogue(made)
    with pytest.raises(KeyError, match=r"there is no trajectory '450/1' among its 9; names with it: mdcath.*450/1"):
        catalogue["450/1"]
    with pytest.raises(ArgumentError, match=r"'q' among its 9; its names are a.xtc, b.dcd, .*, ..."):
        catalogue.open("q")
    assert catalogue.get("q") is None
    with pytest.raises(FileNotFound, match=r"nowhere: cannot read the catalogue"):
        ml.Catalogue(made.with_name("nowhere"))
    with pytest.raises(CorruptFileError, match=r"a.xtc: is not a catalogue; make one with"):
        ml.Catalogue(made.with_name("a.xtc"))


def test_what_is_added_comes_behind_and_what_is_there_stays(folder: Path, made: Path) -> None:
    before = list(ml.Catalogue(made))
    write_dcd(folder / "0.dcd", random_walk(4, 5))
    with pytest.warns(kn.Note, match=r"9 files or trajectories were in it already"):
        done = ml.extend_catalogue(folder, made)
    assert (done.trajectories, done.added) == (10, 1)
    catalogue = ml.Catalogue(made)
    assert list(catalogue) == [*before, "0.dcd"]
    np.testing.assert_array_equal(catalogue["0.dcd"].read(), kn.open(folder / "0.dcd").read())
    with pytest.raises(ArgumentError, match=r"exists; give another name"):
        ml.make_catalogue(folder, made)
    assert not list(folder.glob("*.part-*"))


def test_a_data_set_that_is_moved_or_copied_goes_on(folder: Path, made: Path, tmp_path: Path) -> None:
    values = ml.Catalogue(made)["b.dcd"].read()
    shutil.copytree(folder, tmp_path / "copied")
    np.testing.assert_array_equal(ml.Catalogue(tmp_path / "copied" / made.name)["b.dcd"].read(), values)
    folder.rename(tmp_path / "moved")
    np.testing.assert_array_equal(ml.Catalogue(tmp_path / "moved" / made.name)["b.dcd"].read(), values)
    alone = tmp_path / "alone.kinema-catalogue"
    shutil.copy(tmp_path / "moved" / made.name, alone)
    with pytest.raises(FileNotFound, match=r"b.dcd: cannot open a file of b.dcd in .*alone.*looked for below"):
        ml.Catalogue(alone)["b.dcd"]
    np.testing.assert_array_equal(ml.Catalogue(alone, folder=tmp_path / "moved")["b.dcd"].read(), values)


def test_files_that_cannot_be_opened(folder: Path) -> None:
    path = folder / "all.kinema-catalogue"
    (folder / "b.dcd").write_bytes((folder / "b.dcd").read_bytes()[:100])
    content = (folder / "a.xtc").read_bytes()
    (folder / "a.xtc").write_bytes(content[:-10])
    with pytest.raises(TruncatedFileError, match=r"b.dcd"):
        ml.make_catalogue(folder, path)
    assert not path.exists() and not list(folder.glob("*.part-*"))
    with pytest.warns(kn.Note) as noted:
        done = ml.make_catalogue(folder, path, unreadable="leave-out")
    said = "\n".join(str(one.message) for one in noted)
    assert "b.dcd" in said and "(left out)" in said and "a.xtc: XTC frame 29" in said
    assert done.trajectories == 8 and len(done.unreadable) == 1
    assert len(ml.Catalogue(path)["a.xtc"]) == 29
    for wrong in ("none-here", "no*.xtc"):
        with pytest.raises(FileNotFound, match=wrong.replace("*", r"\*")):
            ml.make_catalogue(folder / wrong, path, overwrite=True)
    (folder / "more" / "sub").mkdir()
    with pytest.raises(ArgumentError, match=r"has no trajectories"):
        ml.make_catalogue(folder / "more" / "sub", path, overwrite=True)
    (folder / "x.xyz").write_text("1\nc\nC 0 0 0\n")
    with pytest.raises(ArgumentError, match=r"read through MDAnalysis.*convert it first"):
        ml.make_catalogue(folder / "x.xyz", path, overwrite=True)


def test_groups_patterns_and_parts_of_one_trajectory(folder: Path) -> None:
    path = folder / "all.kinema-catalogue"
    assert ml.make_catalogue(folder, path, particles="*/320/*").trajectories == 2 + 5
    write_xtc(folder / "p1.xtc", random_walk(5, 6), first_step=0)
    write_xtc(folder / "p2.xtc", random_walk(5, 6), first_step=5)
    parts = [folder / "p1.xtc", folder / "p2.xtc"]
    ml.make_catalogue([parts, f"{folder}/**/*.nc"], path, overwrite=True)
    catalogue = ml.Catalogue(path)
    assert list(catalogue) == ["p1.xtc", "more/e.nc"]
    np.testing.assert_array_equal(catalogue["p1.xtc"].read(), kn.open(parts).read())
    with pytest.raises(ArgumentError, match=r"are paths, or lists"):
        ml.make_catalogue([3], path, overwrite=True)


def test_a_topology_is_found_again(folder: Path, tmp_path: Path) -> None:
    line = "ATOM  {:5d}  {}  ALA A   1       0.000   0.000   0.000  1.00  0.00           C  \n"
    (folder / "b.pdb").write_text("".join(line.format(i + 1, ("CA", "CB")[i % 2]) for i in range(100)))
    path = tmp_path / "all.kinema-catalogue"
    ml.make_catalogue(folder / "b.dcd", path, topology=folder / "b.pdb")
    traj = ml.Catalogue(path)["data/b.dcd"]
    assert traj.topology_name == str(folder / "b.pdb")
    assert traj.read(select="name CA").shape == (20, 50, 3)


def test_frames_of_a_catalogue_are_those_of_its_trajectories(folder: Path, made: Path) -> None:
    catalogue = ml.Catalogue(made)
    one_by_one = ml.FrameDataset([opened(folder, name) for name in catalogue])
    frames = ml.FrameDataset(catalogue)
    ids = [0, 29, 30, 61, 62, 80, 100, len(frames) - 1, 3]
    for data in (frames, pickle.loads(pickle.dumps(frames)), ml.FrameDataset(catalogue, select=[0, 2])):
        plain = one_by_one if data.is_ragged else ml.FrameDataset([opened(folder, n) for n in catalogue], [0, 2])
        batch, expected = data.read(ids), plain.read(ids)
        assert set(batch) == set(expected)
        for name in batch:
            np.testing.assert_array_equal(batch[name], expected[name], err_msg=name)
        np.testing.assert_array_equal(data.bounds, plain.bounds)
        np.testing.assert_array_equal(data.times[0], plain.times[0])
        assert (data.sample_bytes, data.names, data.chunk_samples) == (plain.sample_bytes, plain.names, 2)
        assert data.plan(ids).useful == plain.plan(ids).useful
    of_mdcath = ml.make_catalogue(folder / "mdcath_dataset_1abcA00.h5", folder / "m.kinema-catalogue")
    catalogue = ml.Catalogue(of_mdcath.path)
    fields = ["forces", "rmsd", "temperature", "atomic_numbers"]
    batch = ml.FrameDataset(catalogue, fields=fields).read([0, 7, 21])
    listed = ml.FrameDataset(ml.mdcath(folder), fields=fields).read([0, 7, 21])
    for name in fields:
        np.testing.assert_array_equal(batch[name], listed[name])
    numbers = ml.FrameDataset(catalogue, fields=["positions", "atomic_numbers"]).read([3, 4])["atomic_numbers"]
    np.testing.assert_array_equal(numbers, batch["atomic_numbers"][:2])
    with pytest.raises(ArgumentError, match=r"a.xtc: has no forces"):
        ml.FrameDataset(ml.Catalogue(made), fields="forces")


def test_few_trajectories_stay_open(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kinema.ml import systems

    monkeypatch.setattr(systems, "_MOST_OPENED", 2)
    frames = ml.FrameDataset(ml.Catalogue(made))
    whole = frames.read(range(len(frames)))
    held = frames._opened.get()._opened
    assert len(held) == 2
    np.testing.assert_array_equal(frames.read([1])["positions"], whole["positions"][200:400])


class TestChangedFiles(KeeperTests):
    """An entry is used for the file that it was made of, or the error says what to do."""

    knows_copies = True

    def make(self, folder: Path) -> Path:
        write_dcd(folder / "a.dcd", random_walk(60, 2000))
        return folder / "a.dcd"

    def keep(self, path: Path) -> None:
        ml.make_catalogue(path, path.with_name("all.kinema-catalogue"), overwrite=True)

    def is_known(self, path: Path) -> bool:
        traj = ml.Catalogue(path.with_name("all.kinema-catalogue"))[path.name]
        try:
            traj[0]
        except CorruptFileError as error:
            assert f"{path}: " in str(error) and "has changed since the catalogue" in str(error)
            assert "kinema ml catalogue check" in str(error)
            return False
        return True


class TestChangedHdf5Files(TestChangedFiles):
    """The same with chunks, which are not looked for again."""

    def make(self, folder: Path) -> Path:
        return write_small_chunks(folder / "a.h5md", 9000)


def test_check_lists_what_has_changed_and_renews_it(folder: Path, made: Path) -> None:
    for name in ("a.xtc", "c.h5md"):
        settle(folder / name)
    write_dcd(folder / "big.dcd", random_walk(60, 2000))
    with pytest.warns(kn.Note):
        ml.extend_catalogue(folder / "big.dcd", made), ml.extend_catalogue(folder, made)
    assert ml.check_catalogue(made).ok
    settle(folder / "big.dcd")
    rewrite_middle(folder / "big.dcd")
    write_xtc(folder / "a.xtc", random_walk(10, 200))
    (folder / "b.dcd").unlink()
    report = ml.check_catalogue(made)
    assert {one.name: one.kind for one in report.problems} == {
        "a.xtc": "changed",
        "b.dcd": "gone",
        "big.dcd": "changed",
    }
    assert "shorter" in report.problems[0].message and not report.ok and "3 problems" in str(report)
    with pytest.raises(TruncatedFileError, match=r"a.xtc: .*shorter.*check .* --update"):
        ml.Catalogue(made)["a.xtc"]
    renewed = ml.check_catalogue(made, update=True)
    assert set(renewed.renewed) == {"a.xtc", "big.dcd"} and [one.name for one in renewed.problems] == ["b.dcd"]
    catalogue = ml.Catalogue(made)
    assert len(catalogue) == 10 and next(iter(catalogue)) == "a.xtc"
    for name in ("a.xtc", "big.dcd"):
        np.testing.assert_array_equal(catalogue[name].read(), kn.open(folder / name).read())


def test_a_refreshed_trajectory_has_the_chunks_of_the_file_as_it_is(folder: Path, made: Path) -> None:
    traj = ml.Catalogue(made)["c.h5md"]
    write_h5md(folder / "c.h5md", synthetic(15, 50, seed=5), chunks=(1, 50, 3))
    assert traj.refresh() == 15
    np.testing.assert_array_equal(traj.read(), kn.open(folder / "c.h5md").read())


def test_damaged_catalogues_are_errors(made: Path) -> None:
    content = made.read_bytes()
    other = made.with_name("other.kinema-catalogue")

    def tried(data: bytes) -> None:
        other.write_bytes(data)
        catalogue = ml.Catalogue(other)
        for name in catalogue:
            catalogue[name][0]

    tables = int.from_bytes(content[24:32], "little")
    for length in (0, 3, 8, 40, 63, 64, 1000, tables, tables + 100, len(content) - 1):
        with pytest.raises((TruncatedFileError, CorruptFileError), match=r"other.k.*: .*(cut off|not a catalogue)"):
            tried(content[:length])
    file = CatalogueFile(made)
    last = file.offsets[-1] + file.lengths[-1]
    chance = np.random.default_rng(3)
    places = [*range(64), *chance.integers(64, last, 60), *chance.integers(tables, len(content), 60)]
    for place in map(int, places):
        # padding between entries belongs to none
        if 64 <= place < tables and not ((file.offsets <= place) & (place < file.offsets + file.lengths)).any():
            continue
        with pytest.raises((TruncatedFileError, CorruptFileError), match=r"other.kinema-catalogue: "):
            tried(content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :])
    with pytest.raises(CorruptFileError, match=r"another version"):
        tried(content[:8] + b"\x09" + content[9:])


@pytest.mark.processes
def test_forged_entries_are_errors_within_bounded_memory(made: Path, tmp_path: Path) -> None:
    """Entries changed at random, with the checksums of what they are now: no defect, no memory beyond 3 GiB."""
    program = Path(__file__).with_name("damaged_catalogue.py")
    child = start_child([sys.executable, program, made, tmp_path, "1", "300"])
    out, wrong = child.communicate(timeout=100)
    assert child.returncode == 0, wrong
    assert int(out) > 150


@pytest.mark.processes
def test_the_command_makes_adds_checks_and_lists(folder: Path) -> None:
    path = folder / "all.kinema-catalogue"

    def run(*words: object, code: int = 0) -> str:
        done = call_kinema("ml", "catalogue", *words)
        assert done.returncode == code, done.stderr
        return done.stderr if code == 2 else done.stdout

    facts = json.loads(run("make", folder / "more", f"{folder}/*.h5", "-o", path, "--particles", "*/450/*", "--json"))
    assert facts["trajectories"] == 4 and facts["n_frames"] == 8 + 9 + 11
    assert "7 trajectories" in run("add", folder / "a.xtc", folder / "b.dcd", folder / "c.h5md", "-o", path)
    assert "a.xtc: 30 frames of 200 atoms" in run("list", path)
    write_xtc(folder / "a.xtc", random_walk(31, 200))
    assert "grown: " in run("check", path, code=1)
    assert "1 renewed" in run("check", path, "--update", "--runner", "processes", "-j", "2")
    assert json.loads(run("check", path, "--json"))["ok"] and "a.xtc: 31 frames" in run("list", path)
    assert "no -o" in run("check", path, "-o", path, code=2)
    assert "--update is for" in run("list", path, "--update", code=2)
    assert "--particles is not for" in run("list", path, "--particles", "x", code=2)
    assert "no such file or folder" in run("add", folder / "nope", "-o", path, code=2)


@pytest.mark.processes
def test_many_files_by_worker_processes_and_ctrl_c(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    write_dcd(folder / "0000.dcd", random_walk(4, 5))
    for number in range(1, 1500):
        os.link(folder / "0000.dcd", folder / f"{number:04}.dcd")
    done = ml.make_catalogue(folder, tmp_path / "all.kinema-catalogue", workers=2)
    assert done.trajectories == 1500 and done.n_frames == 6000
    assert list(ml.Catalogue(done.path)) == [f"many/{number:04}.dcd" for number in range(1500)]
    words = [sys.executable, "-m", "kinema", "ml", "catalogue", "make", folder, "-o", tmp_path / "b.kinema-catalogue"]
    child = start_child(words)
    while not list(tmp_path.glob("b.*part*")):
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=100)
    assert child.returncode == 130, said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.kinema-catalogue", "many"]


def test_arrays_are_kept_bit_for_bit() -> None:
    chance = np.random.default_rng(1)
    arrays = [
        np.arange(1000, dtype="<i8") * 7 - 3,
        np.full(50, 12, "<u4"),
        np.array([5, 3, 1, 2**64 - 1], "<u8"),
        0.1 * np.arange(100),
        chance.random(100),
        np.array([np.nan, 1, 2, 3, 4]),
        np.array([-0.0, 0.0, 0.0, 0.0]),
        np.zeros((3, 0, 2), "<f8"),
        np.zeros(0, "<u8"),
    ]
    packer = Packer()
    numbers = [packer.array(one, 1000) for one in arrays]
    data = packer.packed({"text": "\udcff"})
    assert len(data) < 3000
    unpacker = Unpacker(data)
    for number, one in zip(numbers, arrays, strict=True):
        found = unpacker.array(number, one.dtype.str, 1000)
        assert found.tobytes() == one.tobytes() and found.shape == one.shape
    with pytest.raises(ValueError, match=r"longer than its file"):
        unpacker.array(0, "<i8", 999)
    with pytest.raises(ValueError, match=r"an array of"):
        unpacker.array(0, "<f8", 1000)


def test_an_empty_name_of_bytes_that_are_no_text(tmp_path: Path) -> None:
    name = os.fsdecode(b"b\xff.dcd")
    write_dcd(tmp_path / name, random_walk(3, 4))
    ml.make_catalogue(tmp_path, tmp_path / "c.kinema-catalogue")
    catalogue = ml.Catalogue(tmp_path / "c.kinema-catalogue")
    assert list(catalogue) == [name] and catalogue[name].n_frames == 3


def test_another_run_that_writes_it_is_refused(made: Path, folder: Path) -> None:
    from kinema.storage.output_file import reservations, reserve

    with reservations():
        reserve(made)
        for call in (lambda: ml.extend_catalogue(folder, made), lambda: ml.check_catalogue(made, update=True)):
            with pytest.raises(ArgumentError, match=r"another run|is being written|writ"):
                call()

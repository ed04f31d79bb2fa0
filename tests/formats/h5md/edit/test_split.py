"""`kn.split`: the parts are the whole, whatever the format; all files appear, or none."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk, write_dcd, write_xtc
from kinema.testing.amounts import LONG, each
from kinema.testing.h5md_files import CASES, ConformanceFile

from .files import compare_objects, compare_trajectories, cut_cases, make_h5md, make_rich

MOVING_PARTICLES = ("id_order_changes", "id_with_absent_particles")

pytestmark = pytest.mark.usefixtures("nobody_changes_files")


@pytest.fixture
def xtc(tmp_path: Path) -> Path:
    write_xtc(tmp_path / "md.xtc", random_walk(23, 40), dt=2.0, first_step=5)
    return tmp_path / "md.xtc"


@pytest.fixture
def dcd(tmp_path: Path) -> Path:
    write_dcd(tmp_path / "md.dcd", random_walk(23, 40))
    return tmp_path / "md.dcd"


@pytest.mark.parametrize(
    "options", [{"parts": 1}, {"parts": 4}, {"frames_per_part": 1}, {"frames_per_part": 10}], ids=str
)
def test_xtc_is_cut_byte_for_byte(xtc: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    done = kn.split(xtc, tmp_path / "parts", **options)
    assert b"".join(Path(path).read_bytes() for path in done.paths) == xtc.read_bytes()
    compare_trajectories(xtc, list(done.paths))
    assert done.frames[0][0] == 0
    assert done.frames[-1][1] == 23


@pytest.mark.parametrize("options", [{"parts": 1}, {"parts": 4}, {"frames_per_part": 10}], ids=str)
def test_dcd_is_cut_with_a_header_for_each_part(dcd: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    import MDAnalysis

    done = kn.split(dcd, tmp_path / "parts", **options)
    whole, parts = kn.open(dcd, stored=False), kn.open(list(done.paths), stored=False)
    assert whole.read().tobytes() == parts.read().tobytes()
    np.testing.assert_array_equal(whole.steps, parts.steps)
    np.testing.assert_array_equal(whole.times, parts.times)
    for path, (first, stop) in zip(done.paths, done.frames, strict=True):
        theirs = MDAnalysis.coordinates.DCD.DCDReader(path)
        assert theirs.n_frames == stop - first
        np.testing.assert_array_equal(theirs[0].positions, whole[first].positions)


def test_real_dcd_and_xtc(tmp_path: Path) -> None:
    from MDAnalysisTests import datafiles

    for name in (datafiles.DCD, datafiles.XTC, datafiles.DCD_TRICLINIC):
        copy = Path(shutil.copy(name, tmp_path))
        done = kn.split(copy, tmp_path / "parts", parts=3, overwrite=True)
        whole, parts = kn.open(copy, stored=False), kn.open(list(done.paths), stored=False)
        one, other = (traj.read(fields=["positions"]) for traj in (whole, parts))
        for field in ("positions", "cells", "steps", "times"):
            assert one[field].tobytes() == other[field].tobytes()


def test_dcd_with_fixed_atoms_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fixed.dcd").write_bytes(dcd_with_fixed_atoms(n_frames=4))
    assert kn.open(tmp_path / "fixed.dcd", stored=False).n_frames == 4
    with pytest.raises(kn.UnsupportedFormatError, match="fixed atoms"):
        kn.split(tmp_path / "fixed.dcd", tmp_path / "parts", parts=2)
    assert os.listdir(tmp_path) == ["fixed.dcd"]


def dcd_with_fixed_atoms(n_frames: int) -> bytes:
    """Five atoms, of which the last two do not move and are in the first frame only."""

    def record(data: bytes) -> bytes:
        return struct.pack("<i", len(data)) + data + struct.pack("<i", len(data))

    words = [n_frames, 0, 1, n_frames, 0, 0, 0, 0, 2, 0, *[0] * 9, 24]
    words[9] = struct.unpack("<i", struct.pack("<f", 1.0))[0]
    data = record(b"CORD" + struct.pack("<20i", *words)) + record(struct.pack("<i", 0))
    data += record(struct.pack("<i", 5)) + record(struct.pack("<3i", 1, 2, 3))
    for frame in range(n_frames):
        data += 3 * record(np.arange(3 if frame else 5, dtype="<f4").tobytes())
    return data


@pytest.mark.parametrize(("case", "length"), each(cut_cases(), (2, 3, 4) if LONG else (3, 4)), ids=str)
def test_conformance_files(conformance: Any, tmp_path: Path, case: ConformanceFile, length: int) -> None:
    source, expected = conformance(case, tmp_path)
    options = expected.options
    known = {name: options[name] for name in ("root", "particles", "axis", "units") if name in options}
    n_frames = kn.open(source, stored=False, **options).n_frames
    done = kn.split(source, tmp_path / "parts", frames_per_part=max(length, n_frames // 4), **known)
    compare_trajectories(source, list(done.paths), **options)


def test_elements_are_cut_by_step(tmp_path: Path) -> None:
    make_rich(tmp_path / "in.h5md")  # velocities at every second frame, energies at every tenth of one
    done = kn.split(tmp_path / "in.h5md", tmp_path / "parts", frames_per_part=5)
    rows: dict[str, list[int]] = {"particles/all/velocity": [], "observables/energy": []}
    for path, (first, stop) in zip(done.paths, done.frames, strict=True):
        with h5py.File(path) as file:
            assert list(file["particles/all/position/step"]) == [10 * frame for frame in range(first, stop)]
            for name, found in rows.items():
                found.append(file[name]["value"].shape[0])
                assert file[name]["value"].shape[0] == file[name]["step"].shape[0]
            assert file["particles/all/position/value"].compression == "gzip"
            assert file["particles/all/box/edges/step"] == file["particles/all/position/step"]
    # frame 5 has no velocity: that of frame 4 holds there, and is in the second part as well
    assert rows == {"particles/all/velocity": [3, 3, 1], "observables/energy": [50, 50, 400]}


def test_what_has_no_time_is_in_every_part(tmp_path: Path) -> None:
    make_rich(tmp_path / "in.h5md")
    done = kn.split(tmp_path / "in.h5md", tmp_path / "parts", parts=2)
    with h5py.File(tmp_path / "in.h5md") as whole:
        for path in done.paths:
            with h5py.File(path) as part:
                compare_objects_of(whole, part, "extra")
                compare_objects_of(whole, part, "h5md")


def compare_objects_of(whole: h5py.File, part: h5py.File, name: str) -> None:
    assert list(whole[name]) == list(part[name])
    for child in whole[name]:
        link = whole[name].get(child, getlink=True)
        if isinstance(link, h5py.HardLink) and isinstance(whole[name][child], h5py.Dataset):
            assert whole[name][child].shape == part[name][child].shape


def test_one_part_is_the_whole_file(tmp_path: Path) -> None:
    make_rich(tmp_path / "in.h5md")
    done = kn.split(tmp_path / "in.h5md", tmp_path / "parts", parts=1)
    with h5py.File(tmp_path / "in.h5md") as old, h5py.File(done.paths[0]) as new:
        compare_objects(old, new)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give either"),
        ({"parts": 2, "frames_per_part": 2}, "give either"),
        ({"parts": 0}, "parts is a whole number"),
        ({"parts": 13}, "12 frames cannot be cut into 13"),
        ({"frames_per_part": -1}, "frames_per_part is a whole number"),
    ],
)
def test_wrong_arguments(tmp_path: Path, options: dict[str, int], message: str) -> None:
    make_h5md(tmp_path / "in.h5md")
    with pytest.raises(kn.ArgumentError, match=message):
        kn.split(tmp_path / "in.h5md", tmp_path / "parts", **options)
    assert os.listdir(tmp_path) == ["in.h5md"]


def test_folders_and_files_that_are_there(tmp_path: Path) -> None:
    make_h5md(tmp_path / "in.h5md")
    folder = tmp_path / "parts"
    first = kn.split(tmp_path / "in.h5md", folder, parts=2)
    assert [os.path.basename(path) for path in first.paths] == ["in.000.h5md", "in.001.h5md"]
    (folder / "mine.txt").write_text("stays")
    with pytest.raises(kn.ArgumentError, match="exists already"):
        kn.split(tmp_path / "in.h5md", folder, parts=3)
    kn.split(tmp_path / "in.h5md", folder, parts=3, overwrite=True)
    assert sorted(os.listdir(folder)) == ["in.000.h5md", "in.001.h5md", "in.002.h5md", "mine.txt"]
    with pytest.raises(kn.ArgumentError, match="is a file"):
        kn.split(tmp_path / "in.h5md", folder / "mine.txt", parts=3)
    with pytest.raises(kn.FileNotFound, match="make it first"):
        kn.split(tmp_path / "in.h5md", tmp_path / "no/parts", parts=3)
    for name in MOVING_PARTICLES:
        next(case for case in CASES if case.name == name).write(tmp_path / "moving.h5md")
        with pytest.raises(kn.ArgumentError, match="change their places"):
            kn.split(tmp_path / "moving.h5md", tmp_path / "other", parts=2)
    assert not (tmp_path / "other").exists()


def test_ctrl_c_leaves_nothing(xtc: Path, tmp_path: Path) -> None:
    make_h5md(tmp_path / "in.h5md", n_frames=60, n_atoms=3000)

    def interrupt(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    for name in ("in.h5md", "md.xtc"):
        with pytest.raises(KeyboardInterrupt):
            kn.split(tmp_path / name, tmp_path / "parts", parts=5, progress=interrupt)
        assert not (tmp_path / "parts").exists()
        assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


def test_whole_frames_of_a_truncated_file_are_split(xtc: Path, tmp_path: Path) -> None:
    xtc.write_bytes(xtc.read_bytes()[:-20])
    with pytest.raises(kn.TruncatedFileError):
        kn.split(xtc, tmp_path / "parts", parts=2, on_truncated="error")
    done = kn.split(xtc, tmp_path / "parts", parts=2)
    assert done.frames[-1][1] == 22

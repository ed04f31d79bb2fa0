"""`kinema check` finds what was broken on purpose, and nothing in a good file."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import random_walk, write_netcdf, write_trr
from kinema.testing.h5md_files import CASES

XTC_STEP = 8  # byte of a frame's step, before its time


def xtc_frames(data: bytes) -> list[int]:
    """Offsets of the frames of an XTC file; the packed length stands at byte 88 of a frame."""
    starts, offset = [], 0
    while offset < len(data):
        starts.append(offset)
        offset += 92 + (struct.unpack_from(">i", data, offset + 88)[0] + 3) // 4 * 4
    return starts


def write_times(path: Path, times: list[float]) -> None:
    """Replaces the times of an XTC file, and the steps by the same in whole numbers."""
    data = bytearray(path.read_bytes())
    for start, time in zip(xtc_frames(bytes(data)), times, strict=True):
        struct.pack_into(">if", data, start + XTC_STEP, int(time) if np.isfinite(time) else 0, time)
    path.write_bytes(data)


def kinds(report: kn.CheckReport) -> set[str]:
    return {problem.kind for problem in report.problems}


def test_a_good_file_has_no_problems(files: Any) -> None:
    report = kn.check(files.xtc, files.gro)
    assert report.ok, str(report)
    assert (report.n_frames, report.n_atoms) == (10, 47681)


def test_truncation(files: Any) -> None:
    files.xtc.write_bytes(files.xtc.read_bytes()[:-1000])
    assert kinds(kn.check(files.xtc)) == {"truncated"}


def test_a_corrupt_frame_is_told_by_its_number(files: Any) -> None:
    data = bytearray(files.xtc.read_bytes())
    start = xtc_frames(bytes(data))[4]
    # precision and ranges of the packed coordinates
    data[start + 56 : start + 88] = b"\xff" * 32
    files.xtc.write_bytes(data)
    report = kn.check(files.xtc)
    assert "corrupt" in kinds(report)
    assert any(problem.frame == 4 for problem in report.problems), str(report)


@pytest.mark.parametrize(
    ("times", "kind", "frame"),
    [
        ([0, 100, 200, 300, 300, 400, 500, 600, 700, 800], "duplicate", 4),
        ([0, 100, 200, 300, 400, 800, 900, 1000, 1100, 1200], "gap", 5),
        ([0, 100, 200, 300, 400, 250, 350, 450, 550, 650], "order", 5),
        ([0] * 10, "duplicate", None),
        ([np.nan] * 10, "nan", 0),
        ([0, 100, 200, np.nan, 400, 500, 600, 700, 800, 900], "nan", 3),
        ([0, 100, 200, 300, 400, 500, 600, 700, 800, np.inf], "nan", 9),
    ],
)
def test_times(files: Any, times: list[float], kind: str, frame: int | None) -> None:
    write_times(files.xtc, times)
    problems = kn.check(files.xtc, coordinates=False).problems
    assert [(problem.kind, problem.frame) for problem in problems] == [(kind, frame)]


def test_coordinates_that_are_no_numbers(files: Any) -> None:
    data = bytearray(files.dcd.read_bytes())
    data[-8:-4] = np.array(np.nan, dtype="<f4").tobytes()
    files.dcd.write_bytes(data)
    found = [problem for problem in kn.check(files.dcd).problems if problem.kind == "nan"]
    assert ["(counted from 1)" in problem.message for problem in found] == [True] * len(found)
    assert [problem.frame for problem in found] == [97]


def test_a_jump(files: Any) -> None:
    data = bytearray(files.dcd.read_bytes())
    frame = 3 * (4 * 3341 + 8)
    start = len(data) - 48 * frame  # frame 50
    x = np.frombuffer(data, dtype="<f4", count=3341, offset=start + 4)
    data[start + 4 : start + 4 + 4 * 3341] = (x + 100).astype("<f4").tobytes()
    files.dcd.write_bytes(data)
    found = [problem for problem in kn.check(files.dcd).problems if problem.kind == "jump"]
    assert [problem.frame for problem in found] == [50, 51]


def test_atom_counts(files: Any) -> None:
    assert "atoms" in kinds(kn.check([files.dcd, files.xtc], coordinates=False))
    assert "atoms" in kinds(kn.check(files.xtc, files.psf, coordinates=False))


def test_gap_between_parts(files: Any, tmp_path: Path) -> None:
    later = tmp_path / "later.xtc"
    later.write_bytes(files.xtc.read_bytes())
    write_times(later, [2000 + 100 * i for i in range(10)])
    report = kn.check([files.xtc, later], coordinates=False)
    assert "gap" in kinds(report), str(report)


def test_files_out_of_order(files: Any, tmp_path: Path) -> None:
    later = tmp_path / "later.xtc"
    later.write_bytes(files.xtc.read_bytes())
    write_times(later, [2000 + 100 * i for i in range(10)])
    assert "order" in kinds(kn.check([later, files.xtc], coordinates=False))


def test_a_long_report_is_cut_in_its_text_alone() -> None:
    problems = tuple(kn.Problem("gap", "a.xtc", i, "something is missing") for i in range(1000))
    report = kn.CheckReport(("a.xtc",), 1000, 5, problems)
    lines = str(report).splitlines()
    assert len(lines) == 12
    assert lines[-1] == "  gap: 990 more"
    assert len(report.as_dict()["problems"]) == 1000


def test_exit_codes(run_kinema: Any, files: Any, tmp_path: Path) -> None:
    good = run_kinema("check", files.xtc)
    assert (good.returncode, good.stderr) == (0, "")
    assert "no problems" in good.stdout
    files.xtc.write_bytes(files.xtc.read_bytes()[:-1000])
    bad = run_kinema("check", files.xtc, "--json")
    assert bad.returncode == 1
    assert json.loads(bad.stdout)["problems"][0]["kind"] == "truncated"
    assert run_kinema("check", tmp_path / "nope.xtc").returncode == 2


def test_notes_are_no_problems(run_kinema: Any, files: Any, tmp_path: Path) -> None:
    # as GROMACS writes it: fields that are read another way are noted
    (gromacs,) = (case for case in CASES if case.name == "gromacs")
    gromacs.write(tmp_path / "traj.h5md")
    files.say_frames(500)
    for path in (tmp_path / "traj.h5md", files.dcd):
        done = run_kinema("check", path, "--json")
        assert done.returncode == 0, done.stdout
        found = json.loads(done.stdout)
        assert found["problems"] == []
        with collected() as notes:
            report = kn.check(path)
        assert report.ok
        assert list(report.notes) == notes == found["notes"]
        assert done.stderr == "".join(f"note: {note}\n" for note in notes)
    assert notes == [f"{files.dcd}: the header says 500 frames, the file holds 98"]


def test_trr(run_kinema: Any, tmp_path: Path) -> None:
    path, positions = tmp_path / "md.trr", random_walk(40, 30).astype(np.float32)
    # a jump between the frames 18 and 21, which are neighbours among those with positions
    positions[20:] += 30.0
    write_trr(path, positions, velocities=positions / 7, every=(3, 1, 1), cell=(0.0, 0.0, 0.0))
    shown = run_kinema("info", path, "--no-stored").stdout
    assert "format   TRR, single precision\n" in shown
    assert "fields: positions, velocities, " in shown
    with pytest.warns(kn.Note, match="26 of 40 frames have no positions, the first is frame 1; analyses need frames="):
        report = kn.check(path)
    assert [(problem.kind, problem.frame) for problem in report.problems] == [("jump", 21)]
    assert any("26 of 40 frames have no positions" in note for note in report.notes)
    _, _, offset, _ = kn.open(path, stored=False).core.locate(9)
    whole = bytearray(path.read_bytes())
    # the size of the positions of frame 9, and the end of the file
    struct.pack_into(">i", whole, offset + 24 + 4 * 7, 12)
    path.write_bytes(whole[:-8])
    with collected():
        report = kn.check(path, stored=False)
    assert [(one.kind, one.frame) for one in report.problems if one.kind != "jump"] == [
        ("truncated", 39),
        ("corrupt", 9),
    ]
    done = run_kinema("check", path, "--salvage", "-o", tmp_path / "saved.trr", "--no-stored")
    assert done.returncode == 1
    assert "38 frames, 1 damaged frame left out" in done.stdout
    np.testing.assert_array_equal(kn.open(tmp_path / "saved.trr").steps, [*range(9), *range(10, 39)])


def test_netcdf(run_kinema: Any, tmp_path: Path) -> None:
    path, positions = tmp_path / "md.nc", random_walk(20, 30).astype(np.float32)
    write_netcdf(path, positions, times=np.arange(20.0))
    shown = run_kinema("info", path).stdout
    assert "format   NetCDF, CDF-2, AMBER trajectory, single precision\n" in shown
    assert "title    Kinema's tests\n" in shown
    assert kn.check(path).ok
    whole = path.read_bytes()
    # fewer frames by the header: the later ones were being written
    path.write_bytes(whole[:4] + (15).to_bytes(4, "big") + whole[8:])
    with pytest.warns(kn.Note, match="header says 15 frames, file holds 20: later frames are not committed"):
        report = kn.check(path)
    assert (report.ok, report.n_frames) == (True, 15)
    path.write_bytes(whole[:-8])
    with collected():
        report = kn.check(path)
    assert [(problem.kind, problem.frame) for problem in report.problems] == [("truncated", 19)]
    assert "expected 20 frames, found 19" in str(report)
    done = run_kinema("check", path, "--salvage", "-o", tmp_path / "saved.nc")
    assert (done.returncode, "19 frames" in done.stdout) == (1, True)
    saved = kn.open(tmp_path / "saved.nc")
    assert (saved.n_frames, saved.notes) == (19, ())
    np.testing.assert_array_equal(saved.read(), positions[:19])

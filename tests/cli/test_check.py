"""`kinema check` finds what was broken on purpose, and nothing in a good file."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.notes import collected
from kinema.testing.h5md_files import CASES

XTC_STEP = 8  # byte of a frame's step, before its time


def xtc_frames(data: bytes) -> list[int]:
    """Offsets of the frames of an XTC file; the packed length stands at byte 88 of a frame."""
    starts, offset = [], 0
    while offset < len(data):
        starts.append(offset)
        offset += 92 + (struct.unpack_from(">i", data, offset + 88)[0] + 3) // 4 * 4
    return starts


def with_times(path: Path, times: list[float]) -> None:
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
    with_times(files.xtc, times)
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
    with_times(later, [2000 + 100 * i for i in range(10)])
    report = kn.check([files.xtc, later], coordinates=False)
    assert "gap" in kinds(report), str(report)


def test_files_out_of_order(files: Any, tmp_path: Path) -> None:
    later = tmp_path / "later.xtc"
    later.write_bytes(files.xtc.read_bytes())
    with_times(later, [2000 + 100 * i for i in range(10)])
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

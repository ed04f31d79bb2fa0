"""What a run tells of the files besides its results: gaps, replaced frames, dropped frames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FRAME_BYTES = 3 * (3341 * 4 + 8)
FIRST_STEP = slice(12, 16)


@pytest.fixture
def later(files: Any, tmp_path: Path) -> Any:
    """Makes a copy of the DCD whose first step is the one given; the original has 1000, 2000, ..., 98000."""

    def make(first_step: int) -> Path:
        data = bytearray(files.dcd.read_bytes())
        data[FIRST_STEP] = first_step.to_bytes(4, "little")
        path = tmp_path / f"from_{first_step}.dcd"
        path.write_bytes(data)
        return path

    return make


def notes(run_kinema: Any, files: Any, *trajectory: Any) -> list[str]:
    words = ("-n", files.ndx, "--group", "C-alpha", "--on-truncated", "drop")
    told = run_kinema("rmsd", "-f", *trajectory, *words)
    assert told.returncode == 0, told.stderr
    lines = [line.removeprefix("note: ") for line in told.stderr.splitlines() if line.startswith("note: ")]
    summary = json.loads(run_kinema("rmsd", "-f", *trajectory, *words, "--json").stdout)
    assert summary["notes"] == lines
    assert "note" not in run_kinema("rmsd", "-f", *trajectory, *words, "--quiet").stderr
    return lines


def test_a_whole_file_needs_no_note(run_kinema: Any, files: Any) -> None:
    assert notes(run_kinema, files, files.dcd) == []


def test_a_gap_and_replaced_frames(run_kinema: Any, files: Any, later: Any) -> None:
    assert notes(run_kinema, files, files.dcd, later(120_000)) == ["gap before frame 98: nothing between 98 and 120 ps"]
    assert notes(run_kinema, files, files.dcd, later(90_000)) == [
        f"{files.dcd}: 9 of 98 frames are those of a neighbouring part"
    ]


def test_a_dropped_frame(run_kinema: Any, files: Any) -> None:
    data = files.dcd.read_bytes()
    files.dcd.write_bytes(data[: -FRAME_BYTES // 2])
    (note,) = notes(run_kinema, files, files.dcd)
    assert "incomplete" in note
    assert "left out" in note

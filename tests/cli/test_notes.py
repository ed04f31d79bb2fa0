"""Notes on the command line: gaps, frames left out, headers; once on stderr, in --json, none with --quiet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kinema.cli import main

FRAME_BYTES = 3 * (3341 * 4 + 8)
FIRST_STEP = slice(12, 16)


def truncate(files: Any) -> None:
    """The DCD with half of its last frame missing."""
    files.say_frames(97)
    files.dcd.write_bytes(files.dcd.read_bytes()[: -FRAME_BYTES // 2])


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
    words = ("-n", files.ndx, "--group", "C-alpha")
    done = run_kinema("rmsd", "-f", *trajectory, *words)
    assert done.returncode == 0, done.stderr
    lines = [line.removeprefix("note: ") for line in done.stderr.splitlines() if line.startswith("note: ")]
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
    truncate(files)
    (note,) = notes(run_kinema, files, files.dcd)
    assert "incomplete" in note
    assert "left out" in note


def test_a_header_that_the_file_contradicts(run_kinema: Any, files: Any) -> None:
    files.say_frames(500)
    assert notes(run_kinema, files, files.dcd) == [f"{files.dcd}: the header says 500 frames, the file holds 98"]


def test_notes_are_in_files_of_results(run_kinema: Any, files: Any, later: Any, tmp_path: Path) -> None:
    words = ("rmsd", "-f", files.dcd, later(120_000), "-n", files.ndx, "--group", "C-alpha")
    for name in ("rmsd.csv", "rmsd.xvg"):
        assert run_kinema(*words, "-o", tmp_path / name).returncode == 0
        lines = (tmp_path / name).read_text().splitlines()
        assert "# note: gap before frame 98: nothing between 98 and 120 ps" in lines


@pytest.mark.parametrize("command", ["info", "index", "split", "join", "check"])
def test_commands_that_open_a_file(run_kinema: Any, files: Any, tmp_path: Path, command: str) -> None:
    """Each has the note once on stderr, or in --json if the command reports the note itself."""
    truncate(files)
    words: dict[str, tuple[Any, ...]] = {
        "info": (),
        "index": (),
        "split": ("--parts", "2", "-o", tmp_path / "parts", "--force"),
        "join": ("-o", tmp_path / "joined.dcd", "--force"),
        "check": (),
    }
    done = run_kinema(command, files.dcd, *words[command])
    found = json.loads(run_kinema(command, files.dcd, *words[command], "--json").stdout)
    quiet = run_kinema(command, files.dcd, *words[command], "--quiet")
    assert "note" not in quiet.stdout + quiet.stderr
    if command == "check":
        assert done.returncode == 1
        assert done.stderr.count("note: ") == 0
        assert found["notes"] == []
        assert any("incomplete" in problem["message"] for problem in found["problems"])
        return
    lines = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert done.returncode == 0
    assert [line for line in lines if "left out" in line] == lines[:1]
    assert "DCD frame 97, byte " in lines[0]
    (one,) = found if command == "index" else [found]
    assert [f"note: {note}" for note in one["notes"]] == lines


@pytest.mark.filterwarnings("default:Element information is missing")
def test_what_libraries_warn_of_is_a_line(tmp_path: Path, adk_dcd: Any, capsys: Any) -> None:
    from MDAnalysisTests.datafiles import PDB_small

    words = ["rmsd", "-s", adk_dcd.topology, "-f", adk_dcd.trajectory, "--reference", str(PDB_small), "--stop", "2"]
    for more in ([], ["--quiet"]):
        with pytest.raises(SystemExit, match="0"):
            main([*words, *more])
        found = capsys.readouterr().err.splitlines()
        assert all(line.startswith(("note: ", "warning: ")) for line in found)
        assert [line[:30] for line in found if line.startswith("warning")] == (
            [] if more else ["warning: Element information is"[:30]]
        )


def test_a_reference_that_is_not_there(adk_dcd: Any, capsys: Any) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["rmsd", "-f", adk_dcd.trajectory, "--reference", "nosuch.pdb"])
    assert "nosuch.pdb: no such file; the reference is a structure" in capsys.readouterr().err

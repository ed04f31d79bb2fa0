"""Notes in Python: warnings of class `kinema.Note` at the caller's line, and `.notes` of what is returned."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.base import notes
from kinema.testing import random_walk, write_dcd

N_ATOMS = 5


def two_parts(folder: Path) -> list[Path]:
    """Steps 1 to 6, and 4 to 9."""
    positions = random_walk(6, N_ATOMS)
    paths = [folder / "a.dcd", folder / "b.dcd"]
    for path, first in zip(paths, (1, 4), strict=True):
        write_dcd(path, positions, first_step=first)
    return paths


def test_a_warning_at_the_line_of_the_caller(tmp_path: Path) -> None:
    parts = two_parts(tmp_path)
    traj = kn.open(parts)
    with pytest.warns(kn.Note) as caught:
        assert traj.n_frames == 9
    assert [str(one.message) for one in caught] == list(traj.notes)
    assert traj.notes == (f"{parts[0]}: 3 of 6 frames are those of a neighbouring part",)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traj.scan()  # nothing new is found, and nothing warned of again
        assert traj[2:5].notes == traj.notes


def test_results_and_their_files_have_the_notes(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kn.Note)
        rgyr = kn.analysis.RadiusOfGyration(kn.open(two_parts(tmp_path)), weights=None).run()
    (note,) = rgyr.notes
    rgyr.save(tmp_path / "rgyr.csv")
    assert f"# note: {note}" in (tmp_path / "rgyr.csv").read_text().splitlines()
    assert json.loads(rgyr.provenance().json())["notes"] == [note]


def test_what_edits_files_returns_its_notes(tmp_path: Path) -> None:
    with pytest.warns(kn.Note, match="neighbouring part") as caught:
        joined = kn.join(two_parts(tmp_path), tmp_path / "joined.dcd")
    assert joined.notes == tuple(str(one.message) for one in caught)
    assert caught[0].filename == __file__
    assert len(kn.open(tmp_path / "joined.dcd")) == 9


def test_what_check_reports_as_a_problem_is_no_note(tmp_path: Path) -> None:
    (path, _) = two_parts(tmp_path)
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.warns(kn.Note) as warned:
        report = kn.check(path)
    assert {problem.kind for problem in report.problems} == {"truncated"}
    assert [str(one.message) for one in warned] == list(report.notes)
    assert report.notes == (f"{path}: the header says 6 frames, the file holds 5",)


def test_new_frames_bring_new_notes(tmp_path: Path) -> None:
    path, _ = two_parts(tmp_path)
    whole = path.read_bytes()
    one = (len(whole) - 276) // 6
    path.write_bytes(whole[: 276 + 3 * one])
    traj = kn.open(path, stored=False, on_truncated="drop")
    with pytest.warns(kn.Note):
        before = traj.notes
    path.write_bytes(whole[: 276 + 4 * one + one // 2])
    with pytest.warns(kn.Note, match="left out"):
        assert traj.refresh() == 4
    assert traj.notes != before


def test_a_block_collects_each_note_once() -> None:
    shown: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with notes.collected(shown.append) as found:
            notes.emit(["one", "two"])
            with notes.collected() as inner:
                notes.emit(["three"])
            notes.emit(["one"])
    assert found == shown == ["one", "two"]
    assert inner == ["three"]
    with pytest.warns(kn.Note, match="four"):
        notes.emit(["four"])


def test_notes_can_be_silenced_and_made_errors(tmp_path: Path) -> None:
    parts = two_parts(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", kn.Note)
        with pytest.raises(kn.Note, match="neighbouring part"):
            _ = kn.open(parts).n_frames
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore", kn.Note)
        assert np.all(kn.open(parts).steps == np.arange(1, 10))
    assert caught == []


def test_what_is_true_of_a_file_is_a_warning_once(tmp_path: Path) -> None:
    (path, _) = two_parts(tmp_path)
    data = bytearray(path.read_bytes())
    data[8:12] = (5).to_bytes(4, "little")
    path.write_bytes(data)
    said = f"{path}: the header says 5 frames, the file holds 6"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            assert kn.RMSD(kn.open(path)).run().notes == (said,)
        kn.convert(path, tmp_path / "c.dcd", verify=False)
        # a note that is not about a file is given each time
        notes.emit(["again"])
        notes.emit(["again"])
    texts = [str(one.message) for one in caught]
    assert texts.count(said) == 1 and texts.count("again") == 2
    with notes.collected() as found:
        _ = kn.open(path).n_frames
    assert found == [said]


def test_a_note_points_at_the_line_of_the_user(small: kn.Trajectory) -> None:
    """Also one that comes through functions of the standard library and of MDAnalysis."""

    with pytest.warns(kn.Note, match="nothing was superposed") as caught:
        kn.RMSF(small).run()
    assert {one.filename for one in caught} == {__file__}
    library = {"__name__": "MDAnalysis.core", "notes": notes}
    exec("def call():\n    notes.emit(['of MDAnalysis'])", library)
    with pytest.warns(kn.Note, match="of MDAnalysis") as caught:
        library["call"]()  # type: ignore[operator]
    assert caught[0].filename == __file__


def test_notes_on_several_files_are_one(tmp_path: Path) -> None:
    texts = ["a0: times are rounded by 0.1 ps", "a1: times are rounded by 2e-7 ps", "a1: no cell", "b: else"]
    assert notes.merge_file_notes(texts, ["a0", "a1"]) == (
        "a0: times are rounded by 0.1 ps (likewise 1 more file)", "a1: no cell", "b: else",
    )  # fmt: skip
    (path, _) = two_parts(tmp_path)
    with pytest.warns(kn.Note) as caught:
        done = kn.convert(path, tmp_path / "frame.xtc", split=2)
    assert len(done.paths) == 3 and len(done.notes) == len({note.partition(": ")[2] for note in done.notes})
    assert [str(one.message) for one in caught] == list(done.notes)
    assert all(note.endswith("(likewise 2 more files)") for note in done.notes)
    assert done.losses == done.notes

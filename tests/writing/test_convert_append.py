"""`convert(append=True)`: frames are added to a file of any format that its writer adds to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.cli import main
from kinema.files.conversion import frame_by_frame as texts
from kinema.testing import random_walk

N_FRAMES, N_ATOMS = 12, 30
CELLS = np.broadcast_to(np.diag([40.0, 50.0, 60.0]), (N_FRAMES, 3, 3))
STEPS = 10 * np.arange(N_FRAMES)
# of formats that hold several frames; XTC rounds
SUFFIXES = (".xtc", ".trr", ".dcd", ".nc", ".h5md", ".HISTORY")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.trr"
    with kn.Writer(path, N_ATOMS) as out:
        out.write(
            positions=random_walk(N_FRAMES, N_ATOMS), cell=CELLS, step=np.arange(N_FRAMES) * 10, time=np.arange(12.0)
        )
    return path


def written_at_once_and_in_parts(source: Path, out: Path, at: int, **options: Any) -> tuple[Path, Path]:
    whole, parts = out.with_stem("whole"), out.with_stem("parts")
    kn.convert(source, whole, **options)
    for window in ({"stop": at}, {"start": at}):
        kn.convert(source, parts, append=True, **window, **options)
    return whole, parts


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("at", [1, 7])
def test_what_is_added_is_what_one_call_writes(source: Path, tmp_path: Path, suffix: str, at: int) -> None:
    with collected():
        whole, parts = written_at_once_and_in_parts(source, tmp_path / f"a{suffix}", at)
        found, expected = (kn.open(path).core for path in (parts, whole))
        a, b = (one.read(kn.open(whole).choose(), fields=("positions",)) for one in (found, expected))
    assert kn.open(parts).n_frames == N_FRAMES
    for name in ("positions", "cells", "times", "steps"):
        np.testing.assert_allclose(a[name], b[name], rtol=2e-6, err_msg=name)


def test_frames_that_were_there_keep_their_bytes(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.trr"
    kn.convert(source, out, stop=4, append=True)
    before = out.read_bytes()
    kn.convert(source, out, start=4, append=True)
    assert out.read_bytes()[: len(before)] == before and kn.open(out).n_frames == N_FRAMES


def test_atoms_are_chosen_and_times_that_go_back_are_noted(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.xtc"
    kn.convert(source, out, select=[3, 1], append=True)
    with collected() as notes:
        done = kn.convert(source, out, select=[3, 1], start=2, append=True)
    assert done.n_frames == N_FRAMES - 2
    assert any("ends at 11 ps, and the first frame that is added is of 2 ps" in note for note in notes), notes
    read = kn.open(out).read()
    np.testing.assert_array_equal(read[N_FRAMES:], read[2:N_FRAMES])


@pytest.mark.parametrize(
    ("suffix", "options", "said"),
    [
        (".xtc", {"select": [0, 1]}, "30"),
        (".pdb", {}, "PDB files are not appended to"),
        (".xtc", {"split": 2}, "split= is given"),
        (".xtc", {"overwrite": True}, "overwrite= is given"),
        (".xtc", {"verify": "all"}, "reads nothing back"),
        (".xtc", {"runner": "processes"}, "leave out runner="),
        (".h5md", {}, "ends at step 110, and the first frame to be added is of step 0"),
    ],
)
def test_what_is_refused_leaves_the_file(
    source: Path, tmp_path: Path, suffix: str, options: dict[str, Any], said: str
) -> None:
    out = tmp_path / f"a{suffix}"
    if suffix == ".pdb":
        out.write_text("kept")
    else:
        kn.convert(source, out)
    before = out.read_bytes()
    with pytest.raises(kn.ArgumentError, match=said):
        kn.convert(source, out, append=True, **options)
    assert out.read_bytes() == before


def test_fields_that_the_file_holds_are_needed(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.trr"
    with kn.Writer(out, N_ATOMS) as writer:
        writer.write(positions=random_walk(1, N_ATOMS), velocities=random_walk(1, N_ATOMS), cell=CELLS[:1])
    with pytest.raises(kn.ArgumentError, match="hold positions, velocities; those to be added have positions"):
        kn.convert(source, out, append=True)
    assert kn.open(out).n_frames == 1


def test_an_error_leaves_what_was_there_and_counts_what_was_added(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, taken = tmp_path / "a.dcd", []
    kn.convert(source, out, stop=1, append=True)
    before, write = out.read_bytes(), texts._write

    def fails_at_the_fourth(*given: Any) -> None:
        taken.append(given)
        if len(taken) == 4:
            raise RuntimeError("planted")
        write(*given)

    monkeypatch.setattr(texts, "_write", fails_at_the_fourth)
    with pytest.raises(RuntimeError, match="planted") as raised:
        kn.convert(source, out, start=1, append=True)
    assert f"{out}: 3 frames of 11 added" in raised.value.__notes__
    assert kn.open(out).n_frames == 4
    # the head of a DCD file counts its frames
    assert out.read_bytes()[300 : len(before)] == before[300:]


def test_the_command(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.dcd"
    for words in (["--stop", "5"], ["--start", "5"]):
        with pytest.raises(SystemExit) as end:
            main(["convert", "-f", str(source), "-o", str(out), "--append", *words])
        assert end.value.code == 0, capsys.readouterr().err
    assert "12 frames" not in capsys.readouterr().out and kn.open(out).n_frames == N_FRAMES
    with pytest.raises(SystemExit) as end:
        main(["convert", "-f", str(source), "-o", str(out), "--append", "--force"])
    assert end.value.code == 2 and "--append" in capsys.readouterr().err

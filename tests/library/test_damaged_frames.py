"""Damage in the middle of a file: an error, or the damaged frames are left out; `salvage` copies the others."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.cli.in_process import call_kinema
from kinema.testing import random_walk, write_dcd, write_trr, write_xtc

pytestmark = pytest.mark.usefixtures("nobody_changes_files")

N_FRAMES, N_ATOMS = 40, 30
DAMAGED = (7, 9, 31)


def damage(path: Path, frames: tuple[int, ...] = DAMAGED) -> bytes:
    """Makes frames undecodable, by their headers in a file named "header"; returns the bytes of the others."""
    traj = kn.open(path, stored=False)
    content = bytearray(path.read_bytes())
    whole = b""
    for frame in range(traj.n_frames):
        _, _, offset, length = traj.core.locate(frame)
        if frame not in frames:
            whole += content[offset : offset + length]
        elif "header" in path.name:
            struct.pack_into(">i", content, offset, 1)
        elif path.suffix == ".dcd":
            struct.pack_into("<i", content, offset, 3)
        else:
            # the index of the smallest integers, beyond the table
            struct.pack_into(">i", content, offset + 84, 1000)
    path.write_bytes(content)
    return whole


# a frame of NetCDF states nothing twice: an impossible cell does not count as damage
WRITERS: dict[str, Any] = {".dcd": write_dcd, ".xtc": write_xtc, ".trr": write_trr}


@pytest.fixture(params=["a.dcd", "a.xtc", "header.xtc", "header.trr"])
def path(request: Any, tmp_path: Path) -> Path:
    name: Path = tmp_path / request.param
    WRITERS[name.suffix](name, random_walk(N_FRAMES, N_ATOMS))
    return name


@pytest.mark.parametrize("runner", ["serial", "threads"])
def test_damaged_frames_leave_the_selection(path: Path, runner: str) -> None:
    expected = kn.analysis.RMSD(kn.open(path)).run(runner="serial").results
    damage(path)
    analysis = kn.analysis.RMSD(kn.open(path))
    with pytest.raises(kn.CorruptFileError, match=r"frame (7|9|31)"):
        analysis.run(runner=runner)
    with pytest.warns(kn.Note, match=r"3 of 40 frames are damaged.*, numbers 7, 9, 31; the first: .*frame 7"):
        analysis.run(runner=runner, skip_damaged=True)
    left = [frame for frame in range(N_FRAMES) if frame not in DAMAGED]
    assert analysis.results.frames.tolist() == left
    np.testing.assert_array_equal(analysis.results.values, expected.values[left])
    assert any("left out" in note for note in analysis.notes)
    assert any("left out" in note for note in analysis.provenance().notes)
    # those that are not asked for are not decoded
    analysis.run(0, 7, runner=runner, skip_damaged=True)
    assert analysis.results.frames.tolist() == list(range(7))
    assert not any("left out" in note for note in analysis.notes)
    with pytest.raises(kn.ArgumentError, match=r"all 2 frames are damaged; the first: .*frame 7"):
        analysis.run(frames=[7, 9], runner=runner, skip_damaged=True)


def header_bytes(path: Path) -> int:
    """Bytes before the first frame."""
    return int(kn.open(path).core.locate(0)[2]) if path.suffix == ".dcd" else 0


def test_salvage_copies_frames_byte_for_byte(path: Path, tmp_path: Path) -> None:
    whole = damage(path)
    first = header_bytes(path)
    path.write_bytes(path.read_bytes()[:-10])
    out = tmp_path / f"saved{path.suffix}"
    with pytest.warns(kn.Note, match="damaged and left out"):
        done = kn.salvage(path, out)
    assert (done.path, done.n_frames, done.damaged) == (str(out), N_FRAMES - 4, DAMAGED)
    assert any("left out" in note for note in done.notes)
    assert any("too early" in note for note in done.notes) == (path.suffix == ".dcd")
    saved = out.read_bytes()[first:]
    assert saved == whole[: len(saved)]
    again = kn.open(out)
    assert (again.n_frames, again.notes) == (N_FRAMES - 4, ())
    with pytest.raises(kn.ArgumentError, match="saved"):
        kn.salvage(path, out)


def test_the_command_line(path: Path, tmp_path: Path) -> None:
    damage(path)
    assert call_kinema("rmsd", "-f", path).returncode == 2
    done = call_kinema("rmsd", "-f", path, "--skip-damaged", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["frames_used"] == N_FRAMES - 3
    assert "note: 3 of 40 frames are damaged" in done.stderr
    out = tmp_path / f"saved{path.suffix}"
    done = call_kinema("check", path, "--salvage", "-o", out)
    assert done.returncode == 1, done.stderr
    assert "37 frames, 3 damaged frames left out" in done.stdout
    assert kn.open(out).n_frames == 37
    assert call_kinema("check", path, "--salvage").returncode == 2
    assert call_kinema("check", out).returncode in (0, 1)


def test_salvage_of_another_format(tmp_path: Path) -> None:
    with kn.Writer(tmp_path / "a.h5md", 5) as writer:
        writer.write(random_walk(4, 5)[0], time=0.0, step=0)
    with pytest.raises(
        kn.UnsupportedFormatError,
        match="DL_POLY HISTORY, DCD, NetCDF, TRR, XTC files can be copied",
    ):
        kn.salvage(tmp_path / "a.h5md", tmp_path / "b.xtc")


@pytest.mark.parametrize("suffix", ["dcd", "xtc"])
def test_convert_leaves_damaged_frames_out(path: Path, suffix: str, tmp_path: Path) -> None:
    left = [frame for frame in range(N_FRAMES) if frame not in DAMAGED]
    with collected():
        expected = kn.convert(path, tmp_path / f"expected.{suffix}", frames=left)
        damage(path)
        with pytest.raises(kn.CorruptFileError, match=r"frame (7|9|31)"):
            kn.convert(path, tmp_path / f"out.{suffix}")
    assert not (tmp_path / f"out.{suffix}").exists()
    with pytest.warns(kn.Note, match=r"3 of 40 frames are damaged.*, numbers 7, 9, 31; the first: .*frame 7"):
        done = kn.convert(path, tmp_path / f"out.{suffix}", skip_damaged=True)
    assert (done.n_frames, done.compared) == (len(left), 16)
    assert any("3 of 40 frames are damaged" in note for note in done.notes)
    assert Path(done.path).read_bytes() == Path(expected.path).read_bytes()


def test_the_command_leaves_damaged_frames_out(tmp_path: Path) -> None:
    path = tmp_path / "a.xtc"
    write_xtc(path, random_walk(N_FRAMES, N_ATOMS))
    whole = damage(path)
    done = call_kinema("convert", path, "-o", tmp_path / "b.xtc", "--skip-damaged")
    assert done.returncode == 0, done.stderr
    assert "37 frames" in done.stdout and "numbers 7, 9, 31" in done.stderr
    assert (tmp_path / "b.xtc").read_bytes() == whole

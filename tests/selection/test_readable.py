"""Which frames can be decoded: found once for a file that stays as it is, and found again for one that does not."""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema import _core
from kinema.model.selection import readable_frames as readable
from kinema.model.selection.decoded_frames import DamagedBytes, Verdict
from kinema.model.selection.frames import FrameSelection
from kinema.model.selection.readable_frames import DecodedFrames, decode_frames
from kinema.runners import choose_runner
from kinema.testing import random_walk, write_dcd, write_xtc

N_FRAMES, N_ATOMS = 200, 400


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The frames that were decoded."""
    numbers: list[int] = []
    decode = readable._decode

    def recorded(core: _core.Trajectory, frames: FrameSelection, *more: Any) -> None:
        numbers.extend(frames)
        decode(core, frames, *more)

    monkeypatch.setattr(readable, "_decode", recorded)
    return numbers


@pytest.fixture(params=["dcd", "xtc"])
def path(request: Any, tmp_path: Path) -> Path:
    name = tmp_path / f"a.{request.param}"
    {"dcd": write_dcd, "xtc": write_xtc}[request.param](name, random_walk(N_FRAMES, N_ATOMS))
    damage(name, 7)
    return name


def damage(path: Path, frame: int) -> None:
    """Makes a frame undecodable; size, time of change, both ends and heads of frames stay."""
    before = path.stat()
    _, _, offset, length = kn.open(path, stored=False).core.locate(frame)
    with path.open("r+b") as file:
        # the marker after the first record; the index of the smallest integers
        place = (offset + 84, ">i") if path.suffix == ".xtc" else (offset + 56 + 4 + 4 * N_ATOMS, "<i")
        if path.suffix == ".dcd":
            place = (offset + _first_marker(path, offset), "<i")
        file.seek(place[0])
        file.write(struct.pack(place[1], 1000))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size and length > 100


def _first_marker(path: Path, offset: int) -> int:
    """Where the record of the x coordinates ends in a frame of DCD."""
    with path.open("rb") as file:
        file.seek(offset)
        (first,) = struct.unpack("<i", file.read(4))
    # a cell, if there is one, comes before the coordinates
    return 4 + first if first == 4 * N_ATOMS else 4 + first + 4 + 4 + 4 * N_ATOMS


def found(path: Path, frames: range | None = None, **options: Any) -> DecodedFrames:
    traj = kn.open(path, **options)
    traj.scan()
    return decode_frames(traj.core, FrameSelection(range(traj.n_frames) if frames is None else frames))


def damaged(path: Path, frames: range | None = None, **options: Any) -> list[int]:
    return [one.number for one in found(path, frames, **options).damaged]


def test_a_file_that_stays_is_decoded_once(path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    once = found(path)
    assert [one.number for one in once.damaged] == [7]
    assert decoded == [*range(N_FRAMES)]
    decoded.clear()
    again = found(path)
    assert decoded == []
    for one, other in zip(once.damaged, again.damaged, strict=True):
        assert (str(one), repr(one.error), one.error.frame, one.error.offset) == (
            str(other),
            repr(other.error),
            other.error.frame,
            other.error.offset,
        )
    assert again.notes() == once.notes()
    # and by another name
    monkeypatch.chdir(path.parent)
    (other,) = found(Path(path.name)).damaged
    assert (str(other).startswith(f"{path.name}: "), decoded) == (True, [])


def test_a_file_whose_middle_was_rewritten_is_decoded_again(path: Path, decoded: list[int]) -> None:
    assert damaged(path) == [7]
    fingerprint = kn.open(path).parts[0].fingerprint
    damage(path, 101)
    assert kn.open(path).parts[0].fingerprint == fingerprint
    decoded.clear()
    assert damaged(path) == [7, 101]
    assert len(decoded) == N_FRAMES


def test_a_file_that_is_rewritten_meanwhile_has_no_verdict(
    path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = readable._decode

    def interrupted(*arguments: Any) -> None:
        decode(*arguments)
        damage(path, 101)

    with monkeypatch.context() as patched:
        patched.setattr(readable, "_decode", interrupted)
        assert damaged(path) == [7]
    assert damaged(path) == [7, 101]


def test_frames_that_are_not_known_are_decoded(path: Path, decoded: list[int]) -> None:
    assert damaged(path, range(5, 20)) == [7]
    assert damaged(path, range(8, 30)) == []
    assert decoded == [*range(5, 20), *range(20, 30)]
    decoded.clear()
    assert damaged(path, range(0, 40, 2)) == []
    assert decoded == [0, 2, 4, *range(30, 40, 2)]
    # frames with gaps are not kept
    decoded.clear()
    assert damaged(path, range(29, 4, -1)) == [7]
    assert damaged(path, range(30, 32)) == []
    assert decoded == [30, 31]


def test_the_option_of_stored_indices_holds(path: Path, decoded: list[int]) -> None:
    folder = Path(os.environ["XDG_CACHE_HOME"]) / "kinema" / "verdicts"
    assert damaged(path, stored=False) == [7]
    assert not folder.exists()
    assert damaged(path) == [7]
    decoded.clear()
    assert damaged(path, stored=False) == [7]
    assert damaged(path, index="rebuild") == [7]
    assert len(decoded) == 2 * N_FRAMES
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(list(folder.iterdir())) == 1


def test_what_is_stored_is_never_trusted(path: Path, decoded: list[int]) -> None:
    damaged(path)
    (stored,) = (Path(os.environ["XDG_CACHE_HOME"]) / "kinema" / "verdicts").iterdir()
    content = stored.read_bytes()
    wrong = [b"", b"KINEMARC", content[:-1], content.replace(b'"start": 0', b'"start": 1')]
    assert wrong[-1] != content
    for text in wrong:
        stored.write_bytes(text)
        decoded.clear()
        assert damaged(path) == [7]
        assert len(decoded) == N_FRAMES
    stored.unlink()
    os.mkfifo(stored)  # nobody waits for its other end
    assert damaged(path) == [7]
    assert damaged(path) == [7] and stored.is_file()


def test_a_folder_that_cannot_be_written_is_noted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    with pytest.warns(kn.Note, match="is not kept for the next run"):
        assert damaged(path) == [7]


def test_check_and_salvage_and_runs_share_it(path: Path, tmp_path: Path, decoded: list[int]) -> None:
    assert [problem.frame for problem in kn.check(path).problems if problem.kind == "corrupt"] == [7]
    decoded.clear()
    with pytest.warns(kn.Note, match="numbers 7"):
        kn.analysis.RMSD(kn.open(path)).run(skip_damaged=True)
    with pytest.warns(kn.Note, match="numbers 7"):
        kn.salvage(path, tmp_path / f"b{path.suffix}")
    assert decoded == []
    # a check is one: it decodes
    damage(path, 101)
    damage(path, 150)
    assert [problem.frame for problem in kn.check(path).problems if problem.kind == "corrupt"] == [7, 101, 150]


def test_parts_have_verdicts_of_their_own(path: Path, decoded: list[int]) -> None:
    other = path.with_name(f"b{path.suffix}")
    other.write_bytes(path.read_bytes())
    traj = kn.open([path, other], overlap="all")
    traj.scan()

    def numbers() -> list[int]:
        return [one.number for one in decode_frames(traj.core, FrameSelection(range(2 * N_FRAMES))).damaged]

    assert damaged(path) == [7]
    decoded.clear()
    assert numbers() == [7, N_FRAMES + 7]
    assert decoded == [*range(N_FRAMES, 2 * N_FRAMES)]
    assert numbers() == [7, N_FRAMES + 7]
    assert len(decoded) == N_FRAMES


def test_coordinates_that_are_not_finite_are_noted_and_stay(tmp_path: Path) -> None:
    positions = random_walk(12, N_ATOMS)
    positions[5, 3] = np.nan
    positions[8, 0, 1] = np.inf
    path = tmp_path / "a.dcd"
    write_dcd(path, positions)
    found_by_check = [(problem.kind, problem.frame) for problem in kn.check(path, jump=1e9).problems]
    assert found_by_check == [("nan", 5), ("nan", 8)]
    analysis = kn.analysis.RMSD(kn.open(path), select=[20, 21, 22, 23])
    # also the second time, when it is known
    for _ in range(2):
        with pytest.warns(kn.Note, match="2 of 12 frames hold coordinates that are not finite and are not left"):
            analysis.run(skip_damaged=True)
        assert len(analysis.results.frames) == 12
    assert any("not finite" in note for note in analysis.notes)
    analysis.run(6, 8, skip_damaged=True)
    assert not any("not finite" in note for note in analysis.notes)


def test_verdicts_that_meet_are_joined() -> None:
    one = DamagedBytes(3, 0, 9, ": no", False, None)
    other = DamagedBytes(7, 10, 19, ": no", True, 12)
    first, second = Verdict(0, 5, (one,), (2,)), Verdict(5, 9, (other,), (6,))
    assert first.joined(second) == second.joined(first) == Verdict(0, 9, (one, other), (2, 6))
    assert first.joined(Verdict(6, 20)) == Verdict(6, 20)
    assert first.joined(Verdict(8, 9, (other,))) == first


@pytest.mark.parametrize(("runner", "threads"), [("serial", 1), ("threads", 3)])
def test_it_uses_the_workers_of_the_run(path: Path, monkeypatch: pytest.MonkeyPatch, runner: str, threads: int) -> None:
    asked: list[object] = []
    monkeypatch.setattr(readable, "_decode", lambda core, frames, workers, *more: asked.append(workers))
    kn.analysis.RMSD(kn.open(path)).run(
        0, 5, runner=runner, workers=None if runner == "serial" else 3, skip_damaged=True
    )
    assert asked == [threads]


def test_threads_of_runners_whose_workers_are_processes() -> None:
    assert choose_runner("processes", threads_per_worker=2).local_threads(3) == 6

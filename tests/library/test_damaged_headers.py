"""Damaged headers in the middle of an XTC file: the frames on both sides are found, with the bits of the sound file.

The sound file is MDAnalysisTests' adk_oplsaa.xtc.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import kinema as kn

DAMAGED = 4
# bytes in a frame: magic number, number of atoms, length of the coordinates, coordinates
MAGIC, ATOMS, LENGTH, BODY = 0, 4, 88, 92


class Sound(NamedTuple):
    path: str
    offsets: np.ndarray
    lengths: np.ndarray
    positions: np.ndarray
    times: np.ndarray


@pytest.fixture(scope="module")
def sound(adk_xtc) -> Sound:
    traj = kn.open(adk_xtc.trajectory, stored=False)
    return Sound(adk_xtc.trajectory, *traj.core.extents(0), traj.read(), traj.times)


def damaged_copy(sound: Sound, path: Path, *changes: tuple[int, bytes]) -> Path:
    content = bytearray(Path(sound.path).read_bytes())
    for offset, data in changes:
        content[offset : offset + len(data)] = data
    path.write_bytes(content)
    return path


def words(*values: int) -> bytes:
    return struct.pack(f">{len(values)}i", *values)


DAMAGES: dict[str, Callable[[int], tuple[int, bytes]]] = {
    "magic number": lambda length: (MAGIC, words(0)),
    "atoms": lambda length: (ATOMS, words(47680)),
    "length too small": lambda length: (LENGTH, words((length - BODY) // 2)),
    "length too large": lambda length: (LENGTH, words(length + 4000)),
    "length beyond the file": lambda length: (LENGTH, words(1 << 30)),
    "a page of zeros": lambda length: (MAGIC, bytes(4096)),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_readable_frames_on_both_sides_stay(sound: Sound, tmp_path: Path, kind: str) -> None:
    at, data = DAMAGES[kind](int(sound.lengths[DAMAGED]))
    first = int(sound.offsets[DAMAGED])
    last = first + int(sound.lengths[DAMAGED]) - 1
    path = damaged_copy(sound, tmp_path / "a.xtc", (first + at, data))
    with pytest.raises(kn.CorruptFileError, match=rf"{path}: XTC frame [45], byte \d+"):
        kn.open(path).scan()
    traj = kn.open(path)
    with pytest.warns(kn.Note, match=rf"frame 4: no frame is found in bytes {first} to {last}, which count as one"):
        traj.scan(skip_damaged=True)
    left = [frame for frame in range(len(sound.offsets)) if frame != DAMAGED]
    assert traj.n_frames == len(sound.offsets)
    assert traj.parts[0].damaged == [(DAMAGED, first, last)]
    assert not list(tmp_path.glob(".*kinema-index")), "no index of a damaged file is stored"
    np.testing.assert_array_equal(traj.read(frames=left), sound.positions[left])
    np.testing.assert_array_equal(traj.times[left], sound.times[left])
    assert np.isnan(traj.times[DAMAGED])
    with pytest.raises(kn.CorruptFileError, match=r"XTC frame 4, byte \d+"):
        traj[DAMAGED]


def test_a_run_leaves_it_out(sound: Sound, tmp_path: Path) -> None:
    first = int(sound.offsets[DAMAGED])
    path = damaged_copy(sound, tmp_path / "a.xtc", (first, words(0)))
    expected = kn.analysis.RMSD(kn.open(sound.path, stored=False), select=range(3000)).run().results.values
    analysis = kn.analysis.RMSD(kn.open(path), select=range(3000))
    with pytest.raises(kn.CorruptFileError, match=rf"XTC frame 4, byte {first}: wrong magic number"):
        analysis.run()
    with pytest.warns(kn.Note, match="1 of 10 frames are damaged and left out, numbers 4"):
        analysis.run(skip_damaged=True)
    left = [frame for frame in range(10) if frame != DAMAGED]
    assert analysis.results.frames.tolist() == left
    np.testing.assert_array_equal(analysis.results.values, expected[left])
    # the same trajectory, now that the frames after the damage are known
    with pytest.raises(kn.CorruptFileError, match=rf"XTC frame 4, byte {first}"):
        analysis.run()


def test_neighbours_without_headers_count_as_one(sound: Sound, tmp_path: Path) -> None:
    first, second, behind = (int(sound.offsets[frame]) for frame in (DAMAGED, DAMAGED + 1, DAMAGED + 2))
    path = damaged_copy(sound, tmp_path / "a.xtc", (first, words(0)), (second, words(0)))
    traj = kn.open(path)
    with pytest.warns(kn.Note, match=f"bytes {first} to {behind - 1}"):
        traj.scan(skip_damaged=True)
    assert traj.n_frames == 9
    np.testing.assert_array_equal(traj[5:].read(), sound.positions[6:])
    np.testing.assert_array_equal(traj[5:].times, sound.times[6:])


@pytest.mark.parametrize("coordinates", [True, False])
def test_check_lists_it(sound: Sound, tmp_path: Path, coordinates: bool) -> None:
    places = {4: int(sound.offsets[4]), 7: int(sound.offsets[7])}
    path = damaged_copy(sound, tmp_path / "a.xtc", *((at, words(0)) for at in places.values()))
    report = kn.check(path, coordinates=coordinates)
    assert report.n_frames == 10
    assert [(problem.kind, problem.frame) for problem in report.problems] == [("corrupt", 4), ("corrupt", 7)]
    for problem in report.problems:
        last = places[problem.frame] + int(sound.lengths[problem.frame]) - 1
        assert f"bytes {places[problem.frame]} to {last}" in str(problem)


def test_check_of_parts(sound: Sound, tmp_path: Path) -> None:
    path = damaged_copy(sound, tmp_path / "a.xtc", (int(sound.offsets[DAMAGED]), words(0)))
    report = kn.check([path, sound.path], coordinates=False)
    assert [problem.kind for problem in report.problems] == ["corrupt", "order"]


def test_salvage_copies_the_others(sound: Sound, tmp_path: Path) -> None:
    first, length = int(sound.offsets[DAMAGED]), int(sound.lengths[DAMAGED])
    path = damaged_copy(sound, tmp_path / "a.xtc", (first + LENGTH, words(length + 4000)))
    with pytest.warns(kn.Note, match="damaged and left out"):
        done = kn.salvage(path, tmp_path / "b.xtc")
    assert (done.n_frames, done.damaged) == (9, (DAMAGED,))
    content = Path(sound.path).read_bytes()
    assert (tmp_path / "b.xtc").read_bytes() == content[:first] + content[first + length :]


def test_frames_that_are_appended_later(sound: Sound, tmp_path: Path) -> None:
    path = damaged_copy(sound, tmp_path / "a.xtc", (int(sound.offsets[DAMAGED]), words(0)))
    content = path.read_bytes()
    path.write_bytes(content[: int(sound.offsets[8])])
    traj = kn.open(path)
    with pytest.warns(kn.Note, match="no frame is found"):
        traj.scan(skip_damaged=True)
    assert traj.n_frames == 8
    path.write_bytes(content)
    assert traj.refresh() == 10


def test_an_incomplete_last_frame_is_no_damage(sound: Sound, tmp_path: Path) -> None:
    path = tmp_path / "a.xtc"
    path.write_bytes(Path(sound.path).read_bytes()[:-1000])
    traj = kn.open(path)
    with pytest.warns(kn.Note, match="frame 9, byte .* the file ends in the middle of a frame"):
        traj.scan(skip_damaged=True)
    assert (traj.n_frames, traj.parts[0].damaged) == (9, [])

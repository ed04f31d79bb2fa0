"""An index that somebody has changed, or that is of another file, is found out: what is read is right, or an error.

Each forgery keeps the identity of the file, so that its status agrees, and has a checksum of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import kinema as kn
from kinema import _core
from kinema.base.errors import CorruptFileError
from kinema.base.notes import collected
from kinema.testing import random_walk, write_trr, write_xtc
from kinema.testing.dlpoly_files import history_bytes
from kinema.testing.keepers import settle

N_FRAMES, N_ATOMS = 90, 30
FORMATS = ("xtc", "trr", "HISTORY")


def write(path: Path, seed: int = 1) -> None:
    """A trajectory whose frames differ in size, but for TRR."""
    positions = random_walk(N_FRAMES, N_ATOMS, seed=seed)
    match path.suffix or path.name:
        case ".xtc":
            write_xtc(path, positions)
        case ".trr":
            write_trr(path, positions, velocities=positions, every=(1, 5, 1))
        case _:
            # without the blanks at their ends records have any width
            lines = history_bytes(positions).splitlines()
            path.write_bytes(b"".join(line.rstrip() + b"\n" for line in lines))
    settle(path)


@dataclass
class Stored:
    """Contents of a stored index."""

    before: bytes
    n_atoms: int
    identity: bytes
    first: int
    sizes: NDArray[np.uint64]
    steps: NDArray[np.int64]
    times: NDArray[np.float64]

    @classmethod
    def read(cls, path: Path) -> Stored:
        """Reads an index."""
        data = path.read_bytes()[:-8]
        before, rest = data[:28], data[28:]
        n_atoms, identity, rest = int.from_bytes(rest[:4], "little"), rest[4:], b""
        # after the identity, whose length is that of the others: 8 words and the status
        length = len(identity) - 16 - 3 - cls._columns(identity)
        identity, rest = identity[:length], identity[length:]
        first, n = struct.unpack_from("<QQ", rest)
        columns, at = [], 16
        for kinds in (("<u4", "<u8"), ("<i4", "<i8"), ("<f4", "<f8")):
            width = rest[at]
            columns.append(np.frombuffer(rest, kinds[width == 8], n, at + 1))
            at += 1 + width * n
        sizes, steps, times = columns
        exact = sizes.astype(np.uint64) * np.uint64(4 if sizes.itemsize == 4 else 1)
        return cls(before, n_atoms, identity, first, exact, steps.astype(np.int64), times.astype(np.float64))

    @staticmethod
    def _columns(rest: bytes) -> int:
        """Bytes of the columns, which are the last ones: each begins with its width."""
        for widths in ((s, i, t) for s in (4, 8) for i in (4, 8) for t in (4, 8)):
            length, at = N_FRAMES * sum(widths), len(rest)
            marks = []
            for width in reversed(widths):
                at -= width * N_FRAMES + 1
                marks.append(at >= 16 and rest[at] == width)
            if all(marks) and struct.unpack_from("<Q", rest, at - 8)[0] == N_FRAMES:
                return length
        raise AssertionError("no index of these frames")

    def write(self, path: Path) -> None:
        """Stores it with a right checksum."""
        data = self.before + self.n_atoms.to_bytes(4, "little") + self.identity
        data += struct.pack("<QQ", self.first, len(self.sizes))
        for column, kind in ((self.sizes, "<u8"), (self.steps, "<i8"), (self.times, "<f8")):
            data += b"\x08" + column.astype(kind).tobytes()
        path.write_bytes(data)
        path.write_bytes(data + _core.file_checksum(str(path))[1].to_bytes(8, "little"))

    def offset(self, frame: int) -> int:
        """Where a frame begins."""
        return self.first + int(self.sizes[:frame].sum())

    def sent_for(self, trajectory: Path, beside: Path) -> Stored:
        """The same with a digest of its own frames, as whoever sends it with a copy makes it."""
        data, n = trajectory.read_bytes(), len(self.sizes)
        # heads of some frames, then a piece of the first and of the last
        pieces = [(i * n // min(n, 16), 64) for i in range(min(n, 16))] + [(0, 4096), (n - 1, 4096)] * (n > 0)
        sampled = [(self.offset(frame), min(most, int(self.sizes[frame]))) for frame, most in pieces]
        beside.write_bytes(b"".join(data[at : at + length] for at, length in sampled))
        digest = _core.file_checksum(str(beside))[1].to_bytes(8, "little")
        beside.unlink()
        # size, places, digests of both ends, pieces and frames, other files; then without a status
        identity = self.identity[:40] + digest + self.identity[48:56] + bytes(len(self.identity) - 56)
        return replace(self, identity=identity)


def leave_out(stored: Stored, start: int, stop: int) -> Stored:
    """Frames [start, stop) are left out of the columns."""
    kept = np.r_[0:start, stop : len(stored.sizes)]
    return replace(stored, sizes=stored.sizes[kept], steps=stored.steps[kept], times=stored.times[kept])


def merged(stored: Stored, start: int, n: int) -> Stored:
    """`n` frames are taken for one."""
    left = leave_out(stored, start + 1, start + n)
    left.sizes[start] = stored.sizes[start : start + n].sum()
    return left


def first_left_out(stored: Stored) -> Stored:
    """The first frames are left out."""
    return replace(leave_out(stored, 0, 40), first=stored.offset(40))


def last_left_out(stored: Stored) -> Stored:
    """The last frames are left out."""
    return leave_out(stored, 60, N_FRAMES)


def split(stored: Stored) -> Stored:
    """A frame is taken for two."""
    sizes = np.insert(stored.sizes, 20, 64)
    sizes[21] -= np.uint64(64)
    steps, times = np.insert(stored.steps, 20, 0), np.insert(stored.times, 20, 0.0)
    return replace(stored, sizes=sizes, steps=steps, times=times)


def shifted(stored: Stored) -> Stored:
    """All frames begin four bytes late."""
    sizes = stored.sizes.copy()
    sizes[-1] -= np.uint64(4)
    return replace(stored, first=stored.first + 4, sizes=sizes)


def all_in_one(stored: Stored) -> Stored:
    """No two frames are where they were."""
    half = stored.sizes.reshape(-1, 2).sum(axis=1)
    return replace(stored, sizes=half, steps=stored.steps[::2], times=stored.times[::2])


def none(stored: Stored) -> Stored:
    """There is no frame."""
    return leave_out(stored, 0, N_FRAMES)


def later(stored: Stored) -> Stored:
    """All times are later."""
    return replace(stored, times=stored.times + 7)


def reversed_steps(stored: Stored) -> Stored:
    """Steps run backwards."""
    return replace(stored, steps=stored.steps[::-1])


FORGERIES: tuple[Callable[[Stored], Stored], ...] = (
    first_left_out,
    last_left_out,
    lambda stored: merged(stored, 44, 2),
    lambda stored: merged(stored, 10, 50),
    all_in_one,
    split,
    shifted,
    none,
    later,
    reversed_steps,
    lambda stored: replace(stored, n_atoms=stored.n_atoms - 1),
    lambda stored: replace(stored, sizes=stored.sizes + np.uint64(4)),
)

# number of forgeries that could be of a file like this one
_POSSIBLE = 10


@dataclass
class Files:
    """A trajectory with its index."""

    path: Path
    place: Path
    stored: Stored

    def expected(self) -> tuple[NDArray[np.float64], NDArray[np.floating]]:
        """Times and positions, with nothing that was stored."""
        traj = kn.open(self.path, stored=False)
        return traj.times, traj.read()

    def check(self) -> None:
        """All is as without an index."""
        times, positions = self.expected()
        traj = kn.open(self.path)
        assert len(traj) == N_FRAMES
        np.testing.assert_array_equal(traj.times, times)
        np.testing.assert_array_equal(traj.read(), positions)


@pytest.fixture(params=FORMATS)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    path = tmp_path / (request.param if request.param == "HISTORY" else f"a.{request.param}")
    write(path)
    kn.open(path).scan()
    place = path.with_name(f".{path.name}.kinema-index")
    return Files(path, place, Stored.read(place))


def test_an_index_is_read_and_written_as_it_is(files: Files) -> None:
    """The other tests depend on this: an unchanged index is used."""
    files.stored.write(files.place)
    assert kn.open(files.path).parts[0].index == "stored"
    files.check()


@pytest.mark.parametrize("sent", [False, True], ids=["beside", "sent"])
@pytest.mark.parametrize("number", range(len(FORGERIES)))
def test_frames_that_an_index_leaves_out_or_makes_up_are_found(files: Files, number: int, sent: bool) -> None:
    forged = FORGERIES[number](files.stored)
    if sent:
        try:
            forged = forged.sent_for(files.path, files.path.with_name("heads"))
        except AssertionError:
            pytest.skip("it has no frames")
    forged.write(files.place)
    with collected() as notes:
        traj = kn.open(files.path)
        traj.scan()
    if traj.parts[0].index != "extended":
        assert "the stored index was not used" in (traj.parts[0].index_note or "")
        # one that cannot be of the file is replaced as any other that is damaged
        assert number >= _POSSIBLE or any("the stored index was not used" in note for note in notes)
    files.check()
    assert kn.open(files.path).parts[0].index == "stored", "it is rebuilt and stored"


def test_an_index_of_another_file_with_the_identity_of_this_one(files: Files, tmp_path: Path) -> None:
    other = tmp_path / "other" / files.path.name
    other.parent.mkdir()
    write(other, seed=2)
    kn.open(other).scan()
    foreign = Stored.read(other.with_name(files.place.name))
    if np.array_equal(foreign.sizes, files.stored.sizes):
        pytest.skip("frames of one size are in the same places")
    replace(foreign, identity=files.stored.identity).write(files.place)
    files.check()


@pytest.mark.parametrize("frame", [1, 30, 31, 50, 51, 88])
def test_a_wrong_time_is_found_at_the_ends_of_a_window_and_in_frames_that_are_read(files: Files, frame: int) -> None:
    times = files.stored.times.copy()
    # into or out of the window from 31 to 50 ps, unless it is far from it
    times[frame] += {30: 0.9, 31: -0.9, 50: 0.9, 51: -0.9}.get(frame, 0.25)
    replace(files.stored, times=times).write(files.place)
    expected = kn.frames_between(kn.open(files.path, stored=False), begin=31, end=50).numbers()
    positions = files.expected()[1]
    traj = kn.open(files.path)
    try:
        chosen = kn.frames_between(traj, begin=31, end=50)
        found = traj.read(frames=chosen)
    except CorruptFileError as error:
        assert error.frame == frame
        assert "kinema index --rebuild" in str(error)
    else:
        np.testing.assert_array_equal(chosen.numbers(), expected)
        np.testing.assert_array_equal(found, positions[expected])
    if traj.parts[0].index == "stored":
        with pytest.raises(CorruptFileError, match="time of the frame in the index"):
            traj.read()


def test_a_window_that_stored_times_leave_empty_is_an_error(files: Files) -> None:
    times = files.stored.times.copy()
    times[31:51] += 1000.0
    replace(files.stored, times=times).write(files.place)
    traj = kn.open(files.path)
    try:
        assert len(kn.frames_between(traj, begin=31, end=50)) == 20
    except CorruptFileError as error:
        assert "time of the frame in the index" in str(error)


def test_check_finds_the_frames_again(files: Files) -> None:
    times = files.stored.times.copy()
    times[7] = -5.0
    replace(files.stored, times=times).write(files.place)
    report = kn.check(files.path)
    assert (report.n_frames, report.problems) == (N_FRAMES, ())
    files.check()

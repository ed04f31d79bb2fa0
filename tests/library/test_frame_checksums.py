"""Checksums of frames: `index --checksums` stores them, `check` finds every frame whose bytes are others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema import _core
from kinema.base.notes import collected
from kinema.storage import frame_checksums as checksums
from kinema.storage.frame_checksums import checksums_of
from kinema.storage.stored_records import Record, encoded_record
from kinema.testing import (
    KeeperTests,
    history_bytes,
    random_walk,
    rewrite_middle,
    unformatted_bytes,
    write_dcd,
    write_netcdf,
    write_trr,
    write_xtc,
)
from kinema.testing.h5md_files.building import plain_file

N_FRAMES, N_ATOMS = 12, 50
POSITIONS = random_walk(N_FRAMES, N_ATOMS)
WRITERS: dict[str, Callable[[Path, np.ndarray], object]] = {
    "a.xtc": write_xtc,
    "a.trr": write_trr,
    "a.dcd": write_dcd,
    "a.nc": write_netcdf,
    "HISTORY": lambda path, positions: path.write_bytes(history_bytes(positions)),
    "unformatted.HISTORY": lambda path, positions: path.write_bytes(unformatted_bytes([positions])),
}


@pytest.fixture(params=WRITERS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    name = tmp_path / str(request.param)
    WRITERS[name.name](name, POSITIONS)
    return name


@pytest.fixture
def dcd(tmp_path: Path) -> Path:
    write_dcd(tmp_path / "a.dcd", POSITIONS)
    return tmp_path / "a.dcd"


def extents(path: Path) -> tuple[np.ndarray, np.ndarray]:
    traj = kn.open(path, stored=False)
    traj.scan()
    return traj.core.extents(0)


def flip(path: Path, at: int) -> None:
    """Flips a low bit, which no format notices in a coordinate."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def inside(path: Path, frame: int) -> int:
    """A byte of the last coordinate of a frame."""
    offsets, lengths = extents(path)
    return int(offsets[frame] + lengths[frame]) - 12


def differing(report: kn.CheckReport) -> list[int | None]:
    return [problem.frame for problem in report.problems if problem.kind == "checksum"]


def store(path: Path, **options: object) -> checksums.StoredChecksums:
    (stored,) = kn.open(path, **options).store_checksums(workers=2)
    return stored


def test_a_sound_file_has_no_problem_and_each_frame_is_compared(path: Path) -> None:
    stored = store(path)
    assert (stored.n_frames, stored.n_added, stored.notes) == (N_FRAMES, N_FRAMES, ())
    assert Path(stored.path) == path.with_name(f".{path.name}.kinema-checksums")
    report = kn.check(path)
    assert report.ok and not any("checksum" in note for note in report.notes), str(report)


@pytest.mark.parametrize("keeps_times", [True, False])
def test_frames_whose_bytes_differ_are_problems(path: Path, keeps_times: bool) -> None:
    store(path)
    before = path.stat()
    offsets, lengths = extents(path)
    for frame in (3, 7):
        flip(path, inside(path, frame))
    if keeps_times:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    report = kn.check(path)
    assert differing(report) == [3, 7], str(report)
    first, end = int(offsets[3]), int(offsets[3] + lengths[3])
    assert f"frame 3: its bytes, {first} to {end - 1}, are not those" in str(report)
    assert any("written after its checksums" in note for note in report.notes) != keeps_times
    # with nothing stored it is not seen: the flipped bits are coordinates as good as others
    assert not differing(kn.check(path, stored=False))


def test_a_frame_that_no_scan_finds_is_compared_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.xtc"
    write_xtc(path, POSITIONS)
    store(path)
    offsets, _ = extents(path)
    with path.open("r+b") as file:
        file.seek(int(offsets[4]))
        file.write(bytes(4))
    assert differing(kn.check(path)) == [4]


def test_a_file_that_cannot_be_opened_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "a.xtc"
    write_xtc(path, POSITIONS)
    store(path)
    with path.open("r+b") as file:
        file.seek(4)
        file.write(b"\xff" * 4)
    assert differing(kn.check(path, format="XTC")) == [0]


def test_frames_that_are_gone_are_a_problem(path: Path) -> None:
    store(path)
    offsets, _ = extents(path)
    os.truncate(path, int(offsets[9]))
    report = kn.check(path)
    assert differing(report) == [9], str(report)
    assert f"when checksums of {N_FRAMES} frames were stored" in str(report)


def test_another_trajectory_of_this_name_is_not_compared(path: Path) -> None:
    store(path)
    WRITERS[path.name](path, random_walk(N_FRAMES, N_ATOMS, seed=5))
    with collected() as notes:
        report = kn.check(path)
    assert report.ok, str(report)
    assert any("the stored checksums are of another file and were not used" in note for note in notes)
    stored = store(path)
    assert stored.n_added == N_FRAMES and "another file of this name" in stored.notes[0]
    assert not kn.check(path).notes or not any("checksum" in note for note in kn.check(path).notes)


def test_appended_frames_are_unchecked_until_their_checksums_are_added(path: Path) -> None:
    whole = path.read_bytes()
    WRITERS[path.name](path, POSITIONS[:8])
    store(path)
    path.write_bytes(whole)
    report = kn.check(path)
    assert report.ok, str(report)
    assert any(f"frames 8 to {N_FRAMES - 1} were not compared" in note for note in report.notes)
    assert store(path).n_frames == N_FRAMES
    assert not any("checksum" in note for note in kn.check(path).notes)
    flip(path, inside(path, 10))
    assert differing(kn.check(path)) == [10]


def test_those_of_the_frames_before_are_kept_when_a_file_grows(tmp_path: Path) -> None:
    """Bytes that were damaged in between do not get a checksum of their own."""
    path = tmp_path / "a.dcd"
    positions = random_walk(40, 2000)
    write_dcd(path, positions)
    whole = path.read_bytes()
    write_dcd(path, positions[:20])
    # grown, with the head as it was: no sample of the file before differs
    size = path.stat().st_size
    store(path)
    place = rewrite_middle(path)
    with path.open("ab") as file:
        file.write(whole[size:])
    stored = store(path)
    assert (stored.n_frames, stored.n_added) == (40, 20)
    offsets, _ = extents(path)
    assert differing(kn.check(path)) == [int(np.searchsorted(offsets, place, "right")) - 1]


def test_a_copy_is_compared_with_the_checksums_that_were_copied(path: Path, tmp_path: Path) -> None:
    stored = Path(store(path).path)
    (tmp_path / "other").mkdir()
    copy = tmp_path / "other" / path.name
    shutil.copyfile(path, copy)
    shutil.copyfile(stored, copy.with_name(stored.name))
    assert kn.check(copy).ok
    flip(copy, inside(copy, 5))
    assert differing(kn.check(copy)) == [5]


@pytest.mark.parametrize("option", ["auto", "rebuild"])
def test_an_index_that_is_made_again_leaves_them(path: Path, option: str) -> None:
    place = Path(store(path).path)
    before = place.read_bytes()
    kn.open(path, index=option).scan()
    assert place.read_bytes() == before
    assert store(path).n_added == 0 and place.read_bytes() == before


def test_damage_is_not_given_new_checksums_unless_they_are_made_anew(path: Path) -> None:
    store(path)
    flip(path, inside(path, 3))
    with pytest.raises(
        kn.CorruptFileError, match=r"frame 3, byte \d+: .* not those whose checksum was stored"
    ) as raised:
        store(path)
    assert raised.value.frame == 3
    assert store(path, index="rebuild").n_added == N_FRAMES
    # what else is wrong with them stays a problem
    assert not differing(kn.check(path))


def test_another_mode_changes_no_frame(dcd: Path) -> None:
    store(dcd)
    dcd.chmod(0o640)
    assert kn.check(dcd).ok
    assert store(dcd).notes == ()


def test_damaged_checksums_are_not_used(dcd: Path) -> None:
    place = Path(store(dcd).path)
    whole = place.read_bytes()
    for at in (0, 9, 40, len(whole) // 2, len(whole) - 1):
        place.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        report = kn.check(dcd)
        assert report.ok and any("cannot be used" in note for note in report.notes), at
    assert "made again" in store(dcd).notes[0]
    assert place.read_bytes() != whole and not kn.check(dcd).notes


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("offsets", [0, 100, 1 << 63]),
        ("lengths", [100, 100, (1 << 64) - 100]),
        ("lengths", [100, 0, 100]),
        ("lengths", [101, 100, 100]),
        ("lengths", [100, 100, 1 << 40]),
        ("sums", [1, 2]),
    ],
)
def test_places_that_others_have_made_up_are_not_read(dcd: Path, column: str, values: list[int]) -> None:
    columns = {"offsets": [0, 100, 200], "lengths": [100, 100, 100], "sums": [1, 2, 3]} | {column: values}
    arrays = {name: np.array(some, np.uint64) for name, some in columns.items()}
    record = Record({"modified": dcd.stat().st_mtime_ns, "made": 1}, arrays)
    data = encoded_record(record, _core.FileIdentity.of(str(dcd)), checksums._FACTS)
    dcd.with_name(f".{dcd.name}.kinema-checksums").write_bytes(data)
    report = kn.check(dcd)
    assert report.ok and any("cannot be used" in note for note in report.notes)


def test_they_are_in_the_cache_folder_where_nothing_is_stored_beside(
    dcd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(place: str, data: bytes) -> None:
        raise kn.errors.FileAccessError(f"{place}: not here", path=place)

    monkeypatch.setattr(checksums, "write_index", refuse)
    assert store(dcd).path == "the cache folder"
    assert not list(dcd.parent.glob(".*kinema-checksums"))
    flip(dcd, inside(dcd, 2))
    assert differing(kn.check(dcd)) == [2]


def test_quick_compares_a_sample_and_headers_only_none(tmp_path: Path) -> None:
    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(100, 10))
    store(path)
    for frame in (1, 99):
        flip(path, inside(path, frame))
    assert differing(kn.check(path)) == [1, 99]
    assert differing(kn.check(path, quick=True)) == [99]
    report = kn.check(path, coordinates=False)
    assert report.ok and any("were not compared" in note for note in report.notes)


def test_frames_longer_than_a_read_are_hashed_in_pieces(dcd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offsets, lengths = extents(dcd)
    plain = checksums_of(str(dcd), offsets, lengths, title="of")
    seen: list[int] = []
    for piece in (100, int(lengths[0]), 3 * int(lengths[0]) + 1):
        monkeypatch.setattr(checksums, "_PIECE", piece)
        found = checksums_of(
            str(dcd), offsets, lengths, workers=2, title="of", progress=lambda done, total: seen.append(done)
        )
        np.testing.assert_array_equal(found, plain)
        assert seen[-1] == lengths.sum()


def test_formats_without_runs_of_bytes_say_what_to_do(tmp_path: Path) -> None:
    plain_file(tmp_path / "a.h5md")
    with pytest.raises(kn.ArgumentError, match=r"a\.h5md: .*repack --checksum.*Fletcher-32"):
        store(tmp_path / "a.h5md")
    (tmp_path / "a.xyz").write_text("1\n\nC 0 0 0\n")
    with pytest.raises(kn.ArgumentError, match=r"a\.xyz: .*MDAnalysis.*kinema convert"):
        store(tmp_path / "a.xyz")
    write_dcd(tmp_path / "a.dcd", POSITIONS)
    with pytest.raises(kn.ArgumentError, match="stored=False"):
        store(tmp_path / "a.dcd", stored=False)


class TestKept(KeeperTests):
    """Checksums are of the very bytes of a file: what is changed is found, not known."""

    knows_copies = True

    def make(self, folder: Path) -> Path:
        write_dcd(folder / "a.dcd", random_walk(60, 2000))
        return folder / "a.dcd"

    def keep(self, path: Path) -> None:
        store(path)

    def is_known(self, path: Path) -> bool:
        report = kn.check(path)
        return report.ok and not any("checksum" in note for note in report.notes)

    def test_the_middle_was_rewritten_twice(self, kept: Path) -> None:
        """All bytes are compared, so that what is the same again is known."""
        flip(kept, rewrite_middle(kept))
        assert self.is_known(kept)

    def test_another_mode_is_looked_into_and_what_is_kept_anew_holds(self, kept: Path) -> None:
        kept.chmod(0o640)
        assert self.is_known(kept)

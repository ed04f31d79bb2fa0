"""Trajectories in parts that appear while they are followed, ends of all kinds, and what is refused."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.following.test_schedules import check, values
from tests.following.writers import SEEDS, Made, Program, Stage, Steps, appending, extending, make

import kinema as kn
from kinema.base.notes import collected
from kinema.trajectory.following.end import FollowEnd
from kinema.trajectory.following.patterns import GivenFiles


@pytest.fixture(autouse=True)
def _noted() -> Iterator[list[str]]:
    with collected() as notes:
        yield notes


def write_parts(folder: Path, parts: list[Made], rng: random.Random) -> Steps:
    """Each part is begun, at times with an empty file, when the one before is whole, or while its end is not."""
    for number, part in enumerate(parts, 1):
        name, ending = part.name.rsplit(".", 1)
        program = Program(folder / f"{name}.part{number:04d}.{ending}")
        yield
        way = rng.choice((appending, extending)) if number > 1 else appending
        yield from way(program, part, 0, len(part), rng)
        for _ in range(rng.choice((0, 2))):
            yield


@pytest.mark.parametrize("name", ["md.xtc", "md.trr", "md.dcd"])
def test_parts_that_appear_while_they_are_followed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [make(tmp_path, name, 5, first=0), make(tmp_path, name, 4, first=5), make(tmp_path, name, 6, first=9)]
    whole = make(tmp_path, name, 15)
    ending = name.rsplit(".", 1)[1]
    for seed in SEEDS:
        rng = random.Random(f"{name} {seed}")
        folder = tmp_path / str(seed)
        folder.mkdir()
        steps = write_parts(folder, parts, rng)
        first = folder / f"md.part0001.{ending}"
        for _ in steps:
            if first.stat().st_size > parts[0].ends[0]:
                break
        (folder / f"md.part0001.{ending}.ready").write_text("{}")
        (folder / f".md.part0002.{ending}.kinema-index").write_text("")
        Stage(monkeypatch, steps, rng)
        traj = kn.open(folder / f"md.part*.{ending}", stored=False)
        frames = list(traj.follow(timeout=5.0))
        assert len(traj.paths) == 3
        check(frames, whole)


def test_a_part_that_begins_before_the_end_of_the_last_one_is_a_rewind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [make(tmp_path, "md.xtc", 8), make(tmp_path, "md.xtc", 6, seed=2, first=5)]

    def steps() -> Steps:
        for _ in range(20):
            yield
        Program(tmp_path / "md.part0002.xtc").put(0, parts[1].data)
        yield

    for on_rewind in ("error", "restart"):
        (tmp_path / "md.part0002.xtc").unlink(missing_ok=True)
        Program(tmp_path / "md.part0001.xtc").put(0, parts[0].data)
        rng = random.Random(1)
        Stage(monkeypatch, steps(), rng)
        following = kn.open(tmp_path / "md.part*.xtc", stored=False).follow(timeout=5.0, on_rewind=on_rewind)
        frames = []
        if on_rewind == "error":
            with pytest.raises(
                kn.errors.RewoundError, match=r"part0002.xtc: XTC frame 0.*expected the same frames"
            ) as raised:
                frames.extend(following)
            assert raised.value.frame == 5
        else:
            frames = list(following)
            assert [frame.frame for frame in frames] == [*range(8), *range(11)]
            assert following.restarts == 1 and any("starts over" in note for note in following.notes)
            for frame, expected in zip(frames[8:], [*parts[0].positions[:5], *parts[1].positions], strict=True):
                np.testing.assert_array_equal(values(frame), expected)


def test_a_file_that_is_replaced_by_a_longer_copy_or_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, other = make(tmp_path, "md.xtc", 9), make(tmp_path, "md.xtc", 9, seed=3)
    path = tmp_path / "md.xtc"

    def replaced(data: bytes) -> None:
        copy = tmp_path / "copy"
        copy.write_bytes(data)
        copy.replace(path)

    def copies() -> Steps:
        for n in (5, 6, 9):
            replaced(made.data[: made.ends[n - 1]])
            yield

    path.write_bytes(made.data[: made.ends[2]])
    Stage(monkeypatch, copies(), random.Random(1))
    check(list(kn.open(path, stored=False).follow(timeout=5.0)), made)

    def others() -> Steps:
        yield
        replaced(other.data)
        yield

    path.write_bytes(made.data[: made.ends[2]])
    Stage(monkeypatch, others(), random.Random(1))
    with pytest.raises(kn.errors.RewoundError, match="XTC frame 0: the file was rewritten"):
        list(kn.open(path, stored=False).follow(timeout=5.0))


def filling(program: Program, made: Made, at: int, rng: random.Random) -> Steps:
    """A file of its full length is filled from byte `at` on."""
    while at < len(made.data):
        n = rng.choice((1, 7, 300))
        program.put(at, made.data[at : at + n])
        at += n
        yield


def test_files_that_begin_with_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the head of the first frame is still to be filled when the file is opened."""
    for name, seed in [(name, seed) for name in ("md.xtc", "md.trr", "md.dcd", "md.nc") for seed in range(3)]:
        made = make(tmp_path, name, 6)
        rng = random.Random(f"{name} {seed}")
        path = tmp_path / f"{seed}-{name}"
        program = Program(path)
        start = made.ends[0] - (made.ends[1] - made.ends[0]) if name in ("md.dcd", "md.nc") else 0
        program.put(0, made.data[: start + 200])
        program.cut(len(made.data))

        Stage(monkeypatch, filling(program, made, start + 200, rng), rng)
        check(list(kn.open(path, stored=False).follow(timeout=5.0)), made)


# ends


def test_where_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(tmp_path, "md.xtc", 12)
    path = tmp_path / "md.xtc"
    for until, expected, ended in (
        (5, 5, "5 frames are there"),
        ("7", 7, "7 frames"),
        ("3 ps", 7, "3 ps"),
        ("0.0031 ns", 7, "3.1 ps"),
        ("1500fs", 4, "1.5 ps"),
        (None, 12, "nothing was written for 2 s"),
        ("100 ns", 12, "nothing was written for 2 s"),
    ):
        program = Program(path)
        program.cut(0)
        program.put(0, made.data[: made.ends[0]])
        rng = random.Random(1)
        Stage(monkeypatch, appending(program, made, 1, 12, rng), rng)
        following = kn.open(path, stored=False).follow(until, timeout=2.0)
        check(list(following), made, expected)
        assert following.n_frames == expected
        assert ended in str(following.ended)
        assert any("nothing was written" in note for note in following.notes) == (ended.startswith("nothing"))
        assert next(following, None) is None


@pytest.mark.parametrize("marker", ["md.xtc.end", "md.xtc.ready", "finished"])
def test_a_marker_ends_it_when_all_is_given(marker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(tmp_path, "md.xtc", 8)
    path = tmp_path / "md.xtc"
    program = Program(path)
    program.put(0, made.data[: made.ends[0]])
    rng = random.Random(1)

    def steps() -> Steps:
        yield from appending(program, made, 1, 8, rng)
        (tmp_path / marker).touch()

    stage = Stage(monkeypatch, steps(), rng)
    end = tmp_path / marker if marker == "finished" else None
    following = kn.open(path, stored=False).follow(end=end)
    check(list(following), made)
    assert marker in str(following.ended)
    # there without a wait
    began = stage.now
    check(list(kn.open(path, stored=False).follow(end=end)), made)
    assert stage.now - began <= 1.0


def test_a_last_frame_that_is_never_filled_is_left_out_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("md.xtc", "md.trr", "md.dcd", "md.nc", "md.history"):
        made = make(tmp_path, name, 6)
        path = tmp_path / name
        middle = (made.ends[3] + made.ends[4]) // 2
        path.write_bytes(made.data[:middle] + bytes(made.ends[4] - middle))
        Stage(monkeypatch, iter(()), random.Random(1))
        following = kn.open(path, stored=False).follow(timeout=1.0)
        check(list(following), made, 4)
        assert any("(left out)" in note and "frame 4" in note for note in following.notes), following.notes


def test_damage_in_the_middle_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(tmp_path, "md.xtc", 6)
    path = tmp_path / "md.xtc"
    data = bytearray(made.data)
    data[made.ends[2] : made.ends[2] + 4] = b"oops"
    path.write_bytes(data)
    Stage(monkeypatch, iter(()), random.Random(1))
    with pytest.raises(kn.errors.CorruptFileError, match="frame 3"):
        list(kn.open(path, stored=False).follow(timeout=30.0))


# what is refused


def test_what_is_refused(tmp_path: Path) -> None:
    made = make(tmp_path, "md.xtc", 3)
    (tmp_path / "md.xtc").write_bytes(made.data)
    traj = kn.open(tmp_path / "md.xtc", stored=False)
    for options, message in (
        ({"until": "soon"}, '"100 ns"'),
        ({"until": 0}, "at least 1 frame"),
        ({"until": True}, '"100 ns"'),
        ({"until": "5 nm"}, "until is .* found '5 nm': unit 'nm' is not one of time"),
        ({"until": "100 parsec"}, "until is .* found '100 parsec': unit 'parsec'"),
        ({"timeout": -1}, "timeout must be"),
        ({"poll": 0}, "poll must be"),
        ({"on_rewind": "ignore"}, "on_rewind"),
        ({"over": "atoms"}, "over"),
        ({"fields": "velocities"}, "has no velocities"),
        ({"often": 1}, "no option 'often'"),
    ):
        with pytest.raises(kn.errors.ArgumentError, match=message):
            traj.follow(**options)
    with pytest.raises(kn.errors.ArgumentError, match="a view"):
        traj[1:].follow()
    with pytest.raises(kn.errors.FileNotFound, match="no file fits this pattern"):
        kn.open(tmp_path / "no*.xtc")


def test_names_by_patterns_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("md.part2.xtc", "md.part10.xtc", "md.part1.xtc", "md.part1.xtc.end", "md[1].xtc"):
        (tmp_path / name).touch()
    found = GivenFiles((f"{tmp_path}/md.part*.xtc", f"{tmp_path}/md[1].xtc")).paths()
    assert [os.path.basename(path) for path in found] == ["md.part1.xtc", "md.part2.xtc", "md.part10.xtc", "md[1].xtc"]


def test_times_are_compared_as_they_are_stored() -> None:
    until = FollowEnd.parse("0.3 ps")
    assert until.count_before(0, np.array([0.1, 0.2, np.float32(0.3), 0.4])) == (3, True)
    assert until.count_before(0, np.array([0.1, 0.2])) == (2, False)
    assert FollowEnd.parse("1e3 fs").time == pytest.approx(1.0)
    with pytest.raises(kn.errors.ArgumentError, match="frame 4 has no time"):
        until.count_before(4, np.array([np.nan]))

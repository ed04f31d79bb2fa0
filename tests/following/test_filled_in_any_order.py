"""Files that are made as long as they will be, with their count of frames, and filled in whatever order.

No frame of which nothing is written is given; what was given too early is noticed when it is filled.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import h5py
import numpy as np
import pytest
from tests.following.writers import BYTE_FORMATS, SEEDS, Made, Program, Stage, Steps, make

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import random_walk
from kinema.testing.amounts import pairs

N_FRAMES = 12
# of a piece that is missing some numbers side by side are seen
LEAST = 100


@pytest.fixture(autouse=True)
def noted() -> Iterator[list[str]]:
    with collected() as notes:
        yield notes


def pieces_of(made: Made, frame: int, rng: random.Random) -> list[tuple[int, int]]:
    """Pieces of a frame, as (start, stop) in bytes."""
    at, end = made.ends[frame - 1] if frame else 0, made.ends[frame]
    found = []
    while at < end:
        stop = at + rng.choice((LEAST, 130, 400, 2000))
        stop = end if end - stop < LEAST else stop
        found.append((at, stop))
        at = stop
    return found


def put(program: Program, made: Made, piece: tuple[int, int]) -> None:
    program.put(piece[0], made.data[slice(*piece)])


def forwards(program: Program, made: Made, rng: random.Random) -> Steps:
    for frame in range(1, len(made)):
        for piece in pieces_of(made, frame, rng):
            put(program, made, piece)
            yield


def backwards(program: Program, made: Made, rng: random.Random) -> Steps:
    for frame in reversed(range(1, len(made))):
        for piece in reversed(pieces_of(made, frame, rng)):
            put(program, made, piece)
            yield


def frames_in_any_order(program: Program, made: Made, rng: random.Random) -> Steps:
    for frame in rng.sample(range(1, len(made)), len(made) - 1):
        for piece in pieces_of(made, frame, rng):
            put(program, made, piece)
            yield


def pieces_in_any_order(program: Program, made: Made, rng: random.Random) -> Steps:
    pieces = [piece for frame in range(1, len(made)) for piece in pieces_of(made, frame, rng)]
    rng.shuffle(pieces)
    for piece in pieces:
        put(program, made, piece)
        yield


def several_writers(program: Program, made: Made, rng: random.Random) -> Steps:
    """Each has a share of every frame, and its own pace."""
    n = 3
    shares: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for frame in range(1, len(made)):
        for number, piece in enumerate(pieces_of(made, frame, rng)):
            shares[number % n].append(piece)
    while any(shares):
        writer = rng.choice([one for one, share in enumerate(shares) if share] + [0] * bool(shares[0]))
        put(program, made, shares[writer].pop(0))
        yield


WAYS = (forwards, backwards, frames_in_any_order, pieces_in_any_order, several_writers)


def values(frame: kn.Frame) -> np.ndarray:
    return np.concatenate([v for v in (frame.positions, frame.velocities) if v is not None])


def check(frames: list[kn.Frame], made: Made) -> None:
    for number, frame in enumerate(frames):
        assert frame.frame == number
        np.testing.assert_array_equal(values(frame), made.positions[number], err_msg=f"frame {number}")
        assert frame.time == made.times[number]


@pytest.mark.parametrize(("name", "way", "on_rewind", "seed"), pairs(BYTE_FORMATS, WAYS, ("error", "restart"), SEEDS))
def test_a_file_that_is_as_long_as_it_will_be(
    name: str,
    way: Callable[[Program, Made, random.Random], Steps],
    on_rewind: Literal["error", "restart"],
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    print("seed", seed)
    rng = random.Random(f"{name} {way.__name__} {seed}")
    made = make(tmp_path, name, N_FRAMES)
    program = Program(tmp_path / name)
    program.put(0, made.data[: made.ends[0]])
    program.cut(made.ends[-1])
    stage = Stage(monkeypatch, way(program, made, rng), rng)
    following = kn.open(program.path, stored=False).follow(timeout=5.0, on_rewind=on_rewind)
    runs: list[list[kn.Frame]] = [[]]
    try:
        for frame in following:
            if frame.frame == 0 and runs[-1]:
                runs.append([])
            runs[-1].append(frame)
            assert values(frame).any(), f"frame {frame.frame} is not written"
    except kn.errors.RewoundError as error:
        assert on_rewind == "error" and way is not forwards
        assert error.frame is not None and error.frame < len(runs[-1])
        return
    assert stage.done and len(runs) == following.restarts + 1
    check(runs[-1], made)
    assert len(runs[-1]) == N_FRAMES


def test_frames_that_nobody_writes_are_left_out_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: list[str]
) -> None:
    made = make(tmp_path, "md.nc", N_FRAMES)
    program = Program(tmp_path / "md.nc")
    program.put(0, made.data[: made.ends[4]])
    program.put(made.ends[6], made.data[made.ends[6] : made.ends[8]])
    program.cut(made.ends[-1])
    Stage(monkeypatch, iter(()), random.Random(1))
    frames = list(kn.open(program.path, stored=False).follow(timeout=500.0))
    check(frames, made)
    assert len(frames) == 5
    assert any("NetCDF frame 5, byte" in note and "not written yet" in note for note in noted), noted


def test_a_count_that_is_ahead_of_many_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many that they were once searched for the first that is not there, and not looked at one by one."""
    made = make(tmp_path, "md.nc", 97)
    program = Program(tmp_path / "md.nc")
    program.put(0, made.data[: made.ends[23]])
    program.cut(made.ends[-1])
    Stage(monkeypatch, iter(()), random.Random(1))
    frames = list(kn.open(program.path, stored=False).follow(timeout=500.0))
    check(frames, made)
    assert len(frames) == 24


@pytest.mark.parametrize("way", [backwards, several_writers])
def test_results_are_those_of_the_finished_file(
    way: Callable[[Program, Made, random.Random], Steps], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(tmp_path, "md.nc", N_FRAMES)
    expected = kn.analysis.RadiusOfGyration(kn.open(tmp_path / "made-1-12-0/md.nc"), weights=None).run()
    program = Program(tmp_path / "md.nc")
    program.put(0, made.data[: made.ends[0]])
    program.cut(made.ends[-1])
    Stage(monkeypatch, way(program, made, random.Random(4)), random.Random(5))
    rgyr = kn.analysis.RadiusOfGyration(kn.open(program.path, stored=False), weights=None)
    rgyr.follow(timeout=5.0, on_rewind="restart")
    np.testing.assert_array_equal(rgyr.results.values, expected.results.values)


def test_frames_of_fill_values_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NetCDF fills a file that becomes longer with a number of its own, unless it is told not to."""
    made = make(tmp_path, "md.nc", N_FRAMES)
    fill = np.full((made.ends[-1] - made.ends[0]) // 4, np.float32(9.96921e36), ">f4").tobytes()
    program = Program(tmp_path / "md.nc")
    program.put(0, made.data[: made.ends[0]] + fill)
    stage = Stage(monkeypatch, forwards(program, made, random.Random(2)), random.Random(3))
    frames = list(kn.open(program.path, stored=False).follow(timeout=5.0))
    check(frames, made)
    assert stage.done and len(frames) == N_FRAMES


def test_data_sets_of_h5md_that_are_filled_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, walk = tmp_path / "a.h5md", random_walk(N_FRAMES, 20)
    with kn.Writer(path, 20, layout="contiguous", n_frames=N_FRAMES) as out:
        out.write(walk, time=np.arange(N_FRAMES, dtype=float))
    with h5py.File(path) as file:
        place = file["particles/trajectory/position/value"].id.get_offset()
        row = file["particles/trajectory/position/value"][0].nbytes
    data = path.read_bytes()
    ways: tuple[tuple[int, Literal["error", "restart"]], ...] = ((1, "error"), (2, "restart"), (3, "restart"))
    for seed, on_rewind in ways:
        rng = random.Random(seed)
        program = Program(path)
        program.put(place + row, bytes((N_FRAMES - 1) * row))

        def steps(program: Program = program, rng: random.Random = rng) -> Steps:
            for frame in rng.sample(range(1, N_FRAMES), N_FRAMES - 1):
                at = place + frame * row
                program.put(at, data[at : at + row])
                yield

        stage = Stage(monkeypatch, steps(), rng)
        frames = list(kn.open(path, stored=False).follow(timeout=5.0, on_rewind=on_rewind))
        assert stage.done
        np.testing.assert_array_equal([frame.positions for frame in frames], walk)

"""Files that are written in thousands of small steps: every frame is given once, and none that was never written."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.following.writers import (
    BYTE_FORMATS,
    SEEDS,
    Made,
    Program,
    Stage,
    Steps,
    appending,
    extending,
    head_of,
    make,
)

import kinema as kn
from kinema.base.notes import collected
from kinema.testing.amounts import pairs

N_FRAMES = 12


@pytest.fixture(autouse=True)
def _noted() -> Iterator[None]:
    with collected():
        yield


def followed(path: Path, name: str, **options: object) -> Iterator[kn.Frame]:
    traj = kn.open(path, stored=False)
    return traj.follow(timeout=5.0, **options)


def folder(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    return path


def values(frame: kn.Frame) -> np.ndarray:
    there = [v for v in (frame.positions, frame.velocities) if v is not None]
    return np.concatenate(there)


def check(frames: list[kn.Frame], made: Made, stop: int | None = None) -> None:
    for number, frame in enumerate(frames):
        assert frame.frame == number
        np.testing.assert_array_equal(values(frame), made.positions[number], err_msg=f"frame {number}")
        assert frame.time == made.times[number]
    assert len(frames) == (len(made) if stop is None else stop)


@pytest.mark.parametrize(("name", "way", "seed"), pairs(BYTE_FORMATS, (appending, extending), SEEDS))
def test_every_frame_is_given_once(
    name: str, way: object, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    print("seed", seed)
    rng = random.Random(f"{name} {seed}")
    made = make(tmp_path, name, N_FRAMES)
    program = Program(tmp_path / name)
    program.put(0, made.data[: made.ends[0]])
    stage = Stage(monkeypatch, way(program, made, 1, N_FRAMES, rng), rng)
    frames = list(followed(program.path, name))
    print(stage.count, "steps")
    check(frames, made)


@pytest.mark.parametrize("name", ["md.dcd", "md.nc", "md.history"])
@pytest.mark.parametrize("way", [appending, extending])
def test_counts_in_headers_that_come_before_or_after_their_frames(
    name: str, way: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(tmp_path, name, N_FRAMES)
    heads = [head_of(made, max(2, n), tmp_path, 1) for n in range(N_FRAMES + 1)]
    for seed, late in itertools.product(range(2), (False, True)):
        rng = random.Random(f"{name} {seed} {late}")
        program = Program(folder(tmp_path / f"{seed}{late}") / name)
        program.put(0, made.data[: made.ends[1]])
        program.put(0, heads[2])
        stage = Stage(monkeypatch, counting(program, way, made, heads, rng, late=late), rng)
        check(list(followed(program.path, name)), made)
        assert stage.done


def counting(program: Program, way: object, made: Made, heads: list[bytes], rng: random.Random, *, late: bool) -> Steps:
    """The count is put after some frames, or before them."""
    n = 2
    while n < len(made):
        more = min(len(made), n + rng.randint(1, 3))
        if not late:
            program.put(0, heads[more])
            yield
        yield from way(program, made, n, more, rng)
        if late:
            yield
            program.put(0, heads[more])
            yield
        n = more


def rewinding(program: Program, made: Made, other: Made, cut: int, rng: random.Random) -> Steps:
    """A run that crashes within a frame, and another that continues from an earlier checkpoint with other frames."""
    crash = rng.randint(cut + 1, len(made) - 1)
    yield from appending(program, made, 1, crash, rng)
    program.put(made.ends[crash - 1], made.data[made.ends[crash - 1] : made.ends[crash - 1] + rng.randint(0, 90)])
    for _ in range(rng.choice((0, 3, 30))):
        yield
    program.cut(made.ends[cut - 1])
    if rng.random() < 0.5:
        yield
    # sometimes nobody looks while the file grows back to about its old length
    unseen = rng.choice((0, 1, crash - cut, crash - cut + 2))
    for _ in appending(program, other, cut, min(len(made), cut + unseen), rng):
        pass
    yield
    yield from appending(program, other, min(len(made), cut + unseen), len(made), rng)


def spliced(tmp_path: Path, name: str, made: Made, cut: int) -> Made:
    """The first frames of one run, then frames of another."""
    from tests.following.writers import made_from_file

    while True:
        other = make(tmp_path, name, N_FRAMES, seed=2)
        start = other.ends[cut - 1]
        path = tmp_path / f"spliced-{cut}" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(made.data[: made.ends[cut - 1]] + other.data[start:])
        return made_from_file(path)


@pytest.mark.parametrize("name", BYTE_FORMATS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_goes_on_from_an_earlier_checkpoint(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"{name} {seed}")
    cut = rng.randint(2, N_FRAMES - 4)
    made = make(tmp_path, name, N_FRAMES)
    second = spliced(tmp_path, name, made, cut)
    for on_rewind in ("error", "restart"):
        rng = random.Random(f"{name} {seed}")
        program = Program(folder(tmp_path / on_rewind) / name)
        program.put(0, made.data[: made.ends[0]])
        Stage(monkeypatch, rewinding(program, made, second, cut, rng), rng)
        following = followed(program.path, name, on_rewind=on_rewind)
        runs: list[list[kn.Frame]] = [[]]
        try:
            for frame in following:
                if frame.frame == 0 and runs[-1]:
                    runs.append([])
                runs[-1].append(frame)
        except kn.errors.RewoundError as error:
            assert on_rewind == "error"
            assert error.frame == cut, str(error)
            assert f"frame {cut}:" in str(error) and name in str(error)
            assert len(runs[-1]) > cut
            check(runs[-1], made, len(runs[-1]))
            continue
        # the last start has the file as it is; what was given before is of the run before
        assert len(runs) == following.restarts + 1
        check(runs[-1], second)
        for run in runs[:-1]:
            check(run, made, len(run))
        if on_rewind == "error":
            assert len(runs) == 1  # nothing of the first run was given that the second has not


@pytest.mark.parametrize("name", ["md.xtc", "md.trr"])
def test_an_end_marker_behind_a_rewind_ends_it_when_all_is_given_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(tmp_path, name, N_FRAMES)
    second = spliced(tmp_path, name, made, 4)
    for seed in range(8):
        program = Program(folder(tmp_path / str(seed)) / name)
        program.put(0, made.data[: made.ends[7]])

        def steps(program: Program = program) -> Steps:
            for _ in range(8):
                yield
            program.cut(second.ends[3])
            program.put(second.ends[3], second.data[second.ends[3] :])
            Path(f"{program.path}.end").touch()
            for _ in range(20):
                yield

        Stage(monkeypatch, steps(), random.Random(seed))
        following = followed(program.path, name, on_rewind="restart")
        frames = list(following)
        assert following.restarts == 1 and ".end is there" in str(following.ended)
        check(frames[-N_FRAMES:], second)


def test_frames_that_are_rewritten_while_the_next_ones_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frame that was given last is looked at again after each block, as the file may have been cut meanwhile."""
    made, other = make(tmp_path, "md.trr", N_FRAMES), make(tmp_path, "md.trr", N_FRAMES, seed=2)
    read = kn.Trajectory.blocks
    for rewritten, on_rewind in itertools.product((3, 5), ("error", "restart")):
        program = Program(folder(tmp_path / f"{rewritten}{on_rewind}") / "md.trr")
        program.put(0, made.data[: made.ends[4]])

        def steps(program: Program = program) -> Steps:
            yield
            program.put(made.ends[4], made.data[made.ends[4] :])

        def blocks(
            traj: kn.Trajectory, *, frames: range, program: Program = program, start: int = rewritten, **options: object
        ) -> Iterator[kn.Block]:
            if len(frames) > 1 and frames.start == 5:
                # after all looks at the file, and before its frames are read; frames before it stay
                program.put(made.ends[start - 1], other.data[made.ends[start - 1] :])
            return read(traj, frames=frames, **options)

        monkeypatch.setattr(kn.Trajectory, "blocks", blocks)
        Stage(monkeypatch, steps(), random.Random(1))
        following = followed(program.path, "md.trr", on_rewind=on_rewind)
        frames = [next(following) for _ in range(5)]
        check(frames, made, 5)
        if rewritten == 5:
            # no frame that was given has changed
            rest = list(following)
            assert [frame.frame for frame in rest] == list(range(5, N_FRAMES)) and following.restarts == 0
        elif on_rewind == "error":
            with pytest.raises(kn.errors.RewoundError) as raised:
                frames.append(next(following))
            assert raised.value.frame == 3
            continue
        else:
            rest = list(following)
            assert following.restarts == 1 and [frame.frame for frame in rest] == list(range(N_FRAMES))
        for frame in rest:
            source = made if frame.frame < rewritten else other
            np.testing.assert_array_equal(values(frame), source.positions[frame.frame])

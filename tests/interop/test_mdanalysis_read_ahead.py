"""Frames are read in blocks if their order can be foreseen, and one by one otherwise."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import kinema as kn
from kinema.model.frame import frame_bytes
from kinema.testing import random_walk, write_dcd
from kinema.testing.programs.imports import lazy

mdamath = lazy("MDAnalysis.lib.mdamath")
read_ahead = lazy("kinema.interop.mdanalysis.read_ahead")

N_FRAMES, N_ATOMS = 200, 9


class Recorder:
    """The core, with a note of the frames of every call."""

    def __init__(self, core: Any) -> None:
        self.core = core
        self.n_atoms = core.n_atoms
        self.frame_notes = core.frame_notes
        self.calls: list[list[int]] = []

    def read(self, frames: Any, **arguments: Any) -> Any:
        found = self.core.read(frames, **arguments)
        self.calls.append(found["frames"].tolist())
        return found


@pytest.fixture
def ahead(tmp_path: Path) -> tuple[read_ahead.ReadAhead, Recorder, Any]:
    positions = random_walk(N_FRAMES, N_ATOMS)
    write_dcd(tmp_path / "walk.dcd", positions)
    core = Recorder(kn.open(tmp_path / "walk.dcd", stored=False).core)
    limit = 80 * frame_bytes(N_ATOMS, 1, 4)  # two blocks
    made = read_ahead.ReadAhead(core, N_FRAMES, None, ("positions",), native=False, workers=1, memory=limit)  # type: ignore[arg-type]
    return made, core, positions


def ask(ahead: tuple[read_ahead.ReadAhead, Recorder, Any], frames: Any) -> list[list[int]]:
    """The frames of the calls that these frames took; their values are checked on the way."""
    reader, core, positions = ahead
    core.calls.clear()
    for frame in frames:
        row = reader.row(frame)
        np.testing.assert_array_equal(reader.vectors["positions"][row], positions[frame])
        assert (reader.times[row], reader.steps[row]) == (pytest.approx(float(frame)), frame)
    reader.close()
    assert all(len(call) <= 40 for call in core.calls)
    return core.calls


def test_announced_frames_come_in_blocks_that_grow_to_the_limit(ahead: Any) -> None:
    ahead[0].expect(range(N_FRAMES))
    calls = ask(ahead, range(N_FRAMES))
    assert [len(call) for call in calls] == [8, 16, 32, 40, 40, 40, 24]
    assert list(chain(*calls)) == list(range(N_FRAMES))


def test_announced_lists(ahead: Any) -> None:
    frames = np.random.default_rng(3).integers(0, N_FRAMES, 100).tolist()
    ahead[0].expect(tuple(frames))
    calls = ask(ahead, frames)
    assert len(calls) <= 6
    # a frame that stood in the block before is not read again
    assert set(chain(*calls)) == set(frames)


@pytest.mark.parametrize("frames", [range(N_FRAMES), range(3, N_FRAMES, 7), range(199, -1, -1), range(150, 20, -4)])
def test_a_constant_step_is_seen(ahead: Any, frames: range) -> None:
    calls = ask(ahead, frames)
    assert len(calls) < 12
    read = list(chain(*calls))
    # none twice, and not more in vain than a block
    assert len(set(read)) == len(read)
    assert set(frames) <= set(read)
    assert len(read) <= len(frames) + 40


def test_jumps_read_one_frame_each(ahead: Any) -> None:
    frames = [5, 100, 3, 77, 12, 180]
    assert ask(ahead, frames) == [[frame] for frame in frames]


def test_the_same_frame_again_is_not_read_again(ahead: Any) -> None:
    assert ask(ahead, [5, 5, 5, 5]) == [[5]]


def test_a_loop_that_is_left_early_costs_little(ahead: Any) -> None:
    ahead[0].expect(range(N_FRAMES))
    assert ask(ahead, [0]) == [list(range(8))]


def test_an_announcement_that_is_not_kept(ahead: Any) -> None:
    ahead[0].expect(range(50, 60))
    calls = ask(ahead, [3, 99, 50, 51])
    assert calls[:2] == [[3], [99]]
    assert calls[2] == list(range(50, 58))


def test_a_block_that_cannot_be_read_leaves_nothing_behind(ahead: Any) -> None:
    reader = ahead[0]
    ask(ahead, [0])
    with pytest.raises(kn.OutOfRangeError):
        reader.row(N_FRAMES)
    assert ask(ahead, [0]) == [[0]]


def test_a_block_has_at_least_one_frame(ahead: Any) -> None:
    core = ahead[1]
    tight = read_ahead.ReadAhead(core, N_FRAMES, None, ("positions",), native=False, workers=1, memory=1)
    assert ask((tight, core, ahead[2]), range(5)) == [[0], [1], [2], [3], [4]]


@given(
    arrays(np.float32, (3,), elements=st.floats(1.0, 500.0, width=32)),
    arrays(np.float32, (3,), elements=st.floats(55.0, 115.0, width=32)),
)
def test_dimensions_are_those_of_mdanalysis(lengths: Any, angles: Any) -> None:
    cell = mdamath.triclinic_vectors(np.concatenate([lengths, angles]))
    np.testing.assert_allclose(read_ahead.dimensions(cell[None])[0], mdamath.triclinic_box(*cell), rtol=1e-6)


@pytest.mark.parametrize(
    "cell",
    [
        np.zeros((3, 3)),
        np.diag([30.0, 40.0, 0.0]),
        [[30.0, 0, 0], [30.0, 0, 0], [0, 0, 30.0]],
        [[30.0, 0, 0], [-30.0, 0, 0], [0, 0, 30.0]],
        np.full((3, 3), np.nan),
    ],
    ids=["none", "flat", "parallel", "antiparallel", "nan"],
)
def test_a_cell_without_volume_is_none(cell: Any) -> None:
    cell = np.asarray(cell, dtype=np.float32)
    assert not read_ahead.dimensions(np.stack([np.diag([1, 2, 3]), cell]))[1].any()
    assert not mdamath.triclinic_box(*cell).any()
    np.testing.assert_array_equal(read_ahead.dimensions(np.diag([1, 2, 3])[None]), [[1, 2, 3, 90, 90, 90]])

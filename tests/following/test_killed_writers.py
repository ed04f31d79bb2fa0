"""Writers that are killed at random and begin again are followed: every frame once, and none that was not written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.following.writers import N_ATOMS

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import random_walk
from kinema.testing.programs.children import start_child
from kinema.trajectory.following import when_there

PROGRAM = Path(__file__).with_name("killed_program.py")
N_FRAMES = 40

pytestmark = pytest.mark.processes


@pytest.fixture(autouse=True)
def _noted() -> Iterator[None]:
    with collected():
        yield


def run_of(frame: kn.Frame, positions: np.ndarray, n_runs: int) -> int:
    """Which run has written a frame; an error unless it is whole and of one run."""
    run = round(float((frame.positions - positions[frame.frame]).mean()))
    assert 0 <= run < n_runs
    np.testing.assert_allclose(frame.positions, positions[frame.frame] + run, atol=0.011, err_msg=str(frame.frame))
    assert frame.time == 0.5 * frame.frame
    return run


@pytest.mark.parametrize(
    ("how", "name"), [("gromacs", "md.xtc"), ("gromacs", "md.trr"), ("kinema", "md.xtc"), ("kinema", "md.h5md")]
)
def test_writers_killed_at_random_bytes(how: str, name: str, tmp_path: Path, kills: Callable[..., int]) -> None:
    n_kills = kills()
    n_frames = N_FRAMES + 4 * n_kills
    positions = random_walk(n_frames, N_ATOMS, 1)
    np.save(tmp_path / "positions.npy", positions)
    path = tmp_path / name
    words = [how, str(path), str(tmp_path / "positions.npy"), "1", str(n_kills)]
    child = start_child([sys.executable, str(PROGRAM), *words], stderr=None, seconds=500)
    on_rewind = "restart" if how == "gromacs" else "error"
    traj = when_there(lambda: kn.open(path, stored=False), 60.0)
    following = traj.follow(timeout=60.0, poll=0.02, on_rewind=on_rewind)
    starts: list[list[int]] = [[]]
    last: list[kn.Frame] = []
    for frame in following:
        if frame.frame == 0 and starts[-1]:
            starts.append([])
            last = []
        assert frame.frame == len(starts[-1])
        starts[-1].append(run_of(frame, positions, n_kills + 1 if how == "gromacs" else 1))
        last.append(frame)
    assert child.wait(60) == 0
    assert ".end is there" in str(following.ended)
    assert following.restarts == len(starts) - 1
    assert all(runs == sorted(runs) for runs in starts), "frames of later runs come later"
    # in the end it has given what the file holds
    whole = kn.open(path, stored=False)
    assert len(whole) == len(last) == n_frames
    np.testing.assert_array_equal(np.stack([frame.positions for frame in last]), whole.read())
    print("restarts", following.restarts, "runs in the file", len(set(starts[-1])))

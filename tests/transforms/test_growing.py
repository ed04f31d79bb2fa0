"""Transforms of files that are being written: results are those of the finished file, or the transform is refused."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.following.writers import Program, Stage, appending, make

import kinema as kn
from kinema import transforms

N_FRAMES = 20
CHAIN = [(atom, atom + 1) for atom in range(9)]


def stack() -> list[Any]:
    return [
        transforms.whole(bonds=CHAIN),
        transforms.cluster([0, 5], bonds=CHAIN),
        transforms.center([1, 2, 3]),
        transforms.wrap(compound="molecules", bonds=CHAIN, weights=None),
        transforms.superpose([0, 4, 8, 9]),
    ]


@pytest.fixture
def growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of which two frames are there, and others come while it is followed."""
    rng = random.Random(5)
    made = make(tmp_path, "md.trr", N_FRAMES)
    program = Program(tmp_path / "md.trr")
    program.cut(0)
    program.put(0, made.data[: made.ends[1]])
    Stage(monkeypatch, appending(program, made, 2, N_FRAMES, rng), rng)
    return program.path


@pytest.mark.filterwarnings("ignore::kinema.Note")
def test_results_are_those_of_the_finished_file(growing: Path) -> None:
    traj = kn.open(str(growing.parent / "m?.trr"), stored=False).with_transform(*stack())
    followed = kn.analysis.RadiusOfGyration(traj, weights=None, axes=True).follow(until=N_FRAMES, timeout=60)
    finished = kn.open(growing, stored=False).with_transform(*stack())
    expected = kn.analysis.RadiusOfGyration(finished, weights=None, axes=True).run()
    np.testing.assert_array_equal(followed.results.values, expected.results.values)
    assert np.abs(kn.open(growing, stored=False).read() - finished.read()).max() > 1


@pytest.mark.filterwarnings("ignore::kinema.Note")
def test_parts_that_appear_later_are_followed(tmp_path: Path) -> None:
    parts = [make(tmp_path, "md.trr", N_FRAMES, first=first).data for first in (0, N_FRAMES)]
    (tmp_path / "part1.trr").write_bytes(parts[0])
    traj = kn.open(str(tmp_path / "part*.trr"), stored=False).with_transform(transforms.center([0]))
    (tmp_path / "part2.trr").write_bytes(parts[1])
    assert sum(1 for _ in traj.follow(until=2 * N_FRAMES, timeout=60)) == 2 * N_FRAMES


@pytest.mark.filterwarnings("ignore::kinema.Note")
def test_atoms_that_are_not_there_yet_are_seen_as_the_file_has_them(tmp_path: Path) -> None:
    positions = np.random.default_rng(1).uniform(1.0, 9.0, (3, 10, 3))
    positions[2, 6:] = 0.0
    with kn.Writer(tmp_path / "md.h5md", 10) as writer:
        writer.write(positions, cell=np.full((3, 3), 10.0), step=[0, 1, 2], time=[0.0, 1.0, 2.0])
    traj = kn.open(tmp_path / "md.h5md", stored=False)
    for stacked in (traj, traj.with_transform(transforms.center([0, 9]))):
        assert sum(1 for _ in stacked.follow(timeout=0.3, select=[0, 1, 9])) == 2
    # also where these atoms are needed for others alone
    centered = traj.with_transform(transforms.center([0, 9]))
    assert sum(1 for _ in centered.follow(timeout=0.3, select=[0, 1])) == 2


@pytest.mark.filterwarnings("ignore::kinema.Note")
def test_what_sees_other_frames_first_is_refused(growing: Path) -> None:
    traj = kn.open(growing, stored=False).with_transform(transforms.nojump())
    with pytest.raises(kn.ArgumentError, match=r"nojump\(\) is made by a pass over all frames"):
        traj.follow()
    with pytest.raises(kn.ArgumentError, match=r"nojump\(\) is made by a pass over all frames"):
        kn.analysis.RadiusOfGyration(traj, weights=None).follow()

"""H5MD and NetCDF-4 files that other processes write: Kinema's writer, and one that writes as GROMACS does."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from tests.following.writers import N_ATOMS, Program, Stage, Steps

import kinema as kn
from kinema.base.errors import RewoundError
from kinema.base.notes import collected
from kinema.testing import random_walk
from kinema.testing.amounts import LONG
from kinema.testing.programs.children import start_child
from kinema.trajectory.following import when_there

PROGRAM = Path(__file__).with_name("hdf5_program.py")
N_FRAMES = 15


@pytest.fixture(autouse=True)
def noted() -> Iterator[list[str]]:
    with collected() as notes:
        yield notes


def words(how: str, path: Path, positions: np.ndarray, seed: int) -> list[str]:
    array = path.with_suffix(".npy")
    np.save(array, positions)
    return [sys.executable, str(PROGRAM), how, str(path), str(array), str(seed)]


class Child:
    """The program of `hdf5_program.py`, a step at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert self.process.stdout.readline() == "ready\n"
        self.done = False

    def step(self, word: str = "go") -> None:
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        self.done = self.process.stdout.readline() == "done\n"
        Program.changes += 1

    def steps(self) -> Steps:
        while not self.done:
            self.step()
            yield


def opened(path: Path, child: Child) -> kn.Trajectory:
    """The trajectory, as soon as there is a frame in it: all that is before is waited for."""

    def attempt() -> kn.Trajectory:
        try:
            return kn.open(path, stored=False)
        except kn.Error:
            child.step()
            raise

    return when_there(attempt, 60.0)


def check(frames: list[kn.Frame], positions: np.ndarray, stop: int = N_FRAMES, every_step: int = 10) -> None:
    assert [frame.frame for frame in frames] == list(range(stop))
    for frame in frames:
        np.testing.assert_allclose(frame.positions, positions[frame.frame], atol=2e-5, err_msg=str(frame.frame))
        assert (frame.step, frame.time) == (every_step * frame.frame, 0.5 * frame.frame)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("how", "seed"),
    [("kinema", 1), ("netcdf4", 2), ("gromacs", 1), ("gromacs", 3)]
    + LONG * [("kinema", 2), ("netcdf4", 1), ("gromacs", 2)],
)
def test_every_frame_is_given_once(
    how: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: list[str]
) -> None:
    print("seed", seed)
    positions = random_walk(N_FRAMES, N_ATOMS, seed)
    path = tmp_path / ("md.nc" if how == "netcdf4" else "md.h5md")
    child = Child(start_child(words(how, path, positions, seed), stdin=subprocess.PIPE, stderr=None))
    traj = opened(path, child)
    stage = Stage(monkeypatch, child.steps(), random.Random(seed))
    following = traj.follow(timeout=5.0)
    check(list(following), positions, every_step=1 if how == "netcdf4" else 10)
    print(stage.count, "steps")
    assert not any("not known" in note for note in following.notes)


@pytest.mark.processes
def test_a_file_that_is_trimmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    positions = random_walk(25, N_ATOMS, 1)
    path = tmp_path / "md.h5md"
    child = Child(start_child(words("gromacs", path, positions, 4), stdin=subprocess.PIPE, stderr=None))

    def steps() -> Steps:
        for _ in range(40):
            child.step()
            yield
        child.step("cut 6")
        yield from child.steps()

    traj = opened(path, child)
    Stage(monkeypatch, steps(), random.Random(1))
    frames = []
    with pytest.raises(RewoundError) as raised:
        frames.extend(traj.follow(timeout=5.0))
    assert raised.value.frame == 6


def test_a_writer_that_is_not_known_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import h5py

    path = tmp_path / "md.h5md"
    positions = random_walk(3, N_ATOMS, 1)
    with kn.Writer(path, N_ATOMS) as out:
        out.write(positions, cell=np.full((3, 3), 50.0), step=[0, 10, 20], time=[0, 0.5, 1])
    with h5py.File(path, "r+") as file:
        file["h5md/creator"].attrs["name"] = "somebody's script"
    Stage(monkeypatch, iter(()), random.Random(1))
    following = kn.open(path, stored=False).follow(timeout=1.0)
    check(list(following), positions, 3)
    assert any("a writer that is not known" in note for note in following.notes)


def test_a_file_before_its_first_frame_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kn.Writer gives a file its name with the first frames; other programs make it before."""
    positions = random_walk(4, N_ATOMS, 1)

    def write(out: kn.Writer, number: int) -> None:
        out.write(positions[number], cell=[50, 50, 50], step=10 * number, time=0.5 * number)

    first, second = (kn.Writer(tmp_path / f"md.part{n}.h5md", N_ATOMS, mode="a") for n in (1, 2))
    pattern, shown = tmp_path / "md.part*.h5md", []
    with first, second:
        write(first, 0)
        with pytest.raises(FileNotFoundError, match=r"md\.part\*\.h5md: no file fits.*; it was waited for 0\.2 s"):
            when_there(lambda: kn.open(pattern, stored=False, particles="trajectory"), 0.2)

        def attempt() -> kn.Trajectory:
            if shown:
                first.flush()
            return kn.open(pattern, stored=False)

        traj = when_there(attempt, 60.0, shown.append)
        assert len(shown) == 1 and "no file fits this pattern" in shown[0]

        def steps() -> Steps:
            yield
            write(first, 1)
            first.close()
            Program.changes += 1
            yield
            write(second, 2)
            Program.changes += 1
            # for much longer than an error of a half write lasts
            for _ in range(100):
                yield
            write(second, 3)
            second.flush()
            Program.changes += 1
            yield

        Stage(monkeypatch, steps(), random.Random(1))
        check(list(traj.follow(4, timeout=60.0)), positions, 4)

        # without a frame in time the error says what is wrong
        with h5py.File(tmp_path / "md.part3.h5md", "w") as third:
            third.create_group("h5md").attrs["version"] = [1, 1]
            third.create_group("particles")
        with pytest.raises(kn.ArgumentError, match=r"md\.part3\.h5md: .*no particles group holds positions"):
            list(traj.follow(timeout=5.0))

    # a wrong name of a group that is there is at once
    with pytest.raises(kn.ArgumentError, match="there is no particles group 'ions'"):
        when_there(lambda: kn.open(tmp_path / "md.part1.h5md", stored=False, particles="ions"), 60.0)

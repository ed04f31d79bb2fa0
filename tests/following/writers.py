"""Programs that write trajectories in small steps, and a follower that lets them run while it waits.

Time is counted, not waited for: each wait of the follower is one step of the program and some tenths of an interval.
"""

from __future__ import annotations

import functools
import os
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import random_walk
from kinema.testing.amounts import wanted_kills
from kinema.trajectory.following import follow
from kinema.trajectory.opening import files_stay

N_ATOMS = 24
CELL = np.array([[60.0, 0, 0], [5.0, 61.0, 0], [2.0, -3.0, 62.0]])
BYTE_FORMATS = ("md.xtc", "md.trr", "md.dcd", "md.nc", "md.history")
# schedules of each kind; more in `make test-long`
SEEDS = range(max(3, wanted_kills(0) // 4))
# fields of the files, where they have more than positions
FIELDS = {"md.trr": ("positions", "velocities"), "md.history": ("positions", "velocities")}

Steps = Iterator[None]
_status = follow.status_of


@dataclass(frozen=True)
class Made:
    """A file in memory: its bytes, where frames end, and what they are."""

    name: str
    data: bytes
    ends: list[int]
    positions: NDArray[Any]
    times: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.positions)


def make(folder: Path, name: str, n_frames: int, seed: int = 1, first: int = 0) -> Made:
    """A file of frames `first` and on of the random walk `seed`."""
    made = _made(name, n_frames, seed, first)
    path = folder / f"made-{seed}-{n_frames}-{first}" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(made.data)
    return made


@functools.cache
def _made(name: str, n_frames: int, seed: int, first: int) -> Made:
    walk = random_walk(first + n_frames, N_ATOMS, seed)[first:]
    given: dict[str, Any] = {"cell": np.broadcast_to(CELL, (n_frames, 3, 3))}
    if "velocities" in FIELDS.get(name, ()):
        given["velocities"] = walk / 7
    steps = 10 * np.arange(first, first + n_frames)
    if name != "md.nc":
        given["step"] = steps
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        with collected(), kn.Writer(path, N_ATOMS, overwrite=True) as out:
            out.write(walk, time=0.5 * np.arange(first, first + n_frames), **given)
        return made_from_file(path)


def made_from_file(path: Path) -> Made:
    """The bytes, frames and values of a finished file."""
    with collected(), files_stay():
        traj = kn.open(path, stored=False)
        block = next(
            iter(traj.blocks(fields=tuple(name for name in traj.fields if name in ("positions", "velocities"))))
        )
    ends = [sum(traj.core.locate(i)[2:]) for i in range(len(traj))]
    values = np.concatenate([v for v in (block.positions, block.velocities) if v is not None], axis=1)
    return Made(path.name, path.read_bytes(), ends, values, block.times)


@dataclass
class Program:
    """A file that a program writes by positions."""

    path: Path
    # of all files: by it these have another status however quick the steps are, as after a tick of the system's clock
    changes: ClassVar[int] = 0

    def __post_init__(self) -> None:
        self.file = os.open(self.path, os.O_RDWR | os.O_CREAT)

    def put(self, at: int, data: bytes) -> None:
        os.pwrite(self.file, data, at)
        Program.changes += 1

    def cut(self, size: int) -> None:
        os.ftruncate(self.file, size)
        Program.changes += 1


def head_of(made: Made, n_frames: int, folder: Path, seed: int) -> bytes:
    """The bytes before the first frame of a file; they state the number of frames."""
    start = made.ends[0] - (made.ends[1] - made.ends[0])
    return make(folder, made.name, n_frames, seed).data[:start]


def appending(program: Program, made: Made, start: int, stop: int, rng: random.Random) -> Steps:
    """Frames in order, in pieces of any size, as stdio's buffers are written."""
    at, end = (made.ends[start - 1] if start else 0), made.ends[stop - 1]
    while at < end:
        n = rng.choice((1, 3, 50, 400, 2000))
        program.put(at, made.data[at : min(at + n, end)])
        at = min(at + n, end)
        yield


def extending(program: Program, made: Made, start: int, stop: int, rng: random.Random) -> Steps:
    """The file is made longer for some frames, which are filled afterwards from their front, at last byte by byte."""
    frame = start
    while frame < stop:
        last = min(stop, frame + rng.randint(1, 3))
        at, end = (made.ends[frame - 1] if frame else 0), made.ends[last - 1]
        program.cut(end)
        yield
        borders = set(made.ends[frame:last])
        while at < end:
            near = any(0 < border - at <= 12 for border in borders) or rng.random() < 0.02
            n = 1 if near else rng.choice((5, 60, 300, 900))
            n = min(n, min(border for border in borders if border > at) - at)
            program.put(at, made.data[at : at + n])
            at += n
            yield
        frame = last


class Stage:
    """The follower's clock and waits: the program makes a step whenever the follower waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps: Steps, rng: random.Random) -> None:
        self.now, self.steps, self.done, self.count, self.idle = 1000.0, steps, False, 0, 0
        stage = self

        class Waits:
            uses_events = True

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                pass

            def wait(self, most: float) -> None:
                # the program stands still for a while at times, wherever it is
                stage.idle = stage.idle - 1 if stage.idle else rng.choice((0,) * 12 + (4,))
                if not stage.idle:
                    try:
                        next(stage.steps)
                        stage.count += 1
                    except StopIteration:
                        stage.done = True
                stage.now += rng.choice((0.0, 0.01, 0.03, 0.06, 0.2)) if not stage.done else max(most, 0.05)

            def close(self) -> None:
                pass

        class Clock:
            @staticmethod
            def monotonic() -> float:
                return stage.now

        monkeypatch.setattr(follow, "Watch", Waits)
        monkeypatch.setattr(follow, "time", Clock)
        monkeypatch.setattr(follow, "status_of", lambda path: (_status(path), Program.changes))

"""Programs that write a trajectory, are killed at random, and begin again; for `test_killed_writers.py`.

Arguments: how ("gromacs", "kinema"), the file, an array of positions (frames, atoms, 3), the seed, how many are killed.
Run n of "gromacs" writes positions that are n angstrom larger. After the last run a file NAME.end is made.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import h5py  # noqa: F401 - modules are loaded before processes are forked
import numpy as np

import kinema as kn

FORKED = multiprocessing.get_context("fork")


def frames_of_run(path: Path, positions: np.ndarray, run: int) -> list[bytes]:
    own = path.with_name(f"run{run}-{path.name}")
    with kn.Writer(own, positions.shape[1], overwrite=True) as out:
        n = len(positions)
        out.write(
            positions + run, cell=np.broadcast_to(60 * np.eye(3), (n, 3, 3)), step=range(n), time=0.5 * np.arange(n)
        )
    traj = kn.open(own, stored=False)
    ends = [sum(traj.core.locate(i)[2:]) for i in range(len(traj))]
    data = own.read_bytes()
    own.unlink()
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def gromacs(path: Path, positions: np.ndarray, run: int, rng: random.Random, *, last: bool) -> None:
    """As `mdrun -append`: the file is cut to the checkpoint, and frames are appended in pieces of any size."""
    checkpoint = path.with_name("state.cpt")
    done, size = map(int, checkpoint.read_text().split()) if checkpoint.exists() else (0, 0)
    frames = frames_of_run(path, positions, run)
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, size)
    lives = None if last else rng.randint(0, sum(map(len, frames)) // 4)
    for number in range(done, len(frames)):
        data = frames[number]
        while data:
            piece = data[: rng.choice((1, 50, 400, 2000))]
            if lives is not None and lives < len(piece):
                os.pwrite(file, piece[:lives], size)
                os.kill(os.getpid(), signal.SIGKILL)
            lives = None if lives is None else lives - len(piece)
            size += os.pwrite(file, piece, size)
            data = data[len(piece) :]
            if rng.random() < 0.05:
                time.sleep(0.002)
        if rng.random() < 0.15:
            new = checkpoint.with_name("new.cpt")
            new.write_text(f"{number + 1} {size}")
            new.rename(checkpoint)
    if not last:
        os.kill(os.getpid(), signal.SIGKILL)


def kinema(path: Path, positions: np.ndarray, run: int, rng: random.Random, *, last: bool) -> None:
    with kn.Writer(path, positions.shape[1], mode="a") as out:
        while (number := out.n_frames) < len(positions):
            out.write(positions[number], cell=[60, 60, 60], step=number, time=0.5 * number)
            if rng.random() < 0.7:
                out.flush()
            if rng.random() < 0.3:
                time.sleep(0.004)


def killed(write: Callable[..., None], path: Path, positions: np.ndarray, run: int, seed: int, *, last: bool) -> None:
    """One run in a process of its own; it has ended when this returns."""
    rng = random.Random(f"{seed} {run}")
    child = FORKED.Process(target=write, args=(path, positions, run, rng), kwargs={"last": last})
    child.start()
    if not last and write is kinema:
        time.sleep(rng.uniform(0.0, 0.04))
        child.kill()
    child.join(100.0)
    if child.exitcode not in ((0,) if last else (0, -signal.SIGKILL)):
        child.kill()
        raise SystemExit(f"run {run} has failed")


def main() -> None:
    how, name, array, seed, kills = sys.argv[1:]
    path, positions = Path(name), np.load(array)
    loaded = kn.open, kn.Writer
    assert all(loaded)
    write = {"gromacs": gromacs, "kinema": kinema}[how]
    for run in range(int(kills) + 1):
        killed(write, path, positions, run, int(seed), last=run == int(kills))
    path.with_name(f"{path.name}.end").touch()


if __name__ == "__main__":
    main()

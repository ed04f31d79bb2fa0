"""RMSDs of pairs of frames and gromos clusters beside MDAnalysis, MDTraj and NumPy, one thread each, in one run.

    python benchmarks/frame_pairs.py [--quick]

CPU microseconds a distinct pair, decoding not counted: the kernel of ours alone, for the peers calls on positions in
memory, the least of several. MDTraj's `rmsd` computes both halves of the matrix, MDAnalysis' DistanceMatrix takes a
function of two frames. Frames are noise about a slow random walk of 214 atoms. It prints the load of the machine and
ratios, and asserts nothing.
"""

from __future__ import annotations

import argparse
import functools
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mdtraj
import numpy as np
from MDAnalysis.analysis.rms import rmsd

from kinema import _core
from kinema.analysis.matrix import Square
from kinema.model.selection.frames import FrameSelection
from kinema.testing import write_dcd

warnings.simplefilter("ignore")

N_ATOMS = 214
GOAL_PAIR, GOAL_GROMOS = 0.2, 0.05


def least(tries: int, call: Callable[[], object]) -> float:
    """The least CPU seconds of a call."""
    found = []
    for _ in range(tries):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return min(found)


def walk(n_frames: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """(frames, atoms, 3) positions, angstrom."""
    random = np.random.default_rng(1)
    places = random.normal(0, 12, (N_ATOMS, 3))
    steps = np.cumsum(random.normal(0, 0.03, (n_frames, N_ATOMS, 3)), axis=0)
    return (places + steps + random.normal(0, 0.4, (n_frames, N_ATOMS, 3))).astype(np.float32)


def ours(
    folder: Path, frames: np.ndarray[Any, Any], superposed: bool, tries: int
) -> tuple[float, np.ndarray[Any, Any]]:
    """CPU seconds of the kernel, and its rows."""
    n = len(frames)
    path = folder / "walk.dcd"
    write_dcd(path, frames)
    trajectory = _core.Trajectory([str(path)], index="memory")
    given = {"structures": frames.reshape(n, -1), "numbers": np.arange(n, dtype=np.float64), "superposed": superposed}
    jobs = [(_core.Kernel("frame_rmsds", N_ATOMS, **given), ())]
    plan = _core.Plan(trajectory, FrameSelection(range(n)), jobs, memory=4 << 30, workers=1)
    kept: list[Any] = []

    def call() -> None:
        ((_, _, partials),), _ = _core.run_leaves(trajectory, plan, jobs, 0, plan.n_leaves)
        kept[:] = partials

    seconds = least(tries, call)
    return seconds, kept[0].finish()["values"]


def numpy_gromos(square: np.ndarray[Any, Any], cutoff: float) -> list[int]:
    """The clusters' sizes, by rows of a matrix of truth values."""
    near = square < cutoff
    left, sizes = np.ones(len(near), bool), []
    counts = near.sum(axis=1)
    while left.any():
        members = near[np.argmax(np.where(left, counts, -1))] & left
        sizes.append(int(members.sum()))
        left &= ~members
        counts = counts - near[:, members].sum(axis=1)
    return sizes


def report(name: str, mine: float, goal: float, unit: str, peers: dict[str, float]) -> None:
    print(f"  {name}: {mine:.4g} {unit} (goal {goal:g})")
    for peer, value in peers.items():
        print(f"    {peer}: {value:.4g} {unit}, {value / mine:.1f} times as long")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer frames")
    quick = parser.parse_args().quick
    n, tries = (1000, 3) if quick else (4000, 5)
    n_pairs = n * (n - 1) // 2
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {n} frames of {N_ATOMS} atoms")
    frames = walk(n)
    peer = mdtraj.Trajectory(frames / 10, None)
    peer.center_coordinates()
    few = range(0, n, max(1, n // 50))

    def mdtrajs() -> None:
        for frame in few:
            mdtraj.rmsd(peer, peer, frame, parallel=False, precentered=True)

    def mdanalysis(superposition: bool) -> None:
        for frame in few:
            rmsd(frames[0], frames[frame], superposition=superposition)

    with tempfile.TemporaryDirectory() as folder:
        seconds, rows = ours(Path(folder), frames, True, tries)
        theirs = {
            "MDTraj, both halves": 2e6 * least(tries, mdtrajs) / len(few) / n,
            "MDAnalysis, the function alone": 1e6 * least(tries, functools.partial(mdanalysis, True)) / len(few),
        }
        report("superposed", 1e6 * seconds / n_pairs, GOAL_PAIR, "us a pair", theirs)
        seconds, _ = ours(Path(folder), frames, False, tries)
        theirs = {"MDAnalysis": 1e6 * least(tries, functools.partial(mdanalysis, False)) / len(few)}
        report("as they stand", 1e6 * seconds / n_pairs, GOAL_PAIR, "us a pair", theirs)
    from kinema.analysis.ensembles.frame_pairs import condensed_of_rows

    condensed = condensed_of_rows(rows)
    square = Square(condensed, n).made()
    cutoff = float(np.quantile(condensed, 0.1))
    near = np.ascontiguousarray(np.argwhere(np.triu(square < cutoff, 1)), np.uint32)
    labels, centers = _core.gromos_clusters(near, n)
    assert np.bincount(labels).tolist() == numpy_gromos(square, cutoff), "NumPy finds other clusters"
    print(f"gromos, cutoff {cutoff:.2f} angstrom, {len(near):,} pairs below it, {len(centers)} clusters")
    mine = least(tries, functools.partial(_core.gromos_clusters, near, n))
    theirs = {"NumPy": least(2, functools.partial(numpy_gromos, square, cutoff))}
    report("from the pairs", mine, GOAL_GROMOS, "s", theirs)


if __name__ == "__main__":
    main()

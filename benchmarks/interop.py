"""Frames a second inside MDAnalysis: Kinema's reader and writer beside MDAnalysis' own, in one run.

    python benchmarks/interop.py [--files TRAJECTORY ...] [--frames N]

Without files: adenylate kinase of MDAnalysisTests, its frames one after the other until there are N (DCD, XTC, H5MD).
Wall time, best of three, both on all cores they use (MDAnalysis: one). It asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import MDAnalysis
import numpy as np

from kinema.interop.mdanalysis import KinemaReader, KinemaWriter
from kinema.testing import write_dcd, write_xtc

TRIES = 3
SELECTED = 214


def made(folder: Path, n_frames: int) -> list[Path]:
    """Adenylate kinase (3341 atoms) as DCD, XTC and H5MD, the last one as MDAnalysis writes it."""
    from MDAnalysisTests.datafiles import DCD, PSF

    universe = MDAnalysis.Universe(PSF, DCD)
    positions = universe.trajectory.timeseries(order="fac")
    positions = np.concatenate([positions] * -(-n_frames // len(positions)))[:n_frames]
    write_dcd(folder / "adk.dcd", positions)
    write_xtc(folder / "adk.xtc", positions)
    universe_in_memory(positions).atoms.write(str(folder / "adk.h5md"), frames="all", velocities=False, forces=False)
    return [folder / name for name in ("adk.dcd", "adk.xtc", "adk.h5md")]


def universe_in_memory(positions: Any) -> Any:
    """A Universe over (frames, atoms, 3) in angstrom."""
    universe = MDAnalysis.Universe.empty(positions.shape[1]).load_new(positions, order="fac")
    # without, MDAnalysis' writer refuses
    universe.trajectory.units = {"length": "Angstrom", "time": "ps", "velocity": "Angstrom/ps", "force": None}
    return universe


def seconds(work: Callable[[], object]) -> float:
    """The best of several times."""
    best = float("inf")
    for _ in range(TRIES):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def loop(frames: Any) -> float:
    """Something of each frame, so that it has to be there."""
    return float(sum(ts.positions[0, 0] for ts in frames))


def compare(name: str, n_frames: int, ours: Callable[[], object], theirs: Callable[[], object]) -> None:
    """Prints one row."""
    mine, other = n_frames / seconds(ours), n_frames / seconds(theirs)
    print(f"  {name:34s} {mine:12,.0f} {other:12,.0f} {mine / other:8.1f}")


def loops(path: Path, n_frames: int) -> tuple[float, float]:
    """Seconds of a loop over frames with Kinema's reader and with MDAnalysis' own."""
    mine, own = KinemaReader(path, stored=False), MDAnalysis.coordinates.core.reader(str(path))
    every = slice(0, min(n_frames, mine.n_frames))
    return seconds(lambda: loop(mine[every])), seconds(lambda: loop(own[every]))


def rmsd(universe: Any, n_frames: int) -> object:
    """MDAnalysis' own analysis."""
    from MDAnalysis.analysis.rms import RMSD

    return RMSD(universe.atoms[:SELECTED]).run(stop=n_frames)


def readers(path: Path, n_frames: int) -> None:
    """All ways of reading one file."""
    print(path.name)
    mine = KinemaReader(path, stored=False)
    n_atoms = mine.n_atoms
    own = MDAnalysis.coordinates.core.reader(str(path))
    n = min(n_frames, mine.n_frames)
    universes = [MDAnalysis.Universe.empty(n_atoms) for _ in range(2)]
    universes[0].trajectory, universes[1].trajectory = mine, own
    for universe in universes:
        universe.add_TopologyAttr("masses", np.ones(n_atoms))
    groups = [universe.atoms[:SELECTED] for universe in universes]
    part = KinemaReader(path, stored=False, sub=np.arange(SELECTED))
    jumps = np.random.default_rng(1).integers(0, n, min(n, 500))
    every = slice(0, n)
    compare("loop over all frames", n, lambda: loop(mine[every]), lambda: loop(own[every]))
    compare("loop, 214 atoms (sub=)", n, lambda: loop(part[every]), lambda: loop(own[every]))
    compare("every 7th frame", len(range(0, n, 7)), lambda: loop(mine[:n:7]), lambda: loop(own[:n:7]))
    compare("a list of frames in any order", len(jumps), lambda: loop(mine[jumps]), lambda: loop(own[jumps]))
    singles = [int(jump) for jump in jumps]
    compare(
        "single frames, trajectory[i]",
        len(singles),
        lambda: loop(mine[i] for i in singles),
        lambda: loop(own[i] for i in singles),
    )
    few = min(n, 4000)
    compare(
        "timeseries, all atoms",
        few,
        lambda: mine.timeseries(stop=few, order="fac"),
        lambda: own.timeseries(stop=few, order="fac"),
    )
    compare(
        "timeseries, 214 atoms",
        n,
        lambda: mine.timeseries(atomgroup=groups[0], stop=n, order="fac"),
        lambda: own.timeseries(atomgroup=groups[1], stop=n, order="fac"),
    )
    compare("MDAnalysis' RMSD of 214 atoms", n, lambda: rmsd(universes[0], n), lambda: rmsd(universes[1], n))


def writers(path: Path, folder: Path, n_frames: int) -> None:
    """H5MD through both writers, of the frames of one file."""
    print(f"{path.name} to H5MD")
    reader = KinemaReader(path, stored=False)
    n = min(n_frames, reader.n_frames, 1000)
    universe = universe_in_memory(reader.timeseries(stop=n, order="fac"))
    target = str(folder / "written.h5md")
    own = MDAnalysis.coordinates.H5MD.H5MDWriter

    def write(cls: Any, **options: Any) -> None:
        with cls(target, universe.atoms.n_atoms, **options) as writer:
            for _ in universe.trajectory:
                writer.write(universe.atoms)

    compare("as it is", n, lambda: write(KinemaWriter), lambda: write(own))
    few: dict[str, Any] = {"compression": "gzip"}
    compare("gzip 4", n, lambda: write(KinemaWriter, **few), lambda: write(own, **few, compression_opts=4))


def main() -> None:
    """Prints frames a second, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--files", type=Path, nargs="+", help="trajectories; MDAnalysis leaves offsets beside XTC files"
    )
    parser.add_argument("--frames", type=int, default=5000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="kinema-bench-") as name:
        folder = Path(name)
        files = options.files or made(folder, options.frames)
        print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}; frames a second, best of {TRIES}")
        print(f"  {'':34s} {'Kinema':>12s} {'MDAnalysis':>12s} {'ratio':>8s}")
        for path in files:
            readers(path, options.frames)
        writers(files[0], folder, options.frames)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

"""Two threads beside one, for analyses of pairs, counts on grids, surfaces and frames.

`python benchmarks/two_cores.py [N_FRAMES]`; adenylate kinase in 11,084 waters (MDAnalysisTests). Wall time with
reading, the least of three runs. The limit is what two single runs side by side reach on this machine: cores
share caches and memory. It prints a table and asserts nothing.
"""

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kinema as kn
from solvated import repeated

warnings.simplefilter("ignore")

REPEATS = 3
CASES: dict[str, Callable[[kn.Trajectory], Any]] = {
    "neighbors protein - O": lambda traj: kn.analysis.Neighbors(traj, "protein and not name H*", "name OW", cutoff=3.5),
    "hydrogen bonds water - water": lambda traj: kn.analysis.HydrogenBondAnalysis(traj),
    "rdf O - O": lambda traj: kn.analysis.InterRDF(traj, "name OW", range=(0, 10)),
    "density 256^3": lambda traj: kn.analysis.DensityAnalysis(
        traj, "name OW", delta=0.4, gridcenter=(40, 40, 40), xdim=102.4, ydim=102.4, zdim=102.4
    ),
    "sasa 960 points": lambda traj: kn.analysis.SASA(traj, "protein"),
    "rmsd-matrix": lambda traj: kn.analysis.RMSDMatrix(traj, "name CA"),
}


def seconds(files: tuple[str, str], name: str, workers: int) -> float:
    """Wall time of the fastest of some runs."""
    traj = kn.open(files[1], topology=files[0])
    times = []
    for _ in range(REPEATS):
        analysis = CASES[name](traj)
        began = time.perf_counter()
        analysis.run(workers=workers, memory="2 GiB")
        times.append(time.perf_counter() - began)
    return min(times)


def side_by_side(files: tuple[str, str], name: str) -> float:
    """Wall time of a single run while a second one runs."""
    words = [sys.executable, __file__, "--one", *files, name]
    two = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    return max(float(one.communicate()[0]) for one in two)


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(seconds((sys.argv[2], sys.argv[3]), sys.argv[4], 1))
        return
    n_frames = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(f"load of the machine {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {n_frames} frames")
    print("| case | one thread, s | two, s | ratio (goal 1.9) | two single runs | share of these (goal 0.95) |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        files = repeated(Path(folder), n_frames)
        for name in CASES:
            one, two = (seconds(files, name, workers) for workers in (1, 2))
            limit = 2 * one / side_by_side(files, name)
            print(f"| {name} | {one:.2f} | {two:.2f} | {one / two:.2f} | {limit:.2f} | {one / two / limit:.2f} |")


if __name__ == "__main__":
    main()

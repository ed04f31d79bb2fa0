"""CPU time per frame of pairs within a cutoff and of least distances, beside MDAnalysis in the same run.

`OMP_NUM_THREADS=1 python benchmarks/pairs.py [N_FRAMES]`; adenylate kinase in 11,084 waters, a dodecahedron
(MDAnalysisTests). One thread each. Reading and decoding are measured alone and subtracted; MDAnalysis has its frames in
memory. Rows of results are part of the time. Two more tables compare two threads with one, and runs from the XTC file
with their parts. It asserts nothing.
"""

import os
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np

import kinema as kn
from solvated import cpu_ms, ours, print_end_to_end, print_scaling, repeated

warnings.simplefilter("ignore")

HEAVY, WATER = "protein and not name H*", "name OW"
# groups, cutoff in angstrom and goal in ms, if there is one
PAIRS = {
    "protein heavy - O": (HEAVY, WATER, 3.5, 0.45),
    "within the protein, heavy": (HEAVY, None, 4.5, 0.6),
    "O - O": (WATER, None, 10.0, "-"),
}
LEAST = "least distance protein - water"


def of_mdanalysis(files: tuple[str, str], n_frames: int) -> dict[str, float]:
    """CPU ms a frame of the search for pairs, and of all distances for the least one."""
    import MDAnalysis
    from MDAnalysis.lib.distances import capped_distance, distance_array, self_capped_distance

    universe = MDAnalysis.Universe(*files)
    found: dict[str, list[float]] = {}
    for step in universe.trajectory[:n_frames]:
        calls = {}
        for name, (first, second, cutoff, _goal) in PAIRS.items():
            one = universe.select_atoms(first).positions
            if second is None:
                calls[name] = partial(self_capped_distance, one, cutoff, box=step.dimensions)
            else:
                other = universe.select_atoms(second).positions
                calls[name] = partial(capped_distance, one, other, cutoff, box=step.dimensions)
        protein, water = (universe.select_atoms(words).positions for words in ("protein", "resname SOL"))
        calls[LEAST] = partial(distance_array, protein, water, box=step.dimensions)
        for name, call in calls.items():
            found.setdefault(name, []).append(cpu_ms(call, 1, 1))
    return {name: float(np.mean(times)) for name, times in found.items()}


def made(traj: kn.Trajectory, name: str):
    """The analysis of a case."""
    if name == LEAST:
        return kn.analysis.MinimumDistance(traj, "protein", "resname SOL")
    first, second, cutoff, _goal = PAIRS[name]
    return kn.analysis.Neighbors(traj, first, second, cutoff=cutoff)


def main() -> None:
    n_frames = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as folder:
        files = repeated(Path(folder), n_frames)
        traj = kn.open(files[1], topology=files[0])
        goals = {name: goal for name, (_, _, _, goal) in PAIRS.items()} | {LEAST: 0.8}
        cases = {name: made(traj, name) for name in goals}
        measured = {name: ours(analysis, n_frames) for name, analysis in cases.items()}
        peers = of_mdanalysis(files, min(n_frames, 5))
        print(f"CPU ms a frame; load of the machine {os.getloadavg()[0]:.1f}")
        print("| case | rows a frame | with reading | reading | Kinema | goal | MDAnalysis | ratio |")
        print("|---|---|---|---|---|---|---|---|")
        for name, (run, read) in measured.items():
            rows = float(np.mean(cases[name].results.counts))
            alone = run - read
            print(
                f"| {name} | {rows:.0f} | {run:.2f} | {read:.2f} | {alone:.2f} | {goals[name]} | {peers[name]:.1f} | "
                f"{peers[name] / alone:.1f} |"
            )
        print_scaling(cases, n_frames)
    print_end_to_end(made, cases)


if __name__ == "__main__":
    main()

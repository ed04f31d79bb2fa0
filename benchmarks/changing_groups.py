"""Time of groups that change with the frame, beside MDAnalysis: CPU ms a frame, decoding not counted.

`python benchmarks/changing_groups.py [TOPOLOGY TRAJECTORY]`; by default adenylate kinase in 11,084 waters
(MDAnalysisTests), a dodecahedron. One thread each; of MDAnalysis the evaluation of an updating group, of Kinema that of
`_core.ChangingGroup` on the same frames in memory. The least of several rounds counts. It asserts nothing.
"""

import sys
import time
import warnings

import MDAnalysis
import numpy as np

import kinema as kn
from kinema import _core
from kinema.trajectory.changing_groups import selection_that_may_change

SELECTIONS = (
    "name OW and around 3.5 protein",
    "around 3.5 protein",
    "byres (name OW and around 3.5 protein)",
    "name OW and isolayer 3.5 5.0 protein",
    "name OW and sphzone 20 protein",
    "name OW and cyzone 20 15 -15 protein",
    "prop z > 40",
)
ROUNDS = 5


def least(call) -> float:
    """The least CPU time of a call, ms."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def of_mdanalysis(universe, selection: str, n_frames: int) -> float:
    """CPU ms a frame; each frame is in memory before it is timed."""
    group = universe.select_atoms(selection, updating=True)
    times = []
    for frame in range(n_frames):
        universe.trajectory[frame]
        times.append(least(group.update_selection))
    return float(np.mean(times))


def of_kinema(traj, selection: str, n_frames: int) -> tuple[float, float]:
    """CPU ms a frame, and the mean number of members."""
    chosen = selection_that_may_change(traj, selection)
    group = _core.ChangingGroup(traj.n_atoms, chosen.expression)
    read = traj.viewed_trajectory().read(list(range(n_frames)), group.atoms, fields=["positions"])
    given = np.ascontiguousarray(read["positions"]), read["cells"], read["periodic"]
    members = group.members(*given)
    return least(lambda: group.members(*given)) / n_frames, float(np.mean([len(one) for one in members]))


def main() -> None:
    warnings.simplefilter("ignore")
    if len(sys.argv) == 3:
        topology, trajectory = sys.argv[1:]
    else:
        from MDAnalysisTests import datafiles

        topology, trajectory = datafiles.GRO, datafiles.XTC
    universe = MDAnalysis.Universe(topology, trajectory)
    traj = kn.open(trajectory, topology=topology, stored=False)
    n_frames = min(len(universe.trajectory), 10)
    print(f"{traj.n_atoms:,} atoms, {n_frames} frames, CPU ms a frame, one thread, decoding not counted")
    print(f"{'selection':<42} {'members':>8} {'MDAnalysis':>11} {'Kinema':>8} {'ratio':>7}")
    for selection in SELECTIONS:
        theirs = of_mdanalysis(universe, selection, n_frames)
        ours, members = of_kinema(traj, selection, n_frames)
        print(f"{selection:<42} {members:>8,.0f} {theirs:>11.2f} {ours:>8.3f} {theirs / ours:>6.1f}x")


if __name__ == "__main__":
    main()

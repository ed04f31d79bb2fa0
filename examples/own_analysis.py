"""A quantity of your own: a function of a frame, run in parallel and saved like the others."""

import sys

import numpy as np

import kinema as kn


def largest_extent(frame):
    """Largest distance of an atom from the centre of the atoms, in angstrom."""
    centred = frame.positions - frame.positions.mean(axis=0)
    return np.sqrt((centred**2).sum(axis=1).max())


topology, trajectory = sys.argv[1:3]
traj = kn.open(trajectory, topology=topology)
extent = kn.analysis.from_function(largest_extent, traj, "protein").run()
print(f"largest extent: {extent.results.values.max():.2f} angstrom")
extent.save("extent.csv")

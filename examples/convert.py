"""Every tenth frame of the protein as a compressed H5MD file, which carries names and masses of its atoms."""

import sys

import kinema as kn

topology, trajectory = sys.argv[1:3]
traj = kn.open(trajectory, topology=topology)
done = kn.convert(traj, "protein.h5md", select="protein", frames=slice(0, None, 10), compression="zstd")
print(done)

# the file is its own topology
small = kn.open("protein.h5md", topology="protein.h5md")
print(f"{small.n_frames} frames of {small.n_atoms} atoms, {small.select('name CA').n_atoms} of them C-alpha")

"""MPI ranks share the frames; rank 0 has the result. It also runs without a launcher, as one rank.

mpiexec -n 4 python examples/mpi_ranks.py top.psf md.xtc
"""

import sys

import kinema as kn

topology, trajectory = sys.argv[1:3]
with kn.runners.MPI() as mpi:
    if mpi.is_root:  # the other ranks wait for work
        traj = kn.open(trajectory, topology=topology)
        rmsd = kn.analysis.RMSD(traj, select="name CA").run(runner=mpi)
        print(f"{mpi.size} ranks: {rmsd.results.rmsd[:, 2].mean():.3f} angstrom on average")
        rmsd.save("rmsd.csv")

"""RMSD of the C-alpha atoms to the first frame, as a table and as a picture."""

import sys

import kinema as kn

topology, trajectory = sys.argv[1:3]
traj = kn.open(trajectory, topology=topology)
rmsd = kn.analysis.RMSD(traj, select="protein and name CA", ref_frame=0).run()

frame, time, value = rmsd.results.rmsd[-1]  # a row for each frame: frame, ps, angstrom
print(f"{traj.n_frames} frames; RMSD {value:.3f} angstrom at {time:.0f} ps")
print(rmsd.timings)

rmsd.save("rmsd.csv")  # with the version, the call and fingerprints of the inputs
rmsd.plot("rmsd.png")

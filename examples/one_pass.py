"""Three analyses in one pass: each frame is read and decoded once."""

import sys

import kinema as kn

topology, trajectory = sys.argv[1:3]
traj = kn.open(trajectory, topology=topology)
analyses = {
    "rmsd": kn.analysis.RMSD(traj, select="name CA"),
    "rgyr": kn.analysis.RadiusOfGyration(traj, select="protein"),
    "dihedrals": kn.analysis.Ramachandran(traj),
}
kn.run(list(analyses.values()))
for name, analysis in analyses.items():
    analysis.save(f"{name}.csv")
    print(f"{name}.csv")

"""CPU time per frame of hydrogen bonds and water bridges, beside MDAnalysis and MDTraj in the same run.

`OMP_NUM_THREADS=1 python benchmarks/hydrogen_bonds.py [N_FRAMES]`; adenylate kinase in 11,084 waters, a dodecahedron
(MDAnalysisTests). One worker and one thread each; reading and decoding are measured alone and subtracted.
Two more tables compare two threads with one, and runs from the XTC file with their parts. It asserts nothing.
"""

import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import kinema as kn
from solvated import cpu_ms, ours, print_end_to_end, print_scaling, repeated

warnings.simplefilter("ignore")

GOALS = {"within the protein": 0.15, "protein - water": 1.0, "water - water": 3.0, "bridges ARG - ASP, GLU": 1.0}
PROTEIN, WATER = "protein", "resname SOL"
BETWEEN = {
    "within the protein": [PROTEIN, PROTEIN],
    "protein - water": [PROTEIN, WATER],
    "water - water": [WATER, WATER],
}
FIRST, SECOND = "resname ARG and not backbone", "(resname ASP or resname GLU) and not backbone"


def of_mdanalysis(files: tuple[str, str], n_frames: int) -> dict[str, float]:
    import MDAnalysis
    from MDAnalysis.analysis.hydrogenbonds import HydrogenBondAnalysis
    from MDAnalysis.analysis.hydrogenbonds.wbridge_analysis import WaterBridgeAnalysis

    universe = MDAnalysis.Universe(*files)
    found = {}
    for name, between in BETWEEN.items():
        groups = [f"{group} and not element C" for group in between]
        if name == "within the protein":
            analysis = HydrogenBondAnalysis(universe, between=between)
            hydrogens, acceptors = analysis.guess_hydrogens("protein"), analysis.guess_acceptors("protein")
            analysis = HydrogenBondAnalysis(universe, None, hydrogens, acceptors, update_selections=False)
        elif name == "water - water":
            analysis = HydrogenBondAnalysis(
                universe, None, f"{WATER} and name HW1 HW2", f"{WATER} and name OW", update_selections=False
            )
        else:
            analysis = HydrogenBondAnalysis(universe, between=groups, update_selections=False)
        found[name] = cpu_ms(lambda analysis=analysis: analysis.run(stop=n_frames), n_frames, 1)
    bridges = WaterBridgeAnalysis(universe, FIRST, SECOND, WATER, pbc=True)
    found["bridges ARG - ASP, GLU"] = cpu_ms(lambda: bridges.run(stop=n_frames), n_frames, 1)
    return found


def of_mdtraj(files: tuple[str, str], n_frames: int) -> float:
    """Wernet-Nilsson within the protein: MDTraj has a list of all frames at once."""
    import MDAnalysis
    import mdtraj

    with tempfile.TemporaryDirectory() as folder:
        universe = MDAnalysis.Universe(*files)
        protein = universe.select_atoms("protein")
        path = Path(folder) / "protein.pdb"
        protein.write(str(path), bonds="all")
        traj = mdtraj.load(str(path))
        frames = np.array([protein.positions / 10 for _ in universe.trajectory[:n_frames]])
        cells = np.array([step.triclinic_dimensions / 10 for step in universe.trajectory[:n_frames]])
    made = mdtraj.Trajectory(frames, traj.topology)
    made.unitcell_vectors = cells
    return cpu_ms(lambda: mdtraj.wernet_nilsson(made), n_frames)


def made(traj: kn.Trajectory, name: str):
    """The analysis of a case."""
    if name in BETWEEN:
        return kn.analysis.HydrogenBondAnalysis(traj, between=BETWEEN[name])
    return kn.analysis.WaterBridgeAnalysis(traj, FIRST, SECOND, WATER)


def main() -> None:
    n_frames = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    peer_frames = min(n_frames, 5)
    with tempfile.TemporaryDirectory() as folder:
        files = repeated(Path(folder), n_frames)
        traj = kn.open(files[1], topology=files[0])
        cases = {name: made(traj, name) for name in GOALS}
        measured = {name: ours(analysis, n_frames) for name, analysis in cases.items()}
        peers = of_mdanalysis(files, peer_frames)
        within = of_mdtraj(files, peer_frames)
        print(f"CPU ms a frame; load of the machine {os.getloadavg()[0]:.1f}")
        print(
            "| case | found a frame | with reading | reading | Kinema | goal | MDAnalysis (r) | ratio "
            "| MDTraj | ratio |"
        )
        print("|---|---|---|---|---|---|---|---|---|---|")
        for name, (run, read) in measured.items():
            rows = float(np.mean(cases[name].results.counts))
            alone = run - read
            other = f"{within:.2f} | {within / alone:.0f}" if name == "within the protein" else "- | -"
            print(
                f"| {name} | {rows:.0f} | {run:.2f} | {read:.2f} | {alone:.2f} | {GOALS[name]} | {peers[name]:.0f} | "
                f"{peers[name] / alone:.0f} | {other} |"
            )
        print_scaling(cases, n_frames)
    print_end_to_end(made, GOALS)


if __name__ == "__main__":
    main()

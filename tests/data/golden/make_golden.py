"""Makes the golden files of this folder from the data of MDAnalysisTests; see PROVENANCE.md.

Every value is read by two programs that share no code with Kinema, and the script stops where they differ.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import chemfiles
import MDAnalysis
import mdtraj
import numpy as np
from MDAnalysis.analysis import align, rms
from MDAnalysisTests import datafiles

HERE = Path(__file__).parent


def read_chemfiles(path: Path) -> np.ndarray:
    with chemfiles.Trajectory(str(path)) as trajectory:
        frames = [trajectory.read() for _ in range(trajectory.nsteps)]
        # positions are views into frames, which must live as long
        return np.array([frame.positions for frame in frames])


def write(name: str, universe: MDAnalysis.Universe, frames: slice) -> None:
    atoms = universe.select_atoms("protein and name CA")
    universe.trajectory[0]
    atoms.write(str(HERE / "ca.pdb"))
    with MDAnalysis.Writer(str(HERE / name), atoms.n_atoms) as writer:
        for step in universe.trajectory[frames]:
            if step.dimensions is None:
                # chemfiles refuses the cell without angles that MDAnalysis writes for none
                step.dimensions = [90.0] * 6
            writer.write(atoms)


def values(name: str) -> dict[str, np.ndarray]:
    path = HERE / name
    universe = MDAnalysis.Universe(str(HERE / "ca.pdb"), str(path))
    steps = [(ts.positions.copy(), ts.time) for ts in universe.trajectory]
    positions = np.array([one for one, _ in steps], dtype=np.float32)
    velocities = {}
    if universe.trajectory.ts.has_velocities:
        velocities = {"velocities": np.array([ts.velocities.copy() for ts in universe.trajectory])}
        with chemfiles.Trajectory(str(path)) as trajectory:
            frames = [trajectory.read() for _ in range(trajectory.nsteps)]
            np.testing.assert_allclose([one.velocities for one in frames], velocities["velocities"], rtol=1e-6)
    other = mdtraj.load(str(path), top=str(HERE / "ca.pdb"))
    np.testing.assert_allclose(other.xyz * 10.0, positions, rtol=0, atol=2e-5)
    np.testing.assert_allclose(read_chemfiles(path), positions, rtol=0, atol=2e-5)

    rmsd = rms.RMSD(universe, ref_frame=0).run().results.rmsd[:, 2]
    np.testing.assert_allclose(mdtraj.rmsd(other, other, 0) * 10.0, rmsd, rtol=0, atol=2e-3)
    rgyr = np.array([universe.atoms.radius_of_gyration() for _ in universe.trajectory])
    np.testing.assert_allclose(mdtraj.compute_rg(other) * 10.0, rgyr, rtol=0, atol=1e-4)
    plain = rms.RMSF(universe.atoms).run().results.rmsf

    average = align.AverageStructure(universe, universe, ref_frame=0).run().results.universe
    align.AlignTraj(universe, average, in_memory=True).run()
    aligned = rms.RMSF(universe.atoms).run().results.rmsf
    return {
        "positions": positions,
        "times": np.array([time for _, time in steps]),
        "rmsd": rmsd,
        "rgyr": rgyr,
        "rmsf": plain,
        "rmsf_aligned": aligned,
        **velocities,
    }


def main() -> None:
    warnings.simplefilter("ignore")
    made = {
        "ca.dcd": (MDAnalysis.Universe(datafiles.PSF, datafiles.DCD), slice(None, None, 7)),
        "ca.trr": (MDAnalysis.Universe(datafiles.GRO, datafiles.TRR), slice(None)),
        "ca.xtc": (MDAnalysis.Universe(datafiles.GRO, datafiles.XTC), slice(None)),
    }
    for name, (universe, frames) in made.items():
        write(name, universe, frames)
        np.savez_compressed(HERE / f"{name}.npz", **values(name))
    for left in HERE.glob(".ca.*_offsets.*"):  # MDAnalysis' own index
        left.unlink()
    versions = {module.__name__: module.__version__ for module in (MDAnalysis, mdtraj, chemfiles, np)}
    (HERE / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


if __name__ == "__main__":
    main()

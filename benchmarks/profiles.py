"""CPU time per frame of density profiles and structure factors, beside MDAnalysis and freud in the same run.

`OMP_NUM_THREADS=1 python benchmarks/profiles.py [N_FRAMES]`; adenylate kinase in 11,084 waters, a dodecahedron
(MDAnalysisTests). One thread each. Reading and decoding are measured alone and subtracted; MDAnalysis has its frames in
memory, and computes mass and charge only. freud, if it is installed, takes the wave vectors with h, k, l >= 0 alone, an
eighth of them: its ratio is by wave vector. It prints a table and asserts nothing.
"""

import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import kinema as kn
from solvated import cpu_ms, ours, repeated

warnings.simplefilter("ignore")

PROFILE, FACTOR = "profile of 47,681 atoms, four quantities", "S(k) of {} atoms, |k| <= {:g}"
# ms a frame
GOAL = 0.25
# structure factors are slow: some atoms, and few frames
SELECT, KMAX, NBINS = "name OW", 5.0, 100


def profile_of_mdanalysis(files: tuple[str, str], n_frames: int) -> float:
    """CPU ms a frame of LinearDensity."""
    import MDAnalysis
    from MDAnalysis.analysis.lineardensity import LinearDensity

    universe = MDAnalysis.Universe(*files)
    universe.transfer_to_memory(stop=n_frames)
    return cpu_ms(lambda: LinearDensity(universe.atoms).run(), n_frames)


def factor_of_freud(traj: kn.Trajectory) -> float | None:
    """CPU ms of the direct structure factor of the first frame; None without freud."""
    try:
        import freud
    except ImportError:
        return None
    freud.parallel.set_num_threads(1)
    a, b, c = np.asarray(traj[0].cell, np.float64)
    # freud's upper triangular cell with the same edges
    box = freud.box.Box.from_matrix(np.array([a, b, c]).T)
    points = box.wrap(traj.read([0], SELECT)[0])
    direct = freud.diffraction.StaticStructureFactorDirect(bins=NBINS, k_max=KMAX)
    return cpu_ms(lambda: direct.compute((box, points)), 1, 1)


def main() -> None:
    n_frames = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as folder:
        files = repeated(Path(folder), n_frames)
        traj = kn.open(files[1], topology=files[0])
        run, read = ours(kn.analysis.LinearDensity(traj), n_frames)
        theirs = profile_of_mdanalysis(files, min(n_frames, 20))
        factor = kn.analysis.StructureFactor(traj, SELECT, kmax=KMAX, nbins=NBINS)
        of_factor = cpu_ms(lambda: factor.run(stop=1, runner="serial"), 1, 2)
        vectors = factor.results.wave_vectors.sum()
        freuds = factor_of_freud(traj)
    alone = run - read
    print(f"CPU ms a frame; load of the machine {os.getloadavg()[0]:.1f}")
    print("| case | with reading | reading | Kinema | goal | peer | ratio |")
    print("|---|---|---|---|---|---|---|")
    print(f"| {PROFILE} | {run:.2f} | {read:.2f} | {alone:.3f} | {GOAL} | {theirs:.1f} | {theirs / alone:.1f} |")
    name = FACTOR.format(factor.selection.n_atoms, KMAX)
    shown = "freud is not installed | " if freuds is None else f"{freuds:.0f} | {8 * freuds / of_factor:.1f}"
    print(f"| {name}, {vectors:.0f} wave vectors | {of_factor:.0f} | | {of_factor:.0f} | | {shown} |")


if __name__ == "__main__":
    main()

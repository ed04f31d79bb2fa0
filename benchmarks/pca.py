"""CPU time per frame of the covariance of coordinates, beside NumPy and MDAnalysis in the same run.

`OMP_NUM_THREADS=1 python benchmarks/pca.py [N_FRAMES]`; atoms of a random walk, as many as adenylate kinase has
C-alphas (642 coordinates) and backbone atoms (2,565). One thread each. Reading is measured alone and subtracted; peers
have their frames in memory, in double precision for NumPy. Eigenvectors are left out: all take them from LAPACK. A run
merges 31 partials, whatever its length, which count with many coordinates and few frames: 20,000 frames show the loop.
It prints a table with ratios and asserts nothing.
"""

import os
import sys
import tempfile
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

import kinema as kn
from kinema import _core
from kinema.execution.computation import Pass
from kinema.execution.run import run_pass
from kinema.model.selection.frames import FrameSelection
from kinema.testing import random_walk, write_dcd
from solvated import cpu_ms

warnings.simplefilter("ignore")

# atoms, and frames of MDAnalysis, which takes long
CASES = {214: 40, 855: 6}


def of_numpy(rows: np.ndarray) -> float:
    """CPU us a frame of the product of frames about their mean."""
    apart = rows - rows.mean(axis=0)
    return 1000 * cpu_ms(lambda: apart.T @ apart, len(rows))


def of_mdanalysis(positions: np.ndarray) -> float:
    """CPU us a frame of MDAnalysis' PCA without its eigenvectors."""
    import MDAnalysis
    from MDAnalysis.analysis.pca import PCA

    universe = MDAnalysis.Universe.empty(positions.shape[1], trajectory=True)
    universe.load_new(positions, order="fac")
    width = 3 * positions.shape[1]
    with mock.patch("numpy.linalg.eig", return_value=(np.ones(width), np.eye(width))):
        return 1000 * cpu_ms(PCA(universe).run, len(positions), 1)


def of_kinema(path: Path, n_frames: int) -> float:
    """CPU us a frame of the covariance, without reading."""
    traj = kn.open(path)
    analysis = kn.analysis.PCA(traj)
    atoms, frames = analysis.selection.indices, FrameSelection(range(n_frames))
    taken = []
    for name in ("covariance", "rgyr"):
        kernel = _core.Kernel(name, traj.n_atoms, atoms=atoms)
        taken.append(
            1000 * cpu_ms(lambda kernel=kernel: run_pass([analysis], [Pass(kernel)], frames, workers=1), n_frames)
        )
    return max(taken[0] - taken[1], np.finfo(float).tiny)


def main() -> None:
    n_frames = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    print(f"{n_frames} frames, load {os.getloadavg()[0]:.1f}; CPU us a frame; goal: at most 1.5 times NumPy")
    print(f"{'coordinates':>11}{'Kinema':>9}{'NumPy':>9}{'of it':>8}{'MDAnalysis':>12}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(limits=1):
        for n_atoms, few in CASES.items():
            positions = random_walk(n_frames, n_atoms)
            path = Path(folder) / f"{n_atoms}.dcd"
            write_dcd(path, positions)
            ours = of_kinema(path, n_frames)
            numpys = of_numpy(positions.reshape(n_frames, -1).astype(np.float64))
            theirs = of_mdanalysis(positions[:few])
            print(f"{3 * n_atoms:11,}{ours:9.1f}{numpys:9.1f}{ours / numpys:8.2f}{theirs:12.0f}{theirs / ours:8.0f}")


if __name__ == "__main__":
    main()

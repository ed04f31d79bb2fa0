"""Density on a grid of 1 angstrom beside MDAnalysis and NumPy's bincount: CPU ns an atom, in one run.

    OMP_NUM_THREADS=1 python benchmarks/grids.py [FRAMES]

Uniform atoms in a cube of 78 angstrom, as many as of 11,084 waters and a protein. One thread each. Reading and decoding
are measured alone and subtracted; the peers have their frames in memory. It prints a table and asserts nothing.
"""

import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import kinema as kn
from kinema.testing.writers import write_dcd
from solvated import cpu_ms, decoding

warnings.simplefilter("ignore")

N_ATOMS, EDGE = 47_681, 78.0
GRID = {"gridcenter": (EDGE / 2,) * 3, "xdim": EDGE, "ydim": EDGE, "zdim": EDGE}
# ns an atom
GOAL = 3.0
# frames of MDAnalysis, which takes long
FEW = 40


def of_numpy(positions: np.ndarray) -> np.ndarray:
    """The counts of all frames."""
    n = int(EDGE)
    counts = np.zeros(n**3, np.int64)
    for frame in positions:
        bins = np.clip(frame.astype(np.intp), 0, n - 1)
        counts += np.bincount((bins[:, 0] * n + bins[:, 1]) * n + bins[:, 2], minlength=n**3)
    return counts


def of_mdanalysis(positions: np.ndarray) -> float | None:
    """CPU ms a frame; None without MDAnalysis."""
    try:
        import MDAnalysis
        from MDAnalysis.analysis.density import DensityAnalysis
    except ImportError:
        return None
    universe = MDAnalysis.Universe.empty(positions.shape[1], trajectory=True)
    universe.load_new(positions, order="fac")
    return cpu_ms(lambda: DensityAnalysis(universe.atoms, **GRID).run(), len(positions), 2)


def main() -> None:
    n_frames = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    positions = np.random.default_rng(1).uniform(0, EDGE, (n_frames, N_ATOMS, 3)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.dcd"
        write_dcd(path, positions)
        density = kn.analysis.DensityAnalysis(kn.open(path, stored=False), **GRID)
        run = 1e6 / N_ATOMS * cpu_ms(lambda: density.run(runner="serial"), n_frames, 7)
        read = 1e6 / N_ATOMS * decoding(density, n_frames)
    peers = {
        "NumPy bincount": cpu_ms(lambda: of_numpy(positions), n_frames, 2),
        "MDAnalysis": of_mdanalysis(positions[:FEW]),
    }
    alone = run - read
    print(f"{n_frames} frames, CPU ns an atom; load of the machine {os.getloadavg()[0]:.1f}")
    print(f"Kinema {alone:.2f} (goal {GOAL:g}): {run:.2f} with reading, of which {read:.2f} is reading")
    for name, ms in peers.items():
        if ms is None:
            print(f"{name} is not installed")
        else:
            print(f"{name} {1e6 / N_ATOMS * ms:.1f}, {1e6 / N_ATOMS * ms / alone:.1f} times ours")


if __name__ == "__main__":
    main()

"""Density on a grid of 1 angstrom beside MDAnalysis and NumPy's bincount: ns an atom, in one run.

    python benchmarks/grids.py [FRAMES]

Uniform atoms in a cube of 78 angstrom, as many as of 11,084 waters and a protein; reading is counted for Kinema and for
MDAnalysis, and not for NumPy.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import kinema as kn
from kinema.base.notes import collected
from kinema.testing.writers import write_dcd

N_ATOMS, EDGE = 47_681, 78.0


def main() -> None:
    """Prints CPU ns an atom, and the ratio to ours."""
    n_frames = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    positions = np.random.default_rng(1).uniform(0, EDGE, (n_frames, N_ATOMS, 3)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.dcd"
        write_dcd(path, positions)
        traj = kn.open(path, stored=False)
        grid = {"gridcenter": (EDGE / 2,) * 3, "xdim": EDGE, "ydim": EDGE, "zdim": EDGE}
        taken = {}

        def timed(name: str, call: object) -> None:
            start = time.process_time()
            with collected():
                call()  # type: ignore[operator]
            taken[name] = (time.process_time() - start) / (n_frames * N_ATOMS) * 1e9

        # imports are not counted
        with collected():
            kn.analysis.DensityAnalysis(traj, **grid).run(stop=2, runner="serial")
        timed("kinema", lambda: kn.analysis.DensityAnalysis(traj, **grid).run(runner="serial"))
        timed("numpy.bincount", lambda: _numpy(positions))
        try:
            import MDAnalysis
            from MDAnalysis.analysis.density import DensityAnalysis
        except ImportError:
            print("MDAnalysis is not installed")
        else:
            universe = MDAnalysis.Universe.empty(N_ATOMS, trajectory=True)
            universe.load_new(str(path))
            timed("MDAnalysis", lambda: DensityAnalysis(universe.atoms, **grid).run())
    for name, ns in taken.items():
        print(f"{name:>16}: {ns:8.2f} ns an atom, {ns / taken['kinema']:6.1f} x ours")


def _numpy(positions: np.ndarray) -> np.ndarray:
    n = int(EDGE)
    counts = np.zeros(n**3, np.int64)
    for frame in positions:
        bins = np.clip(frame.astype(np.intp), 0, n - 1)
        counts += np.bincount((bins[:, 0] * n + bins[:, 1]) * n + bins[:, 2], minlength=n**3)
    return counts


if __name__ == "__main__":
    main()

"""CPU time per frame of radial distribution functions, beside MDAnalysis and freud in the same run.

`OMP_NUM_THREADS=1 python benchmarks/rdf.py [N_FRAMES]`; adenylate kinase in 11,084 waters, a dodecahedron
(MDAnalysisTests). One thread each. Reading and decoding are measured alone and subtracted; peers have their frames in
memory. It prints a table with ratios and asserts nothing; without freud its column is empty.
"""

import os
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np

import kinema as kn
from solvated import cpu_ms, ours, repeated

warnings.simplefilter("ignore")

WATER = "name OW"
# groups, bins, largest distance in angstrom and goal in ms
CASES = {
    "O - O": (WATER, None, 75, 10.0, 5.0),
    "C-alpha - O": ("protein and name CA", WATER, 75, 15.0, 1.0),
}
# frames of the peers, which take long
FEW = 2


def of_peers(files: tuple[str, str]) -> dict[str, tuple[float, float | None]]:
    """CPU ms a frame of MDAnalysis' InterRDF, and of freud's RDF if it is installed."""
    import MDAnalysis
    from MDAnalysis.analysis.rdf import InterRDF

    try:
        import freud
    except ImportError:
        freud = None
    universe = MDAnalysis.Universe(*files)
    universe.transfer_to_memory(stop=FEW)
    found = {}
    for name, (first, second, bins, most, _goal) in CASES.items():
        one = universe.select_atoms(first)
        other = one if second is None else universe.select_atoms(second)
        theirs = InterRDF(one, other, nbins=bins, range=(0.0, most), exclusion_block=(1, 1) if second is None else None)
        freuds = None
        if freud is not None:
            box = freud.box.Box.from_box(MDAnalysis.lib.mdamath.triclinic_vectors(universe.dimensions).T)
            rdf = freud.density.RDF(bins=bins, r_max=most)
            query = None if second is None else one.positions
            freuds = cpu_ms(partial(rdf.compute, (box, other.positions), query, reset=True), 1)
        found[name] = (cpu_ms(theirs.run, FEW, 1), freuds)
    return found


def main() -> None:
    n_frames = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory() as folder:
        files = repeated(Path(folder), n_frames)
        traj = kn.open(files[1], topology=files[0])
        peers = of_peers(files)
        print(f"{n_frames} frames, load {os.getloadavg()[0]:.1f}; CPU ms a frame")
        print(f"{'case':14}{'Kinema':>9}{'goal':>7}{'MDAnalysis':>12}{'ratio':>8}{'freud':>9}{'ratio':>8}")
        for name, (first, second, bins, most, goal) in CASES.items():
            run, read = ours(kn.analysis.InterRDF(traj, first, second, nbins=bins, range=(0.0, most)), n_frames)
            alone = max(run - read, np.finfo(float).tiny)
            theirs, freuds = peers[name]
            row = f"{name:14}{alone:9.2f}{goal:7.1f}{theirs:12.1f}{theirs / alone:8.0f}"
            print(row + ("" if freuds is None else f"{freuds:9.1f}{freuds / alone:8.1f}"))


if __name__ == "__main__":
    main()

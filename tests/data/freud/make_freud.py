"""Makes `freud.npz` with the Python package freud-analysis; see PROVENANCE.md."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import freud
import numpy as np

HERE = Path(__file__).parent
BINS = 20
# rows a, b, c, angstrom
CELLS = {
    "cube": np.eye(3) * 8.0,
    "box": np.diag([7.0, 9.0, 8.0]),
    "hexagonal": [[8.0, 0, 0], [-4.0, 48**0.5, 0], [0, 0, 9.0]],
    "rhombic dodecahedron": [[9.0, 0, 0], [0, 9.0, 0], [4.5, 4.5, 40.5**0.5]],
    "truncated octahedron": [[9.0, 0, 0], [3.0, 72**0.5, 0], [-3.0, 18**0.5, 54**0.5]],
    "monoclinic": [[8.0, 0, 0], [0, 7.0, 0], [-3.5, 0, 8.0]],
    "steep": [[6.0, 0, 0], [2.9, 7.0, 0], [2.9, 3.4, 6.5]],
    "flat": np.diag([12.0, 11.0, 3.0]),
}


def main() -> None:
    values = {}
    fractions = np.random.default_rng(8).uniform(0, 1, (150, 3))
    for kind, rows in CELLS.items():
        cell = np.array(rows)
        # up to the half of the least height of the cell
        most = 0.499 / np.linalg.norm(np.linalg.inv(cell), axis=0).max()
        positions = (fractions @ cell).astype(np.float32)
        box = freud.box.Box.from_box(cell.T)
        rdf = freud.density.RDF(bins=BINS, r_max=most, normalization_mode="finite_size")
        rdf.compute((box, box.wrap(positions)))
        values |= {f"{kind} cell": cell, f"{kind} positions": positions, f"{kind} most": most}
        values |= {f"{kind} counts": rdf.bin_counts, f"{kind} rdf": rdf.rdf}
    # freud takes the wave vectors with h, k, l >= 0 alone: the same means if mirror images are there, and bins are so
    # narrow that all of their wave vectors have equally many of these
    edge, kmax, bins = 10.0, 1.85, 300
    some = np.random.default_rng(4).uniform(-edge / 2, edge / 2, (25, 3))
    signs = np.array(list(product((-1, 1), repeat=3)))
    positions = (some * signs[:, None]).reshape(-1, 3).astype(np.float32)
    direct = freud.diffraction.StaticStructureFactorDirect(bins=bins, k_max=kmax)
    direct.compute((freud.box.Box.cube(edge), positions))
    values |= {"mirrored positions": positions, "mirrored S(k)": direct.S_k}
    np.savez_compressed(HERE / "freud.npz", **values)


if __name__ == "__main__":
    main()

"""Trajectories with forces, elements and energies for the tests of exports and statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import kinema as kn
from kinema.base.notes import collected
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")

# 1000 J / (mol * 1 eV): Avogadro's number and the charge of the electron are exact (CODATA 2018)
EV = 6.02214076e23 * 1.602176634e-19 / 1000


def topology(elements: str) -> Any:
    """A universe of atoms with these elements: "O H H"."""
    symbols = elements.split()
    universe = MDAnalysis.Universe.empty(len(symbols), trajectory=True)
    universe.add_TopologyAttr("elements", symbols)
    universe.add_TopologyAttr("names", symbols)
    universe.add_TopologyAttr("masses", [1.0] * len(symbols))
    return universe


def trajectory(
    path: Path, elements: str = "O H H " * 3, n: int = 23, seed: int = 1, cell: bool = True, **options: Any
) -> kn.Trajectory:
    """Frames 10 steps and 2 ps apart, with random positions and forces in a skewed cell."""
    random = np.random.default_rng(seed)
    atoms = len(elements.split())
    with collected(), kn.Writer(path, atoms, **options) as out:
        for i in range(n):
            box = np.array([[40.0, 0, 0], [3.5, 41, 0], [-2.25, 1.5, 42 + i]])
            out.write(
                positions=random.uniform(-40, 40, (atoms, 3)).astype(np.float32),
                forces=random.normal(0, 900, (atoms, 3)).astype(np.float32),
                cell=box if cell else None,
                step=10 * i,
                time=2.0 * i,
            )
    return kn.open(path, topology=topology(elements))


def energies(n: int = 23, seed: int = 5) -> dict[str, Any]:
    """A table of labels, in another order than the frames."""
    steps = 10 * np.random.default_rng(seed).permutation(n)
    return {"step": steps, "energy": -1000.0 - steps / 7.0}

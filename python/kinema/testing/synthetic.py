"""Synthetic trajectories in memory: a random walk with cells, steps and times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

CellKind = Literal["none", "cuboid", "triclinic", "growing"]


def random_walk(n_frames: int, n_atoms: int, seed: int = 1) -> NDArray[np.float32]:
    """(frames, atoms, 3) float32 in angstrom: atoms in a box of 30 A that move by some 0.3 A a frame.

    Rounded to 0.01 A, which XTC files keep.
    """
    random = np.random.default_rng(seed)
    start = random.uniform(-15.0, 15.0, (n_atoms, 3))
    moves = random.normal(0.0, 0.3, (n_frames, n_atoms, 3))
    moves[0] = 0.0
    return (start + np.cumsum(moves, axis=0)).round(2).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Synthetic:
    """A trajectory in memory: angstrom, ps, angstrom/ps.

    `positions` and `velocities` (frames, atoms, 3) float32, `cells` (frames, 3, 3) float32 of row vectors, all zero if
    there is no cell, `steps` and `times` (frames,).
    """

    positions: NDArray[np.float32]
    velocities: NDArray[np.float32] | None
    cells: NDArray[np.float32]
    steps: NDArray[np.int64]
    times: NDArray[np.float64]


def random_cells(n_frames: int, kind: CellKind, seed: int = 1) -> NDArray[np.float32]:
    """(frames, 3, 3) float32: none (zeros), one cuboid, one triclinic cell, or a triclinic one that grows.

    Vectors are as GROMACS keeps them: a along x, b in the xy plane. Lengths are rounded to 0.01 A.
    """
    random = np.random.default_rng(seed)
    cell = np.diag(random.uniform(60.0, 90.0, 3)) if kind != "none" else np.zeros((3, 3))
    if kind in ("triclinic", "growing"):
        cell[1, 0], cell[2, 0], cell[2, 1] = random.uniform(-0.4, 0.4, 3) * cell[0, 0]
    growth = 1.0 + 0.01 * np.arange(n_frames) if kind == "growing" else np.ones(n_frames)
    return (growth[:, None, None] * cell).round(2).astype(np.float32)


def synthetic(
    n_frames: int,
    n_atoms: int,
    *,
    cell: CellKind = "cuboid",
    velocities: bool = False,
    first_step: int = 0,
    stride: int = 1,
    dt: float = 1.0,
    seed: int = 1,
) -> Synthetic:
    """A random walk of any size with cells of any kind; velocities are the moves to the next frame over `dt` ps."""
    positions = random_walk(n_frames, n_atoms, seed)
    moves = np.diff(positions, axis=0, append=positions[-1:]) / np.float32(dt)
    steps = first_step + stride * np.arange(n_frames, dtype=np.int64)
    times = dt * np.arange(n_frames, dtype=np.float64)
    return Synthetic(positions, moves if velocities else None, random_cells(n_frames, cell, seed), steps, times)

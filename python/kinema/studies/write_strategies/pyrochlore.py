"""The system of the experiment: Gd2Zr2O7, a pyrochlore; each rank makes only the atoms of its own domain.

Fd-3m (no. 227, second setting: the origin at -3m), 88 atoms a cell: Gd on 16d, Zr on 16c, O on 48f and 8b, 8a is empty
(Wyckoff positions: International Tables for Crystallography, volume A). The lattice constant is the one at 298 K of
Gd1.91Zr2.07O7 in "Probing disorder in pyrochlore oxides using in situ synchrotron diffraction from levitated solids"
(Scientific Reports 2018, table 2: 10.499(6) and 10.500(5) angstrom). The parameter x of 48f is rounded: refinements and
models of pyrochlores have it between 5/16 and 3/8; neither sizes of files nor times depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError

LATTICE_CONSTANT = 10.50
"""Angstrom."""
OXYGEN_X = 0.345
"""Fraction of the cell, the parameter of the 48f sites."""
SITES = 88
"""Atoms per cell."""

NAMES = ("Gd", "Zr", "O")
MASSES = np.array([157.25, 91.224, 15.999])
CHARGES = np.array([3.0, 4.0, -2.0])

_CENTRING = np.array([[0, 0, 0], [0, 4, 4], [4, 0, 4], [4, 4, 0]]) / 8
_16C = np.array([[0, 0, 0], [6, 2, 4], [2, 4, 6], [4, 6, 2]]) / 8
_16D = np.array([[4, 4, 4], [2, 6, 0], [6, 0, 2], [0, 2, 6]]) / 8
_8A = np.array([[1, 1, 1], [7, 3, 3]]) / 8
_8B = np.array([[3, 3, 3], [1, 5, 1]]) / 8

# J/(mol K) as (u angstrom^2/ps^2)/K
_GAS_CONSTANT = 0.831446261815324
_TEMPERATURE = 300.0
# deviation of each component: angstrom, kJ/(mol angstrom)
_DISPLACEMENT = 0.08
_FORCE = 150.0
# number of atoms that are made at a time
_BATCH = 1 << 15


def site_positions() -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """(88, 3) fractions of the cell in [0, 1), and (88,) numbers in NAMES."""
    # six around each empty site, which has tetrahedral symmetry: (x, 1/8, 1/8) and its equivalents
    along = (OXYGEN_X - 1 / 8) * np.concatenate([np.eye(3), -np.eye(3)])
    oxygen = (_8A[:, None, :] + along).reshape(-1, 3)
    found = [(sites[:, None, :] + _CENTRING).reshape(-1, 3) % 1.0 for sites in (_16D, _16C, oxygen, _8B)]
    kinds = np.repeat(np.array([0, 1, 2, 2], np.uint8), [len(one) for one in found])
    return np.concatenate(found), kinds


@dataclass(frozen=True, eq=False)
class OwnAtoms:
    """Atoms of a rank, in random order: (n,) ids from 0; (n, 3) positions, velocities, forces in Kinema's units."""

    ids: NDArray[np.int64]
    positions: NDArray[np.float64]
    velocities: NDArray[np.float64]
    forces: NDArray[np.float64]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(one.nbytes for one in (self.ids, self.positions, self.velocities, self.forces))


@dataclass(frozen=True)
class Pyrochlore:
    """A block of whole cells, (nx, ny, nz); its atoms have ids in the order of cells (x runs fastest) and sites.

    Positions, velocities and forces of an atom follow from its id and the seed, whichever rank makes them.
    """

    cells: tuple[int, int, int]
    seed: int = 1
    displacement: float = _DISPLACEMENT

    @classmethod
    def from_particle_count(cls, particles: int, seed: int = 1) -> Pyrochlore:
        """The block, as nearly a cube as possible, with about `particles` atoms; at least one cell."""
        if particles < 1:
            raise ArgumentError(f"particles must be at least 1, found {particles}")
        wanted = max(1.0, particles / SITES)
        nx = max(1, round(wanted ** (1 / 3)))
        ny = max(1, round((wanted / nx) ** 0.5))
        return cls((nx, ny, max(1, round(wanted / (nx * ny)))), seed)

    @property
    def n_atoms(self) -> int:
        """Number of atoms of all cells."""
        return SITES * self.cells[0] * self.cells[1] * self.cells[2]

    @property
    def box(self) -> NDArray[np.float64]:
        """(3, 3) angstrom, one vector per row."""
        return np.diag(LATTICE_CONSTANT * np.array(self.cells, np.float64))

    def kinds(self) -> NDArray[np.uint8]:
        """(n_atoms,) numbers in NAMES of all atoms."""
        return np.tile(site_positions()[1], self.n_atoms // SITES)

    def domain(self, rank: int, grid: tuple[int, int, int]) -> tuple[tuple[int, int], ...]:
        """First cell and last cell + 1 of a rank along x, y, z; `grid` is the number of domains along each axis.

        If there are more domains than cells, some have none.
        """
        places = (rank % grid[0], rank // grid[0] % grid[1], rank // (grid[0] * grid[1]))
        return tuple(
            (n * place // parts, n * (place + 1) // parts)
            for n, place, parts in zip(self.cells, places, grid, strict=True)
        )

    def atoms(self, rank: int, grid: tuple[int, int, int]) -> OwnAtoms:
        """The atoms of a rank's domain, shuffled, as in a simulation whose atoms have moved for a while."""
        domain = self.domain(rank, grid)
        n = SITES * int(np.prod([last - first for first, last in domain]))
        # numbers within the domain, which are replaced by ids below
        ids = np.random.default_rng([self.seed, rank]).permutation(n)
        found = OwnAtoms(ids, *(np.empty((n, 3)) for _ in range(3)))
        for start in range(0, n, _BATCH):
            batch = slice(start, start + _BATCH)
            ids[batch] = self._ids_of(ids[batch], domain)
            found.positions[batch], found.velocities[batch], found.forces[batch] = self.state(ids[batch])
        return found

    def _ids_of(self, own: NDArray[np.int64], domain: tuple[tuple[int, int], ...]) -> NDArray[np.int64]:
        cell, site = np.divmod(own, SITES)
        (x, x_end), (y, y_end), (z, _) = domain
        rest, i = np.divmod(cell, x_end - x)
        k, j = np.divmod(rest, y_end - y)
        nx, ny, _ = self.cells
        return ((((z + k) * ny + y + j) * nx) + x + i) * SITES + site

    def state(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """(n, 3) positions, velocities and forces of some atoms: angstrom, angstrom/ps, kJ/(mol angstrom).

        The origin is in the middle of the cell, as in DL_POLY. Velocities are those at 300 K.
        """
        fractions, kinds = site_positions()
        cell, site = np.divmod(ids, SITES)
        rest, i = np.divmod(cell, self.cells[0])
        k, j = np.divmod(rest, self.cells[1])
        corner = np.stack([i, j, k], axis=1)
        random = _normal(ids, self.seed)
        positions = LATTICE_CONSTANT * (corner + fractions[site] - 0.5 * np.array(self.cells))
        positions += self.displacement * random[:, 0:3]
        speed = np.sqrt(_GAS_CONSTANT * _TEMPERATURE / MASSES)[kinds[site]]
        return positions, speed[:, None] * random[:, 3:6], _FORCE * random[:, 6:9]


def _normal(ids: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    """(n, 10) normally distributed numbers that follow from id, column and seed alone."""
    counters = (10 * ids[:, None] + np.arange(10)).astype(np.uint64)
    # splitmix64 (Steele, Lea, Flood 2014), then Box and Muller's transform
    mixed: NDArray[np.uint64] = np.multiply(counters, 0x9E3779B97F4A7C15, dtype=np.uint64)
    mixed += np.uint64(seed * 0xD1342543DE82EF95 % (1 << 64))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= np.right_shift(mixed, shift, dtype=np.uint64)
        mixed *= np.uint64(factor)
    mixed ^= np.right_shift(mixed, 31, dtype=np.uint64)
    uniform = (np.right_shift(mixed, 11, dtype=np.uint64).astype(np.float64) + 0.5) * 2.0**-53
    radius, angle = np.sqrt(-2.0 * np.log(uniform[:, :5])), 2.0 * np.pi * uniform[:, 5:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)

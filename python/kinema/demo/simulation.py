"""A small simulation that writes its trajectory while others read it: a chain of beads that collapses.

`python -m kinema.demo.simulation FILE.xtc FRAMES` runs it with OpenMM if that is installed, else with Langevin dynamics
in NumPy. It is a demonstration: beads of 100 u at 300 K, bonds of 3.8 angstrom, attraction between all.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import kinema as kn

N_BEADS = 60
BOND = 3.8  # angstrom
DT = 0.02  # ps
STEPS_A_FRAME = 25
_SIGMA, _EPSILON = 4.5, 3.5  # angstrom, kJ/mol
_STIFFNESS = 60.0  # kJ/(mol angstrom^2)
_MASS, _KT, _FRICTION = 100.0, 2.494, 1.0  # u, kJ/mol at 300 K, 1/ps
# u angstrom^2/ps^2 in a kJ/mol
_UNIT = 100.0
# least seconds per frame, so that there is something to follow
_LEAST = 0.04


def engine() -> str:
    """The simulation engine: "OpenMM" or "NumPy"."""
    return "OpenMM" if importlib.util.find_spec("openmm") is not None else "NumPy"


def start() -> NDArray[np.float64]:
    """(beads, 3) angstrom: a stretched chain with small kinks."""
    positions = np.random.default_rng(1).normal(0.0, 0.3, (N_BEADS, 3))
    positions[:, 0] += BOND * (np.arange(N_BEADS) - N_BEADS / 2)
    return positions


def forces(positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """(beads, 3) kJ/(mol angstrom): bonds between neighbours, Lennard-Jones between all others, bounded near by."""
    along = positions[:, None] - positions[None]
    squared = (along**2).sum(axis=-1)
    np.fill_diagonal(squared, np.inf)
    near = np.arange(N_BEADS - 1)
    squared[near, near + 1] = squared[near + 1, near] = np.inf
    ratio = (_SIGMA**2 / np.maximum(squared, 0.5 * _SIGMA**2)) ** 3
    total: NDArray[np.float64] = (24 * _EPSILON * (2 * ratio**2 - ratio) / squared)[..., None] * along
    found = total.sum(axis=1)
    bonds = np.diff(positions, axis=0)
    lengths = np.linalg.norm(bonds, axis=1, keepdims=True)
    pull = _STIFFNESS * (lengths - BOND) * bonds / lengths
    found[:-1] += pull
    found[1:] -= pull
    return np.asarray(found, dtype=np.float64)


def numpy_frames() -> Iterator[NDArray[np.float64]]:
    """Positions after every `STEPS_A_FRAME` steps: velocity Verlet in its Langevin form BAOAB."""
    random = np.random.default_rng(2)
    positions, acceleration = start(), _UNIT / _MASS
    velocities = random.normal(0.0, np.sqrt(_KT * _UNIT / _MASS), positions.shape)
    kept = np.exp(-_FRICTION * DT)
    kick = np.sqrt((1 - kept**2) * _KT * _UNIT / _MASS)
    force = forces(positions)
    while True:
        yield positions
        for _ in range(STEPS_A_FRAME):
            velocities += 0.5 * DT * acceleration * force
            positions = positions + 0.5 * DT * velocities
            velocities = kept * velocities + kick * random.normal(size=positions.shape)
            positions = positions + 0.5 * DT * velocities
            force = forces(positions)
            velocities += 0.5 * DT * acceleration * force


def openmm_frames() -> Iterator[NDArray[np.float64]]:
    """The same trajectory, simulated by OpenMM."""
    import openmm  # type: ignore[import-not-found,unused-ignore]
    from openmm import unit  # type: ignore[import-not-found,unused-ignore]

    system = openmm.System()
    bonds, pairs = openmm.HarmonicBondForce(), openmm.NonbondedForce()
    for bead in range(N_BEADS):
        system.addParticle(_MASS)
        pairs.addParticle(0.0, _SIGMA / 10, _EPSILON)
        if bead:
            bonds.addBond(bead - 1, bead, BOND / 10, 100 * _STIFFNESS)
            pairs.addException(bead - 1, bead, 0.0, 1.0, 0.0)
    system.addForce(bonds)
    system.addForce(pairs)
    integrator = openmm.LangevinMiddleIntegrator(300 * unit.kelvin, _FRICTION / unit.picosecond, DT * unit.picosecond)
    context = openmm.Context(system, integrator)
    context.setPositions(start() / 10)
    context.setVelocitiesToTemperature(300 * unit.kelvin, 2)
    while True:
        state = context.getState(getPositions=True)
        yield 10 * np.asarray(state.getPositions(asNumpy=True).value_in_unit(unit.nanometer))
        integrator.step(STEPS_A_FRAME)


def simulate(path: str, n_frames: int) -> None:
    """Writes the trajectory, each frame when it is computed."""
    frames = openmm_frames() if engine() == "OpenMM" else numpy_frames()
    with kn.Writer(path, N_BEADS, mode="a") as out:
        for number in range(n_frames):
            began = time.monotonic()
            out.write(next(frames), step=STEPS_A_FRAME * number, time=DT * STEPS_A_FRAME * number)
            out.flush()
            time.sleep(max(0.0, began + _LEAST - time.monotonic()))


if __name__ == "__main__":
    simulate(sys.argv[1], int(sys.argv[2]))

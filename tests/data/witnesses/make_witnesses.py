"""Makes the files of this folder with cpptraj (in PATH) and MDTraj; see PROVENANCE.md.

The system is made up: a dimer with a ligand between its chains, in water. The output of the two programs is kept.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path

import mdtraj
import numpy as np
from mdtraj.formats import NetCDFTrajectoryFile, TRRTrajectoryFile

HERE = Path(__file__).parent
SEED, WATERS = 24, 40
CHAINS = (20, 18)
LIGAND = 5
# angstrom; two frames of each
CELLS = {
    "brick": [[46.0, 0, 0], [0, 42.0, 0], [0, 0, 40.0]],
    "dodecahedron": [[44.0, 0, 0], [0, 44.0, 0], [22.0, 22.0, 31.1127]],
    "octahedron": [[46.0, 0, 0], [15.3333, 43.3692, 0], [-15.3333, 21.6846, 37.5588]],
    "skewed": [[43.0, 0, 0], [-12.0, 41.0, 0], [14.0, -9.0, 40.0]],
}
N_WALKERS, N_STEPS = 12, 60
COMPLEX = """parm system.psf
trajin complex.trr
fiximagedbonds
autoimage anchor @1-20 fixed @21-43
trajout out.nc
"""
UNWRAP = """parm walkers.psf
trajin {walk}.trr
unwrap scheme {scheme}
trajout out.nc
"""


def psf(residues: list[tuple[str, int, float]]) -> str:
    """A topology of residues: name, atoms in a row, mass of each; the first atom of water has two bonds."""
    atoms, bonds = [], []
    for number, (name, size, mass) in enumerate(residues, 1):
        first = len(atoms) + 1
        for i in range(size):
            place = f"{first + i:8d} S    {number:<4d} {name:<4s} C{i + 1:<3d} C   "
            atoms.append(f"{place} {0.0:10.6f}     {mass:9.4f}           0")
            if i:
                bonds.append((first if name == "TIP3" else first + i - 1, first + i))
    numbers = [f"{i:8d}{j:8d}" for i, j in bonds]
    rows = ["".join(numbers[i : i + 4]) for i in range(0, len(numbers), 4)]
    title = ["PSF", "", "       1 !NTITLE", " REMARKS made up", ""]
    lines = [*title, f"{len(atoms):8d} !NATOM", *atoms, "", f"{len(bonds):8d} !NBOND: bonds", *rows]
    return "\n".join([*lines, "", "       0 !NTHETA: angles", "", ""])


def molecules(rng: np.random.Generator) -> list[np.ndarray]:
    """Two coils side by side, a ligand between them, and waters anywhere."""
    made = []
    for size, center in [(CHAINS[0], [0.0, 0, 0]), (CHAINS[1], [11.0, 3, 2]), (LIGAND, [5.0, 6, 1])]:
        # drawn to their middle, so that they stay together
        places = [np.zeros(3)]
        for _ in range(size - 1):
            places.append(places[-1] * 0.8 + rng.normal(0, 1.4, 3))
        made.append(np.array(center) + np.array(places) - np.mean(places, axis=0))
    for _ in range(WATERS):
        made.append(rng.uniform(-25, 25, 3) + np.array([[0, 0, 0], [0.8, 0.5, 0], [-0.8, 0.5, 0]]))
    return made


def wrapped(positions: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """With each atom in the cell."""
    reduced = np.einsum("fax,fxc->fac", positions, np.linalg.inv(cells))
    return np.einsum("fax,fxc->fac", reduced - np.floor(reduced), cells)


def write(path: Path, positions: np.ndarray, cells: np.ndarray) -> None:
    """nm, as GROMACS has it."""
    with TRRTrajectoryFile(str(path), "w", force_overwrite=True) as out:
        times = np.arange(len(positions), dtype=np.float32)
        out.write((positions / 10).astype(np.float32), times, None, (cells / 10).astype(np.float32))


def cpptraj(script: str, folder: Path) -> np.ndarray:
    """Positions in angstrom, (frames, atoms, 3) float32, of the file that the script writes."""
    (folder / "script").write_text(script)
    done = subprocess.run(["cpptraj", "-i", "script"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    with NetCDFTrajectoryFile(str(folder / "out.nc")) as found:
        positions: np.ndarray = found.read()[0]
    (folder / "out.nc").unlink()
    return positions


def imaged_by_mdtraj() -> np.ndarray:
    found = mdtraj.load(str(HERE / "complex.trr"), top=str(HERE / "system.psf"))
    atoms = list(found.topology.atoms)
    ends = np.cumsum([0, *CHAINS, LIGAND])
    anchors = [set(atoms[start:end]) for start, end in pairwise(ends)]
    bonds = np.array(sorted(sorted((a.index, b.index)) for a, b in found.topology.bonds), np.int32)
    found.image_molecules(inplace=True, anchor_molecules=anchors, sorted_bonds=bonds, make_whole=True)
    return (found.xyz * 10).astype(np.float32)


def main() -> None:
    rng = np.random.default_rng(SEED)
    chains = [("CHA", CHAINS[0], 12.0), ("CHB", CHAINS[1], 14.0), ("LIG", LIGAND, 16.0)]
    (HERE / "system.psf").write_text(psf([*chains, *[("TIP3", 3, 6.0)] * WATERS]))
    (HERE / "walkers.psf").write_text(psf([("ION", 1, 23.0)] * N_WALKERS))
    made = molecules(rng)
    # the complex goes through the faces as a whole
    kinds = [np.array(CELLS[name]) for name in CELLS for _ in range(2)]
    cells = np.array([kind * (1 + 0.01 * rng.uniform(-1, 1)) for kind in kinds])
    shifts = rng.uniform(0, 1, (len(cells), 1, 3)) @ cells
    wobble = rng.normal(0, 0.1, (len(cells), sum(map(len, made)), 3))
    write(HERE / "complex.trr", wrapped(np.concatenate(made) + shifts + wobble, cells), cells)
    steps = np.arange(N_STEPS)
    # a brick, and a skewed one, whose edges change by six per cent
    breathing = (1 + 0.06 * np.sin(0.3 * steps))[:, None, None]
    for name in ("brick", "skewed"):
        cells = np.array(CELLS[name]) * 0.4 * breathing
        moves = rng.uniform(-0.15, 0.3, (N_STEPS, N_WALKERS, 3))
        reduced = np.cumsum(moves, axis=0) % 1.0
        write(HERE / f"walk-{name}.trr", np.einsum("fax,fxc->fac", reduced, cells), cells)
    found = {"mdtraj": imaged_by_mdtraj()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in [*HERE.glob("*.trr"), *HERE.glob("*.psf")]:
            (folder / path.name).write_bytes(path.read_bytes())
        found["cpptraj"] = cpptraj(COMPLEX, folder)
        # "tor" is for bricks alone
        for walk, scheme in (("walk-brick", "frac"), ("walk-brick", "tor"), ("walk-skewed", "frac")):
            found[f"{walk}-{scheme}"] = cpptraj(UNWRAP.format(walk=walk, scheme=scheme), folder)
    np.savez_compressed(HERE / "witnesses.npz", **found)
    version = subprocess.run(["cpptraj", "--version"], capture_output=True, timeout=60, text=True, check=True).stdout
    scripts = {"cluster": COMPLEX, "unwrap": UNWRAP}
    said = {"cpptraj": version.strip(), "MDTraj": mdtraj.__version__, "scripts": scripts}
    (HERE / "versions.json").write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()

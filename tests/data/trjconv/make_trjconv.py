"""Makes the files of this folder with `gmx`, which must be in PATH; see PROVENANCE.md.

The system is made up: two chains, a ring, waters of four points and ions, in cells of four kinds. The output of
`gmx trjconv` is kept.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import MDAnalysis
import numpy as np
from MDAnalysis.coordinates.TRR import TRRWriter
from MDAnalysis.lib.mdamath import triclinic_box

HERE = Path(__file__).parent
N_FRAMES = 8
# with it the faces go through waters, and shapes of the cell differ in each frame
SEED = 110
MASSES = {"A": 12.0, "B": 40.0}
WATERS, CHAIN = 8, 18

TOPOLOGY = f"""
[ defaults ]
1 2 yes 0.5 0.5
[ atomtypes ]
A 12.0 0.0 A 0.3 0.1
B 40.0 0.0 A 0.3 0.1
H 1.0 0.0 A 0.0 0.0
V 0.0 0.0 D 0.0 0.0
[ moleculetype ]
CHN 1
[ atoms ]
{{chain_atoms}}
[ bonds ]
{{chain_bonds}}
[ moleculetype ]
RNG 1
[ atoms ]
1 A 1 RNG C1 1 0.0 12.0
2 A 1 RNG C2 2 0.0 12.0
3 A 1 RNG C3 3 0.0 12.0
4 B 1 RNG C4 4 0.0 40.0
5 A 1 RNG C5 5 0.0 12.0
[ bonds ]
1 2 1 0.3 100
2 3 1 0.3 100
3 4 1 0.3 100
4 5 1 0.3 100
5 1 1 0.3 100
[ moleculetype ]
SOL 1
[ atoms ]
1 A 1 SOL OW 1 0.0 16.0
2 H 1 SOL HW1 1 0.0 1.0
3 H 1 SOL HW2 1 0.0 1.0
4 V 1 SOL MW 1 0.0 0.0
[ settles ]
1 1 0.09572 0.15139
[ virtual_sites3 ]
4 1 2 3 1 0.13458 0.13458
[ moleculetype ]
ION 1
[ atoms ]
1 B 1 ION NA 1 0.0 23.0
[ system ]
made up
[ molecules ]
CHN 2
RNG 1
SOL {WATERS}
ION 2
"""
# angstrom
CELLS = {
    "brick": [[31.0, 0, 0], [0, 27.0, 0], [0, 0, 24.0]],
    "dodecahedron": [[30.0, 0, 0], [0, 30.0, 0], [15.0, 15.0, 21.2132]],
    "octahedron": [[32.0, 0, 0], [10.6667, 30.1699, 0], [-10.6667, 15.0849, 26.1279]],
    "skewed": [[29.0, 0, 0], [-9.0, 26.0, 0], [11.0, -8.0, 25.0]],
}
# what works with whole molecules alone, and what goes along a walk; others are made of raw.trr
NOJUMP = ("nojump", "nojump-structure", "nojump-center")
SOURCES = {**dict.fromkeys(NOJUMP, "walk"), "cluster": "whole", "trans": "whole", "progressive": "whole"}
# begins with the first frame
ALONE = ("nojump", "nojump-center")
SHAPES = ("rect", "tric", "compact")
# that is fitted, clustered or centred
GROUPS = {
    **dict.fromkeys(("center", "center-mol-compact", "nojump-center"), "ring"),
    **dict.fromkeys(("cluster", "fit", "trans", "progressive"), "chains"),
}
COMMANDS = {
    "whole": "whole.trr -pbc whole",
    "nojump": "nojump.trr -pbc nojump",
    "nojump-structure": "nojump-structure.trr -pbc nojump",
    "nojump-center": "nojump-center.trr -pbc nojump -center",
    **{
        f"{pbc}-{ur}": f"{pbc}.trr -pbc {pbc} -ur {ur}"
        for pbc in ("mol", "res", "atom")
        for ur in ("rect", "tric", "compact")
    },
    "cluster": "cluster.trr -pbc cluster",
    "center": "center.trr -pbc whole -center",
    "center-mol-compact": "center-mol.trr -pbc mol -ur compact -center",
    "fit": "fit.trr -fit rot+trans",
    "trans": "trans.trr -fit translation",
    "progressive": "progressive.trr -fit progressive",
}


def topology() -> str:
    atoms = [
        f"{i} {'AB'[i % 5 == 0]} {(i + 2) // 3} CHN C{i} {i} 0.0 {40.0 if i % 5 == 0 else 12.0}"
        for i in range(1, CHAIN + 1)
    ]
    bonds = [f"{i} {i + 1} 1 0.3 100" for i in range(1, CHAIN)]
    return TOPOLOGY.format(chain_atoms="\n".join(atoms), chain_bonds="\n".join(bonds))


def molecules(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Positions of whole molecules, (atoms, 3), and the molecule of each atom."""
    places, numbers = [], []

    def add(positions: np.ndarray) -> None:
        numbers.extend([len(places)] * len(positions))
        places.append(positions)

    for start in ([4.0, 4, 4], [14.0, 9, 8]):
        # longer than half of each cell
        steps = rng.normal((0.9, 0.7, 0.6), 0.7, (CHAIN, 3))
        add(np.array(start) + np.cumsum(steps, axis=0))
    angles = 2 * np.pi * np.arange(5) / 5
    add(np.array([20.0, 10, 5]) + 1.5 * np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1))
    for _ in range(WATERS):
        axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        a, b = 0.9572 * np.cos(np.radians(52.26)), 0.9572 * np.sin(np.radians(52.26))
        add(rng.uniform(0, 28, 3) + np.array([[0, 0, 0], [a, b, 0], [a, -b, 0], [0.26916 * a, 0, 0]]) @ axes)
    for _ in range(2):
        add(rng.uniform(0, 28, (1, 3)))
    return np.concatenate(places), np.array(numbers)


def frames(kinds: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells, whole molecules that walk, and the same with each atom in the cell, as `gmx` needs it."""
    rng = np.random.default_rng(SEED)
    start, number = molecules(rng)
    cells, whole, broken = [], [], []
    walk = np.zeros((number.max() + 1, 3))
    for frame in range(N_FRAMES):
        cell = np.array(CELLS[kinds[frame * len(kinds) // N_FRAMES]]) * (1 + 0.01 * rng.uniform(-1, 1))
        walk = walk + rng.uniform(-3, 3, walk.shape)
        positions = start + walk[number] + rng.normal(0, 0.05, start.shape)
        counts = np.floor(positions @ np.linalg.inv(cell))
        cells.append(cell)
        whole.append(positions)
        broken.append(positions - counts @ cell)
    return np.array(cells), np.array(whole), np.array(broken)


def write(path: Path, positions: np.ndarray, cells: np.ndarray) -> None:
    universe = MDAnalysis.Universe.empty(positions.shape[1], trajectory=True)
    with TRRWriter(str(path), positions.shape[1]) as out:
        for time, (row, cell) in enumerate(zip(positions, cells, strict=True)):
            ts = universe.trajectory.ts
            ts.positions, ts.dimensions, ts.time, ts.frame = row, triclinic_box(*cell), float(time), time
            out.write(universe.atoms)


def gmx(folder: Path, words: str, answers: str = "") -> None:
    done = subprocess.run(
        ["gmx", *words.split()], cwd=folder, input=answers, text=True, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def main() -> None:
    # as simulated: of one kind, which changes a little
    cells, _, broken = frames(["skewed"])
    write(HERE / "walk.trr", broken, cells)
    cells, whole, broken = frames(list(CELLS))
    write(HERE / "raw.trr", broken, cells)
    values = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        universe = MDAnalysis.Universe.empty(whole.shape[1], trajectory=True)
        universe.dimensions, universe.atoms.positions = triclinic_box(*cells[0]), whole[0]
        universe.atoms.write(str(folder / "start.gro"))
        (folder / "system.top").write_text(topology())
        (folder / "run.mdp").write_text("cutoff-scheme = Verlet\nrlist = 0.9\nrvdw = 0.9\nrcoulomb = 0.9\n")
        gmx(folder, "grompp -f run.mdp -c start.gro -p system.top -o system.tpr -maxwarn 9")
        (HERE / "system.tpr").write_bytes((folder / "system.tpr").read_bytes())
        ends = {"chains": (1, CHAIN * 2), "ring": (CHAIN * 2 + 1, CHAIN * 2 + 5), "all": (1, whole.shape[1])}
        groups = [f"[ {name} ]\n{' '.join(map(str, range(a, b + 1)))}\n" for name, (a, b) in ends.items()]
        (folder / "groups.ndx").write_text("".join(groups))
        for key, words in COMMANDS.items():
            source = SOURCES.get(key, "raw")
            path = (folder if source == "whole" else HERE) / f"{source}.trr"
            structure = "" if key in ALONE else "-s system.tpr"
            # the group that is fitted, clustered or centred; then what is written
            answers = [*([GROUPS[key]] if key in GROUPS else []), "all", ""]
            gmx(folder, f"trjconv -f {path} {structure} -n groups.ndx -o {words}", "\n".join(answers))
            universe.load_new(str(folder / words.split()[0]))
            values[key] = np.array([ts.positions.copy() for ts in universe.trajectory], np.float32)
            assert values[key].shape == (N_FRAMES, *whole.shape[1:])
        version = subprocess.run(["gmx", "--version"], capture_output=True, timeout=120, text=True, check=True).stdout
    np.savez_compressed(HERE / "trjconv.npz", **values)
    found = next(line.partition(":")[2].strip() for line in version.splitlines() if line.startswith("GROMACS version"))
    commands = {
        key: f"gmx trjconv -f {SOURCES.get(key, 'raw')}.trr {'' if key in ALONE else '-s system.tpr '}-o {words}"
        for key, words in COMMANDS.items()
    }
    (HERE / "commands.json").write_text(json.dumps({"GROMACS": found, "commands": commands}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Analyses of one row a frame: runs beside decoding and kernel, several in one pass, two cores, MDTraj; in one run.

    python benchmarks/analyses.py [--quick]

Adenylate kinase (3341 atoms) walking at random, DCD in the page cache, without a cell, in a right-angled and in a
triclinic one. Wall times of one worker, the least of several by turns; two cores beside one on four times as many
frames. Decoding is `read` of the same atoms into memory that is used again; a kernel alone is what eight more of it add
to a run. Two limits of the machine are measured beside these: the first touch of the memory for the results, and
copying on two cores, which is all that decoding does here. It asserts nothing.
"""

from __future__ import annotations

import argparse
import functools
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mdtraj
import numpy as np
from MDAnalysisTests import datafiles

import kinema as kn
from kinema.testing import write_dcd

warnings.simplefilter("ignore")

CELLS = {
    "no cell": None,
    "orthorhombic": np.diag([78.0, 80.0, 77.0]),
    "triclinic": np.array([[80.0, 0.0, 0.0], [30.0, 71.0, 0.0], [-22.0, 27.5, 60.0]]),
}
COPIES = 8
# enough frames that the time before the first and after the last frame is at most some hundredths of the run
REPEATS = 4
# bytes that frames are read into at a time
READ_BYTES = 4 << 20
Maker = Callable[[kn.Trajectory], Any]


def least(tries: int, calls: list[Callable[[], object]]) -> list[float]:
    """The least seconds of each call, by turns."""
    best = [float("inf")] * len(calls)
    for _ in range(tries):
        for i, call in enumerate(calls):
            began = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - began)
    return best


def made(folder: Path, n_frames: int) -> dict[str, tuple[kn.Trajectory, kn.Trajectory]]:
    """For each kind of cell a trajectory, and one of its file several times, for runs on two cores."""
    rng = np.random.default_rng(23)
    start = kn.open(datafiles.DCD, stored=False).read(0)[0]
    steps = rng.normal(0, 0.3, (64, *start.shape)).astype(np.float32)
    opened = {}
    for name, cell in CELLS.items():
        path = folder / f"{name.replace(' ', '_')}.dcd"
        frames = start + np.concatenate([steps] * -(-n_frames // len(steps)))[:n_frames]
        write_dcd(path, frames, cell=None if cell is None else np.broadcast_to(cell, (n_frames, 3, 3)).astype("f4"))
        opened[name] = tuple(
            kn.open([path] * parts, topology=datafiles.PSF, stored=False, overlap="all") for parts in (1, REPEATS)
        )
        for trajectory in opened[name]:
            trajectory.scan()
    return opened


def pairs_of(n_atoms: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, n_atoms, (1000, 2))


def cases() -> dict[str, tuple[str, Maker]]:
    """Name of a row: kind of cell, and what makes the analysis."""
    analysis = kn.analysis
    distances = {
        f"1,000 distances, {cell}": (cell, lambda traj: analysis.Distances(traj, pairs_of(traj.n_atoms)))
        for cell in CELLS
    }
    return {
        **distances,
        "phi and psi, 426 dihedrals": ("no cell", lambda traj: analysis.Dihedrals(traj, phi=True, psi=True)),
        "the same, triclinic": ("triclinic", lambda traj: analysis.Dihedrals(traj, phi=True, psi=True)),
        "1,000 angles": ("no cell", lambda traj: analysis.Angles(traj, triples_of(traj.n_atoms))),
        "centres of 214 residues": ("no cell", lambda traj: analysis.Centers(traj, compound="residues")),
        "gyration tensor of all atoms": ("no cell", analysis.Gyration),
        "radius of gyration, C-alpha": ("no cell", lambda traj: analysis.RadiusOfGyration(traj, "name CA")),
        "end to end": ("no cell", lambda traj: analysis.EndToEnd(traj, "name CA")),
        "RMSD, C-alpha": ("no cell", lambda traj: analysis.RMSD(traj, "name CA")),
    }


def triples_of(n_atoms: int) -> np.ndarray:
    return np.column_stack([pairs_of(n_atoms), (pairs_of(n_atoms)[:, 0] + 1) % n_atoms])


def decoding(trajectory: kn.Trajectory, atoms: np.ndarray) -> Callable[[], None]:
    """Reads these atoms of all frames."""
    rows = max(1, READ_BYTES // (12 * len(atoms)))
    out = np.zeros((rows, len(atoms), 3), np.float32)

    def read() -> None:
        for first in range(0, len(trajectory), rows):
            n = min(rows, len(trajectory) - first)
            trajectory.read(slice(first, first + n), atoms, out=out[:n], workers=1)

    return read


def touching(n_rows: int, width: int) -> Callable[[], object]:
    """Writes results into new memory, which the system clears first."""
    return lambda: np.full((n_rows, width), 1.0)


def copying_on_two_cores(tries: int) -> float:
    """How many times as fast two threads copy arrays that no cache holds as one does."""
    arrays = [(np.zeros(64 << 17), np.ones(64 << 17)) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        calls: list[Callable[[], object]] = [
            lambda: [np.copyto(*pair) for pair in arrays],
            lambda: list(pool.map(lambda pair: np.copyto(*pair), arrays)),
        ]
        one, two = least(2 * tries, calls)
    return one / two


def runs(trajectory: kn.Trajectory, makers: list[Maker], workers: int = 1) -> Callable[[], object]:
    """Runs what they make, in one pass."""
    jobs = [make(trajectory) for make in makers]
    return functools.partial(kn.run, jobs, runner="threads", workers=workers, progress=False)


def time_mdtraj(name: str, cell: str, trajectory: kn.Trajectory, tries: int) -> float | None:
    """Seconds a frame of MDTraj for the same items, of frames in memory."""
    chosen = {
        "distances": (mdtraj.compute_distances, pairs_of(trajectory.n_atoms)),
        "angles": (mdtraj.compute_angles, triples_of(trajectory.n_atoms)),
    }
    found = next((peer for word, peer in chosen.items() if word in name), None)
    if "dihedrals" in name or "the same" in name:
        found = mdtraj.compute_dihedrals, kn.analysis.Dihedrals(trajectory, phi=True, psi=True).tuples
    if found is None:
        return None
    topology = mdtraj.Topology()
    residue = topology.add_residue("ALL", topology.add_chain())
    for _ in range(trajectory.n_atoms):
        topology.add_atom("C", mdtraj.element.carbon, residue)
    frames = mdtraj.Trajectory(trajectory.read(slice(0, 200)) / 10, topology)
    vectors = CELLS[cell]
    if vectors is not None:
        frames.unitcell_vectors = np.broadcast_to(vectors / 10, (200, 3, 3)).astype("f4")
    compute, items = found
    return least(tries, [lambda: compute(frames, items, periodic=vectors is not None)])[0] / 200


def measure(trajectories: dict[str, tuple[kn.Trajectory, kn.Trajectory]], tries: int) -> dict[str, dict[str, float]]:
    """Microseconds a frame of each row."""
    rows = {}
    for name, (cell, make) in cases().items():
        trajectory, longer = trajectories[cell]
        atoms = make(trajectory).selection.indices
        width = make(trajectory).run(stop=1, progress=False).results.values.shape[1]
        calls = [
            decoding(trajectory, atoms),
            runs(trajectory, [make]),
            runs(trajectory, [make] * (1 + COPIES)),
            runs(longer, [make]),
            runs(longer, [make], workers=2),
            touching(len(trajectory), width),
        ]
        decode, wall, more, one, two, touch = (1e6 * seconds / len(trajectory) for seconds in least(tries, calls))
        kernel = (more - wall) / COPIES
        peer = time_mdtraj(name, cell, trajectory, tries)
        rows[name] = {"decode": decode, "kernel": kernel, "wall": wall, "of parts": wall / (decode + kernel)}
        rows[name] |= {"two cores": one / two, "first touch": touch} | ({} if peer is None else {"MDTraj": 1e6 * peer})
        print(_line(name, rows[name]), flush=True)
    return rows


def _line(name: str, row: dict[str, float]) -> str:
    peer = row.get("MDTraj")
    beside = "" if peer is None else f"{peer:9.1f} {peer / row['kernel']:6.1f}"
    parts = "".join(f"{row[one]:9.2f}" for one in ("decode", "kernel", "wall", "of parts", "two cores", "first touch"))
    return f"  {name:32s}{parts}{beside}"


def together(
    trajectory: kn.Trajectory, longer: kn.Trajectory, rows: dict[str, dict[str, float]], tries: int
) -> dict[str, float]:
    """Six analyses in one pass beside one decoding and the sum of their kernels."""
    chosen = [name for name, (cell, _) in cases().items() if cell == "no cell"][1:7]
    makers = [cases()[name][1] for name in chosen]
    calls = [decoding(trajectory, np.arange(trajectory.n_atoms)), runs(trajectory, makers)]
    calls += [runs(longer, makers), runs(longer, makers, workers=2)]
    decode, wall, one, two = (1e6 * seconds / len(trajectory) for seconds in least(tries, calls))
    kernels = sum(rows[name]["kernel"] for name in chosen)
    found = {"decode": decode, "kernel": kernels, "wall": wall, "of parts": wall / (decode + kernels)}
    found |= {"two cores": one / two, "first touch": sum(rows[name]["first touch"] for name in chosen)}
    print(_line("six of them in one pass", found), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer frames and tries")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--folder", type=Path, help="for files of 600 MB, by default a temporary one")
    given = parser.parse_args()
    n_frames, tries = (1000, 3) if given.quick else (5000, 7)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        trajectories = made(Path(folder), n_frames)
        print(f"us a frame, one worker, {n_frames:,} frames; last: MDTraj, and in multiples of our kernel")
        heads = "".join(f"{head:>9s}" for head in ("decode", "kernel", "wall", "/ parts", "2 cores", "touch", "MDTraj"))
        print(f"  {'':32s}{heads}")
        copies = copying_on_two_cores(tries)
        rows = measure(trajectories, tries)
        rows["six in one pass"] = together(*trajectories["no cell"], rows, tries)
        print(f"  copying on two cores: {copies:.2f} times as fast as on one")
        rows["copying"] = {"two cores": copies}
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()

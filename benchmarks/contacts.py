"""Native contacts, contact maps and contacts of residues beside MDAnalysis and MDTraj, one thread each, in one run.

    python benchmarks/contacts.py [--quick]

CPU milliseconds a frame, decoding not counted: for ours what eight more of an analysis add to a run, for the peers a
call on positions in memory, the least of several. Adenylate kinase: 214 C-alpha without a cell, native contacts and
maps within 8 angstrom; and its heavy atoms in the cell of its simulation, a rhombic dodecahedron. It prints the load of
the machine and ratios, and asserts nothing.
"""

from __future__ import annotations

import argparse
import functools
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import MDAnalysis
import mdtraj
import numpy as np
from MDAnalysis.analysis import contacts, distances
from MDAnalysisTests import datafiles

import kinema as kn
from kinema.testing import write_dcd

warnings.simplefilter("ignore")

COPIES = 8
RADIUS = 8.0
LAMBDA = 1.8
GOALS = {
    "native contacts, hard cut": 0.0016,
    "contact map": 0.008,
    "contact map, contacts alone": 0.008,
    "residue contacts, closest heavy": 0.6,
}


def least(tries: int, call: Callable[[], object]) -> float:
    """The least CPU seconds of a call."""
    found = []
    for _ in range(tries):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return min(found)


def ours(make: Callable[[], Any], n_frames: int, tries: int) -> float:
    """CPU milliseconds that one more analysis adds to a frame."""
    few, many = ([make() for _ in range(n)] for n in (1, 1 + COPIES))
    run = functools.partial(kn.run, runner="threads", workers=1, progress=False)
    more = least(tries, functools.partial(run, many)) - least(tries, functools.partial(run, few))
    return 1e3 * more / COPIES / n_frames


def native_contacts(folder: Path, n_frames: int, tries: int) -> None:
    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    atoms = universe.select_atoms("name CA")
    frames = np.array([atoms.positions.copy() for _ in universe.trajectory])
    rows = np.resize(frames, (n_frames, *frames.shape[1:]))
    write_dcd(folder / "ca.dcd", rows)
    trajectory = kn.open(folder / "ca.dcd", stored=False)
    trajectory.scan()
    made = kn.analysis.Contacts(trajectory, radius=RADIUS, method="soft_cut")
    pairs, r0 = made.native[0].pairs, made.native[0].distances
    print(f"{len(atoms)} C-alpha, no cell, {len(pairs)} native contacts within {RADIUS:g} angstrom, {n_frames} frames")
    peer = mdtraj.Trajectory(rows[: max(500, n_frames // 10)] / 10, mdtraj_topology(len(atoms)))

    def hard() -> None:
        (mdtraj.compute_distances(peer, pairs, periodic=False) <= r0 / 10).mean(axis=1)

    def soft() -> None:
        r = mdtraj.compute_distances(peer, pairs, periodic=False)
        np.mean(1 / (1 + np.exp(50 * (r - LAMBDA * r0 / 10))), axis=1)

    alone = functools.partial(mdtraj.compute_distances, peer, pairs, periodic=False)
    in_memory = MDAnalysis.Merge(atoms).load_new(frames)
    groups = (in_memory.atoms, in_memory.atoms)
    for name, method, mdtrajs in (
        ("native contacts, hard cut", "hard_cut", {"MDTraj, distances alone": alone, "MDTraj": hard}),
        ("native contacts, soft cut", "soft_cut", {"MDTraj": soft}),
    ):
        make = functools.partial(kn.analysis.Contacts, trajectory, radius=RADIUS, method=method)
        found = {one: 1e3 * least(tries, call) / len(peer) for one, call in mdtrajs.items()}
        theirs = contacts.Contacts(in_memory, ("all", "all"), groups, method, RADIUS)
        found["MDAnalysis"] = 1e3 * least(tries, theirs.run) / len(frames)
        report(name, ours(make, n_frames, tries), found)


def contact_map(folder: Path, n_frames: int, tries: int) -> None:
    atoms = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD).select_atoms("name CA")
    frames = np.array([atoms.positions.copy() for _ in atoms.universe.trajectory])
    atoms.write(folder / "map.pdb")
    write_dcd(folder / "map.dcd", np.resize(frames, (n_frames, *frames.shape[1:])))
    trajectory = kn.open(folder / "map.dcd", topology=folder / "map.pdb", stored=False)
    trajectory.scan()
    make = functools.partial(kn.analysis.ContactMap, trajectory, scheme="ca", cutoff=RADIUS)
    pairs = kn.analysis.ResidueDistances(trajectory, scheme="ca").residue_pairs
    print(f"{len(atoms)} C-alpha, no cell, {len(pairs)} pairs, {n_frames} frames")
    peer = mdtraj.Trajectory(frames / 10, mdtraj_topology(len(atoms)))

    def of_mdtraj() -> None:
        r = mdtraj.compute_distances(peer, pairs, periodic=False)
        (r <= RADIUS / 10).mean(axis=0)
        r.mean(axis=0)

    def of_mdanalysis() -> None:
        for frame in frames:
            r = distances.self_distance_array(frame)
            np.less_equal(r, RADIUS)

    alone = functools.partial(mdtraj.compute_distances, peer, pairs, periodic=False)
    calls: dict[str, Callable[[], object]] = {
        "MDTraj, distances alone": alone,
        "MDTraj": of_mdtraj,
        "MDAnalysis, contacts alone": of_mdanalysis,
    }
    theirs = {one: 1e3 * least(tries, call) / len(frames) for one, call in calls.items()}
    alone = functools.partial(make, distances=False)
    of_contacts = {"MDAnalysis": theirs.pop("MDAnalysis, contacts alone")}
    report("contact map", ours(make, n_frames, tries), theirs)
    report("contact map, contacts alone", ours(alone, n_frames, tries), of_contacts)


def residue_contacts(folder: Path, n_frames: int, tries: int) -> None:
    universe = MDAnalysis.Universe(datafiles.GRO, datafiles.XTC)
    protein = universe.select_atoms("protein and not name H*")
    frames, cells = [], []
    for step in universe.trajectory:
        frames.append(protein.positions.copy())
        cells.append(step.triclinic_dimensions)
    protein.write(folder / "heavy.gro")
    rows = np.resize(np.array(frames), (n_frames, *frames[0].shape))
    boxes = np.resize(np.array(cells), (n_frames, 3, 3)).astype(np.float32)
    write_dcd(folder / "heavy.dcd", rows, cell=boxes)
    trajectory = kn.open(folder / "heavy.dcd", topology=folder / "heavy.gro", stored=False)
    trajectory.scan()
    few = slice(20)
    topology = mdtraj.load_topology(folder / "heavy.gro")
    peer = mdtraj.Trajectory(rows[few] / 10, topology)
    peer.unitcell_vectors = boxes[few] / 10
    every = kn.analysis.ResidueDistances(trajectory, scheme="closest")
    print(f"{len(protein)} heavy atoms, dodecahedron, {len(every.residue_pairs)} pairs of residues, {n_frames} frames")
    call = functools.partial(mdtraj.compute_contacts, peer, every.residue_pairs, scheme="closest")
    theirs = {"MDTraj, all pairs": 1e3 * least(max(2, tries // 2), call) / len(peer)}
    make = functools.partial(kn.analysis.ResidueDistances, trajectory, scheme="closest")
    report("least distances of all pairs", ours(make, n_frames, tries), theirs)
    make = functools.partial(kn.analysis.ResidueContacts, trajectory, scheme="closest")
    report("residue contacts, closest heavy", ours(make, n_frames, tries), theirs)


def mdtraj_topology(n_atoms: int) -> mdtraj.Topology:
    topology = mdtraj.Topology()
    chain = topology.add_chain()
    for _ in range(n_atoms):
        topology.add_atom("CA", mdtraj.element.carbon, topology.add_residue("ALA", chain))
    return topology


def report(name: str, own: float, theirs: dict[str, float]) -> None:
    goal = f", goal {GOALS[name]:g}" if name in GOALS else ""
    print(f"  {name:34} {own:9.5f} ms{goal}")
    for peer, value in theirs.items():
        print(f"    {peer:32} {value:9.5f} ms, {value / own:7.1f} times ours")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer frames")
    quick = parser.parse_args().quick
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        native_contacts(folder, 5_000 if quick else 50_000, 3 if quick else 7)
        contact_map(folder, 500 if quick else 5_000, 3 if quick else 7)
        residue_contacts(folder, 100 if quick else 400, 3 if quick else 7)


if __name__ == "__main__":
    main()

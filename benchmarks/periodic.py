"""Periodic transforms beside MDAnalysis and MDTraj: nanoseconds an atom and frame on one core, decoding not counted.

On the solvated trajectory of MDAnalysisTests, 47,681 atoms in a dodecahedron. Kinema: the time of reading all
frames with a transform less that without, least of several runs in turn: `python benchmarks/periodic.py [ROUNDS]`.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import MDAnalysis
import numpy as np
from MDAnalysis import transformations
from MDAnalysisTests import datafiles

import kinema as kn
from kinema import transforms


def least(run: Callable[[], Any], rounds: int) -> float:
    """The least CPU time of one call, s."""
    best = np.inf
    for _ in range(rounds):
        began = time.process_time()
        run()
        best = min(best, time.process_time() - began)
    return float(best)


def kinema(rounds: int) -> dict[str, float]:
    """By transform, ns an atom and frame; those behind others are less these."""
    traj = kn.open(datafiles.XTC, datafiles.TPR, stored=False)
    whole, chains = transforms.whole(), transforms.cluster("protein")
    stacks: dict[str, list[Any]] = {
        "decoding": [],
        "whole": [whole],
        "nojump": [transforms.nojump()],
        "center": [transforms.center("protein")],
        "cluster": [chains],
        "wrap by atom (tric)": [transforms.wrap(ur="tric")],
        "fit": [transforms.superpose("name CA")],
        "whole, center, fit": [whole, transforms.center("protein"), transforms.superpose("name CA")],
        "wrap by residue (compact) behind whole": [whole, transforms.wrap(compound="residues", ur="compact")],
        "wrap by molecule (rect) behind whole": [whole, transforms.wrap(compound="molecules")],
    }
    made = {name: traj.with_transform(*stack) for name, stack in stacks.items()}
    # in one array: to touch memory for the first time costs more than all of these
    out = np.empty((len(traj), traj.n_atoms, 3), np.float32)
    seconds = dict.fromkeys(made, np.inf)
    for _ in range(rounds):
        for name, one in made.items():
            seconds[name] = min(seconds[name], least(lambda one=one: one.read(out=out, workers=1), 1))
    per_atom = {name: 1e9 * value / len(traj) / traj.n_atoms for name, value in seconds.items()}
    decoding = per_atom["decoding"]
    found = {"decoding": decoding}
    for name, value in per_atom.items():
        if name != "decoding":
            found[name] = value - (per_atom["whole"] if name.endswith("behind whole") else decoding)
    return found


def mdanalysis() -> dict[str, float]:
    """The same of frames in memory, of the atoms that are moved."""
    universe = MDAnalysis.Universe(datafiles.TPR, datafiles.XTC, in_memory=True)
    protein, every = universe.select_atoms("protein"), universe.atoms
    nojump = transformations.nojump.NoJump()
    chosen: dict[str, tuple[Any, Any]] = {
        "whole": (transformations.unwrap(protein), protein),
        "nojump": (nojump, every),
        "center": (transformations.center_in_box(protein), every),
        "wrap by atom (tric)": (transformations.wrap(every), every),
        "wrap by residue (compact) behind whole": (transformations.wrap(every, compound="residues"), every),
        "fit": (transformations.fit_rot_trans(protein.select_atoms("name CA"), protein.select_atoms("name CA")), every),
    }
    found = {}
    for name, (transform, moved) in chosen.items():
        seconds = 0.0
        for ts in universe.trajectory[:3]:
            began = time.process_time()
            transform(ts)
            seconds += time.process_time() - began
        found[name] = 1e9 * seconds / 3 / len(moved)
    return found


def mdtraj() -> dict[str, float]:
    """`make_molecules_whole` and `image_molecules`, if MDTraj is installed."""
    try:
        import mdtraj
    except ImportError:
        return {}
    universe = MDAnalysis.Universe(datafiles.TPR, datafiles.XTC)
    topology = mdtraj.load_topology(datafiles.GRO)
    atoms = list(topology.atoms)
    for a, b in universe.bonds.indices:
        topology.add_bond(atoms[a], atoms[b])
    traj = mdtraj.load_xtc(datafiles.XTC, top=topology)
    number = traj.n_frames * traj.n_atoms
    return {
        "whole": 1e9 * least(lambda: traj.make_molecules_whole(inplace=False), 3) / number,
        "wrap by molecule (rect) behind whole": 1e9 * least(lambda: traj.image_molecules(inplace=False), 2) / number,
    }


def main() -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    columns = {"Kinema": kinema(rounds), "MDAnalysis": mdanalysis(), "MDTraj": mdtraj()}
    print(f"{'ns an atom and frame':42}" + "".join(f"{name:>12}" for name in columns))
    for name in columns["Kinema"]:
        cells = [f"{column[name]:12.2f}" if name in column else f"{'-':>12}" for column in columns.values()]
        print(f"{name:42}" + "".join(cells))


if __name__ == "__main__":
    main()

"""Periodic transforms beside MDAnalysis and MDTraj, and commands with them beside their parts; in one run.

    python benchmarks/periodic.py [--quick] [--json FILE]

On the solvated trajectory of MDAnalysisTests, 47,681 atoms in a dodecahedron: nanoseconds of CPU time (of all threads;
peers have one) an atom and frame, decoding not counted. Kinema: reading all frames with a transform less reading
without, the least of several runs by turns. The commands: `periodic_commands.py`. It asserts nothing.

MDTraj's `image_molecules` (makes molecules whole, brings some together as the anchor, moves the anchor to the middle,
places all others around it) equals `whole`, `cluster` of the anchor, `center` and `wrap` of molecules: one
row. The goal of `cluster` is for this work less `whole`. All molecules as one cluster, each water by itself, is the
extreme.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import MDAnalysis
import numpy as np
from MDAnalysis import transformations
from MDAnalysisTests import datafiles

import kinema as kn
from kinema import transforms
from periodic_commands import commands

GOALS = {"cluster, protein and ions": 10.0, "cluster, center, wrap": 10.0, "fit": 2.0}
GOAL = 3.0
# rows without a goal of their own
NO_GOAL = ("decoding", "fit, translation alone", "cluster, all molecules", "as image_molecules", "whole, center, fit")
# three of the stack of the last row
STACK = ("whole", "center", "fit")


def least(run: Callable[[], Any], rounds: int) -> float:
    """The least CPU time of one call, s."""
    best = np.inf
    for _ in range(rounds):
        began = time.process_time()
        run()
        best = min(best, time.process_time() - began)
    return float(best)


def stacks() -> dict[str, tuple[str, list[Any]]]:
    """By row: the row that is subtracted from it, and the transforms."""
    cluster = transforms.cluster("protein or resname NA+")
    whole, center, fit = transforms.whole(), transforms.center("protein"), transforms.superpose("name CA")
    rows: dict[str, tuple[str, list[Any]]] = {
        "decoding": ("", []),
        "whole": ("decoding", [whole]),
        "nojump": ("decoding", [transforms.nojump()]),
        "center": ("decoding", [center]),
        "cluster, protein and ions": ("decoding", [cluster]),
        "cluster, all molecules": ("decoding", [transforms.cluster(None)]),
        "fit, translation alone": ("decoding", [transforms.superpose("name CA", mode="trans")]),
        "fit": ("decoding", [fit]),
    }
    for ur in ("rect", "tric", "compact"):
        rows[f"wrap atoms, {ur}"] = ("decoding", [transforms.wrap(ur=ur)])
        for compound in ("residues", "molecules"):
            rows[f"wrap {compound}, {ur}"] = ("whole", [whole, transforms.wrap(compound=compound, ur=ur)])
    around = [whole, cluster, center, transforms.wrap(compound="molecules")]
    rows |= {"cluster, center, wrap": ("whole", around), "as image_molecules": ("decoding", around)}
    return rows | {"whole, center, fit": ("decoding", [whole, center, fit])}


def kinema(rounds: int) -> dict[str, float]:
    """By row, ns an atom and frame."""
    traj = kn.open(datafiles.XTC, datafiles.TPR, stored=False)
    rows = stacks()
    made = {name: traj.with_transform(*stack) for name, (_, stack) in rows.items()}
    # in one array: to touch memory for the first time costs more than all of these
    out = np.empty((len(traj), traj.n_atoms, 3), np.float32)
    seconds = dict.fromkeys(made, np.inf)
    for number in range(rounds):
        for name, one in made.items():
            if name != "cluster, all molecules" or number < 3:
                seconds[name] = min(seconds[name], least(lambda one=one: one.read(out=out, workers=1), 1))
    per_atom = {name: 1e9 * value / len(traj) / traj.n_atoms for name, value in seconds.items()}
    return {name: value - per_atom.get(rows[name][0], 0.0) for name, value in per_atom.items()}


def mdanalysis() -> dict[str, float]:
    """The same of frames in memory, of the atoms that are moved."""
    universe = MDAnalysis.Universe(datafiles.TPR, datafiles.XTC, in_memory=True)
    protein, every = universe.select_atoms("protein"), universe.atoms
    alpha = protein.select_atoms("name CA")
    chosen: dict[str, tuple[Any, Any]] = {
        "whole": (transformations.unwrap(protein), protein),
        "nojump": (transformations.nojump.NoJump(), every),
        "center": (transformations.center_in_box(protein), every),
        "wrap atoms, tric": (transformations.wrap(every), every),
        "wrap residues, tric": (transformations.wrap(every, compound="residues"), every),
        "fit": (transformations.fit_rot_trans(alpha, alpha), every),
    }
    found = {}
    for name, (transform, moved) in chosen.items():
        seconds = []
        for ts in universe.trajectory[:4]:
            began = time.process_time()
            transform(ts)
            seconds.append(time.process_time() - began)
        # the first one makes tables
        found[name] = 1e9 * min(seconds[1:]) / len(moved)
    return found


def mdtraj() -> tuple[dict[str, float], float]:
    """`make_molecules_whole`, `image_molecules` (makes them whole, too), `superpose`; set-up of the second, s."""
    try:
        import mdtraj
    except ImportError:
        return {}, 0.0
    universe = MDAnalysis.Universe(datafiles.TPR, datafiles.XTC)
    topology = mdtraj.load_topology(datafiles.GRO)
    atoms = list(topology.atoms)
    for a, b in universe.bonds.indices:
        topology.add_bond(atoms[a], atoms[b])
    traj = mdtraj.load_xtc(datafiles.XTC, top=topology)
    number = traj.n_frames * traj.n_atoms
    alpha = topology.select("name CA")
    whole = least(lambda: traj.make_molecules_whole(inplace=False), 3)
    # of one frame and of all: what does not grow is the set-up
    one, every = (least(lambda few=few: few.image_molecules(inplace=False), 2) for few in (traj[:1], traj))
    frame = (every - one) / (traj.n_frames - 1)
    found = {
        "whole": 1e9 * whole / number,
        "as image_molecules": 1e9 * frame / traj.n_atoms,
        "fit": 1e9 * least(lambda: traj.superpose(traj, 0, alpha, parallel=False), 3) / number,
    }
    return found, max(0.0, one - frame)


def table(rounds: int) -> dict[str, dict[str, float]]:
    """Prints and gives the transforms."""
    theirs, set_up = mdtraj()
    columns = {"Kinema": kinema(rounds), "MDAnalysis": mdanalysis(), "MDTraj": theirs}
    print("ns an atom and frame, one thread; after each peer's figure: in multiples of ours")
    print(f"  {'':28}{'goal':>8}{'Kinema':>9}{'MDAnalysis':>20}{'MDTraj':>20}")
    for name, ours in columns["Kinema"].items():
        goal = GOALS.get(name, GOAL)
        cells = ""
        for peer in ("MDAnalysis", "MDTraj"):
            value = columns[peer].get(name)
            cells += f"{'-':>20}" if value is None else f"{value:12.2f} {value / ours:7.1f}"
        shown = "" if name in NO_GOAL else f"{goal:.0f}"
        print(f"  {name:28}{shown:>8}{ours:9.2f}{cells}")
    alone = sum(columns["Kinema"][name] for name in STACK)
    print(f"  sum of {', '.join(STACK)} by themselves: {alone:.2f}")
    print(f"  set-up of MDTraj's image_molecules, which is not in its figure: {set_up:.2f} s")
    return columns | {"set-up": {"image_molecules": set_up}}


def main() -> None:
    """Prints both tables."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer frames and rounds")
    parser.add_argument("--only", choices=("transforms", "commands"), help="one of the two tables")
    parser.add_argument("--json", type=Path, help="file for the figures")
    given = parser.parse_args()
    found: dict[str, Any] = {}
    if given.only != "commands":
        found["transforms"] = table(10 if given.quick else 40)
    if given.only != "transforms":
        with tempfile.TemporaryDirectory() as folder:
            found["commands"] = commands(Path(folder), 100 if given.quick else 600, 2 if given.quick else 4)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()

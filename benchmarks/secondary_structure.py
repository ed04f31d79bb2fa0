"""DSSP beside MDTraj and MDAnalysis, one thread each, in one run.

    python benchmarks/secondary_structure.py [--quick]

CPU microseconds a frame of adenylate kinase, 214 residues without a cell, decoding not counted: for ours a run less one
that reads the same atoms, for MDTraj a call on positions in memory, the least of several. MDAnalysis' class gives three
letters of another model, and its reading is counted. It prints how many letters differ from MDTraj's, the load of the
machine and ratios, and asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from pathlib import Path

import mdtraj
import numpy as np
from MDAnalysisTests import datafiles

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import write_dcd
from solvated import cpu_ms

warnings.simplefilter("ignore")

GOAL = 40.0
BACKBONE = "backbone"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer frames and tries")
    quick = parser.parse_args().quick
    times, tries = (4, 3) if quick else (20, 9)
    frames = mdtraj.load_dcd(datafiles.DCD, top=datafiles.PSF)
    n_frames = times * len(frames)
    with tempfile.TemporaryDirectory() as folder, collected():
        path = Path(folder) / "adk.dcd"
        write_dcd(path, np.tile(10 * frames.xyz, (times, 1, 1)).astype(np.float32))
        trajectory = kn.open(path, topology=datafiles.PSF, stored=False)
        dssp = kn.analysis.DSSP(trajectory)
        reading = kn.analysis.RadiusOfGyration(trajectory, BACKBONE, weights=None)
        run, read = (cpu_ms(lambda one=one: one.run(runner="serial"), n_frames, tries) for one in (dssp, reading))
    letters = np.asarray(dssp.results.dssp)[: len(frames)].astype(str)
    ours = 1e3 * (run - read)
    found = mdtraj.compute_dssp(frames, simplified=False)
    theirs = {"MDTraj": 1e3 * cpu_ms(lambda: mdtraj.compute_dssp(frames, simplified=False), len(frames), tries)}
    theirs["MDAnalysis"] = _mdanalysis(min(times, 2))
    print(f"{found.shape[1]} residues; load of the machine {os.getloadavg()[0]:.1f}")
    print(f"{np.count_nonzero(letters != found)} of {found.size:,} letters differ from MDTraj's")
    print(f"kinema {ours:.1f} us a frame, goal {GOAL:g}; reading {1e3 * read:.1f}")
    for name, microseconds in theirs.items():
        print(f"{name} {microseconds:.0f} us a frame, {microseconds / ours:.1f} times as long")


def _mdanalysis(tries: int) -> float:
    """CPU microseconds a frame of MDAnalysis' class."""
    import MDAnalysis
    from MDAnalysis.analysis.dssp import DSSP

    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    n_frames = 20
    return 1e3 * cpu_ms(lambda: DSSP(universe).run(stop=n_frames), n_frames, tries)


if __name__ == "__main__":
    main()

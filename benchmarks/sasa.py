"""Solvent-accessible surface areas beside MDTraj and freesasa, one thread each, in one run.

    python benchmarks/sasa.py [--quick]

CPU milliseconds a frame of adenylate kinase, 3,341 atoms with hydrogens and without a cell, decoding not counted: for
ours the difference of a run of many frames and of one of few, for the peers a call on positions in memory, the least of
several. Radii are the same. It prints the areas of the first frame, the load of the machine and ratios, and asserts
nothing.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import mdtraj
import numpy as np
from MDAnalysisTests import datafiles

import kinema as kn
from kinema.testing import write_dcd

warnings.simplefilter("ignore")

GOALS = {960: 18.0, 100: 5.0}
RADII = {"H": 1.20, "C": 1.70, "N": 1.55, "O": 1.52, "S": 1.80}


def least(tries: int, call: Callable[[], object]) -> float:
    """The least CPU milliseconds of a call."""
    found = []
    for _ in range(tries):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return 1e3 * min(found)


def ours(trajectory: kn.Trajectory, n_points: int, n_frames: int, tries: int) -> tuple[float, float]:
    """Milliseconds a frame, and the area of the first."""
    analysis = kn.analysis.SASA(trajectory, n_points=n_points)
    few, many = (least(tries, lambda stop=stop: analysis.run(stop=stop, runner="serial")) for stop in (1, 1 + n_frames))
    return (many - few) / n_frames, float(np.asarray(analysis.results.sasa)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer frames and tries")
    quick = parser.parse_args().quick
    n_frames, tries = (20, 2) if quick else (80, 5)
    frames = mdtraj.load_dcd(datafiles.DCD, top=datafiles.PSF, stride=40)
    nm = {element: radius / 10 for element, radius in RADII.items()}
    elements = [atom.element.symbol for atom in frames.topology.atoms]
    print(f"{len(elements):,} atoms; load of the machine {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "adk.dcd"
        write_dcd(path, np.resize(10 * frames.xyz, (n_frames + 1, *frames.xyz.shape[1:])).astype(np.float32))
        trajectory = kn.open(path, topology=datafiles.PSF, stored=False)
        for n_points, goal in GOALS.items():
            kinema, area = ours(trajectory, n_points, n_frames, tries)
            rows = [("kinema", kinema, area)]
            found = 100 * mdtraj.shrake_rupley(frames[0], 0.14, n_points, change_radii=nm).sum()
            theirs = least(tries, lambda n=n_points: mdtraj.shrake_rupley(frames, 0.14, n, change_radii=nm))
            rows.append(("MDTraj", theirs / len(frames), found))
            rows += freesasa_rows(frames, elements, n_points, tries)
            print(f"\n{n_points} points, goal {goal:g} ms")
            for name, milliseconds, total in rows:
                ratio = milliseconds / kinema
                print(f"{name:>22} {milliseconds:8.2f} ms a frame  {ratio:6.1f} x ours  {total:10.1f} angstrom^2")


def freesasa_rows(
    frames: mdtraj.Trajectory, elements: list[str], n_points: int, tries: int
) -> list[tuple[str, float, float]]:
    """freesasa on one thread; none if it is not there."""
    try:
        import freesasa
    except ImportError:
        return []
    radii = [RADII[element] for element in elements]
    places = (10 * frames.xyz[0]).astype(float).ravel()
    parameters = freesasa.Parameters(
        {"algorithm": freesasa.ShrakeRupley, "n-points": n_points, "probe-radius": 1.4, "n-threads": 1}
    )
    area = freesasa.calcCoord(places, radii, parameters).totalArea()
    return [("freesasa", least(tries, lambda: freesasa.calcCoord(places, radii, parameters)), area)]


if __name__ == "__main__":
    main()

"""Analyses from an XTC file beside the commands of GROMACS, one thread each, in one run.

    python benchmarks/gromacs.py [--quick]

Adenylate kinase in 11,084 waters, rhombic dodecahedron, ten frames of 47,681 atoms. CPU milliseconds a frame with
reading: the time of ten frames less that of one, so that start-up and topology are left out. `gmx` must be in PATH. It
prints the version, the selections and ratios, and asserts nothing.
"""

from __future__ import annotations

import argparse
import functools
import resource
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from MDAnalysisTests import datafiles

import kinema as kn

warnings.simplefilter("ignore")
FRAMES = 10
# ps between frames
STEP = 100
WATER = "resname SOL"
NEAR = 'name OW and within 0.35 of group "Protein"'
Make = Callable[[kn.Trajectory], Any]
CASES: dict[str, tuple[Make, list[str], str]] = {
    "least distance protein - water": (
        lambda traj: kn.analysis.MinimumDistance(traj, "protein", other=WATER, cutoff=4.5),
        ["mindist", "-od", "d.xvg", "-on", "n.xvg", "-d", "0.45"],
        "Protein\nSOL\n",
    ),
    "oxygens within 3.5 of the protein": (
        lambda traj: kn.analysis.AtomCount(traj, kn.within(3.5, of="protein", among="name OW")),
        ["select", "-select", NEAR, "-os", "size.xvg"],
        "",
    ),
    "hydrogen bonds protein - water": (
        lambda traj: kn.analysis.HydrogenBondAnalysis(
            traj,
            hydrogens_sel=f"(protein or {WATER}) and element H and bonded element N O",
            acceptors_sel=f"(protein or {WATER}) and element N O",
            between=["protein", WATER],
            criterion="gromacs",
        ),
        ["hbond", "-num", "n.xvg", "-nthreads", "1"],
        "Protein\nSOL\n",
    ),
    "O-O RDF, 10 angstrom, 75 bins": (
        lambda traj: kn.analysis.InterRDF(traj, "name OW", nbins=75, range=(0, 10)),
        ["rdf", "-ref", "name OW", "-sel", "name OW", "-rmax", "1.0", "-bin", "0.013333", "-o", "rdf.xvg"],
        "",
    ),
    "mass profile of all atoms, z": (
        lambda traj: kn.analysis.LinearDensity(traj, "all", axis="z", quantity="mass", binsize=1.0),
        ["density", "-dens", "mass", "-sl", "68", "-o", "density.xvg"],
        "System\n",
    ),
    "surface of the protein, 100 points; gmx: 24": (
        lambda traj: kn.analysis.SASA(traj, "protein", n_points=100),
        ["sasa", "-surface", "Protein", "-o", "area.xvg", "-ndots", "24"],
        "",
    ),
}


def of_gmx(folder: Path, words: list[str], answers: str, last: int) -> float:
    """CPU seconds of a command over the first frames, from 0 to `last`."""
    files = ["-s", str(datafiles.TPR), "-f", str(datafiles.XTC), "-xvg", "none", "-e", str(last * STEP)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        ["gmx", "-quiet", *words, *files], cwd=folder, input=answers, text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"gmx {' '.join(words)}: {done.stderr[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def of_kinema(analysis: Any, last: int) -> float:
    """CPU seconds of a run over the first frames."""
    start = time.process_time()
    analysis.run(stop=last + 1, runner="serial")
    return time.process_time() - start


def ms_a_frame(seconds: Callable[[int], float], times: int, frames: int = FRAMES, few: int = 1) -> float:
    """Least CPU milliseconds that one more frame takes: the time of `frames` less the time of `few`."""
    first, all_frames = (min(seconds(count - 1) for _ in range(times)) for count in (few, frames))
    return 1000 * (all_frames - first) / (frames - few)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="each time once")
    times = 1 if parser.parse_args().quick else 3
    version = subprocess.run(["gmx", "--version"], text=True, capture_output=True, check=True).stdout
    print(next(line for line in version.splitlines() if line.startswith("GROMACS version")))
    traj = kn.open(datafiles.XTC, topology=datafiles.TPR)
    print("| case | Kinema, CPU ms a frame with reading | gmx | gmx / Kinema | command |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, (make, words, answers) in CASES.items():
            analysis = make(traj)
            # imports are not counted
            analysis.run(stop=1, runner="serial")
            mine = ms_a_frame(functools.partial(of_kinema, analysis), times)
            theirs = ms_a_frame(functools.partial(of_gmx, Path(folder), words, answers), times)
            print(f"| {name} | {mine:.2f} | {theirs:.1f} | {theirs / mine:.0f} | `gmx {' '.join(words)}` |", flush=True)


if __name__ == "__main__":
    main()

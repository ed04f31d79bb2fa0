"""Makes the files of this folder with `gmx`, which must be in PATH; see PROVENANCE.md.

Trajectories of MDAnalysisTests are read in place. Two small systems of water are simulated, because none of that
package has charges, a right-angled cell and a cell that changes.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import MDAnalysis
import numpy as np
from MDAnalysis.transformations.boxdimensions import set_dimensions
from MDAnalysisTests import datafiles
from numpy.typing import NDArray

HERE = Path(__file__).parent
TOPOLOGY = '#include "oplsaa.ff/forcefield.itp"\n#include "oplsaa.ff/spce.itp"\n[ system ]\nwater\n[ molecules ]\n'
RUN = """
integrator = md
dt = 0.002
nsteps = 10000
nstxout-compressed = 2000
cutoff-scheme = Verlet
coulombtype = PME
rlist = 0.8
rcoulomb = 0.8
rvdw = 0.8
tcoupl = v-rescale
tc-grps = System
tau-t = 0.2
ref-t = 300
gen-vel = yes
gen-temp = 300
gen-seed = 7
ld-seed = 7
constraints = h-bonds
"""
PRESSURE = "pcoupl = c-rescale\ntau-p = 0.5\nref-p = 1\ncompressibility = 4.5e-5\n"
# a minimisation has no velocities
FIRST = "integrator = steep\nnsteps = 200\nrlist = 0.8\nrcoulomb = 0.8\nrvdw = 0.8\n"
# Bondi's radii, nm; gmx takes the longest name that fits
RADII = "".join(
    f"??? {element} {radius}\n" for element, radius in {"H": 0.12, "C": 0.17, "N": 0.155, "O": 0.152, "S": 0.18}.items()
)


class Runs:
    """Commands of `gmx` in a folder of their own, kept as they were given."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.commands = folder, {}

    def gmx(self, words: str, answers: str = "", name: str | None = None) -> str:
        done = subprocess.run(
            ["gmx", "-quiet", *shlex.split(words)],
            cwd=self.folder,
            input=answers,
            text=True,
            capture_output=True,
            timeout=900,
        )
        assert done.returncode == 0, done.stderr
        if name is not None:
            asked = answers.split("\n")
            self.commands[name] = f"gmx {words}" + (
                f" (groups {', '.join(one for one in asked if one)})" if answers else ""
            )
        return done.stdout

    def columns(self, file: str) -> NDArray[np.float64]:
        """A file of numbers that was written with `-xvg none`."""
        return np.loadtxt(self.folder / file, comments=["#", "@"], ndmin=2)


def simulate(runs: Runs, name: str, cell: str, fill: str, more: str) -> None:
    """A box of water, minimised and simulated for 20 ps: {name}.tpr and {name}.xtc."""
    (runs.folder / f"{name}.top").write_text(TOPOLOGY)
    (runs.folder / "first.mdp").write_text(FIRST)
    (runs.folder / "run.mdp").write_text(RUN + more)
    runs.gmx(f"solvate -cs spc216.gro -box {fill} -o box.gro -p {name}.top")
    runs.gmx(f"editconf -f box.gro -o start.gro -box {cell} -c")
    runs.gmx(f"grompp -f first.mdp -c start.gro -p {name}.top -o first.tpr -maxwarn 9")
    runs.gmx("mdrun -deffnm first -nt 1 -reprod")
    runs.gmx(f"grompp -f run.mdp -c first.gro -p {name}.top -o {name}.tpr -maxwarn 9")
    runs.gmx(f"mdrun -deffnm {name} -nt 1 -reprod")
    for end in ("tpr", "xtc"):
        shutil.copy(runs.folder / f"{name}.{end}", HERE / f"{name}.{end}")


def triples(runs: Runs) -> NDArray[np.int32]:
    """Donor, hydrogen and acceptor of each bond, from 0, sorted: the last group of `hbond.ndx`."""
    text = (runs.folder / "hbond.ndx").read_text()
    rows = text[text.rindex("]") + 1 :].split()
    return np.array(sorted(np.array(rows, np.int32).reshape(-1, 3).tolist()), np.int32) - 1


def pairs_and_bonds(runs: Runs, values: dict[str, NDArray]) -> None:
    """Least distances, contacts, waters near the protein and hydrogen bonds of the solvated adenylate kinase."""
    data = f"-s {datafiles.TPR} -f {datafiles.XTC}"
    runs.gmx(f"mindist {data} -od near.xvg -on number.xvg -d 0.45 -xvg none", "Protein\nSOL\n", "mindist")
    values["mindist"], values["contacts"] = runs.columns("near.xvg")[:, 1], runs.columns("number.xvg")[:, 1]
    runs.gmx(f"mindist {data} -od images.xvg -pi -xvg none", "Protein\n", "own-images")
    values["own-images"] = runs.columns("images.xvg")[:, 1]
    chosen = 'name OW and within 0.35 of group "Protein"'
    (runs.folder / "near.sel").write_text(chosen + ";\n")
    runs.gmx(f"select {data} -sf near.sel -oi near.dat -xvg none", "", "select")
    runs.commands["select"] += f" with {chosen}"
    for line in (runs.folder / "near.dat").read_text().splitlines():
        time, _, *atoms = line.split()
        values[f"near-{float(time) / 100:.0f}"] = np.array(atoms, np.int32) - 1
    for frame in (0, 9):
        for name, groups in {"protein": "Protein\nProtein\n", "water": "Protein\nSOL\n"}.items():
            words = f"hbond {data} -b {100 * frame} -e {100 * frame} -num n.xvg -hbn hbond.ndx -nomerge -xvg none"
            (runs.folder / "hbond.ndx").unlink(missing_ok=True)
            runs.gmx(words, groups, f"hbond-{name}-{frame}")
            values[f"hbond-{name}-{frame}"] = triples(runs)


def axes_and_grids(runs: Runs, values: dict[str, NDArray]) -> None:
    """Distribution functions of water, at constant pressure, and profiles and the potential across a slab of it."""
    bulk, slab = f"-s {HERE / 'bulk.tpr'} -f {HERE / 'bulk.xtc'}", f"-s {HERE / 'slab.tpr'} -f {HERE / 'slab.xtc'}"
    oxygens = "-rmax 0.8 -bin 0.02 -xvg none -selrpos atom -seltype atom"
    for norm in ("none", "rdf", "number_density"):
        runs.gmx(f"rdf {bulk} {oxygens} -norm {norm} -o rdf.xvg -cn cn.xvg", "name OW\nname OW\n", f"rdf-{norm}")
        values[f"rdf-{norm}"] = runs.columns("rdf.xvg")
        values["coordination"] = runs.columns("cn.xvg")
    runs.gmx(f"rdf {bulk} {oxygens} -norm rdf -excl -o rdf.xvg", "name HW1 HW2\nname OW\n", "rdf-excl")
    values["rdf-excl"] = runs.columns("rdf.xvg")
    runs.gmx(f"rdf {slab} {oxygens} -xy -norm none -o rdf.xvg", "name OW\nname OW\n", "rdf-xy")
    values["rdf-xy"] = runs.columns("rdf.xvg")
    (runs.folder / "electrons.dat").write_text("3\nHW1 = 1\nHW2 = 1\nOW = 8\n")
    for quantity in ("mass", "number", "charge", "electron"):
        words = f"density {slab} -dens {quantity} -d Z -sl 45 -o density.xvg -xvg none"
        words += " -ei electrons.dat" if quantity == "electron" else ""
        runs.gmx(words, "System\n", f"density-{quantity}")
        values[f"density-{quantity}"] = runs.columns("density.xvg")
    n_atoms = MDAnalysis.Universe(str(HERE / "slab.tpr")).atoms.n_atoms
    (runs.folder / "all.ndx").write_text(f"[ System ]\n{' '.join(map(str, range(1, n_atoms + 1)))}\n")
    words = f"potential {slab} -n all.ndx -d Z -sl 900 -o potential.xvg -oc c.xvg -of f.xvg -xvg none"
    runs.gmx(words, "System\n", "potential")
    values["potential"] = runs.columns("potential.xvg")


def surface(runs: Runs, values: dict[str, NDArray]) -> None:
    """Areas of adenylate kinase with Bondi's radii, in all and by residue, and of a part of the surface."""
    (runs.folder / "vdwradii.dat").write_text(RADII)
    data = f"-s {datafiles.TPR} -f {datafiles.XTC}"
    words = f"sasa {data} -surface Protein -ndots 2000 -probe 0.14 -o area.xvg -or residue.xvg -xvg none"
    runs.gmx(words, "", "sasa")
    values["sasa"], values["sasa-residue"] = runs.columns("area.xvg")[:, 1], runs.columns("residue.xvg")[:, 1]
    runs.gmx(f"{words} -output 'group \"Protein\" and name CB'", "", "sasa-output")
    values["sasa-output"] = runs.columns("area.xvg")[:, 2]


def picture(path: Path) -> NDArray[np.float64]:
    """The numbers of a picture in XPM: rows from the largest y to the least, as they are in the file."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    start = next(number for number, line in enumerate(lines) if line.startswith('"'))
    width, height, colours, letters = map(int, lines[start].strip('",').split()[:4])
    legend = lines[start + 1 : start + 1 + colours]
    numbers = {line[1 : 1 + letters]: float(line.split('"')[-2]) for line in legend}
    rows = [line.strip(",").strip('"') for line in lines if line.startswith('"')][1 + colours :]
    assert len(rows) == height
    return np.array([[numbers[row[letters * i : letters * (i + 1)]] for i in range(width)] for row in rows])


def ensembles(runs: Runs, values: dict[str, NDArray]) -> None:
    """Matrices, clusters and components of the C-alpha atoms of a transition, 98 frames."""
    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    # some commands refuse frames without a cell
    universe.trajectory.add_transformations(set_dimensions([300, 300, 300, 90, 90, 90]))
    atoms = universe.select_atoms("name CA")
    atoms.write(str(runs.folder / "ca.pdb"))
    atoms.write(str(runs.folder / "ca.trr"), frames="all")
    data = "-s ca.pdb -f ca.trr"
    runs.gmx(f"rms {data} -m rms.xpm -bin rms.dat -xvg none -o r.xvg", "System\nSystem\n", "rms")
    values["rms"] = np.fromfile(runs.folder / "rms.dat", np.float32)
    words = (
        f"cluster {data} -method gromos -cutoff 0.185 -o c.xpm -g c.log -clid id.xvg -dist d.xvg -sz size.xvg -xvg none"
    )
    runs.gmx(words, "System\nSystem\n", "cluster")
    values["cluster"] = runs.columns("id.xvg")[:, 1].astype(np.int32)
    runs.gmx(
        f"covar {data} -o values.xvg -v vectors.trr -av average.pdb -l covar.log -last 214 -xvg none",
        "System\nSystem\n",
        "covar",
    )
    values["covar"] = runs.columns("values.xvg")[:, 1]
    runs.gmx(
        f"anaeig {data} -v vectors.trr -eig values.xvg -first 1 -last 2 -proj proj.xvg -xvg none",
        "System\nSystem\n",
        "anaeig",
    )
    rows = [line.split() for line in (runs.folder / "proj.xvg").read_text().splitlines()]
    # one projection after the other, each row with its time
    values["projections"] = np.array([row[1] for row in rows if len(row) == 2], float).reshape(2, -1)
    np.savetxt(runs.folder / "two.xvg", values["projections"].T, fmt="%.6f")
    words = "sham -f two.xvg -notime -ngrid 8 8 1 -tsham 300 -ls gibbs.xpm -nlevels 4000 -xmin -6 -2 0 -xmax 6 2 1"
    runs.gmx(words + " -xvg none", "", "sham")
    values["sham"] = picture(runs.folder / "gibbs.xpm")
    runs.gmx(f"rmsf {data} -o rmsf.xvg -oq bfactors.pdb -xvg none", "System\n", "rmsf")
    values["rmsf"] = runs.columns("rmsf.xvg")[:, 1]
    values["bfactors"] = MDAnalysis.Universe(str(runs.folder / "bfactors.pdb")).atoms.tempfactors


def main() -> None:
    values: dict[str, NDArray] = {}
    with tempfile.TemporaryDirectory() as name:
        runs = Runs(Path(name))
        simulate(runs, "bulk", "1.9 1.9 1.9", "1.9 1.9 1.9", PRESSURE)
        simulate(runs, "slab", "1.9 1.8 4.5", "1.9 1.8 2.0", "")
        pairs_and_bonds(runs, values)
        axes_and_grids(runs, values)
        surface(runs, values)
        ensembles(runs, values)
        commands = runs.commands
    version = subprocess.run(["gmx", "--version"], text=True, capture_output=True, check=True, timeout=60).stdout
    line = next(line for line in version.splitlines() if line.startswith("GROMACS version"))
    commands = {"gmx": line.split(":")[1].strip(), **commands}
    for old in (datafiles.TPR, datafiles.XTC, *HERE.glob("*.tpr"), *HERE.glob("*.xtc")):
        commands = {key: words.replace(str(old), Path(old).name) for key, words in commands.items()}
    (HERE / "commands.json").write_text(json.dumps(commands, indent=1) + "\n")
    np.savez_compressed(HERE / "gmx.npz", **values)


if __name__ == "__main__":
    main()

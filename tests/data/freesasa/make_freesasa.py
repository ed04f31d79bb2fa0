"""Makes `freesasa.npz` with `freesasa`, which must be in PATH; see PROVENANCE.md."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import MDAnalysis
import numpy as np
from MDAnalysisTests import datafiles

HERE = Path(__file__).parent
FRAME = 40
BONDI = {"H": 1.20, "C": 1.70, "N": 1.55, "O": 1.52, "S": 1.80}


def freesasa(path: Path, words: str) -> str:
    return subprocess.run(
        ["freesasa", "--no-warnings", *words.split(), str(path)],
        text=True,
        capture_output=True,
        check=True,
        timeout=120,
    ).stdout


def main() -> None:
    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    universe.trajectory[FRAME]
    atoms = universe.atoms
    elements = [name.lstrip("0123456789")[0] for name in atoms.names]
    universe.add_TopologyAttr("elements", elements)
    universe.add_TopologyAttr("occupancies", [BONDI[element] for element in elements])
    # freesasa knows residues by the names of the PDB
    residues = universe.residues
    residues.resnames = ["HIS" if name == "HSD" else name for name in residues.resnames]
    values: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frame.pdb"
        atoms.write(str(path))
        for name, method in {
            "lee-richards": "--lee-richards --resolution=200",
            "shrake-rupley": "--shrake-rupley --resolution=5000",
        }.items():
            text = freesasa(path, f"--radius-from-occupancy --hydrogen {method} --format=json --depth=atom")
            (structure,) = json.loads(text)["results"][0]["structure"]
            found = [atom for residue in structure["chains"][0]["residues"] for atom in residue["atoms"]]
            assert len(found) == len(atoms)
            values[name] = np.array([atom["area"] for atom in found])
        # radii of heavy atoms stand where a PDB has occupancies
        rows = [line for line in freesasa(path, "--radii=protor --format=pdb").splitlines() if line.startswith("ATOM")]
        values["protor"] = np.array([float(row[54:60]) for row in rows])
    np.savez_compressed(HERE / "freesasa.npz", **values)


if __name__ == "__main__":
    main()

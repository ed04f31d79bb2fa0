"""Makes the golden files of this folder with GROMACS from data of MDAnalysisTests; see PROVENANCE.md.

Values are those that MDAnalysis reads from the source, as `%15.9f` prints them: no reader of G96 is asked. With
`--ours FILE` nothing is made: `gmx check` reads a file of Kinema.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from MDAnalysis.lib.formats.libmdaxdr import TRRFile, XTCFile
from MDAnalysisTests import datafiles

HERE = Path(__file__).parent
# every 100th atom of the protein, and some others
ATOMS = np.r_[0:3300:100, 4000:4009]
# file: source, its frames, options of gmx trjconv
MADE = {
    "triclinic.g96": (datafiles.TRR, range(5), ("-s", datafiles.GRO, "-e", "450")),
    "rectangular.g96": (datafiles.TRR_xvf, range(3), ("-s", datafiles.TPR_xvf)),
    "positions.g96": (datafiles.XTC, range(3), ("-s", datafiles.GRO, "-e", "250")),
    "named.g96": (datafiles.GRO, range(1), None),
}


def printed(values: np.ndarray) -> np.ndarray:
    """The values as text of nine decimals has them."""
    texts = [f"{float(value):15.9f}" for value in np.ravel(values)]
    return np.array(texts, dtype=np.float64).reshape(np.shape(values))


def gmx(*arguments: str) -> str:
    done = subprocess.run(
        ["gmx", "-quiet", *arguments],
        input="0\n",
        capture_output=True,
        text=True,
        check=True,
        errors="replace",
        timeout=120,
    )
    return done.stdout + done.stderr


def values_of(source: str, frames: range) -> dict[str, np.ndarray]:
    if source.endswith(".gro"):
        lines = Path(source).read_text().splitlines()
        atoms = [lines[2 + atom] for atom in ATOMS]
        # a GRO file has decimals, which GROMACS keeps in float32
        found = np.array([[float(line[at : at + 8]) for at in (20, 28, 36)] for line in atoms], np.float32)
        box = [float(word) for word in lines[-1].split()]
        diagonal, rest = box[:3], box[3:] or [0.0] * 6
        xy, xz, yx, yz, zx, zy = rest
        cell = np.array([[diagonal[0], xy, xz], [yx, diagonal[1], yz], [zx, zy, diagonal[2]]], np.float32)
        return {"positions": printed(found[None]), "cells": printed(cell[None])}
    made: dict[str, list[np.ndarray]] = {}
    with (TRRFile if source.endswith(".trr") else XTCFile)(source) as file:
        for _ in frames:
            frame = file.read()
            made.setdefault("positions", []).append(printed(frame.x[ATOMS]))
            if getattr(frame, "hasv", False):
                made.setdefault("velocities", []).append(printed(frame.v[ATOMS]))
            made.setdefault("cells", []).append(printed(frame.box))
            made.setdefault("steps", []).append(np.int64(frame.step))
            made.setdefault("times", []).append(np.float64(f"{frame.time:.6f}"))
    return {name: np.array(values) for name, values in made.items()}


def main() -> None:
    version = next(line for line in gmx("--version").splitlines() if line.startswith("GROMACS version"))
    commands, values = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "atoms.ndx"
        index.write_text("[ atoms ]\n" + "\n".join(str(atom + 1) for atom in ATOMS) + "\n")
        for name, (source, frames, options) in MADE.items():
            command = ["editconf"] if options is None else ["trjconv", *options]
            (HERE / name).unlink(missing_ok=True)
            gmx(command[0], "-f", source, "-o", str(HERE / name), "-n", str(index), *command[1:])
            shown = [command[0], "-f", Path(source).name, "-o", name, "-n", "atoms.ndx"]
            shown += [Path(option).name for option in command[1:]]
            commands[name] = " ".join(["gmx", *shown])
            for what, found in values_of(source, frames).items():
                values[f"{name}/{what}"] = found
    np.savez_compressed(HERE / "values.npz", **values)
    stated = {"gmx": version.split(":")[1].strip(), "atoms": (ATOMS + 1).tolist(), "commands": commands}
    (HERE / "commands.json").write_text(json.dumps(stated, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ours"]:
        print(gmx("check", "-f", sys.argv[2]))
    else:
        main()

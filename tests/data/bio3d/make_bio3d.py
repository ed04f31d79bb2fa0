"""Makes `bio3d.npz` with the R package Bio3D; `R` must be in PATH; see PROVENANCE.md."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import MDAnalysis
import numpy as np
from MDAnalysisTests import datafiles

HERE = Path(__file__).parent
# every fifth C-alpha atom in the stored maps
STEP = 5
PROGRAM = """
library(bio3d)
xyz <- as.matrix(read.table("frames.txt"))
fitted <- fit.xyz(fixed = xyz[1, ], mobile = xyz)
write.table(dccm(as.xyz(fitted)), "dccm.txt", row.names = FALSE, col.names = FALSE)
write.table(rmsf(fitted), "rmsf.txt", row.names = FALSE, col.names = FALSE)
first <- pca.xyz(as.xyz(fitted[1:50, ]))
second <- pca.xyz(as.xyz(fitted[51:98, ]))
write.table(first$L[1:20], "variances.txt", row.names = FALSE, col.names = FALSE)
write.table(rmsip(first, second, subset = 10)$rmsip, "rmsip.txt", row.names = FALSE, col.names = FALSE)
"""


def main() -> None:
    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    atoms = universe.select_atoms("name CA")
    frames = np.array([atoms.positions.ravel() for _ in universe.trajectory])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savetxt(folder / "frames.txt", frames, fmt="%.9g")
        (folder / "program.R").write_text(PROGRAM)
        words = ["R", "--no-save", "--no-echo", "-f", "program.R"]
        subprocess.run(words, cwd=folder, check=True, timeout=300)
        found = {name: np.loadtxt(folder / f"{name}.txt") for name in ("dccm", "rmsf", "variances", "rmsip")}
    found["dccm"] = found["dccm"][::STEP, ::STEP]
    np.savez_compressed(HERE / "bio3d.npz", **found)


if __name__ == "__main__":
    main()

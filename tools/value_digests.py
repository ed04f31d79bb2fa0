"""Digests of what the built extension computes from real trajectories: the same for each build, to the bit.

They cover positions as they are read, the results of every kernel, plain and with superposed frames, and files as they
are written. `make same-bits` compares the digests of the two builds.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import numpy as np
from MDAnalysisTests import datafiles

import kinema as kn
from kinema import _core
from kinema.model.selection.frames import FrameSelection

FILES = [datafiles.DCD, datafiles.XTC, datafiles.TRR, datafiles.NCDF, datafiles.H5MD_xvf]
WRITTEN = ["xtc", "trr", "dcd", "nc"]
# a kernel needs no more to show a difference, and matrices of all atoms of a solvated protein have no room
MOST_ATOMS = 300


def digest(*parts: bytes) -> str:
    """Digest of bytes, in their order."""
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def kernel_digests(path: Path) -> list[str]:
    """Lines for all kernels on all atoms of a trajectory."""
    opened = kn.open(path, stored=False)
    trajectory, n_atoms = opened.core, opened.n_atoms
    reference = np.asarray(opened[0].positions, dtype=np.float64)
    superpose = _core.Transform("superpose", n_atoms, atoms=np.arange(n_atoms, dtype=np.uint32), reference=reference)
    lines = []
    for name in [kernel["name"] for kernel in _core.kernels()]:
        for number, given in enumerate(_core.kernel_examples(name, n_atoms, reference)):
            for stack in ((), (superpose,)):
                jobs = [(_core.Kernel(name, n_atoms, **given), stack)]
                try:
                    plan = _core.Plan(trajectory, FrameSelection(range(trajectory.n_frames)), jobs, workers=1)
                    ((_, _, (partial,)),), _ = _core.run_leaves(trajectory, plan, jobs, 0, plan.n_leaves)
                    values = partial.finish()
                    found = digest(*(key.encode() + values[key].tobytes() for key in sorted(values)))
                except kn.Error as error:
                    # a kernel that needs a cell
                    found = f"refused: {str(error).replace(str(path), path.name)}"
                lines.append(f"{name} {number} {'superposed' if stack else 'plain'} {found}")
    return lines


def main() -> None:
    """Prints a line for each digest."""
    for path in FILES:
        name = Path(path).name
        trajectory = kn.open(path, stored=False)
        print(name, "positions", digest(*(np.ascontiguousarray(frame.positions).tobytes() for frame in trajectory)))
        with tempfile.TemporaryDirectory() as folder:
            first = Path(folder, "first.dcd")
            kn.convert(trajectory, first, select=np.arange(min(trajectory.n_atoms, MOST_ATOMS)), verify=False)
            for line in kernel_digests(first):
                print(name, line)
            for kind in WRITTEN:
                out = Path(folder, f"out.{kind}")
                kn.convert(trajectory, out, verify=False)
                print(name, kind, digest(out.read_bytes()))


if __name__ == "__main__":
    main()

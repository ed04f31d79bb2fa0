"""Contents of the documents as data: fenced blocks, and the files that their examples name.

It runs nothing.
"""

from __future__ import annotations

import re
import shlex
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import kinema as kn
from kinema.testing import write_xtc

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Line:
    """A line of a document that begins with `kinema`, and the output that is shown below it."""

    document: str
    words: list[str]
    output: list[str]

    def __str__(self) -> str:
        return f"{self.document}: {shlex.join(self.words)}"


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def blocks(document: str, language: str) -> list[str]:
    """The fenced blocks of a language ("" for none), in order."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text_of(document), re.DOTALL | re.MULTILINE)
    return [block for named, block in fenced if named == language]


def kinema_lines(document: str) -> list[Line]:
    """All lines in blocks that begin with `kinema` or `$ kinema`; after the latter the output may follow."""
    found: list[Line] = []
    for block in blocks(document, ""):
        shown: list[str] | None = None
        for line in block.splitlines():
            if line.startswith(("kinema ", "$ kinema ")):
                shown = [] if line.startswith("$") else None
                words = shlex.split(line.removeprefix("$ "), comments=True)[1:]
                found.append(Line(document, words, [] if shown is None else shown))
            elif shown is not None:
                shown.append(line)
    return found


def shell_lines(document: str) -> list[Line]:
    """All lines of shell blocks that start `kinema`, without the launcher (mpiexec, srun) that stands before it."""
    found = []
    for fenced in re.findall(r"^```(?:sh|bash)?\n(.*?)^```$", text_of(document), re.DOTALL | re.MULTILINE):
        for line in re.findall(r"^(?:mpiexec -n \d+ |srun )?kinema (.*)$", fenced, re.MULTILINE):
            found.append(Line(document, shlex.split(line, comments=True), []))
    return found


def _make_h5md(folder: Path, positions: np.ndarray[Any, Any]) -> None:
    """The same frames as H5MD in chunks as h5py chooses them, and in two parts."""
    for name, first, stop in (("md", 0, 196), ("part1", 0, 100), ("part2", 100, 196)):
        with kn.Writer(folder / f"{name}.h5md", n_atoms=positions.shape[1], layout=(25, 209, 1)) as out:
            steps = np.arange(first, stop)
            out.write(positions[first:stop], step=steps, time=100.0 * steps)


def make_files(folder: Path, *, n_first: int = 120) -> None:
    """The files that the examples name, of adenylate kinase: 3341 atoms, 196 frames, one every 100 ps.

    The coordinates are those of the DCD in MDAnalysisTests, forwards and then backwards. The XTC parts overlap.
    """
    import MDAnalysis
    from MDAnalysisTests import datafiles

    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a PSF lacks some of what a PDB file may hold
        universe.atoms.write(folder / "start.pdb")
    positions = np.array([ts.positions for ts in universe.trajectory])
    positions = np.concatenate([positions, positions[::-1]])
    for name in ("md.xtc", "trajectory.xtc"):
        write_xtc(folder / name, positions, dt=100.0)
    for first, second in (("md1.xtc", "md2.xtc"), ("part1.xtc", "part2.xtc")):
        write_xtc(folder / first, positions[:n_first], dt=100.0)
        write_xtc(folder / second, positions[n_first - 10 :], first_step=n_first - 10, dt=100.0)
    for name in ("top.psf", "topology.psf", "adk.psf"):
        (folder / name).symlink_to(datafiles.PSF)
    for name in ("adk_dims.dcd", "trajectory.dcd"):
        (folder / name).symlink_to(datafiles.DCD)
    _make_h5md(folder, positions)
    groups = {"C-alpha": "protein and name CA", "Loop": "resid 120:160"}
    written = ""
    for name, selection in groups.items():
        numbers = universe.select_atoms(selection).indices + 1
        written += f"[ {name} ]\n{' '.join(map(str, numbers))}\n"
    (folder / "index.ndx").write_text(written)

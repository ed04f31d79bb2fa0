"""Table of measurements, with the goals that stand beside the figures.

It runs nothing; `run.py` does, one process a measurement (`peers.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SMALL_ATOMS = 3341
LARGE_ATOMS = 111_815
SELECTED = 214


@dataclass(frozen=True)
class Goal:
    """A figure to reach.

    Attributes
    ----------
    value : float
    at_least : bool
        Whether more is better.
    source : str
        Where the goal comes from.
    """

    value: float
    at_least: bool
    source: str = "speed goals of step 1"

    def reached(self, measured: float) -> bool:
        """Whether the figure is as good as the goal."""
        return measured >= self.value if self.at_least else measured <= self.value


@dataclass(frozen=True)
class RmsdCase:
    """RMSD of 214 atoms on one core.

    Attributes
    ----------
    name : str
    system : {"small", "large"}
    format : {"xtc", "dcd", "trr", "nc", "h5md", "history"}
    atoms : {"first", "spread", "end"}
        Which 214: C-alphas of the protein that comes first, every n-th atom, or a protein that comes last.
    peers : tuple of str
        Programs that are measured on it, besides Kinema and the plain read.
    goal : Goal or None
        `limit` says what the figure is compared with.
    limit : {"rate", "plain read", "swapped read", "mdanalysis"}
        Frames a second of CPU time; or the ratio to those of a plain read, of a plain read with all bytes swapped, of
        MDAnalysis.
    """

    name: str
    system: str
    format: str
    atoms: str
    peers: tuple[str, ...]
    goal: Goal | None = None
    limit: str = "rate"


_READERS = ("mdanalysis", "mdtraj", "chemfiles", "cpptraj")

_BIG_ENDIAN = Goal(0.85, at_least=True, source="step 9")

RMSD_CASES = (
    RmsdCase("3341 atoms, C-alpha", "small", "xtc", "first", (*_READERS, "molly"), Goal(120_000, at_least=True)),
    RmsdCase("3341 atoms, C-alpha", "small", "dcd", "first", _READERS, Goal(0.8, at_least=True), "plain read"),
    RmsdCase("3341 atoms, C-alpha", "small", "trr", "first", _READERS, _BIG_ENDIAN, "swapped read"),
    RmsdCase("3341 atoms, C-alpha", "small", "nc", "first", _READERS, _BIG_ENDIAN, "swapped read"),
    RmsdCase("3341 atoms, C-alpha", "small", "h5md", "first", ("mdanalysis",)),
    RmsdCase(
        "3341 atoms, C-alpha",
        "small",
        "history",
        "first",
        ("mdanalysis",),
        Goal(20, at_least=True, source="step 9"),
        "mdanalysis",
    ),
    RmsdCase("111,815 atoms, first", "large", "xtc", "first", (*_READERS, "molly"), Goal(60_000, at_least=True)),
    RmsdCase("111,815 atoms, spread", "large", "xtc", "spread", ("mdanalysis", "mdtraj", "molly")),
    RmsdCase("111,815 atoms, at the end", "large", "xtc", "end", ("mdanalysis", "mdtraj", "molly")),
    RmsdCase("111,815 atoms, first", "large", "dcd", "first", _READERS),
    RmsdCase("111,815 atoms, spread", "large", "dcd", "spread", ("mdanalysis", "mdtraj")),
    RmsdCase("111,815 atoms, at the end", "large", "dcd", "end", ("mdanalysis", "mdtraj")),
)

# other figures: name -> unit, goal
FIGURES: dict[str, tuple[str, Goal | None]] = {
    "XTC full decode, 3341 atoms": ("ns/atom CPU", Goal(5.5, at_least=False)),
    "XTC full decode, 47,681 atoms": ("ns/atom CPU", Goal(5.5, at_least=False)),
    "XTC index": ("us/frame CPU", Goal(1.5, at_least=False)),
    "stored index of 10^6 frames, compared / believed": ("ratio", Goal(1.1, at_least=False)),
    "QCP of 214 atoms": ("ns", Goal(250, at_least=False)),
    "peak memory of kinema rmsd above the interpreter, XTC": ("MiB", Goal(100, at_least=False)),
    "peak memory of kinema rmsd above the interpreter, DCD": ("MiB", Goal(100, at_least=False)),
    "start-up of kinema rmsd from indices": ("s", Goal(0.3, at_least=False)),
}

# atoms of a case: how many times the speed without atom checkpoints
CHECKPOINT_GOALS = {"end": Goal(4.0, at_least=True, source="step 7")}

# beside warp-md on DCD: analysis -> programs of peers.py, how many times its speed; or the share of a plain read
BESIDE_WARP_MD = {"RMSD": ("kinema", "warp-md", 2.0), "RMSF": ("kinema-rmsf", "warp-md-rmsf", 1.5)}
SHARE_OF_PLAIN_READ = 0.85


def selected_atoms(kind: str, n_atoms: int, c_alpha: NDArray[np.int64]) -> NDArray[np.int64]:
    """The 214 atoms of a case, (214,) rising, from the C-alphas of the protein that comes first."""
    if kind == "first":
        return c_alpha
    if kind == "spread":
        return np.linspace(0, n_atoms - 1, SELECTED).astype(np.int64)
    # the same pattern at the end of the system
    return c_alpha + (n_atoms - 1 - int(c_alpha[-1]))


@dataclass(frozen=True)
class Files:
    """Trajectories that the cases read.

    Attributes
    ----------
    paths : dict of (system, format) to Path
    frames : dict of (system, format) to int
    real_xtc : Path
        47,681 atoms, 10 frames, as MDAnalysisTests ships it.
    c_alpha : (214,) int64
    """

    paths: dict[tuple[str, str], Path]
    frames: dict[tuple[str, str], int]
    real_xtc: Path
    c_alpha: NDArray[np.int64]

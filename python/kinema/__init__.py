"""Kinema: parallel, storage-speed reading and analysis of molecular-dynamics trajectories.

    import kinema as kn

    traj = kn.open("md.xtc", topology="top.psf")
    rmsd = kn.analysis.RMSD(traj, select="protein and name CA").run()
    rmsd.save("rmsd.csv")

Lengths are in angstrom, times in ps. Importing it imports neither MDAnalysis nor matplotlib.
"""

from kinema import analysis, errors, output, runners
from kinema._core import __version__
from kinema.analysis import RMSD, RMSF, Analysis, RadiusOfGyration, run
from kinema.blocks import Block, Frame, Gap, Part
from kinema.errors import (
    ArgumentError,
    CancelledError,
    CorruptFileError,
    Error,
    FileAccessError,
    FileIOError,
    FileNotFound,
    InternalError,
    MemoryLimitError,
    OutOfRangeError,
    TruncatedFileError,
    UnsupportedFormatError,
)
from kinema.runners import Timings
from kinema.selection import Selection
from kinema.topology import Topology
from kinema.trajectory import Trajectory, open

__all__ = [
    "RMSD",
    "RMSF",
    "Analysis",
    "ArgumentError",
    "Block",
    "CancelledError",
    "CorruptFileError",
    "Error",
    "FileAccessError",
    "FileIOError",
    "FileNotFound",
    "Frame",
    "Gap",
    "InternalError",
    "MemoryLimitError",
    "OutOfRangeError",
    "Part",
    "RadiusOfGyration",
    "Selection",
    "Timings",
    "Topology",
    "Trajectory",
    "TruncatedFileError",
    "UnsupportedFormatError",
    "__version__",
    "analysis",
    "errors",
    "open",
    "output",
    "run",
    "runners",
]
